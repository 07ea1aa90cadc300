"""The version of this package, which setuptools and ``sparcs --version`` read without torch."""

__version__ = "0.1.0"
