"""Rows of a table that are the same, as one with the sum of their weights."""

from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.tables.columns import has_text


def distinct_rows(
    table: Any, target: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """The place of one row of each kind, in an order of their own, and what each counts in all.

    Rows of a kind are equal in inputs and target; the order is that of a 64-bit hash of both. None
    stands for weights that are all the same.
    """
    parts = [pd.DataFrame(table), pd.DataFrame(target)]
    parts = [part.astype(str) if has_text(part) else part for part in parts]
    kinds = pd.util.hash_pandas_object(pd.concat(parts, axis=1), index=False).to_numpy()
    weight = np.ones(len(target)) if weight is None else weight
    rows = np.flatnonzero(weight)
    rows = rows[np.lexsort((weight[rows], kinds[rows]))]
    first = np.unique(kinds[rows], return_index=True)[1]
    counts = np.add.reduceat(weight[rows], first)
    return rows[first], None if (counts == counts[0]).all() else counts
