"""A chain in direct space: plain layers, stage by stage, and rewritings that keep the function.

A stage is a linear map with a bias whose first channels then pass the activation; the others go on
as they are. So a channel is *active* or *linear*. A spectral chain is such a sequence exactly: with
a_k = f(pre_k), each stage gives pre_{k+1} and u_k, from z_k = a_k − u_{k−1}.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.layer_kinds import WEIGHTED
from torchsparcs.spectral.linear_maps import along, channel_weights, merged, trimmed
from torchsparcs.spectral.pooled import Pooled

RANK_TOLERANCE = 1e-9  # of the largest singular value; the arithmetic is in float64


@dataclass(frozen=True)
class Stage:
    """A plain layer, in float64.

    Attributes:
        like: the map it stands for, which knows stride, padding and the rest.
        weight: (out, in, positions...).
        bias: (out,).
        active: how many channels, the first ones, pass the activation.
    """

    like: nn.Module
    weight: Tensor
    bias: Tensor
    active: int

    @property
    def by_position(self) -> Tensor:
        """The weight as (out, in, positions), one position for a matrix."""
        return self.weight.reshape(*self.weight.shape[:2], -1)

    @property
    def parameters(self) -> int:
        return self.weight.numel() + bool(self.bias.any()) * len(self.bias)


@torch.no_grad()
def direct_stages(chain: SpectralChain) -> list[Stage]:
    """``chain`` as stages that compute the same; silent channels are linear from the start.

    A channel whose pre is zero for any input has no active twin. That asks for f(0) = 0; with other
    activations every channel has one. A normalised z = (a − φz − m) / s is a − (φz + m), read by
    weights divided by s: exact beside zero padding, too, which nothing but a scale commutes with.
    """
    for place, one in enumerate(chain.maps):
        if type(one) not in (*WEIGHTED, Pooled):
            raise ValueError(
                "Expected convolutions, Linears and Pooled, which have a weight for each pair of "
                f"channels, to extract a chain. Got a {type(one).__name__} at {place}."
            )
    weights = [channel_weights(one).double() for one in chain.maps]
    biases = [bias.double() for bias in chain.biases or ()]
    biases = biases or [w.new_zeros(len(w)) for w in weights]
    targets = [*chain.hidden_eigenvalues, chain.output_eigenvalues]
    eigenvalues = [weights[0].new_zeros(chain.channels[0]), *(t.double() for t in targets)]
    can_rest = float(chain.activation(torch.zeros(1))) == 0
    stages: list[Stage] = []
    heard = torch.zeros(chain.channels[0], dtype=torch.bool)  # channels with an active twin
    last = len(weights) - 1
    norms = chain.normalisation
    for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        source, target = eigenvalues[k], eigenvalues[k + 1]
        gap = source.view(1, -1) - target.view(-1, 1)
        inflow = weight * gap.view(*gap.shape, *[1] * (weight.dim() - 2))
        constant = -target * bias
        if k == last:
            rows, offsets, active = inflow, constant, 0
        else:
            works = inflow.flatten(1).any(1) | constant.bool()
            works = works if can_rest else torch.ones_like(works)
            rows = torch.cat([inflow[works], weight])
            passed = norms[k].mean.double() if norms else bias  # a mean has the bias in it
            offsets, active = torch.cat([constant[works], passed]), int(works.sum())
        if k and norms:
            rows = rows * along(norms[k - 1].factor, 1 - rows.dim())
        # z = a − u: the columns of those with an active twin, then all of them with a minus
        columns = torch.cat([rows[:, heard], -rows], dim=1) if k else rows
        stages.append(Stage(chain.maps[k], columns, offsets, active))
        heard = works if k < last else heard
    return stages


def exactly_reduced(stages: Sequence[Stage]) -> list[Stage]:
    """Reduce the linear channels to the rank of what they carry; the function stays."""
    reduced = list(stages)
    for k in reversed(range(len(reduced) - 1)):  # what is not read need not be written, and so on
        reduced[k : k + 2] = _reduced_stream(*reduced[k : k + 2])
    return reduced


def _reduced_stream(here: Stage, there: Stage) -> tuple[Stage, Stage]:
    """Reduce the linear channels between two stages to the rank that is both written and read."""
    m = here.active
    written = torch.cat([here.weight[m:].flatten(1), here.bias[m:, None]], dim=1)
    if not len(written):
        return here, there
    read = there.by_position[:, m:].transpose(1, 2).flatten(0, 1)  # (out · positions, linear)
    ever_read = _row_space(read)  # (r, linear)
    ever_written = _row_space((ever_read @ written).T)  # of what is read, (s, r)
    into = ever_written @ ever_read
    return changed_stream(here, there, into, into.T)


def _row_space(matrix: Tensor) -> Tensor:
    """Orthonormal rows that span those of ``matrix``."""
    _, size, rows = torch.linalg.svd(matrix, full_matrices=False)
    return rows[size > RANK_TOLERANCE * size.max()] if len(size) else rows


def changed_stream(here: Stage, there: Stage, into: Tensor, out_of: Tensor) -> tuple[Stage, Stage]:
    """Replace the linear channels u by v = ``into`` · u, (r, linear), read as u = ``out_of`` · v.

    Where no channel would be left there is one that carries nothing.
    """
    m = here.active
    if not m and not len(into):
        into, out_of = into.new_zeros(1, into.shape[1]), into.new_zeros(into.shape[1], 1)
    linear = torch.tensordot(into, here.weight[m:], dims=1)
    read = torch.tensordot(there.weight[:, m:].movedim(1, -1), out_of, dims=1).movedim(-1, 1)
    return (
        replace(
            here,
            weight=torch.cat([here.weight[:m], linear]),
            bias=torch.cat([here.bias[:m], into @ here.bias[m:]]),
        ),
        replace(there, weight=torch.cat([there.weight[:, :m], read], dim=1)),
    )


def merged_stage(here: Stage, there: Stage) -> Stage | None:
    """Merge two stages with nothing but linear channels between them; None where there are others.

    κ[t₁ + s t₂] = Σ κ₂[t₂] κ₁[t₁] over the positions of both kernels, with s the first's stride.
    """
    like = None if here.active else merged(here.like, there.like)
    if like is None:
        return None
    shape = there.weight.shape[0], here.weight.shape[1], *channel_weights(like).shape[2:]
    weight = here.weight.new_zeros(shape)
    kernel, strides = here.weight.shape[2:], tuple(here.like.stride)  # type: ignore[arg-type]
    for place in product(*map(range, there.weight.shape[2:])):
        sides = zip(place, strides, kernel, strict=True)
        window: Any = (..., *(slice(t * s, t * s + size) for t, s, size in sides))
        at_place: Any = (..., *place)
        weight[window] += torch.tensordot(there.weight[at_place], here.weight, dims=1)
    bias = there.bias + there.by_position.sum(dim=2) @ here.bias
    return Stage(like, weight, bias, there.active)


def trimmed_stage(stage: Stage) -> Stage | None:
    """Cut the outermost positions off the kernel of ``stage``; None where there are none."""
    like = trimmed(stage.like)
    if like is None:
        return None
    inner: Any = (..., *[slice(1, -1)] * (stage.weight.dim() - 2))
    return replace(stage, like=like, weight=stage.weight[inner])


def scaled_stage(stage: Stage, factor: Tensor, bias: Tensor) -> Stage:
    """Multiply the weights of each output channel by ``factor``, (out,), and replace the bias."""
    return replace(stage, weight=stage.weight * along(factor, -stage.weight.dim()), bias=bias)


def without_channels(here: Stage, there: Stage, kept: Tensor) -> tuple[Stage, Stage]:
    """Remove the channels between two stages but those in ``kept``, (out,) bool."""
    return (
        replace(
            here,
            weight=here.weight[kept],
            bias=here.bias[kept],
            active=int(kept[: here.active].sum()),
        ),
        replace(there, weight=there.weight[:, kept]),
    )
