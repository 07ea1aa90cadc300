"""Units of plain feed-forward blocks, taken away with data; what reads them is refitted.

A unit u costs its readers Σ_o F_o W_ou (P_uu)⁻¹ W_ouᵀ, by ``removal``'s formula: P is the inverse
of the moments of what a reader hears, F_o the squared gradient of the loss at its output o. So
units of all blocks compare, by what they cost for each parameter or multiply-add that goes.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.blocks.finding import Block
from torchsparcs.blocks.layers import (
    axis_of,
    patches_of,
    weight_of,
    with_channels,
    with_weights,
)
from torchsparcs.cutting.models import calls_of
from torchsparcs.cutting.removal import cut_to_budget, remove_sources_
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import LossFunction, resolve_task

RIDGE = 1e-3  # of the mean of the diagonal
SEEN = 20_000  # places, about, that the moments are made of
FEW = 25  # so many units go one at a time, twice as many two at a time, and so on
ALIKE = 0.5  # partial correlation of two units that must not go together


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
    resolved, count = resolve_task(task), sum(len(x) for x, _ in rows)
    generator, heard, places = (
        torch.Generator().manual_seed(0),
        dict[str, Heard](),
        dict[str, int](),
    )
    for x, y in rows:
        calls = calls_of(model, readers, x)
        total = resolved.felt(calls.output, y, generator) * len(x)
        outputs = [output for _, _, output in calls.made]
        slopes = torch.autograd.grad(total, outputs, allow_unused=True)
        for (name, arrived, output), slope in zip(calls.made, slopes, strict=True):
            reader = readers[name]
            seen = patches_of(reader, arrived).flatten(1)
            some = torch.randperm(len(seen), generator=generator)[: SEEN * len(x) // count + 1]
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
        """Refit to the other units."""
        assert self.heard is not None
        width = len(self.precision) // count
        columns = (units[:, None] * width + torch.arange(width, device=units.device)).flatten()
        before = self.weight.clone() if self.bias is not None else None
        remove_sources_(self.weight, self.precision, columns)
        if before is not None and self.bias is not None:
            self.bias += (before - self.weight) @ self.heard.mean
        self.ins.view(count, -1)[units.cpu()] = False

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


class UnitCutting:
    """The blocks of a model as one :class:`Cutting`, of which every block keeps a unit."""

    def __init__(
        self, model: nn.Module, blocks: Sequence[Block], heard: dict[str, Heard], unit: str
    ):
        self.model, self.unit = model, unit
        self.blocks = [block.within(model) for block in blocks]
        places = {name: count for block in blocks for name, count in block.places.items()}
        self.layers = {
            name: Layer(model.get_submodule(name), count, heard.get(name))
            for name, count in places.items()
        }
        device = next(iter(self.layers.values())).weight.device
        self.alive = [
            torch.ones(block.units, dtype=torch.bool, device=device) for block in self.blocks
        ]
        self.prices: dict[int, Tensor] = {}
        self._look()

    def _look(self) -> None:
        """Find the block that loses units next, and count what is left in the layers."""
        self.parameters = sum(layer.amount(self.unit) for layer in self.layers.values())
        rates: dict[int, float] = {}
        for k, (block, alive) in enumerate(zip(self.blocks, self.alive, strict=True)):
            if int(alive.sum()) <= 1:
                continue
            if k not in self.prices:
                costs = sum(self.layers[name].costs(block.units) for name in block.readers)
                self.prices[k] = torch.where(alive, costs, torch.inf)
            rates[k] = self.prices[k].min().item() / self._saved(block)
        self.cheapest = min(rates, key=lambda k: rates[k], default=-1)
        self.rate = rates.get(self.cheapest, math.inf)

    def _saved(self, block: Block) -> int:
        """What goes with one unit."""
        writers = ((self.layers[name], name) for name in block.writers)
        readers = ((self.layers[name], name) for name in block.readers)
        return max(
            1,
            sum(one.saved(self.unit, outs=len(one.outs) // block.units) for one, _ in writers)
            + sum(one.saved(self.unit, ins=len(one.ins) // block.units) for one, _ in readers),
        )

    def step(self) -> None:
        """Remove the cheapest units of the cheapest block."""
        k, block = self.cheapest, self.blocks[self.cheapest]
        left = int(self.alive[k].sum())
        gone = self.prices[k].topk(max(1, left // FEW), largest=False).indices
        gone = self._unlike(gone, block)
        self.alive[k][gone] = False
        for name in block.readers:
            self.layers[name].lose_inputs(gone, block.units)
        for name in block.writers:
            self.layers[name].lose_outputs(gone, block.units)
        self.prices = {
            other: prices
            for other, prices in self.prices.items()
            if other != k and not {*self.blocks[other].readers} & {*block.writers}
        }
        self._look()

    def _unlike(self, units: Tensor, block: Block) -> Tensor:
        """Those that can go together: none does the work of one before it."""
        if len(units) < 2:
            return units
        parts = [self.layers[name].likeness(units, block.units) for name in block.readers]
        likeness = torch.stack(parts).amax(dim=0)
        kept: list[int] = []
        for place in range(len(units)):
            if not kept or likeness[place, kept].max() < ALIKE:
                kept.append(place)
        return units[kept]

    def result(self) -> nn.Module:
        """A copy of the model with what is left."""
        memo: dict[int, Any] = {}
        for name, layer in self.layers.items():
            memo[id(self.model.get_submodule(name))] = layer.result()
        for block, alive in zip(self.blocks, self.alive, strict=True):
            for name in block.between:
                module = self.model.get_submodule(name)
                memo[id(module)] = with_channels(module, alive)
        return copy.deepcopy(self.model, memo)


@dataclass(frozen=True)
class BlockCuts:
    """Plain blocks of a model on their way down.

    Attributes:
        unit: what is counted, "parameters" of the whole model or "macs", the multiply-adds of its
            linear layers and convolutions for one row like those of ``example``.
    """

    blocks: list[Block]
    example: Tensor
    unit: str = "parameters"

    def size(self, model: nn.Module) -> int:
        """How large ``model`` is in that unit."""
        if self.unit == "parameters":
            return sum(parameter.numel() for parameter in model.parameters())
        return macs_of(model, self.example)

    def cut(
        self, model: nn.Module, rows: Sequence[Pair], task: str | LossFunction, size: int
    ) -> dict[str, nn.Module]:
        """A copy of at most that size, or as small as there can be."""
        heard = heard_by_readers(model, self.blocks, rows, task)
        cutting = UnitCutting(model, self.blocks, heard, self.unit)
        cut_to_budget([cutting], size - (self.size(model) - cutting.parameters))
        return {"units": cutting.result()}


def macs_of(model: nn.Module, example: Tensor) -> int:
    """Multiply-adds of the linear layers and convolutions of ``model`` for one row."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if (
            isinstance(getattr(module, "weight", None), Tensor)
            and isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
        )
        or type(module).__name__ == "Conv1D"
    }
    total = 0
    for name, _, output in calls_of(model, layers, example[:1]).made:
        weight = weight_of(layers[name])
        total += output.numel() // output.shape[axis_of(layers[name])] * weight.numel()
    return total
