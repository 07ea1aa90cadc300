"""The parametrisation: networks and chains by eigenvalues and eigenvectors, their penalties."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "activations",
    "chain",
    "equations",
    "groups",
    "layer_kinds",
    "linear",
    "linear_maps",
    "network",
    "norm",
    "paths",
    "penalties",
    "pooled",
    "population",
    "sharing",
]
