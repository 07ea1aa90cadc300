"""The rows that judge by a column of the table: whole groups, or later rows."""

from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.judging.folds import FOLDS, LaterRows
from torchsparcs.tables.columns import check_known
from torchsparcs.tables.dates import date_orders, dates_in, ordered_dates


def split_by(
    X: pd.DataFrame, group: str | None, time: str | None, validation: Any
) -> tuple[Any, np.ndarray]:
    """What ``search`` takes as validation and groups, by the column ``group`` or ``time`` of X."""
    if group is not None and time is not None:
        raise ValueError("Expected --group or --time. Got both.")
    name = f"{time if group is None else group}"
    check_known("a column to split by", [name], X.columns)
    folds = FOLDS if validation == "auto" else validation
    if not isinstance(folds, int) or folds < 2:
        raise ValueError(
            f"Expected a number of folds where a column splits the rows. Got {validation!r}."
        )
    values = X[name]
    if missing := int(values.isna().sum()):
        raise ValueError(f"Expected a value in every row of {name!r}. {missing:,} are missing.")
    if time is not None:
        return LaterRows(folds), _times(values.to_numpy(), time)
    from sklearn.model_selection import GroupKFold

    codes, groups = pd.factorize(values)
    if len(groups) < folds:
        raise ValueError(f"Expected at least {folds} groups in {name!r}. Got {len(groups)}.")
    return GroupKFold(folds), codes


def _times(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers in the order of time, (rows,)."""
    if values.dtype.kind in "iuf":
        return values
    dates = dates_in(values)
    if dates is None and len(orders := date_orders(values)) == 1:
        dates = ordered_dates(values, orders[0])
    if dates is None:
        raise ValueError(f"Expected dates or numbers to tell later rows by. {name!r} has others.")
    return dates.to_numpy().astype("datetime64[ns]").astype(np.int64)
