"""Layers that read and write hidden units, on their way down.

A unit u costs its readers Σ_o F_o W_ou (P_uu)⁻¹ W_ouᵀ, by ``removal``'s formula: P is the inverse
of the moments of what a reader hears, F_o the squared gradient of the loss at its output o.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchsparcs.blocks.finding import Block
from torchsparcs.blocks.layers import axis_of, patches_of, weight_of, with_weights
from torchsparcs.cutting.models import felt_calls
from torchsparcs.cutting.removal import remove_sources_
from torchsparcs.training.data import Pair
from torchsparcs.training.nests import rows_of
from torchsparcs.training.tasks import LossFunction, resolve_task

RIDGE = 1e-3  # of the mean of the diagonal
SEEN = 20_000  # places, about, that the moments are made of


@dataclass
class Heard:
    """What a reader hears and what its outputs mean.

    Shape:
        - mean (in · positions,), moments (in · positions, in · positions), fisher (out,)
    """

    mean: Tensor
    moments: Tensor
    fisher: Tensor


@torch.enable_grad()
def heard_by_readers(
    model: nn.Module, blocks: Sequence[Block], rows: Sequence[Pair], task: str | LossFunction
) -> dict[str, Heard]:
    """What ``rows``, in batches, tell of each reader of ``blocks``."""
    readers = {name: model.get_submodule(name) for block in blocks for name in block.readers}
    resolved, count = resolve_task(task), sum(rows_of(x) for x, _ in rows)
    generator = torch.Generator().manual_seed(0)
    heard: dict[str, Heard] = {}
    places: dict[str, int] = {}
    for x, y in rows:
        for name, arrived, output, slope in felt_calls(model, readers, (x, y), resolved, generator):
            reader = readers[name]
            seen = patches_of(reader, arrived).flatten(1)
            some = torch.randperm(len(seen), generator=generator)[: SEEN * rows_of(x) // count + 1]
            seen = seen[some.to(seen.device)].double()
            if name not in heard:
                size, outs = seen.shape[1], output.shape[axis_of(reader)]
                heard[name] = Heard(
                    seen.new_zeros(size), seen.new_zeros(size, size), seen.new_zeros(outs)
                )
            one = heard[name]
            one.mean += seen.sum(dim=0)
            one.moments += seen.T @ seen
            places[name] = places.get(name, 0) + len(seen)
            if slope is not None:
                squares = slope.double().square().movedim(axis_of(reader), 0).flatten(1)
                one.fisher += squares.sum(dim=1) / count
    for name, one in heard.items():
        one.mean /= places[name]
        one.moments /= places[name]
    if not any(one.fisher.any() for one in heard.values()):  # the fit is exact
        for one in heard.values():
            one.fisher = torch.ones_like(one.fisher)
    return heard


class Layer:
    """A layer on the way, in float64: weight (out, in · positions), with what is left of it."""

    def __init__(self, module: nn.Module, places: int, heard: Heard | None):
        whole = weight_of(module).detach().double()
        self.module, self.places, self.positions = module, places, whole[0, 0].numel()
        self.weight = whole.flatten(1).clone()
        bias = getattr(module, "bias", None)
        self.bias = None if bias is None else bias.detach().double().clone()
        self.outs, self.ins = (torch.ones(n, dtype=torch.bool) for n in whole.shape[:2])
        self.heard = heard
        if heard is not None:
            moments = heard.moments
            if self.bias is not None:  # which takes the means over
                moments = moments - torch.outer(heard.mean, heard.mean)
            floor = 1e-9 * heard.moments.diagonal().mean().clamp_min(1e-30)
            ridge = (RIDGE * moments.diagonal().mean()).clamp_min(floor)
            eye = torch.eye(len(moments), dtype=moments.dtype, device=moments.device)
            self.precision = torch.cholesky_inverse(torch.linalg.cholesky(moments + ridge * eye))

    def amount(self, unit: str) -> int:
        """Parameters or multiply-adds that are left."""
        weights = int(self.outs.sum()) * int(self.ins.sum()) * self.positions
        return self._counted(weights, 0 if self.bias is None else int(self.outs.sum()), unit)

    def saved(self, unit: str, *, outs: int = 0, ins: int = 0) -> int:
        """What goes with so many outputs, or inputs."""
        weights = outs * int(self.ins.sum()) + ins * int(self.outs.sum())
        return self._counted(weights * self.positions, outs * (self.bias is not None), unit)

    def _counted(self, weights: int, biases: int, unit: str) -> int:
        return weights + biases if unit == "parameters" else weights * self.places

    def costs(self, units: int) -> Tensor:
        """What each of the units costs that it reads, (units,)."""
        assert self.heard is not None
        weight = self.weight.view(len(self.weight), units, -1)  # (out, units, columns of one)
        own = self.precision.view(units, weight.shape[2], units, -1)
        blocks = torch.einsum("upuq->upq", own)
        eye = torch.eye(weight.shape[2], dtype=weight.dtype, device=weight.device)
        gone = blocks.diagonal(dim1=1, dim2=2).sum(dim=1) == 0
        inverse = torch.linalg.inv(torch.where(gone.view(-1, 1, 1), eye, blocks))
        return torch.einsum("oup,upq,ouq,o->u", weight, inverse, weight, self.heard.fisher)

    def likeness(self, units: Tensor, count: int) -> Tensor:
        """How much of the work of each other some of the ``count`` units do, (n, n)."""
        width = len(self.precision) // count
        columns = (units[:, None] * width + torch.arange(width, device=units.device)).flatten()
        part = self.precision[columns[:, None], columns].view(len(units), width, len(units), width)
        size = part.square().sum(dim=(1, 3)).sqrt()
        scale = size.diagonal().clamp_min(1e-300).sqrt()
        return size / scale / scale[:, None]

    def lose_inputs(self, units: Tensor, count: int) -> None:
        """Do without some of the ``count`` units, refitted to the others where it is known how."""
        self.ins.view(count, -1)[units.cpu()] = False
        if self.heard is None:
            return
        width = len(self.precision) // count
        columns = (units[:, None] * width + torch.arange(width, device=units.device)).flatten()
        before = self.weight.clone() if self.bias is not None else None
        remove_sources_(self.weight, self.precision, columns)
        if before is not None and self.bias is not None:
            self.bias += (before - self.weight) @ self.heard.mean

    def lose_outputs(self, units: Tensor, count: int) -> None:
        self.outs.view(-1, count)[:, units.cpu()] = False
        gone = ~self.outs.to(self.weight.device)
        self.weight[gone] = 0
        if self.bias is not None:
            self.bias[gone] = 0

    def result(self) -> nn.Module:
        outs, ins = self.outs.to(self.weight.device), self.ins.to(self.weight.device)
        whole = self.weight.view(len(outs), len(ins), *weight_of(self.module).shape[2:])
        return with_weights(
            self.module, whole[outs][:, ins], None if self.bias is None else self.bias[outs]
        )
