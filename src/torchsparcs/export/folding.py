"""The preprocessing folded into a network: the program of both.

The scale s of each encoded column goes into the weights, w / s, and the mean m of a number is
subtracted as the float32 number c next to it; the bias takes w (c − m) / s, so that nothing but
rounding is lost. What the network does not read is not in the program.
"""

from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from torchsparcs.compact.direct import DirectSpace, is_read, layer_slices
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.blocks import Block, joined
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.program import Field, Layer, Level, Missing, Number, Program
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.tables.encoding import REST, Column
from torchsparcs.tables.preprocessing import Inputs, Preprocessing
from torchsparcs.version import __version__

HOUR = "hours since midnight, with a fraction"
# What the parts of a date are, in words; all from local time.
PARTS = {
    "days since 2000": "days since 2000-01-01 00:00, with a fraction",
    "years since 2000": "the year less 2000",
    "time of year sin": "sin(2 pi (d - 1) / 365.25), d the day of the year from 1",
    "time of year cos": "cos(2 pi (d - 1) / 365.25), d the day of the year from 1",
    "day of month": "1 to 31",
    "hour": HOUR,
    "time of day sin": f"sin(2 pi h / 24), h {HOUR}",
    "time of day cos": f"cos(2 pi h / 24), h {HOUR}",
}


@runtime_checkable
class Deployable(Protocol):
    """What a search found."""

    def deployed(self) -> DeployedNetwork:
        """The network that is picked, with its preprocessing."""


def program_of(network: Any) -> Program:
    """The program of a ``CompactNetwork``, a ``DeployedNetwork`` or a result that has one.

    Example:
        >>> network = CompactNetwork([3, 2, 1], [(1, 0), (2, 1)])
        >>> program = program_of(network)
        >>> [field.name for field in program.fields], program.starts, program.outputs
        (['x0', 'x1', 'x2'], (3, 5), 1)
    """
    if isinstance(network, Deployable) and not isinstance(network, torch.nn.Module):
        network = network.deployed()
    bare = network.network if isinstance(network, DeployedNetwork) else network
    if not isinstance(bare, CompactNetwork):
        raise ValueError(
            "Expected a CompactNetwork, a result of a table or what its deployed() gives; "
            f"extract() makes one of a SpectralNetwork. Got {type(network).__name__}."
        )
    if not bare.has_named_activation:
        raise ValueError(
            f"Expected an activation by its name, {', '.join(ACTIVATIONS)}: a function cannot be "
            f"written in another language. Got {bare.activation_name}."
        )
    if isinstance(network, DeployedNetwork):
        return table_program(bare, network.preprocessing, network.about)
    direct, read = _direct(bare)
    numbers = {place: Number(index, np.float32(0)) for index, place in enumerate(read)}
    features = _Features([Field(f"x{place}", (place, 1)) for place in read], numbers, {}, {})
    return features.program(direct, bare.activation_name, (_made(bare),), None)


def table_program(
    network: CompactNetwork, preprocessing: Preprocessing, about: tuple[str, ...] = ()
) -> Program:
    """The program of a network for a table, with its preprocessing."""
    direct, read = _direct(network)
    features = _features_of(preprocessing.inputs, {*read})
    folded = _folded(direct, preprocessing, features.centre)
    lines = (_made(network), *about)
    return features.program(folded, network.activation_name, lines, preprocessing)


def _made(network: CompactNetwork) -> str:
    return f"{network.architecture}, written by torchsparcs {__version__}."


def _direct(network: CompactNetwork) -> tuple[DirectSpace, list[int]]:
    """The network in direct space on the CPU, and the inputs that it reads."""
    direct = network.to_direct()
    parts = {name: getattr(direct, name).cpu() for name in ("weights", "bias", "layers")}
    direct = replace(direct, **parts)
    return direct, is_read(direct).nonzero().squeeze(1).tolist() or [0]  # a constant takes one too


class _Features(NamedTuple):
    """What is read: fields, and features by the encoded columns that they are."""

    fields: list[Field]
    numbers: dict[int, Number]
    indicators: dict[int, Missing]
    levels: dict[int, Level]

    @property
    def order(self) -> list[int]:
        return [*self.numbers, *self.indicators, *self.levels]

    @property
    def centre(self) -> dict[int, float]:
        return {place: float(number.centre) for place, number in self.numbers.items()}

    def program(
        self,
        direct: DirectSpace,
        activation: str,
        about: tuple[str, ...],
        preprocessing: Preprocessing | None,
    ) -> Program:
        """The program of a network that hears these features."""
        return Program(
            fields=tuple(self.fields),
            numbers=tuple(self.numbers.values()),
            indicators=tuple(self.indicators.values()),
            levels=tuple(self.levels.values()),
            layers=_layers(direct, self.order),
            activation=activation,
            fills=preprocessing is not None,
            target=None if preprocessing is None else preprocessing.target,
            about=about,
            inputs=None if preprocessing is None else preprocessing.inputs,
            reads=tuple(self.order),
        )


def _features_of(inputs: Inputs, read: set[int]) -> _Features:
    """What is read of a table, where the encoded columns at ``read`` are."""
    found = _Features([], {}, {}, {})
    encoded = supplied = 0
    for column in inputs.columns:
        names = column.supplied_names
        places = range(encoded, encoded + len(names))
        told = encoded + len(names) if column.has_indicator else -1
        is_coded = column.kind == "text" and not column.is_either
        if is_coded and read & {*places}:
            field = _coded_field(column, (supplied, len(names)))
            hidden = field.level_count - len(names)
            found.fields.append(field)
            levels = {at: Level(len(found.fields) - 1, at - encoded + hidden) for at in places}
            found.levels.update({at: level for at, level in levels.items() if at in read})
        for index, at in enumerate(() if is_coded else places):
            is_told = index == 0 and told in read
            if at in read or is_told:
                found.fields.append(_number_field(column, names[index], supplied + index))
            if at in read:
                with np.errstate(over="ignore"):
                    centre = np.float32(inputs.mean[at])
                found.numbers[at] = Number(len(found.fields) - 1, centre)
            if is_told:
                found.indicators[told] = Missing(len(found.fields) - 1)
        encoded += len(column.encoded_names)
        supplied += len(names)
    return found


def _coded_field(column: Column, supplied: tuple[int, int]) -> Field:
    """The field of a column of text."""
    texts = column.categories or ()
    other = len(texts) if column.has_rest else -1
    missing = len(texts) + column.has_rest if column.gaps == "told" else -1
    note = (
        f"any other number is {REST!r}" if column.has_rest else "any other number is none of them"
    )
    return Field(column.name, supplied, note, texts, True, other, missing)


def _number_field(column: Column, name: str, supplied: int) -> Field:
    """The field of a number, of two texts, of ordered categories or of one part of a date."""
    if column.is_either:
        return Field(column.name, (supplied, 1), texts=column.categories or ())
    if column.kind == "ordered":
        return Field(name, (supplied, 1), "the place in the order", column.categories or ())
    if column.kind == "date":
        part = name.removeprefix(f"{column.name}: ")
        return Field(name, (supplied, 1), PARTS.get(part, "1 on that day of the week, else 0"))
    return Field(name, (supplied, 1))


def _folded(
    direct: DirectSpace, preprocessing: Preprocessing, centres: dict[int, float]
) -> DirectSpace:
    """``direct`` on columns less their ``centres``, a regression with its units."""
    inputs, target = preprocessing.inputs, preprocessing.target
    mean = torch.tensor(inputs.mean, dtype=torch.float64)
    centre = torch.tensor([centres.get(at, 0.0) for at in range(len(mean))], dtype=torch.float64)
    weights, bias = direct.weights.clone(), direct.bias.clone()
    weights[:, : direct.inputs] /= torch.tensor(inputs.scale, dtype=torch.float64)
    bias += weights[:, : direct.inputs] @ (centre - mean)
    if target.task == "regression":
        scale = torch.tensor(target.scale, dtype=torch.float64)
        weights[direct.hidden :] *= scale[:, None]
        offset = torch.tensor(target.mean, dtype=torch.float64)
        bias[direct.hidden :] = bias[direct.hidden :] * scale + offset
    return replace(direct, weights=weights, bias=bias)


def _layers(direct: DirectSpace, order: list[int]) -> tuple[Layer, ...]:
    """The layers of ``direct`` on its inputs in that ``order``; zero blocks are left out."""
    columns = [*order, *range(direct.inputs, direct.inputs + direct.hidden)]
    with np.errstate(over="ignore"):
        weights = direct.weights[:, columns].numpy().astype(np.float32)
        bias = direct.bias.numpy().astype(np.float32)
    for name, numbers in (("weights", weights), ("biases", bias)):
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"Expected {name} that float32 can hold. Got some beyond {np.finfo('f4').max:.1e}: "
                "divide the columns, or the target, by a constant."
            )
    rows_of, columns_of = layer_slices(direct)
    shift = direct.inputs - len(order)
    layers = []
    for rows, until in zip(rows_of, range(1, len(columns_of) + 1), strict=True):
        blocks = []
        for source, part in enumerate(columns_of[:until]):
            first, last = (part.start - shift, part.stop - shift) if source else (0, len(order))
            block = Block(first, weights[rows, first:last])
            if block.weights.any():
                blocks.append(block)
        blocks = blocks or [Block(0, weights[rows, : len(order)])]
        layers.append(Layer(bias[rows], joined(blocks)))
    return tuple(layers)
