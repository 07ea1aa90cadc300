"""What is kept of columns, once it is known what varies in them and what is missing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from torchsparcs.tables.encoding import Column
from torchsparcs.tables.entries import text_of
from torchsparcs.tables.recognition import is_counter, is_identifying
from torchsparcs.tables.standardization import MergedMoments, check_bounded

Floats = tuple[float, ...]


def missing_patterns(values: np.ndarray, first: int) -> np.ndarray:
    """Which of ``values`` (rows, columns) are missing, as one number for each column.

    A sum of what a hash makes of the numbers of these rows, from ``first`` on, modulo 2⁶⁴: it is 0
    where none is missing, and equal columns have equal ones. Those of all rows are the sum of their
    parts'.
    """
    missing = np.isnan(values)
    patterns = np.zeros(values.shape[1], dtype=np.uint64)
    if missing.any():
        keys = np.arange(first + 1, first + 1 + len(values), dtype=np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)  # of splitmix64
        for place in np.flatnonzero(missing.any(axis=0)):
            patterns[place] = keys[missing[:, place]].sum(dtype=np.uint64)
    return patterns


def settled(
    columns: Sequence[Column],
    merged: MergedMoments,
    patterns: np.ndarray,
    total: float,
    identifiers: Collection[str],
) -> tuple[tuple[Column, ...], Floats, Floats]:
    """The columns as they stay, and mean and scale of their encoded columns.

    Args:
        merged: moments of their supplied columns.
        patterns: of what is missing there, as :func:`missing_patterns` has it.
        total: the rows, or the sum of their weights.
        identifiers: columns of numbers that are left out, unless they are all there is.
    """
    mean, _, is_constant = merged.moments()
    scale = merged.bounded_scale()
    check_bounded("columns", [n for c in columns for n in c.supplied_names], mean, scale)
    absent = 1 - merged.rows / total
    absent_scale = MergedMoments.of_shares(absent, total).bounded_scale()
    ends = np.cumsum([len(column.supplied_names) for column in columns]).tolist()
    places = [range(end - len(c.supplied_names), end) for c, end in zip(columns, ends, strict=True)]
    varying = [[not is_constant[place] for place in own] for own in places]
    names = {column.name for column, own in zip(columns, varying, strict=True) if any(own)}
    left_out = {*identifiers} if names - {*identifiers} else set()
    kept: list[Column] = []
    moments: list[tuple[float, float]] = []  # mean and scale of each encoded column
    told = {0}
    for column, own, varies in zip(columns, places, varying, strict=True):
        if column.name in left_out:
            kept.append(Column(column.name, (), "identifier", reason="numbers that name rows"))
            continue
        pattern = int(patterns[own[0]]) if own else 0
        kept.append(_kept(column, varies, pattern, pattern in told, merged.low[own[:1]]))
        told.add(pattern)
        moments += [(mean[p], scale[p]) for p, is_kept in zip(own, varies, strict=True) if is_kept]
        if pattern and kept[-1].gaps == "told":
            moments.append((absent[own[0]], absent_scale[own[0]]))
    if not moments:
        raise ValueError(
            "Expected a column of X that varies. Got constant columns and identifiers only."
        )
    means, scales = (tuple(map(float, part)) for part in zip(*moments, strict=True))
    return tuple(kept), means, scales


def identifiers(
    columns: Sequence[Column], merged: MergedMoments, rows: int, distinct: Mapping[int, int]
) -> set[str]:
    """The columns of whole numbers that are identifiers.

    Args:
        merged: moments of their supplied columns.
        distinct: by the places of whole numbers, how many differ; 0 where the name tells nothing.
    """
    found, place = set(), 0
    for index, column in enumerate(columns):
        if index in distinct and not column.is_chosen:
            low, high, scale = (part[place] for part in (merged.low, merged.high, merged.scale))
            if is_counter(rows, low, high, scale) or is_identifying(distinct[index], rows):
                found.add(column.name)
        place += len(column.supplied_names)
    return found


def _kept(
    column: Column, varies: list[bool], pattern: int, is_told: bool, lowest: np.ndarray
) -> Column:
    """The column with those of its numbers that vary, and what is missing there.

    A number that is always the same where it is not missing becomes a text that may be missing.
    """
    if not varies or column.kind == "text":
        return column
    if not any(varies):
        if not pattern or is_told or column.kind == "date" or not np.isfinite(lowest[0]):
            return Column(column.name, (), "constant")
        order = column.categories
        only = order[int(lowest[0])] if order else text_of(float(lowest[0]))
        return Column(column.name, (only,), "text", "told", writing=column.writing)
    if column.kind == "date":
        parts = zip(column.categories or (), varies, strict=True)
        column = replace(column, categories=tuple(part for part, is_kept in parts if is_kept))
    return replace(column, gaps=("filled" if is_told else "told") if pattern else "none")
