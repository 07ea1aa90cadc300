"""Numbers as bytes, without floating-point arithmetic: chips without it would pay kilobytes.

A number v = ± m 2^(e − 158), with m the 24 bits of its mantissa 8 bits up and e the 8 bits of its
exponent, is m shifted by ``shift`` − e bits, a whole number of units of 2^(shift − 158). Of these
the middle of the range is subtracted, and what is left is multiplied by a factor of one byte and
loses 11 bits: 8 to 16 units are one step of the byte. ``docs/maths.md`` has the formula.
"""

from typing import NamedTuple

import numpy as np

from torchsparcs.export.program import Program

ROOM = 0.2  # of a range, on either side, for rows that lie beyond those that are known
SMALLEST = 1e-30  # of a range or a unit that float32 has a reciprocal for
NARROWEST = 2.0**-16  # times its middle, of a range: float32 has no more than 256 numbers in less
EXPONENT = 158  # of the unit that is as small as the last of the 32 bits of a mantissa
FINEST = 3  # bits that a step of the byte has at least
FACTOR_BITS = FINEST + 8  # that a product with a factor loses
FARTHEST = 2**FACTOR_BITS  # units from the middle: no factor makes less than a whole byte of it
WIDEST = 1e33  # of a range, whose shift has one byte


class ByteInputs(NamedTuple):
    """How numbers become bytes; (numbers,) each.

    Attributes:
        shifts: uint8, of the exponent; a unit is 2^(shift − 158).
        middles: in units, int32.
        factors: of bytes in a unit, times 2^11, uint8 from 128.
        fills: the bytes of missing numbers, int8.
    """

    shifts: np.ndarray
    middles: np.ndarray
    factors: np.ndarray
    fills: np.ndarray

    @property
    def units(self) -> np.ndarray:
        """What a unit is worth, float64."""
        return 2.0 ** (self.shifts.astype(np.float64) - EXPONENT)

    @property
    def steps(self) -> np.ndarray:
        """What one of a byte is worth, float64."""
        return self.units * 2**FACTOR_BITS / self.factors

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """``numbers`` (n, numbers), float32, as bytes, int8: what the C code does, bit for bit."""
        bits = np.ascontiguousarray(numbers).view(np.uint32).astype(np.int64)
        mantissa = (bits << 8 | 1 << 31) & (1 << 32) - 1
        exponent = bits >> 23 & 255
        whole = mantissa >> np.clip(self.shifts.astype(np.int64) - exponent, 2, 31)
        away = np.where(bits >> 31, -whole, whole) - self.middles
        away = np.clip(away, -FARTHEST, FARTHEST - 1) * self.factors
        found = np.clip((away + 2 ** (FACTOR_BITS - 1)) >> FACTOR_BITS, -128, 127)
        return np.where(exponent == 255, self.fills, found).astype(np.int8)


def fitted_inputs(program: Program, rows: np.ndarray, features: np.ndarray) -> ByteInputs:
    """The bytes of the numbers of ``program``, for the range that they have in ``rows``.

    A number has one by its ``features``, (n, features), which are finite.
    """
    places = [number.field for number in program.numbers]
    centres = np.array([number.centre for number in program.numbers], dtype=np.float64)
    numbers = features[:, : len(places)].astype(np.float64)
    numbers[~np.isfinite(rows[:, places])] = np.nan
    numbers = np.where(np.isnan(numbers).all(axis=0), 0.0, numbers)
    low, high = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
    spread = np.where(high > low, (1 + 2 * ROOM) * (high - low), 2 * np.maximum(abs(high), 1.0))
    middles = centres + (low + high) / 2
    spread = np.maximum(spread, np.maximum(2 * SMALLEST, NARROWEST * abs(middles)))
    if spread.size and spread.max() > WIDEST:
        raise ValueError(
            f"Expected columns that span at most {WIDEST:g} for int8. Got {spread.max():.2g}: "
            "divide them by a constant."
        )
    digits = FINEST - np.floor(np.log2(spread / 254))
    steps = spread / 254 * 2.0**digits  # in units, 8 to 16
    inputs = ByteInputs(
        (EXPONENT - digits).astype(np.uint8),
        np.round(middles * 2.0**digits).astype(np.float32).astype(np.int32),  # ONNX has floats
        np.clip(np.floor(2**FACTOR_BITS / steps), 128, 255).astype(np.uint8),
        np.zeros(len(places), dtype=np.int8),
    )
    return inputs._replace(fills=inputs.of(centres.astype(np.float32)[None])[0])
