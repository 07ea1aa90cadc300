"""Replacement of networks inside any model by spectral ones, which may keep their weights."""

# The files that other rooms may use; the rest are this room's own.
__all__ = ["spectralize"]
