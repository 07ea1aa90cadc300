"""What goes: neurons, channels, blocks and layers, with least-squares refits; ``extract``."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "connections",
    "eigenvalues",
    "extraction",
    "ladder",
    "model_ladder",
    "neurons",
    "pruning",
    "removal",
    "units",
]
