"""Networks of int8: weights and activities of one byte, sums of four.

A source i has the value oᵢ + sᵢ qᵢ with qᵢ in one byte: numbers from −127 to 127 over the range
that the rows have and some more, zeros and ones as 0 and 127, ReLU neurons from −128 to 127. A
neuron adds whole numbers, a = b + Σ wᵢ qᵢ, in 32 bits; its own scale makes that what the network
hears, or the byte that the next layer reads, in whole numbers alone. Classes share one scale, so
that sums can be compared. ``docs/maths.md`` says how weights are rounded.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from torchsparcs.cutting.removal import remove_sources_
from torchsparcs.export.blocks import Block, joined
from torchsparcs.export.byte_inputs import ROOM, SMALLEST, ByteInputs, fitted_inputs
from torchsparcs.export.folding import program_of
from torchsparcs.export.one_loop import OneLoop, one_loop
from torchsparcs.export.program import Program
from torchsparcs.training.tasks import resolve_task

RIDGE = 0.01  # of each source's second moment, for the refit of weights to rounded sources
LARGEST_BIAS, MOST_SOURCES = 2**29, 2**16  # no sum of bytes times bytes leaves 31 bits
LARGEST_UNIT = 2.0**90  # of an output: no sum of such leaves float32
UNIT_BITS = 8  # of what one of a sum is worth
FINEST_BIAS = 4  # bits that hidden biases lose: a strong weight is worth eight of such units
COARSEST_BIAS = 6  # bits that the biases of a layer may lose to fit into two bytes
FACTOR_BITS, SUM_BITS = 8, 22  # no product of a factor and a sum leaves 31 bits
UNEVEN_BITS = 3  # that factors of a layer may differ by: with more, ranges would be too wide
FARTHEST = 2**20  # bytes, that a sum may be worth at most


class QuantizedLayer(NamedTuple):
    """Whole numbers of a layer.

    Attributes:
        bias: (neurons,), int32; what is written down lacks ``bias_shift`` bits, which are zero.
        blocks: of weights, int8.
        scales: what one unit of the sums is worth, float32; (neurons,), or (1,) for all.
        first, factors, shifts: of a hidden layer. A sum without its ``first`` bits, times the
            factor of its neuron (neurons,), without ``shifts`` bits is a byte; these are (neurons,)
            as well, or (1,) for all, uint8 both.
    """

    bias: np.ndarray
    blocks: tuple[Block, ...]
    scales: np.ndarray
    bias_shift: int = 0
    first: int = 0
    factors: np.ndarray = np.zeros(0, np.uint8)
    shifts: np.ndarray = np.zeros(0, np.uint8)

    @property
    def sums_of_a_byte(self) -> np.ndarray:
        """How much a hidden neuron has to hear for the next byte, (neurons,)."""
        return 2.0 ** (self.first + self.shifts.astype(np.float64)) / self.factors


@dataclass(frozen=True)
class QuantizedNetwork:
    """A network of int8; :func:`quantize` makes one, :func:`to_c` writes it.

    Attributes:
        program: of the float network.

    Shape:
        - X (rows, columns): a table, or what a bare network takes
        - :meth:`outputs` (rows, outputs), float32
    """

    program: Program
    inputs: ByteInputs
    layers: tuple[QuantizedLayer, ...]

    @cached_property
    def loop(self) -> OneLoop | None:
        """Its layers as the generated C has them, where that is one loop."""
        is_even = len({layer.first for layer in self.layers[:-1]}) <= 1
        return one_loop(self.layers, self.program.features) if is_even else None

    @property
    def has_shifts(self) -> bool:
        """Whether hidden neurons have shifts of their own."""
        return len({shift for layer in self.layers for shift in layer.shifts.tolist()}) > 1

    @property
    def bias_shift(self) -> int:
        """Bits that all biases lack in one loop; none where two bytes are enough for all."""
        largest = max(int(abs(layer.bias).max()) for layer in self.layers)
        is_short = largest <= np.iinfo(np.int16).max
        return 0 if is_short else min(layer.bias_shift for layer in self.layers)

    def outputs(self, X: Any) -> np.ndarray:
        """What the generated C puts out, bit for bit: logits, or values in their own units."""
        return self.answers(self.program.rows(X))

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """The same, of rows as the generated code takes them, float32 (rows, fields)."""
        sources = _bytes_of(self.program, self.inputs, rows)
        for layer in self.layers[:-1]:
            sources = np.concatenate([sources, _active(layer, _sums(layer, sources))], axis=1)
        last = self.layers[-1]
        return _sums(last, sources).astype(np.float32) * last.scales

    def score(self, X: Any, y: Any) -> float:
        """Accuracy or R² on the rows of a table."""
        target = self.program.target
        if target is None:
            raise ValueError("Expected a network with its preprocessing to score. Got a bare one.")
        raw = torch.from_numpy(self.program.standard(self.outputs(X)))
        return resolve_task(target.task).score(raw, target.transform(y)).item()


def quantize(network: Any, X: Any) -> QuantizedNetwork:
    """The same network in int8, its ranges and its rounding fitted to the rows ``X``.

    Args:
        network: a ``CompactNetwork``, a :class:`SearchResult` of a table, whose smallest network is
            taken, or what its ``deployed(pick)`` gives. Hidden neurons have to be ReLUs.
        X: rows such as it was trained on, as ``predict`` takes them; of a bare network
            (rows, inputs).

    Example:
        >>> from torchsparcs import CompactNetwork
        >>> network = CompactNetwork([3, 4, 1], [(1, 0), (2, 1)])
        >>> rows = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> error = quantize(network, rows).outputs(rows) - network(rows).detach().numpy()
        >>> bool(abs(error).max() < 0.02)
        True
    """
    program = program_of(network)
    _check(program)  # before rows that may not belong to it
    return quantized(program, program.rows(X))


def quantized(program: Program, rows: np.ndarray) -> QuantizedNetwork:
    """``program`` in int8, fitted to ``rows`` (n, fields) as :meth:`Program.rows` gives them."""
    _check(program)
    if not len(rows):
        raise ValueError("Expected rows to find the ranges of int8. Got none.")
    features = program.featured(rows)
    if not np.isfinite(features).all():
        raise ValueError("Expected finite rows to find the ranges of int8. Got others.")
    inputs = fitted_inputs(program, rows, features)
    offset, step = _worth(program, inputs)
    sources, heard = _bytes_of(program, inputs, rows), program.heard(features)
    layers: list[QuantizedLayer] = []
    for place, layer in enumerate(program.layers):
        is_last = place == len(program.layers) - 1
        weights = np.zeros((len(layer.bias), sources.shape[1]))
        for block in layer.blocks:
            weights[:, block.first : block.last] = block.weights
        start = np.column_stack([weights * step, layer.bias + weights @ offset])
        is_compared = is_last and len(program.classes) > 0
        whole, bias, scale = _rounded(start, sources, heard[place], is_common=is_compared)
        blocks = joined([Block(b.first, whole[:, b.first : b.last]) for b in layer.blocks])
        rounded = QuantizedLayer(bias, blocks, scale[:1] if is_compared else scale)
        rounded = _short(rounded, 0 if is_last else FINEST_BIAS)
        if is_last:
            if scale.max() > LARGEST_UNIT:
                raise ValueError("Expected a target that int8 can hold: divide it by a constant.")
            return QuantizedNetwork(program, inputs, (*layers, rounded))
        sums = _sums(rounded, sources)
        high = (1 + ROOM) * np.maximum(sums.max(axis=0), 0)
        layers.append(_of_hidden(rounded, high))
        sources = np.concatenate([sources, _active(layers[-1], sums)], axis=1)
        unit = scale * layers[-1].sums_of_a_byte
        offset, step = np.append(offset, 128 * unit), np.append(step, unit)
    raise AssertionError("a program has layers")


def check_int8(activation: str, *, hidden: bool = True) -> None:
    """A ValueError where networks with hidden neurons of that activation cannot be int8."""
    if activation != "relu" and hidden:
        raise ValueError(f"Expected hidden neurons to be ReLUs for int8. Got {activation}.")


def _check(program: Program) -> None:
    check_int8(program.activation, hidden=len(program.layers) > 1)
    if program.starts[-1] > MOST_SOURCES:
        raise ValueError(
            f"Expected at most {MOST_SOURCES:,} inputs and neurons for int8, whose sums have 32 "
            f"bits. Got {program.starts[-1]:,}."
        )


def _bytes_of(program: Program, inputs: ByteInputs, rows: np.ndarray) -> np.ndarray:
    """The features of ``rows`` (n, fields) as bytes, int8 (n, features)."""
    known = inputs.of(rows[:, [number.field for number in program.numbers]])
    others = program.featured(rows)[:, len(program.numbers) :]
    return np.concatenate([known, (127 * others).astype(np.int8)], axis=1)


def _worth(program: Program, inputs: ByteInputs) -> tuple[np.ndarray, np.ndarray]:
    """Offset and step (features,) of the bytes of all features."""
    centres = np.array([number.centre for number in program.numbers], dtype=np.float64)
    others = program.features - len(centres)
    offset = np.append(inputs.middles * inputs.units - centres, np.zeros(others))
    return offset, np.append(inputs.steps, np.full(others, 1 / 127))


def _rounded(
    start: np.ndarray, sources: np.ndarray, heard: np.ndarray, *, is_common: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole weights (R, S), biases (R,) and what one is worth (R,), for what neurons heard (n, R).

    ``start`` (R, S + 1) are the weights that were, on the scale of bytes, and biases. Those that
    are not zero are refitted to the ``sources`` (n, S) as they are now, and rounded one after the
    other; what is left of each is passed on to those that are still free, by the formula of
    :mod:`torchsparcs.cutting.removal`. ``is_common``: one is worth the same in all of them.
    """
    known = np.column_stack([sources, np.ones(len(sources))]).astype(np.float64)
    is_there = start != 0
    is_there[:, -1] = True
    units = torch.zeros(len(start), dtype=torch.float64)
    refitted = []
    for pattern in np.unique(is_there, axis=0):
        rows = np.flatnonzero((is_there == pattern).all(axis=1))
        free = np.flatnonzero(pattern)
        moments = known[:, free].T @ known[:, free] / len(known)
        damped = moments + RIDGE * np.diag(moments.diagonal()) + 1e-9 * np.eye(len(free))
        precision = torch.from_numpy(np.linalg.inv(damped))
        left = start[rows][:, free]
        missed = (heard[:, rows] - known[:, free] @ left.T).T @ known[:, free] / len(known)
        weights = torch.from_numpy(left) + torch.from_numpy(missed) @ precision
        largest = weights[:, :-1].abs().amax(dim=1) if len(free) > 1 else weights[:, -1].abs()
        units[rows] = torch.maximum(largest / 127, weights[:, -1].abs() / LARGEST_BIAS)
        order = np.argsort(-moments.diagonal()[:-1], kind="stable")
        refitted.append((rows, free, order, weights, precision))
    units = _written(units.clamp_min(SMALLEST))
    units = units.max().expand_as(units) if is_common else units
    whole = np.zeros((len(start), start.shape[1] - 1), dtype=np.int8)
    bias = np.zeros(len(start))
    for rows, free, order, weights, precision in refitted:
        unit = units[rows]
        for place in order.tolist():
            steps = (weights[:, place] / unit).round().clamp(-127, 127)
            whole[rows, free[place]] = steps.numpy()
            weights[:, place] -= steps * unit
            remove_sources_(weights, precision, torch.tensor([place]))
        bias[rows] = (weights[:, -1] / unit).round().clamp(-LARGEST_BIAS, LARGEST_BIAS).numpy()
    return whole, bias.astype(np.int32), units.numpy().astype(np.float32)


def _written(units: torch.Tensor) -> torch.Tensor:
    """The next numbers that eight bits and a power of two can say."""
    digits, powers = torch.frexp(units)
    return torch.ldexp((digits * 2**UNIT_BITS).ceil(), powers - UNIT_BITS)


def _short(layer: QuantizedLayer, least: int) -> QuantizedLayer:
    """The layer with biases that fit into two bytes, where they lose few bits by that.

    They lose ``least`` at least: of outputs none, as classes may differ by their biases alone.
    """
    needed = int(abs(layer.bias.astype(np.int64)).max()).bit_length() - 15
    shift = needed if least < needed <= COARSEST_BIAS else least
    most = np.iinfo(np.int16).max if needed <= COARSEST_BIAS else LARGEST_BIAS >> shift
    short = np.clip(np.round(layer.bias / 2**shift), -most, most).astype(np.int32)
    return layer._replace(bias=short << shift, bias_shift=shift)


def _of_hidden(layer: QuantizedLayer, high: np.ndarray) -> QuantizedLayer:
    """The layer with bytes for sums from 0 to ``high`` (neurons,), or somewhat more."""
    largest = abs(layer.bias.astype(np.int64))
    for block in layer.blocks:
        largest = largest + 128 * abs(block.weights.astype(np.int64)).sum(axis=1)
    least = max(2, largest.max() / FARTHEST)
    exact = 255 / np.maximum(np.where(high > 0, high, largest), least)
    first = max(0, int(largest.max()).bit_length() - SUM_BITS)
    shifts = FACTOR_BITS - 1 - np.floor(np.log2(exact)).astype(np.int64)
    if shifts.max() - shifts.min() <= UNEVEN_BITS:
        shifts = shifts.min(keepdims=True)
    factors = np.floor(exact * 2.0**shifts).astype(np.uint8)
    return layer._replace(factors=factors, first=first, shifts=(shifts - first).astype(np.uint8))


def _sums(layer: QuantizedLayer, sources: np.ndarray) -> np.ndarray:
    """What the neurons hear of ``sources`` (n, S), int32 (n, neurons)."""
    known = sources.astype(np.float64)
    sums = np.broadcast_to(layer.bias.astype(np.float64), (len(known), len(layer.bias))).copy()
    for block in layer.blocks:
        sums += known[:, block.first : block.last] @ block.weights.T.astype(np.float64)
    return sums.astype(np.int32)  # float64 has all of their digits


def _active(layer: QuantizedLayer, sums: np.ndarray) -> np.ndarray:
    """ReLU of ``sums`` (n, neurons) as bytes, int8."""
    kept = (np.maximum(sums, 0) >> layer.first) * layer.factors.astype(np.int32)
    rounded = ((kept >> (layer.shifts - 1).astype(np.int32)) + 1) >> 1
    return (np.minimum(rounded, 255) - 128).astype(np.int8)
