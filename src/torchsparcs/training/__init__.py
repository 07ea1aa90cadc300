"""One training of any module, from data and a config to a history, resumable bit for bit."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "config",
    "data",
    "deadline",
    "devices",
    "history",
    "loop",
    "nests",
    "progress",
    "quantiles",
    "step",
    "tasks",
    "train",
]
