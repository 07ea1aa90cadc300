"""The constant arrays of generated C: what a network is, in bytes."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from torchsparcs.export.blocks import Block, smallest_type
from torchsparcs.export.byte_inputs import ByteInputs
from torchsparcs.export.one_loop import OneLoop
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
        return [*_fields(network.program), *_whole_numbers(network)]
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
        # added, not subtracted: chips without floats then need one function less
        yield Array("offsets", np.array([-n.centre for n in program.numbers], dtype=np.float32))
    if program.loop is not None:
        yield Array("bias", np.concatenate([layer.bias for layer in program.layers]))
        yield from _loop(program.loop)
    else:
        for place, layer in enumerate(program.layers, 1):
            yield Array(f"bias_{place}", layer.bias)
            yield from _blocks(place, layer.blocks)
    if len(program.ends) > 1:
        yield Array("ends", np.array(program.ends, dtype=np.float32))


def _whole_numbers(network: QuantizedNetwork) -> Iterable[Array]:
    ranges, loop = _ranges(network.inputs), network.loop
    if loop is not None:
        ranges += loop.stream(*_around(network))
    if ranges:
        yield Array("model", np.frombuffer(ranges, np.uint8))
    if loop is None:
        for place, layer in enumerate(network.layers, 1):
            yield Array(f"bias_{place}", in_two_bytes(layer.bias >> layer.bias_shift))
            yield from _blocks(place, layer.blocks)
            if layer.factors.size:
                yield Array(f"factors_{place}", layer.factors)
            if layer.shifts.size > 1:
                yield Array(f"shifts_{place}", layer.shifts)
    scales = network.layers[-1].scales
    if network.program.classes:
        yield Array("scales", scales)
    else:  # whose lower bits are zero
        yield Array("scales", (scales.view(np.uint32) >> 16).astype(np.uint16))


def _ranges(inputs: ByteInputs) -> bytes:
    """Of each number shift, factor, what stands for a missing one and the middle."""
    found, middles = bytearray(), in_two_bytes(inputs.middles)
    for shift, factor, fill, middle in zip(
        inputs.shifts, inputs.factors, inputs.fills, middles, strict=True
    ):
        found += bytes([shift, factor]) + fill.tobytes() + _lowest_first(middle)
    return bytes(found)


def _around(network: QuantizedNetwork) -> tuple[list[bytes], list[bytes]]:
    """What comes before and after the weights of each neuron: its bias; factor and shift."""
    biases = in_two_bytes(
        np.concatenate([layer.bias for layer in network.layers]) >> network.bias_shift
    )
    after: list[bytes] = []
    for layer in network.layers[:-1]:
        shifts = (
            np.broadcast_to(layer.shifts, len(layer.bias)).tobytes() if network.has_shifts else b""
        )
        parts = zip(layer.factors.tobytes(), shifts or [None] * len(layer.bias), strict=True)
        after += [bytes(part for part in pair if part is not None) for pair in parts]
    after += [b""] * network.program.outputs
    return [_lowest_first(bias) for bias in biases], after


def _lowest_first(value: np.integer) -> bytes:
    """The bytes of a whole number, the lowest first."""
    return int(value).to_bytes(value.nbytes, "little", signed=True)


def in_two_bytes(values: np.ndarray) -> np.ndarray:
    """Whole numbers as int16 where all of them fit, else as int32."""
    fits = abs(values.astype(np.int64)).max(initial=0) <= np.iinfo(np.int16).max
    return values.astype(np.int16 if fits else np.int32)


def _loop(loop: OneLoop) -> Iterable[Array]:
    yield Array("masks", loop.masks)
    yield Array("weights", loop.weights)


def _blocks(place: int, blocks: tuple[Block, ...]) -> Iterable[Array]:
    for block in blocks:
        for name, values in block.arrays.items():
            yield Array(f"{name}_{place}_{block.first}", values)
