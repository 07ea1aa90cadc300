"""Made rows: more rows like those of a table, each between a row and one of its neighbours.

Nothing in them lies outside of what was seen: a number that is seldom the same twice is somewhere
between those of two rows, anything else is that of one of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from torchsparcs.tables.columns import Table

LOOKED_AT, NEAREST = 200, 5  # rows of a kind among which neighbours are looked for
AT_ONCE = 500  # rows
SWAPPED = 0.1  # of the columns, in which a row has the neighbour's entry
OFTEN = 10  # rows that have a number, on average, if it stands for a kind and not for an amount


class MadeRows(NamedTuple):
    """Rows as those of a table, and the two that each comes from, (made,) each."""

    X: Any
    base: np.ndarray
    partner: np.ndarray


def made_rows(X: Any, standard: np.ndarray, kinds: np.ndarray, count: int, seed: int) -> MadeRows:
    """``count`` rows like those of ``X``.

    Args:
        standard: (rows, I), the same rows as numbers that can be compared.
        kinds: (rows,), whole numbers; neighbours are of the same kind: a class, a part of a range.

    >>> X = np.array([[0.0, 1], [1.0, 2], [5.0, 3]])
    >>> made = made_rows(X, X, np.zeros(3, int), 10, 0).X
    >>> made.shape, bool((made[:, 0] <= 5).all()), set(made[:, 1]) <= {1.0, 2.0, 3.0}
    ((10, 2), True, True)
    """
    pairs = _Pairs(standard, kinds, count, seed)
    table = Table.of(X)
    columns: list[Any] = []
    for index in range(len(table.names)):
        share = pairs.shares()
        if table.is_numeric(index) and _is_amount(values := table.column(index)):
            columns.append(pairs.between(values, share))
        else:
            columns.append(_entries(table, index, pairs.either(share)))
    return MadeRows(_table(table, columns), pairs.base, pairs.partner)


def made_inputs(
    inputs: np.ndarray, columns: Sequence[int], kinds: np.ndarray, count: int, seed: int
) -> MadeRows:
    """The same for rows that are standardised numbers already, (rows, I).

    ``columns``, in rising order, are those of the table that each number comes from: what comes
    from one, as the ones and zeros of a text do, comes from one row.
    """
    pairs, made = _Pairs(inputs, kinds, count, seed), np.empty((count, inputs.shape[1]))
    for column in dict.fromkeys(columns):
        places = [place for place, of in enumerate(columns) if of == column]
        share = pairs.shares()
        if len(places) == 1 and _is_amount(inputs[:, places[0]]):
            made[:, places[0]] = pairs.between(inputs[:, places[0]], share)
        else:
            made[:, places] = inputs[pairs.either(share)][:, places]
    return MadeRows(made.astype(inputs.dtype), pairs.base, pairs.partner)


class _Pairs:
    """For each row to be made the two that it comes from, and how near it is to the second."""

    def __init__(self, standard: np.ndarray, kinds: np.ndarray, count: int, seed: int):
        self.draw = draw = np.random.default_rng(seed % 2**63)
        self.base = draw.integers(0, len(standard), count)
        parts = np.array_split(self.base, max(1, count // AT_ONCE))
        self.partner = np.concatenate([_neighbours(standard, kinds, some, draw) for some in parts])
        self.nearness = draw.random(count)

    def shares(self) -> np.ndarray:
        """How much of a column's entry is the partner's, (made,): of some all of it."""
        return np.where(self.draw.random(len(self.base)) < SWAPPED, 1.0, self.nearness)

    def either(self, share: np.ndarray) -> np.ndarray:
        """The row whose entry is taken, (made,): with probability ``share`` the partner."""
        return np.where(self.draw.random(len(self.base)) < share, self.partner, self.base)

    def between(self, values: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Numbers between those of both."""
        own = values[self.base].astype(np.float64)
        mixed = own + share * (values[self.partner].astype(np.float64) - own)
        return np.where(np.isnan(mixed), own, mixed).astype(values.dtype)


def _neighbours(
    standard: np.ndarray, kinds: np.ndarray, base: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """For each of ``base`` one of the nearest rows of its kind among some that are drawn."""
    partner = base.copy()
    for kind in np.unique(kinds[base]):
        mine, others = np.flatnonzero(kinds[base] == kind), np.flatnonzero(kinds == kind)
        if len(others) < 2:
            continue
        others = draw.permutation(others)[:LOOKED_AT]
        one, other = standard[base[mine]], standard[others]
        distance = (other**2).sum(axis=1) - 2 * one @ other.T  # less what is the same for all
        distance[base[mine, None] == others] = np.inf
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :NEAREST]
        chosen = draw.integers(0, min(NEAREST, len(others) - 1), len(mine))
        partner[mine] = others[nearest[np.arange(len(mine)), chosen]]
    return partner


def _is_amount(values: np.ndarray) -> bool:
    """Whether there are numbers between these: not all are whole, and few are the same."""
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    is_whole = bool((present == np.round(present)).all())
    return not is_whole and len(np.unique(present)) * OFTEN > len(present)


def _entries(table: Table, index: int, rows: np.ndarray) -> Any:
    """The entries of a column in those ``rows``, of the type they have."""
    if table.is_frame:
        return table.source.iloc[rows, index].reset_index(drop=True)
    return table.source[rows, index]


def _table(table: Table, columns: list[Any]) -> Any:
    """Columns as one table of the kind of ``table``."""
    if not table.is_frame:
        return np.stack(columns, axis=1)
    import pandas as pd

    return pd.DataFrame(dict(zip(table.source.columns, columns, strict=True)))
