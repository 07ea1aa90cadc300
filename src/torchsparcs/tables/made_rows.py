"""Made rows: more rows like those of a table, each between a row and one of its neighbours.

Nothing in them lies outside of what was seen: a fraction is somewhere between those of two rows,
anything else is that of one of them.
"""

from typing import Any, NamedTuple

import numpy as np

from torchsparcs.tables.columns import Table

LOOKED_AT, NEAREST = 200, 5  # rows of a kind among which neighbours are looked for
AT_ONCE = 500  # rows
SWAPPED = 0.1  # of the columns, in which a row has the neighbour's entry


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
    draw = np.random.default_rng(seed % 2**63)
    base = draw.integers(0, len(standard), count)
    partner = np.concatenate(
        [
            _neighbours(standard, kinds, some, draw)
            for some in np.array_split(base, max(1, count // AT_ONCE))
        ]
    )
    between = draw.random(count)
    table = Table.of(X)
    columns: list[Any] = []
    for index in range(len(table.names)):
        share = np.where(draw.random(count) < SWAPPED, 1.0, between)
        whose = np.where(draw.random(count) < share, partner, base)
        if not table.is_numeric(index) or _is_whole(values := table.column(index)):
            columns.append(_entries(table, index, whose))
            continue
        own = values[base].astype(np.float64)
        mixed = own + share * (values[partner].astype(np.float64) - own)
        columns.append(np.where(np.isnan(mixed), own, mixed).astype(values.dtype))
    return MadeRows(_table(table, columns), base, partner)


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


def _is_whole(values: np.ndarray) -> bool:
    """Whether numbers are whole ones, all of them."""
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return bool((present == np.round(present)).all())


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
