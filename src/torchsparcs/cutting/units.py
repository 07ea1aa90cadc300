"""Units of plain feed-forward blocks, taken away with data; what reads them is refitted.

Units of all blocks compare, by what they cost for each parameter or multiply-add that goes.
"""

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.blocks.finding import Block, blocks_of, check_own_weights, matching
from torchsparcs.blocks.layers import axis_of, weight_of, with_channels
from torchsparcs.cutting.ladder import some_rows
from torchsparcs.cutting.models import Compact, calls_of
from torchsparcs.cutting.removal import cut_to_budget
from torchsparcs.cutting.unit_layers import Heard, Layer, heard_by_readers
from torchsparcs.spectral.layer_kinds import TRANSPOSED
from torchsparcs.training.data import Data, Pair
from torchsparcs.training.nests import rows_in
from torchsparcs.training.tasks import LossFunction, check_data

FEW = 25  # so many units go one at a time, twice as many two at a time, and so on
ALIKE = 0.5  # partial correlation of two units that must not go together


class Units:
    """The units of some blocks of a model, of which ``heard`` tells what readers hear."""

    def __init__(
        self, model: nn.Module, blocks: Sequence[Block], heard: Mapping[str, Heard] | None = None
    ):
        self.model, heard = model, heard or {}
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

    def lose(self, k: int, units: Tensor) -> None:
        """Take some units from block k."""
        block = self.blocks[k]
        self.alive[k][units] = False
        for name in block.readers:
            self.layers[name].lose_inputs(units, block.units)
        for name in block.writers:
            self.layers[name].lose_outputs(units, block.units)

    def result(self) -> nn.Module:
        """A copy of the model with what is left."""
        memo: dict[int, Any] = {}
        for name, layer in self.layers.items():
            memo[id(self.model.get_submodule(name))] = layer.result()
        for block, alive in zip(self.blocks, self.alive, strict=True):
            for name in block.between:
                module = self.model.get_submodule(name)
                memo[id(module)] = with_channels(module, alive)
        result = copy.deepcopy(self.model, memo)
        for part in result.modules():
            if isinstance(part, Compact):
                part.recount_()
        return result


def without_silent_units(model: nn.Module, blocks: Sequence[tuple[Block, Tensor]]) -> nn.Module:
    """A copy without the units whose eigenvalue is zero; one is left in each block."""
    units = Units(model, [block for block, _ in blocks])
    for k, (_, eigenvalues) in enumerate(blocks):
        silent = eigenvalues == 0
        silent[0] &= not silent.all()
        units.lose(k, silent.nonzero().squeeze(1))
    return units.result()


class UnitCutting(Units):
    """The blocks of a model as one :class:`Cutting`, of which every block keeps a unit.

    ``sizes`` is how much each module of the model has of ``unit``, which is counted.
    """

    def __init__(
        self,
        model: nn.Module,
        blocks: Sequence[Block],
        heard: Mapping[str, Heard],
        unit: str,
        sizes: Counter[str],
    ):
        super().__init__(model, blocks, heard)
        self.unit = unit
        # what stands between has so much for each unit of a block; what all share stays
        self.between = [
            sum(sizes[name] // block.units for name in block.between) for block in self.blocks
        ]
        self.prices: dict[int, Tensor] = {}
        self._look()

    def _look(self) -> None:
        """Find the block that loses units next, and count what is left in all of them."""
        self.parameters = sum(layer.amount(self.unit) for layer in self.layers.values())
        self.parameters += sum(
            own * int(alive.sum()) for own, alive in zip(self.between, self.alive, strict=True)
        )
        rates: dict[int, float] = {}
        for k, (block, alive) in enumerate(zip(self.blocks, self.alive, strict=True)):
            if int(alive.sum()) <= 1:
                continue
            if k not in self.prices:
                costs = sum(self.layers[name].costs(block.units) for name in block.readers)
                self.prices[k] = torch.where(alive, costs, torch.inf)
            rates[k] = self.prices[k].min().item() / self._saved(k)
        self.cheapest = min(rates, key=lambda k: rates[k], default=-1)
        self.rate = rates.get(self.cheapest, math.inf)

    def _saved(self, k: int) -> int:
        """What goes with one unit of block k."""
        block = self.blocks[k]
        writers, readers = (
            [self.layers[name] for name in names] for names in (block.writers, block.readers)
        )
        return max(
            1,
            self.between[k]
            + sum(one.saved(self.unit, outs=len(one.outs) // block.units) for one in writers)
            + sum(one.saved(self.unit, ins=len(one.ins) // block.units) for one in readers),
        )

    def step(self) -> None:
        """Remove the cheapest units of the cheapest block."""
        k, block = self.cheapest, self.blocks[self.cheapest]
        left = int(self.alive[k].sum())
        gone = self.prices[k].topk(max(1, left // FEW), largest=False).indices
        gone = self._unlike(gone, block)
        self.lose(k, gone)
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


@dataclass(frozen=True)
class BlockCuts:
    """Plain blocks of a model on their way down.

    Attributes:
        unit: what is counted, "parameters" of the whole model or "macs", the multiply-adds of its
            linear layers and convolutions for one row like those of ``example``.
    """

    blocks: list[Block]
    example: Any
    unit: str = "parameters"

    @property
    def stays(self) -> list[str]:
        """The readers, but for those whose outputs are units of another block."""
        writers = {name for block in self.blocks for name in block.writers}
        readers = [name for block in self.blocks for name in block.readers]
        return [name for name in dict.fromkeys(readers) if name not in writers]

    def size(self, model: nn.Module) -> int:
        """How large ``model`` is in that unit."""
        return self.sizes(model).total()

    def sizes(self, model: nn.Module) -> Counter[str]:
        """How much of that each module of ``model`` has; what is tied counts once."""
        if self.unit == "macs":
            return _macs_by_module(model, self.example)
        sizes = Counter[str]()
        for name, parameter in model.named_parameters():
            sizes[name.rpartition(".")[0]] += parameter.numel()
        return sizes

    def cut(
        self, model: nn.Module, rows: Sequence[Pair], task: str | LossFunction, size: int
    ) -> dict[str, nn.Module]:
        """A copy of at most that size, or as small as there can be."""
        heard = heard_by_readers(model, self.blocks, rows, task)
        sizes = self.sizes(model)
        cutting = UnitCutting(model, self.blocks, heard, self.unit, sizes)
        cut_to_budget([cutting], size - (sizes.total() - cutting.parameters))
        return {"units": cutting.result()}


def block_cuts(
    model: nn.Module,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    target: str | Sequence[str] | None,
    unit: str,
) -> BlockCuts:
    """What can go of the plain blocks of ``model`` that ``target`` stands for; by default of all.

    A ValueError says what of the data, or of the blocks, is not as it must be.
    """
    for name, part in (("data", data), ("validation data", validation)):
        check_data(model, part, task, name=name)
    like = next(p for p in model.parameters() if p.is_floating_point())
    example = some_rows(data, 2, 0, like)[0][0]
    blocks, reasons = blocks_of(model, example)
    targets = [target or "*"] if isinstance(target, str | None) else list(target)
    chosen = matching(blocks, reasons, targets)
    check_own_weights(model, chosen)
    return BlockCuts(chosen, example, unit)


def macs_of(model: nn.Module, example: Any) -> int:
    """Multiply-adds of the linear layers and convolutions of ``model`` for one row."""
    return _macs_by_module(model, example).total()


def _macs_by_module(model: nn.Module, example: Any) -> Counter[str]:
    layers = {
        name: module
        for name, module in model.named_modules()
        if (
            isinstance(getattr(module, "weight", None), Tensor)
            and isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
        )
        or type(module).__name__ == "Conv1D"
    }
    macs = Counter[str]()
    for name, arrived, output in calls_of(model, layers, rows_in(example, slice(1))).made:
        layer = layers[name]
        # a transposed convolution has a product of each weight for each place that it reads
        places = arrived if isinstance(layer, TRANSPOSED) else output
        macs[name] += places.numel() // places.shape[axis_of(layer)] * weight_of(layer).numel()
    return macs
