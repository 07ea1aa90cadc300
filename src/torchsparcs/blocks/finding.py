"""Feed-forward blocks: layers that write hidden units, and layers that read them.

A block is made of *writers* and *readers* such that readers hear the writers and no other layer,
nobody else hears these, and between them every unit is by itself: an activation, dropout, batch
normalisation, a depthwise convolution, the product of a gate and a value. So a unit is some rows of
the writers and some columns of the readers, and can go.
"""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.blocks.halving import Halving
from torchsparcs.blocks.layers import axis_of, channel_count, has_own_weights, is_between, weight_of
from torchsparcs.blocks.tracing import Call, Trace, leaves_of, traced
from torchsparcs.files.reading import quoted

TRIES = 3  # random halves of the units on which it is looked at whether they are mixed


@dataclass(frozen=True)
class Block:
    """A feed-forward block of a model, by the names of its modules.

    Attributes:
        writers, readers: layers.
        between: modules with numbers for each unit, those next to the readers first.
        units: how many there are.
        places: of each layer, how often a row of the batch goes through it: one for a vector, one
            for each token or pixel otherwise.
    """

    writers: tuple[str, ...]
    readers: tuple[str, ...]
    between: tuple[str, ...]
    units: int
    places: dict[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """What a pattern may find it by: its modules, and what is around all of them."""
        paths = [name.split(".") for name in (*self.writers, *self.readers)]
        around = [keys[0] for keys in takewhile(_are_same, zip(*paths, strict=False))]
        return (".".join(around), *self.writers, *self.readers)

    def moved(self, start: str) -> "Block":
        """The same block in a model whose names begin with ``start`` before those of this one."""
        names = (self.writers, self.readers, self.between)
        writers, readers, between = (tuple(start + name for name in some) for some in names)
        places = {start + name: count for name, count in self.places.items()}
        return Block(writers, readers, between, self.units, places)

    def within(self, model: nn.Module) -> "Block":
        """The same block in ``model``, where it may have fewer units."""
        outs = [weight_of(model.get_submodule(name)).shape[0] for name in self.writers]
        ins = [weight_of(model.get_submodule(name)).shape[1] for name in self.readers]
        return replace(self, units=min(*outs, *ins))

    def __str__(self) -> str:
        ends = " and ".join(self.writers), " and ".join(self.readers)
        return f"{' → '.join(ends)}: {self.units:,} units"


def _are_same(keys: Sequence[str]) -> bool:
    return len({*keys}) == 1


def blocks_of(model: nn.Module, example: Any) -> tuple[list[Block], dict[str, str]]:
    """The blocks of ``model``, and why every other layer that is called reads no units of one.

    ``example`` is what the model is given: an input, a tuple of several, or a dict of named ones.
    """
    trace = traced(model, example)
    rows = _rows(trace)
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], Block] = {}
    reasons: dict[str, str] = {}
    finder = _Finder(model, trace)
    for call in trace.calls:
        result = finder.block_of(call, rows)
        if isinstance(result, str):
            reasons[call.name] = result
        else:
            found[result.writers, result.readers] = result
    blocks = [*found.values()]
    for name in {name for block in blocks for name in block.writers}:
        owners = [block for block in blocks if name in block.writers]
        if len(owners) > 1 or any(name in reasons for block in owners for name in block.readers):
            for block in owners:
                blocks.remove(block)
                reasons[block.readers[0]] = "is called several times, each time in another way"
    return _halved(model, blocks, example, reasons), reasons


def _halved(
    model: nn.Module, blocks: Sequence[Block], example: Any, reasons: dict[str, str]
) -> list[Block]:
    """Those that can do without some of their units; of the others, ``reasons`` say why not."""
    if not blocks:
        return []
    layers = [name for block in blocks for name in (*block.writers, *block.readers)]
    trial, left = Halving(model, [*dict.fromkeys(layers)], example), list[Block]()
    for block in blocks:
        why = trial.reason_against(block.writers, block.readers, block.between, block.units)
        if why:
            heard = quoted([*block.writers][:4])
            reasons |= dict.fromkeys(block.readers, f"reads {heard}: {why}")
        else:
            left.append(block)
    return left


def check_own_weights(model: nn.Module, blocks: Sequence[Block]) -> None:
    """Expect layers with weights of their own in ``blocks``; else a ValueError."""
    for block in blocks:
        for name in (*block.writers, *block.readers, *block.between):
            if not has_own_weights(model.get_submodule(name)):
                raise ValueError(
                    f"Expected layers with weights of their own. Got {name!r}, which makes them: "
                    "by weight normalisation, adapters, or eigenvalues that it has already."
                )


def matching(
    blocks: Sequence[Block], reasons: dict[str, str], targets: Sequence[str]
) -> list[Block]:
    """The blocks that ``targets``, names or patterns, stand for; a ValueError says why none is."""
    chosen: list[Block] = []
    for target in targets:
        hits = [b for b in blocks if any(fnmatch.fnmatchcase(n, target) for n in b.names)]
        if not hits:
            raise ValueError(_unmatched(blocks, reasons, target))
        chosen += [block for block in hits if block not in chosen]
    return chosen


def _unmatched(blocks: Sequence[Block], reasons: dict[str, str], target: str) -> str:
    near = [
        name
        for name in reasons
        if fnmatch.fnmatchcase(name, target) or name.startswith(f"{target}.")
    ]
    why = "".join(f" {name!r} {reasons[name]}." for name in near[:3])
    # what is around all of a block may be the model itself, whose name says nothing
    names = quoted([block.names[0] or block.readers[0] for block in blocks][:12]) or "none"
    return (
        "Expected the name of a feed-forward block, of one of its layers, or a pattern of such "
        f"names. Got {target!r}.{why} There are {names}."
    )


def _rows(trace: Trace) -> int:
    """Rows of the example."""
    return min((len(call.output) for call in trace.calls if call.output.dim()), default=1)


class _Finder:
    """What is known of one trace."""

    def __init__(self, model: nn.Module, trace: Trace):
        self.trace = trace
        places: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            places.setdefault(id(parameter), []).append(name)
        self.shared = {one: names for one, names in places.items() if len(names) > 1}
        self.by_leaf = {id(call.output): call for call in trace.calls}
        self.owners = {
            id(p): (name, m)
            for name, m in model.named_modules()
            for p in m.parameters(recurse=False)
        }
        self.owners |= {id(m): (name, model.get_submodule(name)) for name, m in trace.marks.items()}
        self.heard = {id(call): leaves_of(call.input) for call in trace.calls}
        self.readers: dict[int, list[Call]] = {}
        for call in trace.calls:
            for leaf in self.heard[id(call)].keys() & self.by_leaf.keys():
                self.readers.setdefault(leaf, []).append(call)

    def block_of(self, reader: Call, rows: int) -> Block | str:
        """The block whose units ``reader`` reads, or in words why there is none."""
        writers = self._writers(reader)
        if not writers:
            return "reads the input of the model, or nothing that a layer wrote"
        if len({id(call.module) for call in (*writers, reader)}) <= len(writers):
            return "reads what it wrote itself"
        readers = [call for w in writers for call in self.readers[id(w.output)]]
        readers = [*dict.fromkeys(readers)]
        names = quoted([w.name for w in writers][:4])
        for writer in writers:
            if id(writer.output) in self.trace.ends:
                return f"reads {names}, and {writer.name!r} is heard at the end of the model too"
        for other in readers:
            if self._writers(other) != writers:
                return f"reads {names}, which {other.name!r} hears together with other layers"
        for layer in (*writers, *readers):
            for parameter in layer.module.parameters(recurse=False):
                if id(parameter) in self.shared:
                    return f"reads {names}, and one tensor is {quoted(self.shared[id(parameter)])}"
        units = min(
            *(weight_of(w.module).shape[0] for w in writers),
            *(weight_of(r.module).shape[1] for r in readers),
        )
        for one in readers:
            for writer in writers:
                if reason := _mixed(writer, one, units):
                    return f"reads {names}: {reason}"
        between = self._between(readers, units)
        if isinstance(between, str):
            return f"reads {names} through {between}"
        return Block(
            tuple(dict.fromkeys(w.name for w in writers)),
            tuple(dict.fromkeys(r.name for r in readers)),
            between,
            units,
            {
                call.name: call.output.numel() // weight_of(call.module).shape[0] // rows
                for call in (*writers, *readers)
            },
        )

    def _writers(self, reader: Call) -> list[Call]:
        heard = self.heard[id(reader)]
        return [call for leaf, call in self.by_leaf.items() if leaf in heard]

    def _between(self, readers: Sequence[Call], units: int) -> tuple[str, ...] | str:
        """The modules with numbers for each channel that the units pass, the last ones first.

        In words, one that is not known, or has others than one for each unit.
        """
        names: dict[str, None] = {}
        for leaf in dict.fromkeys(leaf for r in readers for leaf in self.heard[id(r)]):
            if leaf in self.by_leaf:
                continue
            name, module = self.owners.get(leaf, ("", None))
            if module is None or not is_between(module):
                kind = type(module).__name__ if module is not None else "parameter"
                return f"a {kind} at {name!r}, of which it is not known what it has for each unit"
            if (count := channel_count(module)) not in (1, units):
                kind = type(module).__name__
                return f"a {kind} at {name!r} with {count:,} channels, not one for each unit"
            names[name] = None
        return tuple(names)


def _mixed(writer: Call, reader: Call, units: int) -> str:
    """In words, whether a unit of ``reader`` hears another one of ``writer``; else empty."""
    rows, columns = weight_of(writer.module).shape[0], weight_of(reader.module).shape[1]
    if rows % units or columns % units:
        return f"{rows} features become {columns}"
    row_units = torch.arange(rows) % units
    column_units = torch.arange(columns) // (columns // units)
    generator = torch.Generator().manual_seed(0)
    for _ in range(TRIES):
        half = torch.randint(2, (units,), generator=generator).bool()
        for chosen in (half, ~half):
            slope = _slope(writer, reader, chosen[column_units])
            others = ~chosen[row_units].to(slope.device)
            if slope.movedim(axis_of(writer.module), -1)[..., others].any():
                return "units are mixed on the way, as by attention or normalisation over them"
    return ""


def _slope(writer: Call, reader: Call, columns: Tensor) -> Tensor:
    """The gradient at what ``writer`` gave of a random sum over ``columns`` of what is read."""
    heard, axis = reader.input, axis_of(reader.module)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(heard.shape, generator=generator).to(heard)
    mask = columns.to(heard.device).view(-1, *[1] * (-1 - axis))
    (slope,) = torch.autograd.grad(heard, writer.output, weights * mask, retain_graph=True)
    return slope
