"""The paper's pruning: hidden eigenvalues set to zero, the smallest first."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from torchsparcs.spectral.network import SpectralNetwork


class EigenvalueCurve(NamedTuple):
    """How many hidden eigenvalues are kept, ascending, and the loss then."""

    kept: list[int]
    losses: list[float]

    @property
    def increase(self) -> list[float]:
        """Of the loss, as a share of that of the whole network."""
        return [loss / self.losses[-1] - 1 for loss in self.losses]


def curve_of_eigenvalues(
    network: SpectralNetwork,
    loss: Callable[[SpectralNetwork], float],
    *,
    tolerance: float,
    points: int = 60,
) -> tuple[EigenvalueCurve, int]:
    """The curve at ``points`` sizes, and the fewest eigenvalues within ``tolerance`` of the loss.

    The fewest are found by bisection between two sizes of the curve.
    """
    recruited = sum(network.recruited)
    spaced = np.geomspace(1, max(recruited, 1), points).round().astype(int).tolist()
    losses = {count: loss(keeping_eigenvalues(network, count)) for count in {0, *spaced}}
    if not recruited:
        losses = {0: losses[0]}
    limit = losses[recruited] * (1 + tolerance)
    enough = min(count for count, value in losses.items() if value <= limit)
    low = max((count for count in losses if count < enough), default=enough)
    while enough - low > 1:
        middle = (low + enough) // 2
        losses[middle] = loss(keeping_eigenvalues(network, middle))
        low, enough = (low, middle) if losses[middle] <= limit else (middle, enough)
    kept = sorted(losses)
    return EigenvalueCurve(kept, [losses[count] for count in kept]), enough


@torch.no_grad()
def keeping_eigenvalues(network: SpectralNetwork, count: int) -> SpectralNetwork:
    """A copy of which all but the ``count`` largest hidden eigenvalues are zero."""
    pruned = copy.deepcopy(network)
    sizes = torch.cat([values.abs() for values in network.hidden_eigenvalues])
    keep = torch.zeros_like(sizes, dtype=torch.bool)
    keep[sizes.argsort(descending=True, stable=True)[:count]] = True
    masks = keep.split(list(network.widths[1:-1]))
    for values, mask in zip(pruned.hidden_eigenvalues, masks, strict=True):
        values.mul_(mask)
    return pruned
