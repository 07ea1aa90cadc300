"""The values of a target: found, checked, and rows without one left out."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.tables.columns import DATES, Table, array_of, rows_of, without_blanks
from torchsparcs.tables.entries import (
    NUMBERS,
    as_numbers,
    check_finite,
    count_bad,
    entries_of,
    is_missing,
    number,
    numbers_in,
)
from torchsparcs.tables.writing import Writing


def target_table(y: Any) -> Table:
    """``y`` (rows,) or (rows, outputs) as a table whose columns are y, or y0, y1, ..."""
    if hasattr(y, "to_frame"):
        y = y.to_frame()
    elif not hasattr(y, "columns"):
        y = array_of(y)
        y = y[:, None] if y.ndim == 1 else y
    return Table.of(y, prefix="y")


def has_target(y: Any) -> np.ndarray:
    """Whether each row of ``y`` (rows, ...) has all its targets: bool (rows,)."""
    y = y.to_pandas() if hasattr(y, "to_pandas") else y
    values = np.asarray(y if hasattr(y, "iloc") else array_of(y))
    if values.dtype.kind in "OU":
        values = without_blanks(values.astype(object).ravel()).reshape(values.shape)
    missing = np.asarray(pd.isna(values))
    return np.asarray(~missing.any(axis=tuple(range(1, missing.ndim))))


def with_targets(X: Any, y: Any) -> tuple[Any, Any, int]:
    """The rows of X and y that have all their targets, and how many have not."""
    counts = has_target(y)
    if counts.all():
        return X, y, 0
    return rows_of(X, counts), rows_of(y, counts), len(counts) - int(counts.sum())


def warn_of_missing_targets(missing: int, rows: int) -> None:
    """Warn that some of ``rows`` rows are left out; a ValueError where all of them are."""
    if missing and missing == rows:
        raise ValueError(f"Expected rows with a target. Got {rows} in which it is missing.")
    if missing:
        warnings.warn(
            f"The target is missing in {missing:,} of {rows:,} rows: they are left out.",
            UserWarning,
            stacklevel=4,
        )


def target_columns(table: Table) -> list[tuple[str, np.ndarray]]:
    """The names and values of the outputs; a ValueError where some are missing."""
    names = ("y",) if table.names == ("y0",) and not table.is_named else table.names
    columns = [(name, table.column(index)) for index, name in enumerate(names)]
    bad = []
    for name, values in columns:
        if any(isinstance(value, DATES) for value in entries_of(values[:1])):
            raise ValueError(
                f"Expected numbers or text to predict. Got dates in {name!r}: turn them into "
                "numbers, such as the days since a first one."
            )
        if values.dtype.kind == "O":
            missing = sum(map(is_missing, values.tolist()))
            bad += [f"{missing} missing in {name!r}"] if missing else []
        else:
            bad += count_bad(name, values)
    check_finite(bad)
    return columns


def target_writing(values: np.ndarray) -> Writing | None:
    """How the numbers of a target are written that is text; None for plain ones and other text."""
    is_plain = values.dtype.kind in NUMBERS or numbers_in(values) is not None
    return None if is_plain else Writing.of(dict.fromkeys(values.tolist()))


def target_numbers(
    columns: Sequence[tuple[str, np.ndarray]], writings: Sequence[Writing | None] = ()
) -> np.ndarray:
    """The values of a regression's targets, (rows, outputs), all of them finite."""
    found = []
    for (name, values), writing in zip(columns, writings or [None] * len(columns), strict=True):
        parse = number if writing is None else writing.number
        found.append(as_numbers(values, name, "a numeric target for regression", parse))
        check_finite(count_bad(name, found[-1]))
    return np.column_stack(found)
