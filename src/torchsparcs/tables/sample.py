"""A uniform sample of rows that do not fit into memory, with the statistics of all of them.

Both come from one pass. A search takes at most 5,000 steps of 128 rows, 640,000 in all, and
would see few of the rows that a sample leaves out.
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from torchsparcs.tables.columns import rows_of
from torchsparcs.tables.kinds import Kinds, tell_strays
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.statistics import InputStatistics, MixedColumns, TargetStatistics
from torchsparcs.tables.target_values import warn_of_missing_targets, with_targets

MOST_ROWS, MOST_CELLS = 2**20, 50_000_000  # of a sample
LEAST_ROWS = 10_000  # of a sample, however wide
SLACK = 1.25  # times the sample are held before the surplus is dropped


class StreamSample(NamedTuple):
    """A sample of the rows of a stream.

    Attributes:
        preprocessing: learnt from all rows of the stream.
        X, y: a uniform sample of them without replacement, in their order; all of them where they
            are few enough.
        rows: how many rows the stream has.
    """

    preprocessing: Preprocessing
    X: Any
    y: Any
    rows: int


def most_rows(columns: int) -> int:
    """How many rows of ``columns`` cells a sample has."""
    return max(LEAST_ROWS, min(MOST_ROWS, MOST_CELLS // max(1, columns)))


def sampled(
    chunks: Iterable[tuple[Any, Any]],
    text: Collection[str],
    task: str,
    seed: int,
    kinds: Kinds | None = None,
) -> StreamSample:
    """Go once through ``chunks`` (X, y), whose columns ``text`` are text, others of ``kinds``."""
    inputs, target = InputStatistics(text, kinds), TargetStatistics(task, text)
    sample, rows, missing = RowSample(seed), 0, 0
    for X, y in chunks:
        try:
            X, y, without = with_targets(X, y)
            missing += without
            if not len(y):
                continue
            inputs.add(X)
            target.add(y)
        except MixedColumns:
            raise
        except (ValueError, TypeError) as error:
            place = f"in rows {rows + 1:,} to {rows + len(X):,} of the stream"
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} (This is {place}.)") from error
        sample.add(X, y, most_rows(len(inputs.names)))
        rows += len(X)
    warn_of_missing_targets(missing, rows + missing)
    preprocessing = Preprocessing(inputs.fitted(), target.fitted())
    sample.cut(most_rows(len(preprocessing.inputs.encoded_names)))
    X, y = sample.rows()
    if len(X) == rows:  # as good as a table in memory, to the last bit
        preprocessing = Preprocessing(Inputs.fit(X, kinds=kinds), Target.fit(y, task))
    else:
        tell_strays({c: inputs.strays[c.name] for c in inputs.columns})
        preprocessing.inputs.told()
    return StreamSample(preprocessing, X, y, rows)


class RowSample:
    """The rows with the smallest of random keys, one for each row: uniform, without replacement.

    Which rows they are does not depend on the chunks in which they come.
    """

    def __init__(self, seed: int):
        self.generator = np.random.default_rng(seed)
        self.pieces: list[tuple[np.ndarray, Any, Any]] = []  # keys (rows,), X and y
        self.limit = np.inf  # keys that are not below it are out

    def add(self, X: Any, y: Any, most: int) -> None:
        """Draw from another chunk, of which at most ``most`` rows will be wanted."""
        keys = self.generator.random(len(X))
        self.pieces.append(_below(self.limit, keys, X, y))
        if sum(len(keys) for keys, _, _ in self.pieces) > SLACK * most:
            self.cut(most)

    def cut(self, most: int) -> None:
        """Keep no more than ``most`` rows."""
        keys = np.concatenate([keys for keys, _, _ in self.pieces])
        if len(keys) > most:
            self.limit = np.partition(keys, most)[most]
            for place, piece in enumerate(self.pieces):  # one by one, so that none is held twice
                self.pieces[place] = _below(self.limit, *piece)

    def rows(self) -> tuple[Any, Any]:
        """X and y of the sample, in the order in which they came."""
        _, X, y = zip(*(piece for piece in self.pieces if len(piece[0])), strict=True)
        return _joined(X), _joined(y)


def _below(limit: float, keys: np.ndarray, X: Any, y: Any) -> tuple[np.ndarray, Any, Any]:
    """Keep the rows whose keys are below ``limit``."""
    kept = keys < limit
    return keys[kept], rows_of(X, kept), rows_of(y, kept)


def _joined(parts: tuple[Any, ...]) -> Any:
    """Concatenate arrays, DataFrames or Series."""
    if not hasattr(parts[0], "iloc"):
        return np.concatenate(parts)
    if parts[0].ndim == 1:
        return _joined(tuple(part.to_frame() for part in parts)).iloc[:, 0]
    # categories that differ from part to part would cease to be categories
    types = {
        name: pd.api.types.union_categoricals([part[name] for part in parts]).dtype
        for name in parts[0].columns
        if _are_declared_alike([part[name].dtype for part in parts])
    }
    # astype copies, and how rows lie in memory decides how their sums are rounded
    return pd.concat([part.astype(types) if types else part for part in parts], ignore_index=True)


def _are_declared_alike(types: list[Any]) -> bool:
    """Whether all are categories of one type, either all in the same order or all without one."""
    if not all(str(each) == "category" for each in types):
        return False
    orders = {tuple(each.categories) if each.ordered else () for each in types}
    return len(orders) == 1 and len({each.categories.dtype for each in types}) == 1
