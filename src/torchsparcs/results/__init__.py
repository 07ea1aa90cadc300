"""What a search gives back: the result, its folder, what it says of columns and answers."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "fidelity",
    "folder",
    "intervals",
    "parts",
    "ranges",
    "result",
    "sizes",
]
