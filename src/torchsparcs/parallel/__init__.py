"""Who does long work (this process, several, a cluster), and what is done of it so far."""

# The files that other rooms may use; the rest are this room's own.
__all__ = ["executor", "steps"]
