"""Statistics of a stream in one pass: what ``Inputs.fit`` and ``Target.fit`` learn, from chunks.

They agree with those of the whole table: categories and classes are the same, mean and
scale but for rounding. In memory is one chunk, the categories and a few numbers for each column.
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import (
    NUMBERS,
    Table,
    check_finite,
    check_repetition,
    count_bad_columns,
    is_missing,
    number,
    numbers_in,
    text_of,
)
from torchsparcs.tables.preprocessing import FARTHEST, Column, Inputs
from torchsparcs.tables.standardization import MergedMoments
from torchsparcs.tables.target import CHOICES, Target, target_columns, target_numbers, target_table

MOST_LABELS = 1000  # more of them are no classes


class MixedColumns(ValueError):
    """Columns that are numbers in some chunks and text in others.

    Attributes:
        names: of the columns. They are text: another pass has to count them as such.
    """

    def __init__(self, names: Collection[str], example: Any):
        self.names, self.example = tuple(names), example
        super().__init__(
            f"Expected {quoted(self.names)} to be numbers or text throughout. Got numbers in some "
            f"rows and text in others, for instance {example!r}. Make it text in all of them, or "
            "pass a source that can be gone through again."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.names, self.example)


class _Statistics:
    """Names, number of rows, and moments of the columns of numbers, of the chunks so far.

    Args:
        text: names of columns that are text, though some chunks of them may look like numbers.
    """

    def __init__(self, text: Collection[str] = ()):
        self.text, self.rows = frozenset(text), 0
        self.names: tuple[str, ...] = ()
        self.merged: MergedMoments | None = None

    def _add_rows(self, names: tuple[str, ...], rows: int) -> None:
        if self.names not in ((), names):
            raise ValueError(
                f"Expected the columns of the first chunk, {quoted(self.names)}, in all. "
                f"Got {quoted(names)}."
            )
        self.names = names
        self.rows += rows

    def _add_numbers(self, numbers: np.ndarray) -> None:
        part = MergedMoments.of(numbers)
        self.merged = part if self.merged is None else self.merged.with_part(part)

    def _check_rows(self) -> None:
        if self.rows < 2:
            raise ValueError(f"Expected at least two rows. Got {('no', '1')[self.rows]} sample.")


class InputStatistics(_Statistics):
    """Statistics of X, chunk by chunk, that make :class:`Inputs`.

    >>> X = np.array([[1, "Rome"], [3, "Oslo"], [5, "Rome"]], dtype=object)
    >>> statistics = InputStatistics()
    >>> for chunk in (X[:2], X[2:]):
    ...     statistics.add(chunk)
    >>> statistics.fitted().encoded_names, statistics.fitted().mean[0]
    (('x0', 'x1=Rome'), 3.0)
    """

    def __init__(self, text: Collection[str] = ()):
        super().__init__(text)
        self.counts: dict[int, Counter[str]] = {}  # of the texts in the columns of text
        self.numeric: list[int] = []

    def add(self, X: Any) -> None:
        """Count the rows of one chunk, (rows, columns)."""
        table = Table.of(X)
        if not self.names:  # the first chunk says which columns are text
            is_text = [
                name in self.text or not table.is_numeric(index)
                for index, name in enumerate(table.names)
            ]
            self.counts = {index: Counter() for index in np.flatnonzero(is_text).tolist()}
            self.numeric = np.flatnonzero(~np.array(is_text)).tolist()
        self._add_rows(table.names, table.rows)
        numbers = self._numbers(table)
        bad = count_bad_columns([self.names[index] for index in self.numeric], numbers)
        for index, counts in self.counts.items():
            bad += self._count(table, index, counts)
        check_finite(bad)
        if self.numeric:
            self._add_numbers(numbers)

    def _numbers(self, table: Table) -> np.ndarray:
        """The columns of numbers, float64 (rows, numeric)."""
        numbers = table.numbers(self.numeric) if self.numeric else np.empty((table.rows, 0))
        if numbers is not None:
            return numbers
        columns = {
            index: None if table.is_categorical(index) else numbers_in(table.column(index))
            for index in self.numeric
        }
        if mixed := [index for index, values in columns.items() if values is None]:
            entries = table.column(mixed[0]).tolist()
            example = next((value for value in entries if number(value) is None), entries[0])
            raise MixedColumns([self.names[index] for index in mixed], example)
        return np.column_stack([*columns.values()])  # type: ignore[list-item]

    def _count(self, table: Table, index: int, counts: Counter[str]) -> list[str]:
        """Add the texts of one column to ``counts``; returns what is missing, in words."""
        name, values = self.names[index], table.column(index)
        is_number = values.dtype.kind in NUMBERS and not table.is_categorical(index)
        if is_number and name not in self.text and np.isfinite(values).all():
            raise MixedColumns([name], next(iter(counts)))
        missing = 0
        for value, count in Counter(values.tolist()).items():
            if is_missing(value):
                missing += count
            else:
                counts[text_of(value)] += count
        if len(counts) > MOST_LABELS:  # before they fill the memory
            check_repetition(name, len(counts), self.rows)
        return [f"{missing} missing in {name!r}"] if missing else []

    def fitted(self) -> Inputs:
        """The inputs as ``Inputs.fit`` finds them in all the rows that were added.

        Zeros and ones with share p of ones have mean p and scale √(p (1 − p)).
        """
        self._check_rows()
        numeric = iter([] if self.merged is None else self.merged.columns())
        columns: list[Column] = []
        encoded: list[tuple[float, float]] = []  # mean and scale of each encoded column
        for index, name in enumerate(self.names):
            if index in self.counts:
                counts = self.counts[index]
                check_repetition(name, len(counts), self.rows)
                column = Column(name, tuple(sorted(counts)) if len(counts) > 1 else ())
                shares = [counts[text] / self.rows for text in column.encoded_categories]
                parts = [(p, math.sqrt(p * (1 - p)), max(p, 1 - p)) for p in shares]
            else:
                mean, scale, is_constant, low, high = next(numeric)
                column = Column(name, () if is_constant else None)
                parts = [] if is_constant else [(mean, scale, max(high - mean, mean - low))]
            columns.append(column)
            encoded += [(mean, max(scale, farthest / FARTHEST)) for mean, scale, farthest in parts]
        if not encoded:
            raise ValueError("Expected a column of X that varies. Got constant columns only.")
        means, scales = zip(*encoded, strict=True)
        return Inputs(tuple(columns), means, scales)


class TargetStatistics(_Statistics):
    """Statistics of y, chunk by chunk, that make a :class:`Target`.

    >>> statistics = TargetStatistics()
    >>> for chunk in (["no", "yes"], ["no", "no"]):
    ...     statistics.add(chunk)
    >>> statistics.fitted().classes
    ('no', 'yes')

    Args:
        task: as for ``Target.fit``.
    """

    def __init__(self, task: str = "auto", text: Collection[str] = ()):
        super().__init__(text)
        if task not in CHOICES:  # rather now than after all the rows
            raise ValueError(f"Expected a task among {', '.join(CHOICES)}. Got {task!r}.")
        self.task, self.is_numeric = task, True
        self.is_named = self.is_categorical = False
        self.types: set[np.dtype[Any]] = set()
        self.labels: dict[Any, None] = {}  # as they came, no more than tell that they are many

    def add(self, y: Any) -> None:
        """Count the rows of one chunk, (rows,) or (rows, outputs)."""
        table = target_table(y)
        columns = target_columns(table)
        self._add_rows(tuple(name for name, _ in columns), table.rows)
        self.is_named = table.is_named
        if len(columns) > 1:
            numbers = [target_numbers(*column) for column in columns]
        else:
            values = columns[0][1]
            self._add_labels(table, values)
            found = numbers_in(values)
            self.is_numeric &= found is not None
            numbers = [] if found is None else [found]
        if self.is_numeric:
            self._add_numbers(np.column_stack(numbers))

    def _add_labels(self, table: Table, values: np.ndarray) -> None:
        is_number = values.dtype.kind in NUMBERS
        entries = (np.unique(values) if is_number else values).tolist()
        others = any((kind.kind in NUMBERS) != is_number for kind in self.types)
        if others and not self.text.issuperset(self.names):
            raise MixedColumns(self.names, next(iter(self.labels)) if is_number else entries[0])
        self.types.add(values.dtype)
        self.is_categorical |= table.is_categorical(0)
        room = MOST_LABELS + 1 - len(self.labels)
        if room > 0:
            new = [value for value in dict.fromkeys(entries) if value not in self.labels]
            self.labels |= dict.fromkeys(new[:room])
        elif self.is_numeric and not is_number:  # text among many numbers is worth telling
            stray = [value for value in entries if number(value) is None]
            self.labels |= dict.fromkeys(stray[:1])

    def fitted(self) -> Target:
        """The target as ``Target.fit`` finds it in all the rows that were added."""
        self._check_rows()
        is_declared = self.task == "auto" and self.is_categorical
        target = Target.fit(self._few_rows(), "classification" if is_declared else self.task)
        if target.classes is not None or self.merged is None:
            return target
        mean, scale, _ = self.merged.moments()
        return replace(target, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))

    def _few_rows(self) -> Any:
        """Rows from which ``Target.fit`` learns all but mean and scale: it looks at which values
        there are, and whether there are ten times or twice as many rows.
        """
        if len(self.names) > 1:
            assert self.merged is not None
            values = np.stack([self.merged.low, self.merged.high])
        else:
            labels = list(self.labels)
            enough = min(self.rows, max(50, 10 * len(labels)))
            values = np.empty(enough, dtype=np.result_type(*self.types))
            values[: len(labels)], values[len(labels) :] = labels, labels[0]
        if not self.is_named:
            return values
        return pd.DataFrame(values.reshape(-1, len(self.names)), columns=list(self.names))
