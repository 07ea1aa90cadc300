"""From data to the front of score against size: strategies, the ladder, the clock, the plan."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "costs",
    "model_front",
    "refit",
    "search",
]
