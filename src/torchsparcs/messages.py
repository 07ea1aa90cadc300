"""Pieces of error messages."""

from collections.abc import Sequence
from typing import Any


def quoted(values: Sequence[Any], most: int = 10) -> str:
    """'a', 'b', 'c', ...: the first of ``values``, as an error names them."""
    shown = ", ".join(repr(value) for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown


def first_line(error: Exception) -> str:
    """What an error says, or its name where it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
