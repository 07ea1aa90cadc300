"""Removing sources: the formula of the optimal brain surgeon, and the greedy loop over what can go.

Listeners hear sources with Gram matrix G. If the sources q are taken away and the weights W are
refitted by least squares, then with the precision P = G⁻¹

    W ← W − W_q (P_qq)⁻¹ P_q        P ← P − P_:q (P_qq)⁻¹ P_q

and the squared error of each listener grows by W_q (P_qq)⁻¹ W_qᵀ.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Cutting(Protocol):
    """A network that gets smaller step by step, what costs least for each parameter first.

    Attributes:
        parameters: how many are left.
        rate: the cost of the next step for each parameter that goes; infinite if nothing can go.
    """

    parameters: int
    rate: float

    def step(self) -> None:
        """Remove what is cheapest."""


def cut_to_budget(cuttings: Sequence[Cutting], parameters: int) -> None:
    """Step the cheapest until at most ``parameters`` are left in all, or nothing can go."""
    while sum(cutting.parameters for cutting in cuttings) > parameters:
        cheapest = min(cuttings, key=lambda cutting: cutting.rate)
        if cheapest.rate == math.inf:
            return
        cheapest.step()


def remove_sources_(weights: Tensor, precision: Tensor, gone: Tensor) -> None:
    """Remove the sources ``gone`` (n,) from ``weights`` (R, S) and ``precision`` (S, S)."""
    steps = torch.linalg.solve(precision[gone[:, None], gone], precision[gone])
    weights -= weights[:, gone] @ steps
    precision -= precision[:, gone] @ steps
    precision[gone] = precision[:, gone] = 0
    weights[:, gone] = 0
