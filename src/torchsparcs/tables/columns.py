"""Tables as columns, whether they come as array, tensor or DataFrame."""

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from torchsparcs.files.hints import did_you_mean
from torchsparcs.files.reading import quoted
from torchsparcs.tables.entries import MISSING, NUMBERS, text_of
from torchsparcs.tables.standardization import weights_of

DATES = (datetime.date, np.datetime64)
SPANS = (datetime.timedelta, np.timedelta64)


@dataclass(frozen=True)
class Table:
    """Named columns.

    Attributes:
        names: of all the columns; those of an array are x0, x1, ...
        source: an array (rows, columns) or a DataFrame.
        is_named: whether the names are the table's own.
    """

    names: tuple[str, ...]
    source: Any
    is_named: bool

    @classmethod
    def of(cls, data: Any, prefix: str = "x") -> "Table":
        """``data`` as a table; ``prefix`` begins the names of columns that have none."""
        if hasattr(data, "to_pandas"):
            data = data.to_pandas()
        labels = list(data.columns) if hasattr(data, "iloc") and hasattr(data, "columns") else None
        if labels is None:
            data = array_of(data)
        if data.ndim != 2:
            raise ValueError(
                f"Expected data of shape (rows, columns). Got shape {data.shape}. Reshape your "
                "data with reshape(-1, 1) if it is one column, reshape(1, -1) if it is one row; "
                "images and series are for search(..., network=SpectralCNN(...))."
            )
        rows, columns = data.shape
        if columns == 0:
            raise ValueError(
                f"Expected at least one column. Got 0 feature(s) (shape=({rows}, 0)) while a "
                "minimum of 1 is required."
            )
        if rows == 0:
            raise ValueError("Expected at least one row. Got 0 samples.")
        if labels is None or labels == list(range(columns)):
            return cls(tuple(f"{prefix}{i}" for i in range(columns)), data, False)
        names = tuple(str(label) for label in labels)
        check_names(names)
        return cls(names, data, True)

    @property
    def rows(self) -> int:
        return len(self.source)

    @property
    def is_frame(self) -> bool:
        return not isinstance(self.source, np.ndarray)

    def where(self, kept: np.ndarray) -> "Table":
        """The rows for which ``kept`` (rows,) is true."""
        source = self.source.iloc[np.flatnonzero(kept)] if self.is_frame else self.source[kept]
        return replace(self, source=source)

    @cached_property
    def types(self) -> list[Any]:
        """The type of each column, of NumPy or of pandas; asked for one by one it takes long."""
        if self.is_frame:
            return self.source.dtypes.tolist()
        return [self.source.dtype] * len(self.names)

    def is_categorical(self, index: int) -> bool:
        """Whether a DataFrame declares the column as categories, be they numbers or not."""
        return str(self.types[index]) == "category"

    def is_numeric(self, index: int) -> bool:
        """Whether a column is of a type that holds numbers only."""
        return isinstance(self.types[index], np.dtype) and self.types[index].kind in NUMBERS

    def is_whole(self, index: int) -> bool:
        """Whether a column is of a type that holds whole numbers only."""
        return self.is_numeric(index) and self.types[index].kind in "iu"

    def is_span(self, index: int) -> bool:
        """Whether a column is of a type that holds lengths of time only."""
        return getattr(self.types[index], "kind", "") == "m"

    def is_fractional(self, index: int) -> bool:
        """Whether a column is of a type that holds fractions, and has any number."""
        return (
            self.is_numeric(index)
            and self.types[index].kind == "f"
            and not bool(np.isnan(self.column(index)).all())
        )

    def order(self, index: int) -> tuple[str, ...]:
        """The categories of a column whose DataFrame declares their order; else ()."""
        kind: Any = self.types[index]
        is_ordered = self.is_categorical(index) and kind.ordered
        return tuple(map(text_of, kind.categories)) if is_ordered else ()

    def numbers(self, positions: list[int]) -> np.ndarray | None:
        """Columns as float64 (rows, positions), or None where it takes a look at each of them."""
        if not all(self.is_numeric(position) for position in positions):
            return None
        whole = positions == list(range(len(self.names)))
        if self.is_frame:
            chosen = self.source if whole else self.source.iloc[:, positions]
            return chosen.to_numpy(dtype=np.float64)
        values = self.source if whole else np.take(self.source, positions, axis=1)
        return values.astype(np.float64, copy=False)

    def column(self, index: int) -> np.ndarray:
        """One column (rows,): numbers, datetime64, or objects: text, numbers, dates, None, NaN.

        Lengths of time are numbers of days.
        """
        name = self.names[index]
        values = _local(self.source.iloc[:, index]) if self.is_frame else self.source[:, index]
        if values.dtype.kind in (*NUMBERS, "M"):
            return values
        if values.dtype.kind == "m":
            return values / np.timedelta64(1, "D")
        if values.dtype.kind == "U":
            return without_blanks(values.astype(object))
        types = set(map(type, values.tolist())) if values.dtype.kind == "O" else {values.dtype.type}
        for kind in sorted(types, key=lambda kind: kind.__name__):
            _check_kind(kind, name)
        if datetime.time in types:
            values = np.array([_clocked(value) for value in values.tolist()], dtype=object)
        return without_blanks(values) if str in types else values


def _clocked(value: Any) -> Any:
    """A time of the day as text; all else as it is."""
    return value.strftime("%H:%M:%S") if isinstance(value, datetime.time) else value


def without_blanks(values: np.ndarray) -> np.ndarray:
    """``values`` of objects, with None for text that is empty or blank.

    >>> without_blanks(np.array(["a", " ", ""], dtype=object))
    array(['a', None, None], dtype=object)
    """
    is_blank = np.array([isinstance(each, str) and not each.strip() for each in values.tolist()])
    if is_blank.any():
        values = values.copy()
        values[is_blank] = None
    return values


def _local(series: Any) -> np.ndarray:
    """The values of a Series; of times with a zone, those that the clock shows there."""
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_localize(None)
    return series.to_numpy()


def rows_of(data: Any, kept: np.ndarray) -> Any:
    """The rows of a DataFrame, Series, array, tensor or list for which ``kept`` (rows,) is true."""
    if hasattr(data, "to_pandas"):
        data = data.to_pandas()
    return data.iloc[np.flatnonzero(kept)] if hasattr(data, "iloc") else array_of(data)[kept]


def array_of(data: Any) -> np.ndarray:
    """An array, tensor or nested list, as an array."""
    if hasattr(data, "tocsr") or (isinstance(data, Tensor) and data.layout != torch.strided):
        raise TypeError("Expected dense data. Got a sparse matrix: make it dense with toarray().")
    if isinstance(data, Tensor):
        data = data.detach().cpu()
        return (data.double() if data.dtype == torch.bfloat16 else data).numpy()
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.filled(data.astype(np.float64), np.nan)
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ValueError(
            f"Expected data of shape (rows, columns). Got a {type(data).__name__} whose rows "
            "differ in length."
        ) from error


def _check_kind(kind: type, name: str) -> None:
    if kind.__name__ in MISSING:
        return
    if issubclass(kind, SPANS):
        raise ValueError(
            f"Expected numbers, text or dates. Got lengths of time among others in {name!r}: turn "
            "them into numbers, or drop the column."
        )
    if issubclass(kind, (complex, np.complexfloating)):
        raise ValueError(
            f"Expected real numbers. Complex data not supported: got {kind.__name__} in {name!r}; "
            "use the real and the imaginary part as two columns."
        )
    if not issubclass(kind, (str, Number, np.bool_, datetime.time, *DATES)):
        raise TypeError(
            f"Expected numbers, text or dates in {name!r}: each argument must be a string or a "
            f"number. Got {kind.__name__}; turn it into numbers or drop the column."
        )


def has_text(X: Any) -> bool:
    """Whether a DataFrame has columns that are neither numbers nor truth values."""
    return isinstance(X, pd.DataFrame) and not all(
        pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes
    )


def check_names(names: Sequence[str]) -> None:
    """Raise a ValueError for columns of the same name."""
    several = [name for name, count in Counter(names).items() if count > 1]
    if several:
        raise ValueError(
            f"Expected columns with different names. Got more than one {quoted(several)}."
        )


def check_known(what: str, names: Sequence[str], columns: Sequence[str]) -> None:
    """A ValueError for ``names`` that are not among ``columns``, with the closest one that is."""
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise ValueError(
                f"Expected {what} among the columns {quoted(columns)}. Got {name!r}.{hint}"
            )


def weighted_rows(table: Table, sample_weight: Any) -> tuple[Table, np.ndarray | None]:
    """The rows of a weight above zero, at least two, and their weights (rows,)."""
    weight = weights_of(sample_weight, table.rows)
    if weight is not None and not weight.all():
        table, weight = table.where(weight > 0), weight[weight > 0]
    if table.rows < 2:
        raise ValueError("Expected at least two rows. Got 1 sample.")
    return table, weight
