"""The smallest network a task needs, found in one training run by spectral architecture search."""

from torchsparcs.history import History
from torchsparcs.network import SpectralLinear, SpectralNetwork
from torchsparcs.optimization import parameter_groups
from torchsparcs.penalties import eigenvalue_penalty, shrink_eigenvalues_
from torchsparcs.training import TrainConfig, train

__all__ = [
    "History",
    "SpectralLinear",
    "SpectralNetwork",
    "TrainConfig",
    "eigenvalue_penalty",
    "parameter_groups",
    "shrink_eigenvalues_",
    "train",
]
