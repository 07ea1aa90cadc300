"""Image data sets by name or file."""

# The files that other rooms may use; the rest are this room's own.
__all__ = ["datasets"]
