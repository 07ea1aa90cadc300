"""Mean and scale of columns, weighted or not.

The mean is m = Σ wᵢ xᵢ and the scale s = √(Σ wᵢ (xᵢ − m)²), where the weights sum to one.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from torchsparcs.files.reading import quoted

BLOCK = 128  # rows worked on at once, so that they stay in the cache
FAINT, LIFT = 1e-290, 2.0**200  # numbers so near the smallest ones are multiplied first, exactly
FARTHEST, FARTHEST_OF_TWO = 10.0, 4.0  # from zero, when standardised; of two values the rare one
FARTHEST_EVER = 1e30  # from zero, after standardisation: float32 has room for sums of such numbers
UNWIELDY = 1e30  # sample weights larger than that, or smaller than its inverse


class Moments(NamedTuple):
    """Mean and scale of each column, and whether it is constant: (columns,) each."""

    mean: np.ndarray
    scale: np.ndarray
    is_constant: np.ndarray


def moments(values: np.ndarray, weight: np.ndarray | None = None) -> Moments:
    """Moments of ``values`` (rows, columns); a column within rounding of one value is constant.

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
        is_faint = (largest > 0) & (largest < FAINT)
        if is_faint.any():
            lift = np.where(is_faint, LIFT, 1.0)
            mean, scale, is_constant = moments(values * lift, weight)
            least = np.where(is_constant, 0.0, math.ulp(0.0))
            return Moments(mean / lift, np.maximum(scale / lift, least), is_constant)
        is_constant = span <= 8 * limits.eps * largest
        # in units of the span, squares neither overflow nor vanish
        unit = np.where(is_constant, 1.0, span)
        mean = np.where(is_constant, low, share @ values)
        square = np.zeros(len(unit))
        for start in range(0, rows, BLOCK):
            part = slice(start, start + BLOCK)
            square += share[part] @ ((values[part] - mean) / unit) ** 2
        scale = np.where(is_constant, 0.0, unit * np.sqrt(square))
    return Moments(mean, scale, is_constant)


def standardized(
    values: np.ndarray, mean: Any, scale: Any, names: Sequence[str] = (), first: int = 0
) -> np.ndarray:
    """Standardise: (x − m) / s, computed in float64 and kept in float32; NaN becomes 0, the mean.

    A number that is out of all proportion is a ValueError that names its column and its row,
    where ``first`` is that of the first of ``values``.
    """
    mean, scale = np.asarray(mean), np.asarray(scale)
    result = np.empty(values.shape, dtype=np.float32)
    with np.errstate(over="ignore"):
        for start in range(0, len(values), BLOCK):
            part = slice(start, start + BLOCK)
            standard = (values[part] - mean) / scale
            standard[np.isnan(standard)] = 0.0
            result[part] = standard
    if result.size and not max(result.max(), -result.min()) <= FARTHEST_EVER:
        row, column = np.argwhere(~(np.abs(result) <= FARTHEST_EVER))[0]
        where = f" of {names[column]!r}" if names else ""
        raise ValueError(
            f"Expected numbers like those that were fitted. Got {values[row, column]:.3g} in row "
            f"{first + row}{where}, where the mean is {mean[column]:.3g}, the scale "
            f"{scale[column]:.3g}."
        )
    return result


def check_bounded(what: str, names: Sequence[str], mean: np.ndarray, scale: np.ndarray) -> None:
    """Raise a ValueError where numbers are so large that their mean or scale overflows."""
    is_finite = np.isfinite(mean) & np.isfinite(scale)
    if not is_finite.all():
        large = [name for name, fits in zip(names, is_finite, strict=True) if not fits]
        raise ValueError(
            f"Expected {what} whose mean and scale are finite floats. Got numbers that are too "
            f"large in {quoted(large)}: divide them by a power of ten."
        )


def check_moments(mean: Any, scale: Any, columns: int) -> None:
    """Raise a ValueError for anything but tuples of finite floats and scales above zero."""
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
    """``sample_weight`` as float64 (rows,), or None where there is none.

    Where they are beyond float32, they are brought near one all together.
    """
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
    if not 1 / UNWIELDY <= weight.max() <= UNWIELDY:  # only their ratios matter: a power of two
        return np.ldexp(weight, -int(np.frexp(weight.max())[1]))
    return weight


class MergedMoments(NamedTuple):
    """Moments of rows that come part by part, with the extremes of each column, (columns,) each.

    What is NaN is left out of its column. Of two parts with nₐ and n_b of the n rows and
    δ = m_b − mₐ, all of them have m = mₐ + δ n_b/n and s² = sₐ² nₐ/n + s_b² n_b/n + δ² nₐ n_b/n².

    >>> values = np.array([[1.0, 7.0], [3.0, np.nan], [8.0, 7.0]])
    >>> merged = MergedMoments.of(values[:1]).with_part(MergedMoments.of(values[1:]))
    >>> merged.rows, merged.moments().mean, merged.moments().is_constant
    (array([3., 2.]), array([4., 7.]), array([False,  True]))
    """

    rows: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weight: np.ndarray | None = None) -> "MergedMoments":
        """Moments of one part, ``values`` (rows, columns) in float64, weighted by ``weight``."""
        missing = np.isnan(values)
        gappy = np.flatnonzero(missing.any(axis=0))
        if not len(gappy):
            return cls._of_present(values, weight)
        result = cls(*(np.zeros(values.shape[1]) for _ in cls._fields))
        whole = np.setdiff1d(np.arange(values.shape[1]), gappy)
        parts = [(whole, cls._of_present(values[:, whole], weight))]
        for place in gappy:
            present = ~missing[:, place]
            own = None if weight is None else weight[present]
            column = values[present, place][:, None]
            parts.append((np.array([place]), cls._of_present(column, own)))
        for places, part in parts:
            for mine, its in zip(result, part, strict=True):
                mine[places] = its
        return result

    @classmethod
    def _of_present(cls, values: np.ndarray, weight: np.ndarray | None) -> "MergedMoments":
        """Moments of rows of which none is missing; of none at all they are zero."""
        count, columns = values.shape
        if not count:
            zero, ends = np.zeros(columns), np.full(columns, np.inf)
            return cls(zero, zero, zero, ends, -ends)
        rows = np.full(columns, float(count) if weight is None else weight.sum())
        mean, scale, _ = moments(values, weight)
        return cls(rows, mean, scale, values.min(axis=0), values.max(axis=0))

    @classmethod
    def of_shares(cls, share: np.ndarray, rows: float) -> "MergedMoments":
        """Moments of zeros and ones with ``share`` p of ones: mean p and scale √(p (1 − p))."""
        ends = np.zeros(len(share)), np.ones(len(share))
        return cls(np.full(len(share), rows), share, np.sqrt(share * (1 - share)), *ends)

    @classmethod
    def joined(cls, parts: "Sequence[MergedMoments]") -> "MergedMoments":
        """The columns of all ``parts``, side by side."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def at(self, places: Sequence[int]) -> "MergedMoments":
        """The columns at ``places``."""
        return MergedMoments(*(part[list(places)] for part in self))

    def with_part(self, other: "MergedMoments") -> "MergedMoments":
        """Moments of the rows of both parts."""
        rows = self.rows + other.rows
        mine, its = self.rows / np.maximum(rows, 1), other.rows / np.maximum(rows, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            within = np.hypot(np.sqrt(mine) * self.scale, np.sqrt(its) * other.scale)
            return MergedMoments(
                rows,
                self.mean + its * step,
                np.hypot(within, np.sqrt(mine * its) * step),  # squares would overflow
                np.minimum(self.low, other.low),
                np.maximum(self.high, other.high),
            )

    def moments(self) -> Moments:
        """What :func:`moments` gives for all the rows, but for rounding."""
        is_empty = self.low > self.high
        low, high = np.where(is_empty, 0.0, self.low), np.where(is_empty, 0.0, self.high)
        is_constant = moments(np.stack([low, high])).is_constant
        mean = np.where(is_constant, low, self.mean)
        least = np.where(is_constant, 0.0, math.ulp(0.0))
        return Moments(mean, np.maximum(np.where(is_constant, 0.0, self.scale), least), is_constant)

    def bounded_scale(self) -> np.ndarray:
        """Scales, larger where a value would land too far from zero.

        A column of two values is one for which s² = (m − low) (high − m); s² is less of any other.
        """
        mean, scale, is_constant = self.moments()
        with np.errstate(all="ignore"):
            below, above = mean - self.low, self.high - mean
            unit = np.where(is_constant, 1.0, np.maximum(below, above))
            spread, ends = scale / unit, below / unit * (above / unit)
            is_pair = ~is_constant & np.isclose(spread**2, ends, rtol=1e-9, atol=0)
            limit = np.where(is_pair, FARTHEST_OF_TWO, FARTHEST)
            return np.where(is_constant, scale, np.maximum(scale, unit / limit))
