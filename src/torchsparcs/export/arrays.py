"""The constant arrays of generated C: what a network is, in bytes."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from torchsparcs.export.blocks import Block, smallest_type
from torchsparcs.export.program import Program
from torchsparcs.export.quantization import QuantizedNetwork


class Array(NamedTuple):
    """A constant array, of the type of C that its values have."""

    name: str
    values: np.ndarray

    @property
    def type(self) -> str:
        kind = self.values.dtype.name
        return "float" if kind == "float32" else f"{kind}_t"

    @property
    def reader(self) -> str:
        """The end of the name of the macro that reads one of the values."""
        return self.type.removesuffix("_t").upper()


def arrays_of(network: Program | QuantizedNetwork) -> list[Array]:
    """All arrays of a network in float, or in int8."""
    if isinstance(network, QuantizedNetwork):
        return [*_fields(network.program), *_ranges(network), *_whole_layers(network)]
    return [*_fields(network), *_float_layers(network)]


def data_bytes(network: Program | QuantizedNetwork) -> int:
    """What the arrays take."""
    return sum(array.values.nbytes for array in arrays_of(network))


def _fields(program: Program) -> Iterable[Array]:
    """Where the numbers are among the fields, if that needs saying."""
    if program.numbers and program.is_scattered:
        fields = np.array([number.field for number in program.numbers])
        yield Array("fields", fields.astype(smallest_type(len(program.fields))))


def _float_layers(program: Program) -> Iterable[Array]:
    if program.numbers and program.fills:
        yield Array("centres", np.array([n.centre for n in program.numbers], dtype=np.float32))
    for place, layer in enumerate(program.layers, 1):
        yield Array(f"bias_{place}", layer.bias)
        yield from _blocks(place, layer.blocks)
    if len(program.ends) > 1:
        yield Array("ends", np.array(program.ends, dtype=np.float32))


def _ranges(network: QuantizedNetwork) -> Iterable[Array]:
    middles, inverses, fills = inputs = network.inputs
    if not network.program.numbers:
        return
    for name, values in (("middles", middles), ("inverses", inverses)):
        upper = (values.view(np.uint32) >> 16).astype(np.uint16)
        yield Array(name, upper if inputs.is_short else values)
    yield Array("fills", fills)


def _whole_layers(network: QuantizedNetwork) -> Iterable[Array]:
    for place, layer in enumerate(network.layers, 1):
        yield Array(f"bias_{place}", layer.short_bias)
        yield from _blocks(place, layer.blocks)
        if layer.factors.size:
            yield Array(f"factors_{place}", layer.factors)
    yield Array("scales", network.layers[-1].scales)


def _blocks(place: int, blocks: tuple[Block, ...]) -> Iterable[Array]:
    for block in blocks:
        for name, values in block.arrays.items():
            yield Array(f"{name}_{place}_{block.first}", values)
