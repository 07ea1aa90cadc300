"""Strengths of the paths from the input through hidden neurons to the output."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from torchsparcs.spectral import equations as spectral
from torchsparcs.spectral.network import DenseModule

MOST_PATHS = 2**28  # as a tensor; their norm can be had of any number


def path_strengths(network: DenseModule, through: Sequence[int] | None = None) -> Tensor:
    """Γ, the product of the weights along every path through one neuron of each layer named.

        Γ[i_B, .., i_b, i_a, i_0] = W_{B,..}[i_B, ..] ··· W_{b,a}[i_b, i_a] · W_{a,0}[i_a, i_0]

    By default the paths go through every hidden layer; with one hidden layer that is the paper's
    Γ_ijk = [W₃₂]_ij [W₂₁]_jk. Nothing is summed: where all of Γ is zero, no signal takes these
    paths, while others may be taken that skip a layer. No gradient is kept.

    >>> from torchsparcs import SpectralNetwork
    >>> network = SpectralNetwork([2, 300, 1])
    >>> path_strengths(network).shape  # output, hidden, input with the bias neuron
    torch.Size([1, 300, 3])
    >>> path_strengths(network).norm().item()  # nothing is recruited yet
    0.0

    Args:
        through: hidden layers, ascending. ``()`` is the skip connection from input to output.

    Shape:
        - (N_B, .., N_b, N_a, N_0), the bias neuron counted in N_0; a population's members first
    """
    blocks = _blocks_along(network, through)
    paths = math.prod(block.shape[-2] for block in blocks) * blocks[0][..., 0, :].numel()
    if paths > MOST_PATHS:
        raise ValueError(
            f"Expected at most {MOST_PATHS:,} paths. Got {paths:,}: path_norm sums them without "
            "forming them."
        )
    strengths, members = blocks[0], blocks[0].dim() - 2
    for block in blocks[1:]:
        earlier = strengths.dim() - members - 1
        strengths = block[(..., *[None] * earlier)] * strengths.unsqueeze(members)
    return strengths


def path_norm(network: DenseModule, through: Sequence[int] | None = None) -> Tensor:
    """‖Γ‖, the Frobenius norm of :func:`path_strengths` with the same arguments, not formed.

    ‖Γ‖² = 1ᵀ (W_{B,..})² ··· (W_{a,0})² 1 with the squares taken entry by entry.

    Shape:
        - a scalar; (members,) for a population
    """
    blocks = _blocks_along(network, through)
    total = blocks[0].new_ones(blocks[0].shape[-1], 1)
    for block in blocks:
        total = block.square() @ total
    return total.sum(dim=(-2, -1)).sqrt()


def _blocks_along(network: DenseModule, through: Sequence[int] | None) -> list[Tensor]:
    """The weights between successive layers of the path, from the input on."""
    if not isinstance(network, DenseModule):
        raise ValueError(
            f"Expected a SpectralNetwork or a Population. Got a {type(network).__name__}."
        )
    last = len(network.widths) - 1
    layers = list(range(1, last)) if through is None else list(through)
    if sorted({*layers}) != layers or not all(0 < layer < last for layer in layers):
        raise ValueError(
            f"Expected hidden layers between 1 and {last - 1}, ascending. Got {layers}."
        )
    stops = [0, *layers, last]
    transfers, eigenvalues = list(network.transfers), network.eigenvalues
    with torch.no_grad():
        return [
            spectral.weight_block(transfers, eigenvalues, target, source)
            for source, target in pairwise(stops)
        ]
