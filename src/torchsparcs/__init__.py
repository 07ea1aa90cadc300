"""The smallest network a task needs, found in one training run by spectral architecture search."""

from torchsparcs.network import SpectralLinear, SpectralNetwork
from torchsparcs.penalties import eigenvalue_penalty, shrink_eigenvalues_

__all__ = [
    "SpectralLinear",
    "SpectralNetwork",
    "eigenvalue_penalty",
    "shrink_eigenvalues_",
]
