"""From data to the front of score against size: strategies, folds, the ladder, the result."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "default_scoring",
    "folded",
    "folder",
    "folds",
    "intervals",
    "model_front",
    "refit",
    "result",
    "scoring",
    "search",
    "sizes",
]
