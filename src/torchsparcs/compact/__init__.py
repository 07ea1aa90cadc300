"""Ordinary networks and chains in direct space, the results of a search; they know no spectra."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "batches",
    "chain",
    "direct",
    "drawing",
    "fitting",
    "network",
    "normalised_chain",
    "population",
    "sparse",
    "stages",
]
