"""Files as such: what is read is bounded, what is written is whole. Knows nothing of networks."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "arrays",
    "atomic",
    "byte_counts",
    "checkpoint",
    "hints",
    "provenance",
    "reading",
    "visible",
]
