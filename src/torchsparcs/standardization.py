"""Mean and scale of columns, weighted or not.

The mean is m = Σ wᵢ xᵢ and the scale s = √(Σ wᵢ (xᵢ − m)²), where the weights sum to one.
"""

import math
from typing import Any, NamedTuple

import numpy as np

BLOCK = 128  # rows worked on at once, so that they stay in the cache


class Moments(NamedTuple):
    """Of each column: (columns,) each."""

    mean: np.ndarray
    scale: np.ndarray
    is_constant: np.ndarray


def moments(values: np.ndarray, weight: np.ndarray | None = None) -> Moments:
    """Of ``values`` (rows, columns) in float64; a column within rounding of one value is constant.

    >>> moments(np.array([[1.0, 7.0], [3.0, 7.0]]))
    Moments(mean=array([2., 7.]), scale=array([1., 0.]), is_constant=array([False,  True]))
    """
    rows = len(values)
    share = np.full(rows, 1 / rows) if weight is None else weight / weight.sum()
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = values.min(axis=0), values.max(axis=0)
        span = high - low
        largest = np.maximum(np.abs(low), np.abs(high))
        is_constant = span <= 8 * limits.eps * largest + limits.tiny
        # in units of the span, squares neither overflow nor vanish
        unit = np.where(is_constant, 1.0, span)
        mean = np.where(is_constant, low, share @ values)
        square = np.zeros(len(unit))
        for start in range(0, rows, BLOCK):
            part = slice(start, start + BLOCK)
            square += share[part] @ ((values[part] - mean) / unit) ** 2
        scale = np.where(is_constant, 0.0, unit * np.sqrt(square))
    return Moments(mean, scale, is_constant)


def standardized(values: np.ndarray, mean: Any, scale: Any) -> np.ndarray:
    """(x − m) / s, computed in float64 and kept in float32."""
    mean, scale = np.asarray(mean), np.asarray(scale)
    result = np.empty(values.shape, dtype=np.float32)
    for start in range(0, len(values), BLOCK):
        part = slice(start, start + BLOCK)
        result[part] = (values[part] - mean) / scale
    return result


def check_moments(mean: Any, scale: Any, columns: int) -> None:
    """A ValueError for anything but tuples of finite floats, of which the scales are positive."""
    for name, values in (("mean", mean), ("scale", scale)):
        if (
            not isinstance(values, tuple)
            or len(values) != columns
            or not all(type(value) is float and math.isfinite(value) for value in values)
            or (name == "scale" and any(value <= 0 for value in values))
        ):
            raise ValueError(
                f"Expected a {name} of {columns} finite floats, a scale above zero. Got {values!r}."
            )


def weights_of(sample_weight: Any, rows: int) -> np.ndarray | None:
    """``sample_weight`` as float64 (rows,), or None where there is none."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected numbers as sample weights. {error}") from error
    if weight.shape != (rows,):
        raise ValueError(
            f"Expected one sample weight for each of {rows} rows. Got shape {weight.shape}."
        )
    if not np.isfinite(weight).all() or weight.min() < 0 or weight.max() == 0:
        raise ValueError(
            "Expected sample weights that are finite, not negative and not all zero. "
            f"Got values from {weight.min()} to {weight.max()}."
        )
    return weight
