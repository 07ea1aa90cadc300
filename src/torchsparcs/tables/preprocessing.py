"""The columns of X: text becomes 0 and 1, numbers are standardised. All of it is data."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.files.reading import Record, quoted
from torchsparcs.tables.columns import (
    Table,
    as_numbers,
    check_finite,
    check_names,
    check_repetition,
    count_bad,
    count_bad_columns,
    is_missing,
    text_of,
    weighted_rows,
)
from torchsparcs.tables.standardization import check_bounded, check_moments, moments, standardized
from torchsparcs.tables.target import Target

FARTHEST = 10.0  # from zero, after standardisation
DWARFED = 0.01  # of its scale: where nine tenths of a column lie closer together, they look alike
MOST_LOOKED_AT = 1000  # rows, for that


@dataclass(frozen=True)
class Column(Record):
    """One column of X.

    Attributes:
        name: as in the table.
        categories: None for numbers; the sorted texts of a column of text; () for a column that
            was constant, which is left out and never looked at again.
    """

    name: str
    categories: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        known = () if self.categories is None else self.categories
        if (
            not isinstance(known, tuple)
            or not all(isinstance(text, str) for text in (self.name, *known))
            or len(known) == 1
            or len(set(known)) < len(known)
        ):
            raise ValueError(
                "Expected a name, and None or several different texts as categories. "
                f"Got {self.name!r} and {self.categories!r}."
            )

    @property
    def encoded_categories(self) -> tuple[str, ...]:
        """The categories with a column of zeros and ones: of two, the second tells all."""
        known = self.categories or ()
        return known[1:] if len(known) == 2 else known

    @property
    def encoded_names(self) -> tuple[str, ...]:
        if self.categories is None:
            return (self.name,)
        return tuple(f"{self.name}={text}" for text in self.encoded_categories)


@dataclass(frozen=True)
class Inputs(Record):
    """How X becomes a tensor: each column encoded as numbers, then standardised.

    Numbers, integers and bools are numbers. Text, and what a DataFrame declares as categories, is
    one column of zeros and ones for each text (one for two texts). Text that says a finite number
    in every row is a column of numbers. Columns of zeros and ones are standardised like the
    others; constant columns are left out. No value lands farther than 10 from zero: a column that
    hardly ever varies, or a rare category, has a larger scale than its standard deviation.

    Shape:
        - X (rows, columns): array, tensor or DataFrame
        - mean, scale (encoded,), of the encoded columns
        - result of :meth:`encode` and :meth:`transform` (rows, encoded)

    Example:
        >>> X = np.array([[1, "Rome"], [3, "Oslo"], [5, "Rome"]], dtype=object)
        >>> inputs = Inputs.fit(X)
        >>> inputs.encoded_names
        ('x0', 'x1=Rome')
        >>> inputs.encode(X)
        array([[1., 1.],
               [3., 0.],
               [5., 1.]])
        >>> inputs.transform(X).mean(dim=0).abs() < 1e-6
        tensor([True, True])
        >>> Inputs.from_json(inputs.to_json()) == inputs
        True
    """

    columns: tuple[Column, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not all(
            isinstance(column, Column) for column in self.columns
        ):
            raise ValueError(f"Expected columns. Got {self.columns!r}.")
        check_moments(self.mean, self.scale, len(self.encoded_names))
        check_names(self.names)

    @classmethod
    def fit(cls, X: Any, sample_weight: Any = None) -> "Inputs":
        """Learn names, categories, mean and scale from ``X``.

        Rows of weight zero (``sample_weight`` (rows,)) are left out as if they were not there.
        """
        table, weight = weighted_rows(Table.of(X), sample_weight)
        columns = [
            Column(name, _categories(table, index)) for index, name in enumerate(table.names)
        ]
        encoded = _encoded(table, columns, list(range(len(columns))))
        mean, scale, is_constant = moments(encoded, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            farthest = np.maximum(encoded.max(axis=0) - mean, mean - encoded.min(axis=0))
            scale = np.maximum(scale, farthest / FARTHEST)
        if is_constant.all():
            raise ValueError("Expected a column of X that varies. Got constant columns only.")
        names = [name for column in columns for name in column.encoded_names]
        check_bounded("columns", names, mean, scale)
        _warn_of_outliers(encoded, names, scale)
        starts = np.cumsum([0, *(len(column.encoded_names) for column in columns)])
        columns = [
            Column(column.name, ()) if column.encoded_names and is_constant[start] else column
            for column, start in zip(columns, starts[:-1], strict=True)
        ]
        return cls(
            tuple(columns),
            tuple(mean[~is_constant].tolist()),
            tuple(scale[~is_constant].tolist()),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns of X, constant ones included."""
        return tuple(column.name for column in self.columns)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The names of the encoded columns: "age", "city=Rome"."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    def columns_read(self, reads: Sequence[int] | None = None) -> list[Column]:
        """The columns of X that the encoded ones at ``reads`` come from; by default at all."""
        owners = self._owners
        names = set(owners if reads is None else (owners[place] for place in reads))
        return [column for column in self.columns if column.name in names]

    def encode(self, X: Any, reads: Sequence[int] | None = None) -> np.ndarray:
        """Encode X as numbers, float64 (rows, encoded), which may share memory with X.

        With ``reads``, places among the encoded columns, only the columns of X that these come
        from are looked at; all others, which need not be there, count as their mean.

        Columns of a DataFrame are found by name, others than those of ``fit`` are ignored; those
        of an array are found by position. A category that ``fit`` did not see is all zeros, and a
        warning says so.
        """
        table = Table.of(X)
        used = self.columns_read(reads)
        encoded = _encoded(table, used, self._positions(table, used))
        if reads is None:
            return encoded
        names = {column.name for column in used}
        whole = np.tile(np.array(self.mean), (table.rows, 1))
        whole[:, [owner in names for owner in self._owners]] = encoded
        return whole

    def transform(self, X: Any, reads: Sequence[int] | None = None) -> Tensor:
        """Encode and standardise X: float32 (rows, encoded); see :meth:`encode`."""
        encoded = self.encode(X, reads)
        return torch.from_numpy(standardized(encoded, self.mean, self.scale, self.encoded_names))

    @property
    def _owners(self) -> list[str]:
        """The name of the column of X that each encoded column comes from."""
        return [column.name for column in self.columns for _ in column.encoded_names]

    def _positions(self, table: Table, used: list[Column]) -> list[int]:
        """Where in ``table`` the columns are."""
        if not table.is_named:
            if len(table.names) != len(self.columns):
                raise ValueError(
                    f"X has {len(table.names)} features, but Inputs is expecting "
                    f"{len(self.columns)} features as input."
                )
            place = {name: index for index, name in enumerate(self.names)}
        else:
            place = {name: index for index, name in enumerate(table.names)}
            missing = [column.name for column in used if column.name not in place]
            if missing:
                raise ValueError(
                    f"Expected the columns that were fitted. Missing: {quoted(missing)}. "
                    f"Got {quoted(table.names)}."
                )
        return [place[column.name] for column in used]


def _warn_of_outliers(encoded: np.ndarray, names: list[str], scale: np.ndarray) -> None:
    """Warn of columns in which a few values dwarf all the others."""
    some = np.sort(encoded[:: max(1, len(encoded) // MOST_LOOKED_AT)], axis=0)
    cut = len(some) // 20
    if not cut:
        return
    with np.errstate(over="ignore"):
        span = some[-1 - cut] - some[cut]
    places = np.flatnonzero((span > 0) & (span < DWARFED * scale))
    if dwarfed := [names[place] for place in places]:
        warnings.warn(
            f"A few values dwarf all others in {quoted(dwarfed)}: after standardisation the "
            "others look alike. Take logarithms or ranks, or leave out these rows.",
            UserWarning,
            stacklevel=4,
        )


def _categories(table: Table, index: int) -> tuple[str, ...] | None:
    """The categories of one column of ``table``, as :class:`Column` has them."""
    if table.is_numeric(index):
        return None
    entries = set(table.column(index).tolist())
    found = {text_of(value) for value in entries if not is_missing(value)}
    check_repetition(table.names[index], len(found), table.rows)
    return tuple(sorted(found)) if len(found) > 1 else ()


def _encoded(table: Table, columns: list[Column], positions: list[int]) -> np.ndarray:
    """Encode ``columns``, found at ``positions`` of ``table``, as float64 (rows, encoded)."""
    numeric = all(column.categories is None for column in columns)
    numbers = table.numbers(positions) if numeric else None
    if numbers is not None:
        check_finite(count_bad_columns([column.name for column in columns], numbers))
        return numbers
    encoded = np.zeros((table.rows, sum(len(column.encoded_names) for column in columns)))
    bad, unseen, start = [], [], 0
    for column, position in zip(columns, positions, strict=True):
        values, width = table.column(position), len(column.encoded_names)
        part = encoded[:, start : start + width]
        if column.categories is None:
            part[:, 0] = as_numbers(values, column.name, f"numbers in {column.name!r}, as in fit")
            bad += count_bad(column.name, part[:, 0])
        else:
            missing, strangers = _encode_text_(part, values, column)
            bad += [f"{missing} missing in {column.name!r}"] if missing else []
            unseen += strangers
        start += width
    check_finite(bad)
    if unseen:
        warnings.warn(
            f"Categories that were not seen in fit count as zeros: {'; '.join(unseen)}.",
            UserWarning,
            stacklevel=3,
        )
    return encoded


def _encode_text_(part: np.ndarray, values: np.ndarray, column: Column) -> tuple[int, list[str]]:
    """Write ones into ``part`` (rows, encoded categories) of zeros, and count what has no place.

    Returns how many rows are missing, and a line about those that ``fit`` did not see.
    """
    entries = values.tolist()
    text = {value: None if is_missing(value) else text_of(value) for value in set(entries)}
    place = dict.fromkeys(text.values(), -1) | {
        known: index for index, known in enumerate(column.encoded_categories)
    }
    codes = np.array([place[text[value]] for value in entries])
    rows = np.flatnonzero(codes >= 0)
    part[rows, codes[rows]] = 1
    counts = Counter(text[value] for value in entries)
    missing = counts.pop(None, 0)
    new = [known for known in counts if column.categories and known not in column.categories]
    if not new:
        return missing, []
    seen = sum(counts[known] for known in new)
    return missing, [f"{seen} rows of {column.name!r} with {quoted(new, 3)}"]


__all__ = ["Inputs", "Preprocessing", "Target"]


@dataclass(frozen=True)
class Preprocessing(Record):
    """The encoding and standardisation of X and y, learnt before the network is.

    >>> import json
    >>> X, y = [[1, 4], [2, 8], [3, 2]], [0.5, 1.5, 1.0]
    >>> preprocessing = Preprocessing(Inputs.fit(X), Target.fit(y))
    >>> text = json.dumps(preprocessing.to_json())
    >>> Preprocessing.from_json(json.loads(text)) == preprocessing
    True
    """

    inputs: Inputs
    target: Target

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, Inputs) or not isinstance(self.target, Target):
            raise ValueError(f"Expected Inputs and Target. Got {self.inputs!r}, {self.target!r}.")
