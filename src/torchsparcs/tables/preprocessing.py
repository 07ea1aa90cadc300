"""The columns of X: encoded as numbers and standardised. All of it is data."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.files.hints import closest
from torchsparcs.files.reading import Record, quoted
from torchsparcs.tables.columns import Table, check_names, weighted_rows
from torchsparcs.tables.encoded import Surprises, encoded_columns, warn_of_outliers
from torchsparcs.tables.encoding import Column
from torchsparcs.tables.fitting import identifiers, missing_patterns, settled
from torchsparcs.tables.kinds import Kinds, check_kinds, chosen
from torchsparcs.tables.recognition import (
    count_texts,
    is_named_identifier,
    recognised,
    text_column,
)
from torchsparcs.tables.standardization import MergedMoments, check_moments, standardized
from torchsparcs.tables.target import Target
from torchsparcs.tables.writing import tell_guesses

FEW = 3  # columns that are missing and may have another name


@dataclass(frozen=True)
class Inputs(Record):
    """How X becomes a tensor: each column encoded as numbers, then standardised.

    Numbers, integers and bools are numbers, and so is text that says one in every row, with
    thousands apart, a decimal comma or a unit if all have it. Dates become the parts of a calendar,
    ordered categories their place in the order. Other text, and what a DataFrame declares as
    categories, is one column of zeros and ones for each text (one for two texts); of more than 30
    texts the most frequent have one, and all others one together. Constant columns are left out,
    and identifiers with a warning.

    A missing number counts as the mean, and where some were missing in :meth:`fit` an input
    "age is missing" tells so; a missing text is a category of its own. All columns are
    standardised. No value lands farther than 10 from zero, of two values none farther than 4: a
    column that hardly ever varies, or a rare category, has a larger scale than its standard
    deviation.

    Shape:
        - X (rows, columns): array, tensor or DataFrame
        - result of :meth:`encode` (rows, supplied), with NaN for what counts as the mean
        - mean, scale (encoded,), of the supplied columns and what tells that they are missing
        - result of :meth:`transform` (rows, encoded)

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
    def fit(cls, X: Any, sample_weight: Any = None, kinds: Kinds | None = None) -> "Inputs":
        """Learn names, kinds, categories, mean and scale from ``X``.

        Rows of weight zero (``sample_weight`` (rows,)) are left out as if they were not there.
        ``kinds`` of columns, by their names, are taken for granted: see
        :func:`torchsparcs.search`.
        """
        table, weight = weighted_rows(Table.of(X), sample_weight)
        check_kinds(kinds or {}, table.names)
        columns = [_learnt(table, index, kinds or {}) for index in range(len(table.names))]
        values = encoded_columns(table, columns, list(range(len(columns))), is_new=True)
        merged = MergedMoments.of(values, weight)
        total = float(table.rows) if weight is None else float(weight.sum())
        names = [name for column in columns for name in column.supplied_names]
        warn_of_outliers(values, names, merged.bounded_scale())
        left_out = identifiers(columns, merged, table.rows, _distinct(table))
        patterns = missing_patterns(values, 0)
        return cls(*settled(columns, merged, patterns, total, left_out)).told()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns of X, those that are left out included."""
        return tuple(column.name for column in self.columns)

    @property
    def text_names(self) -> tuple[str, ...]:
        """The columns that a file has to be read with as text, whatever they look like.

        They are numbers like "1.250,50 €", and codes like "007" that somebody chose to be text.
        """
        return tuple(
            column.name
            for column in self.columns
            if column.writing is not None or (column.is_chosen and column.kind == "text")
        )

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The names of the network's inputs: "age", "age is missing", "city=Rome"."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    @property
    def supplied_names(self) -> tuple[str, ...]:
        """The names of what :meth:`encode` gives: of these, without what they themselves tell."""
        return tuple(name for column in self.columns for name in column.supplied_names)

    @cached_property
    def indicators(self) -> dict[int, int]:
        """Inputs of the network that tell of missing numbers, each with its supplied column."""
        found, encoded, supplied = {}, 0, 0
        for column in self.columns:
            encoded += len(column.encoded_names)
            if column.has_indicator:
                found[encoded - 1] = supplied
            supplied += len(column.supplied_names)
        return found

    def told(self) -> "Inputs":
        """Itself, after warnings of columns that are left out, and of thousands by a guess."""
        tell_guesses((column.name, column.writing) for column in self.columns)
        left = [
            f"{column.name!r} ({column.reason or 'an identifier'})"
            for column in self.columns
            if column.kind == "identifier"
        ]
        if left:
            more = f" and {len(left) - 5} more" * (len(left) > 5)
            warnings.warn(
                f"Left out, as nothing can be learnt from them: {', '.join(left[:5])}{more}.",
                UserWarning,
                stacklevel=4,
            )
        return self

    def columns_read(self, reads: Sequence[int] | None = None) -> list[Column]:
        """The columns of X that the encoded ones at ``reads`` come from; by default at all."""
        owners = [column.name for column in self.columns for _ in column.encoded_names]
        names = set(owners if reads is None else (owners[place] for place in reads))
        return [column for column in self.columns if column.name in names]

    def encode(self, X: Any, reads: Sequence[int] | None = None) -> np.ndarray:
        """Encode X as numbers, float64 (rows, supplied), which may share memory with X.

        With ``reads``, places among the encoded columns, only the columns of X that these come
        from are looked at; all others, which need not be there, are NaN.

        Columns of a DataFrame are found by name, others than those of ``fit`` are ignored; those
        of an array are found by position. A category that ``fit`` did not see is one of the rest,
        or all zeros where there is none, and so is missing text where none was missing in ``fit``;
        what is neither of two texts is NaN; one that has no place in an order is missing. A warning
        says so.
        """
        if reads is None:
            return self._encoded(X, [*self.columns])
        used = self.columns_read(reads)
        values = self._encoded(X, used)
        names = {column.name for column in used}
        is_there = [c.name in names for c in self.columns for _ in c.supplied_names]
        everything = np.full((len(values), len(is_there)), np.nan)
        everything[:, is_there] = values
        return everything

    def transform(
        self, X: Any, reads: Sequence[int] | None = None, surprises: Surprises | None = None
    ) -> Tensor:
        """Encode and standardise X: float32 (rows, encoded); see :meth:`encode`.

        With ``reads``, places among the encoded columns, only the columns of X that these come
        from are looked at; all others, which need not be there, count as their mean. Where X is a
        part of the rows, what surprises in it is added to ``surprises`` of all, not told.
        """
        used, first = self.columns_read(reads), surprises.rows if surprises else 0
        values = self._encoded(X, used, surprises)
        names = {column.name for column in used}
        supplied = [name for column in used for name in column.supplied_names]
        told: dict[int, int] = {}  # by their places, the column of ``values``
        numbers: list[int] = []
        place = 0
        for column in self.columns:
            own = range(place, place + len(column.encoded_names))
            if column.name in names:
                if column.has_indicator:
                    told[own[-1]] = len(numbers)
                numbers += own[: len(column.supplied_names)]
            place = own.stop
        mean, scale = np.array(self.mean), np.array(self.scale)
        try:
            standard = standardized(values, mean[numbers], scale[numbers], supplied, first)
        except ValueError as error:
            if surprises is None:
                raise
            surprises.far = surprises.far or str(error)
            standard = np.zeros(values.shape, dtype=np.float32)
        if len(numbers) == len(mean):
            return torch.from_numpy(standard)
        result = np.zeros((len(values), len(mean)), dtype=np.float32)
        result[:, numbers] = standard
        missing = np.isnan(values[:, [*told.values()]])
        result[:, [*told]] = (missing - mean[[*told]]) / scale[[*told]]
        return torch.from_numpy(result)

    def _encoded(
        self, X: Any, used: list[Column], surprises: Surprises | None = None
    ) -> np.ndarray:
        """Encode the columns ``used`` of X, float64 (rows, what they supply)."""
        table = Table.of(X)
        return encoded_columns(table, used, self._positions(table, used), surprises=surprises)

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
                others = {*table.names} - {*self.names}
                raise ValueError(
                    f"Expected the columns that were fitted. Missing: {quoted(missing)}. "
                    f"Got {quoted(table.names)}.{_renamed(missing, others)}"
                )
        return [place[column.name] for column in used]


def _renamed(missing: Sequence[str], others: Iterable[str]) -> str:
    """A sentence about one of the first that may have another name now, "" where none has."""
    for name in missing[:FEW]:
        if (found := closest(name, others)) is not None:
            return f" Is {found!r} what was {name!r}?"
    return ""


def _learnt(table: Table, index: int, kinds: Kinds) -> Column:
    """The kind of a column, and the categories of a text."""
    kind = kinds.get(table.names[index])
    column = recognised(table, index) if kind is None else chosen(table, index, kind)
    if column.kind != "text":
        return column
    counts, missing = count_texts(table.column(index))
    return text_column(column.name, counts, table.rows, missing, is_chosen=column.is_chosen)


def _distinct(table: Table) -> dict[int, int]:
    """How many whole numbers differ in the columns of such, 0 for a name that tells nothing."""
    if not table.is_named:
        return {}
    return {
        index: len(np.unique(table.column(index))) if is_named_identifier(name) else 0
        for index, name in enumerate(table.names)
        if table.is_whole(index)
    }


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
