"""Tables as columns of numbers or text, whether they come as array, tensor or DataFrame."""

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.files.reading import quoted
from torchsparcs.tables.standardization import weights_of

NUMBERS = "buif"  # kinds of NumPy types: bool, unsigned, integer, floating
DATES = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)
MISSING = ("NoneType", "NAType", "NaTType")


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
        """Whether a column is numbers, or text that says one in every row, and not categories."""
        if isinstance(self.types[index], np.dtype) and self.types[index].kind in NUMBERS:
            return True
        return not self.is_categorical(index) and numbers_in(self.column(index)) is not None

    def numbers(self, positions: list[int]) -> np.ndarray | None:
        """Columns as float64 (rows, positions), or None where it takes a look at each of them."""
        types = {self.types[position] for position in positions}
        if not all(isinstance(kind, np.dtype) and kind.kind in NUMBERS for kind in types):
            return None
        whole = positions == list(range(len(self.names)))
        if self.is_frame:
            chosen = self.source if whole else self.source.iloc[:, positions]
            return chosen.to_numpy(dtype=np.float64)
        values = self.source if whole else np.take(self.source, positions, axis=1)
        return values.astype(np.float64, copy=False)

    def column(self, index: int) -> np.ndarray:
        """One column (rows,): numbers, or objects among which are text, numbers, missing values."""
        name = self.names[index]
        values = self.source.iloc[:, index].to_numpy() if self.is_frame else self.source[:, index]
        if values.dtype.kind in NUMBERS:
            return values
        if values.dtype.kind == "U":
            return values.astype(object)
        types = set(map(type, values.tolist())) if values.dtype.kind == "O" else {values.dtype.type}
        for kind in sorted(types, key=lambda kind: kind.__name__):
            _check_kind(kind, name)
        return values


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
    if issubclass(kind, DATES):
        raise ValueError(
            f"Expected numbers or text. Got dates or times in {name!r}: turn them into numbers, "
            "such as the days since a first one, or drop the column."
        )
    if issubclass(kind, (complex, np.complexfloating)):
        raise ValueError(
            f"Expected real numbers. Complex data not supported: got {kind.__name__} in {name!r}; "
            "use the real and the imaginary part as two columns."
        )
    if not issubclass(kind, (str, Number, np.bool_)):
        raise TypeError(
            f"Expected numbers or text in {name!r}: each argument must be a string or a number. "
            f"Got {kind.__name__}; turn it into numbers or drop the column."
        )


def check_names(names: Sequence[str]) -> None:
    """Raise a ValueError for columns of the same name."""
    several = [name for name, count in Counter(names).items() if count > 1]
    if several:
        raise ValueError(
            f"Expected columns with different names. Got more than one {quoted(several)}."
        )


def is_missing(value: Any) -> bool:
    """Whether ``value`` is None, NaN or what pandas has in their place."""
    return type(value).__name__ in MISSING or (
        isinstance(value, (float, np.floating)) and bool(np.isnan(value))
    )


def text_of(value: Any) -> str:
    """The text of a category: 3, 3.0 and "3" are the same one."""
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def numbers_in(values: np.ndarray) -> np.ndarray | None:
    """The column as float64 with NaN for what is missing, or None where some text is no number.

    Text is a number where it says a finite one: "1e3" and " 7 ", but neither "inf" nor "1_000".
    """
    if values.dtype.kind in NUMBERS:
        return values.astype(np.float64, copy=False)
    entries = values.tolist()
    known = {value: number(value) for value in set(entries)}
    if None in known.values():
        return None
    return np.array([known[value] for value in entries], dtype=np.float64)


def number(value: Any) -> float | None:
    """``value`` as a float, NaN where it is missing, None where it is text that is no number."""
    if is_missing(value):
        return math.nan
    try:
        parsed = float(value)
    except OverflowError:  # an integer with hundreds of digits
        return math.inf if value > 0 else -math.inf
    except ValueError:
        return None
    if not isinstance(value, str):
        return parsed
    return parsed if math.isfinite(parsed) and "_" not in value else None


def as_numbers(values: np.ndarray, name: str, expected: str) -> np.ndarray:
    """The column as float64; a ValueError that quotes a text where one is no number."""
    numbers = numbers_in(values)
    if numbers is None:
        example = next(value for value in values.tolist() if number(value) is None)
        raise ValueError(f"Expected {expected}. Got text in {name!r}, for instance {example!r}.")
    return numbers


def weighted_rows(table: Table, sample_weight: Any) -> tuple[Table, np.ndarray | None]:
    """The rows of a weight above zero, at least two, and their weights (rows,)."""
    weight = weights_of(sample_weight, table.rows)
    if weight is not None and not weight.all():
        table, weight = table.where(weight > 0), weight[weight > 0]
    if table.rows < 2:
        raise ValueError("Expected at least two rows. Got 1 sample.")
    return table, weight


def count_bad_columns(names: Sequence[str], numbers: np.ndarray) -> list[str]:
    """Count what is not finite in ``numbers`` (rows, columns), as :func:`count_bad` does."""
    doubtful = np.flatnonzero(~np.isfinite(numbers).all(axis=0)).tolist()
    return [text for place in doubtful for text in count_bad(names[place], numbers[:, place])]


def count_bad(name: str, values: np.ndarray) -> list[str]:
    """Count what is not finite in ``values`` (rows,), in words: "3 NaN in 'age'"."""
    counts = {"NaN": int(np.isnan(values).sum()), "infinite": int(np.isinf(values).sum())}
    return [f"{count} {what} in {name!r}" for what, count in counts.items() if count]


def check_finite(bad: list[str]) -> None:
    """Raise a ValueError that lists what :func:`count_bad` counted in all columns, if anything."""
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise ValueError(
            f"Expected finite values. Got {', '.join(bad[:5])}{more}. Fill them in, or leave out "
            "these rows or columns."
        )


def check_repetition(name: str, distinct: int, rows: int, advice: str = "drop it") -> None:
    """Raise a ValueError for categories that hardly repeat: nothing can be learnt from them."""
    if distinct > 1000 or (rows >= 50 and distinct > rows / 2):
        raise ValueError(
            f"Expected categories that repeat. Got {distinct} different values in {rows} rows of "
            f"{name!r}: it looks like an identifier or free text; {advice}."
        )
