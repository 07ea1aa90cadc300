"""The paper's spectral pruning: hidden eigenvalues set to zero, the smallest first."""

import copy
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.spectral.network import SpectralModule, spectral_modules
from torchsparcs.training.data import Data
from torchsparcs.training.tasks import LossFunction, check_data, evaluate

CLEAR = 5.0  # times that the neighbours of a gap between two clusters differ by
NEARLY_ZERO = 1e-3  # of the largest eigenvalue


def prune_eigenvalues(
    module: nn.Module,
    validation: Data,
    task: str | LossFunction,
    *,
    tolerance: float = 0.05,
) -> nn.Module:
    """A copy of ``module`` with as few hidden eigenvalues as its loss allows, the others zero.

    The paper's rule: the smallest |λ| of all hidden layers go first, and the loss on ``validation``
    may rise by ``tolerance``, 5 % of it. Everything that was multiplied by an eigenvalue goes with
    it, also in the skip connections, and nothing is refitted; :func:`extract` then gives the
    network that is left, and with data a smaller one than this rule finds.

    >>> from torchsparcs import SpectralNetwork, prune_eigenvalues
    >>> _ = torch.manual_seed(0)
    >>> network = SpectralNetwork([1, 4, 1])
    >>> _ = network.hidden_eigenvalues[0].data.copy_(torch.tensor([1.0, 1e-6, -2.0, 0.0]))
    >>> x = torch.linspace(-1, 1, 50)[:, None]
    >>> prune_eigenvalues(network, (x, network(x).detach() + 0.1), "regression")
    SpectralNetwork(1 → 4 → 1, relu, recruited 2 of 4)

    Args:
        module: a network, or a model with spectral networks inside, pruned as one; no population.
    """
    if not 0 <= tolerance < float("inf"):
        raise ValueError(f"Expected a tolerance >= 0. Got {tolerance!r}.")
    _single_networks(module)
    check_data(module, validation, task, name="validation data")

    def loss(pruned: nn.Module) -> float:
        return evaluate(pruned, validation, task).loss

    return keep_eigenvalues(module, eigenvalue_curve(module, loss, tolerance=tolerance)[1])


def eigenvalue_curve(
    module: nn.Module,
    loss: Callable[[nn.Module], float],
    *,
    tolerance: float,
    points: int = 60,
) -> tuple[dict[int, float], int]:
    """The loss by eigenvalues kept, ascending, and the fewest within ``tolerance`` of it."""
    recruited = sum(sum(network.recruited) for network in _single_networks(module))

    def loss_of(count: int) -> float:
        return loss(keep_eigenvalues(module, count))

    return loss_curve(loss_of, recruited, tolerance=tolerance, points=points)


def loss_curve(
    loss: Callable[[int], float], most: int, *, tolerance: float, points: int = 60
) -> tuple[dict[int, float], int]:
    """``loss`` of 0 to ``most`` parts kept, ascending, and the fewest within ``tolerance`` of it.

    The curve has ``points`` sizes; the fewest are found by bisection between two of them.
    """
    spaced = np.geomspace(1, max(most, 1), points).round().astype(int).tolist()
    sizes = {0, *spaced} if most else {0}
    losses = {count: loss(count) for count in sizes}
    limit = losses[most] * (1 + tolerance)
    enough = min(count for count, value in losses.items() if value <= limit)
    low = max((count for count in losses if count < enough), default=enough)
    while enough - low > 1:
        middle = (low + enough) // 2
        losses[middle] = loss(middle)
        low, enough = (low, middle) if losses[middle] <= limit else (middle, enough)
    return dict(sorted(losses.items())), enough


@torch.no_grad()
def keep_eigenvalues(module: nn.Module, count: int) -> nn.Module:
    """A copy of which all but the ``count`` largest hidden eigenvalues are zero."""
    pruned = copy.deepcopy(module)
    layers = [values for part in spectral_modules(pruned) for values in part.hidden_eigenvalues]
    if not layers:
        return pruned
    sizes = torch.cat([values.abs().flatten() for values in layers])
    keep = torch.zeros_like(sizes, dtype=torch.bool)
    keep[sizes.argsort(descending=True, stable=True)[:count]] = True
    for values, mask in zip(layers, keep.split([len(each) for each in layers]), strict=True):
        values.mul_(mask)
    return pruned


def eigenvalue_gap(eigenvalues: Tensor) -> float:
    """The |λ| in the middle of the widest gap, by their logarithms, between large and small ones.

    Where the eigenvalues of a layer form two clusters, it parts them; what is above it is
    recruited. What is below a thousandth of the largest |λ| counts as that thousandth: among nearly
    zeros ratios mean nothing. Without a gap of at least a factor of five it is 0.

    >>> eigenvalue_gap(torch.tensor([1e-9, 1e-4, 0.004, 0.01, -0.4, 0.5]))
    0.0632...
    """
    sizes = eigenvalues.detach().abs().flatten().double().sort().values
    top = sizes[-1] if len(sizes) else sizes.new_zeros(())
    low = sizes.clamp_min(NEARLY_ZERO * top)
    if len(sizes) < 2 or top == 0:
        return 0.0
    gaps = low[1:].log() - low[:-1].log()
    place = int(gaps.argmax())
    if gaps[place] < math.log(CLEAR):
        return 0.0
    return float((low[place] * low[place + 1]).sqrt())


def _single_networks(module: nn.Module) -> list[SpectralModule]:
    networks = spectral_modules(module)
    if any(network.output_eigenvalues.dim() > 1 for network in networks):
        raise ValueError(
            "Expected one network. Got a population: prune population.member(i), one by one."
        )
    return networks
