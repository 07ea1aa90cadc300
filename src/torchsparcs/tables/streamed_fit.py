"""What ``Inputs.fit`` and ``Target.fit`` learn, from one pass over chunks that are then let go.

They agree with the same table in memory: categories and classes are the same, mean and scale but
for rounding. In memory is no more than one chunk, the categories and a few numbers per column.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from torchsparcs.tables.columns import (
    NUMBERS,
    Table,
    check_finite,
    check_repetition,
    count_bad,
    is_missing,
    number,
    numbers_in,
    quoted,
    text_of,
)
from torchsparcs.tables.inputs import FARTHEST, Column, Inputs
from torchsparcs.tables.readers import imported
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


class StreamedInputs:
    """:class:`Inputs` from chunks of X.

    >>> X = np.array([[1, "Rome"], [3, "Oslo"], [5, "Rome"]], dtype=object)
    >>> streamed = StreamedInputs()
    >>> for chunk in (X[:2], X[2:]):
    ...     streamed.add(chunk)
    >>> streamed.fitted().encoded_names, streamed.fitted().mean[0]
    (('x0', 'x1=Rome'), 3.0)

    Args:
        text: names of columns that are text, though some chunks of them may look like numbers.
    """

    def __init__(self, text: Collection[str] = ()):
        self.text = frozenset(text)
        self.rows = 0
        self.names: tuple[str, ...] = ()
        self.counts: dict[int, Counter[str]] = {}  # of the texts in the columns of text
        self.numeric: list[int] = []
        self.merged: MergedMoments | None = None  # of the columns of numbers

    def add(self, X: Any) -> None:
        """The rows of one chunk, (rows, columns)."""
        table = Table.of(X)
        if not self.names:
            self._start(table)
        if table.names != self.names:
            raise ValueError(
                f"Expected the columns of the first chunk, {quoted(self.names)}, in all. "
                f"Got {quoted(table.names)}."
            )
        self.rows += table.rows
        numbers = self._numbers(table)
        bad = [
            text
            for place in np.flatnonzero(~np.isfinite(numbers).all(axis=0))
            for text in count_bad(self.names[self.numeric[place]], numbers[:, place])
        ]
        for index, counts in self.counts.items():
            bad += self._count(table, index, counts)
        check_finite(bad)
        if self.numeric:
            part = MergedMoments.of(numbers)
            self.merged = part if self.merged is None else self.merged.with_part(part)

    def _start(self, table: Table) -> None:
        """The first chunk says which columns are text."""
        self.names = table.names
        for index, name in enumerate(table.names):
            if name in self.text or not table.is_numeric(index):
                self.counts[index] = Counter()
            else:
                self.numeric.append(index)

    def _numbers(self, table: Table) -> np.ndarray:
        """The columns of numbers, float64 (rows, numeric)."""
        numbers = table.numbers(self.numeric) if self.numeric else np.empty((table.rows, 0))
        if numbers is not None:
            return numbers
        found, mixed = [], []
        for index in self.numeric:
            values = None if table.is_categorical(index) else numbers_in(table.column(index))
            if values is None:
                mixed.append(index)
            else:
                found.append(values)
        if mixed:
            entries = table.column(mixed[0]).tolist()
            example = next((value for value in entries if number(value) is None), entries[0])
            raise MixedColumns([self.names[index] for index in mixed], example)
        return np.column_stack(found)

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
        """What ``Inputs.fit`` finds in all the rows that were added."""
        if self.rows < 2:
            raise ValueError(f"Expected at least two rows. Got {('no', '1')[self.rows]} sample.")
        columns: list[Column] = []
        parts = [np.empty((0, 3))]  # of each column its encoded ones: mean, scale, farthest
        numeric = self._numeric_columns()
        for index, name in enumerate(self.names):
            if index in self.counts:
                column, part = self._text_column(name, self.counts[index])
            else:
                column, part = numeric[index]
            columns.append(column)
            parts.append(part)
        mean, scale, farthest = np.concatenate(parts).T
        if not len(mean):
            raise ValueError("Expected a column of X that varies. Got constant columns only.")
        scale = np.maximum(scale, farthest / FARTHEST)
        return Inputs(tuple(columns), tuple(mean.tolist()), tuple(scale.tolist()))

    def _numeric_columns(self) -> dict[int, tuple[Column, np.ndarray]]:
        if self.merged is None:
            return {}
        mean, scale, is_constant = self.merged.moments()
        farthest = np.maximum(self.merged.high - mean, mean - self.merged.low)
        rows = np.stack([mean, scale, farthest], axis=1)
        return {
            index: (Column(self.names[index], ()), rows[:0])
            if is_constant[place]
            else (Column(self.names[index]), rows[place : place + 1])
            for place, index in enumerate(self.numeric)
        }

    def _text_column(self, name: str, counts: Counter[str]) -> tuple[Column, np.ndarray]:
        """Zeros and ones with share p of ones have mean p and scale √(p (1 − p))."""
        check_repetition(name, len(counts), self.rows)
        column = Column(name, tuple(sorted(counts)) if len(counts) > 1 else ())
        share = np.array([counts[text] for text in column.encoded_categories]) / self.rows
        spread = np.sqrt(share * (1 - share))
        return column, np.stack([share, spread, np.maximum(share, 1 - share)], axis=1)


class StreamedTarget:
    """:class:`Target` from chunks of y.

    >>> streamed = StreamedTarget()
    >>> for chunk in (["no", "yes"], ["no", "no"]):
    ...     streamed.add(chunk)
    >>> streamed.fitted().classes
    ('no', 'yes')

    Args:
        task: as for ``Target.fit``.
        text: names of columns that are text, though some chunks of them may look like numbers.
    """

    def __init__(self, task: str = "auto", text: Collection[str] = ()):
        if task not in CHOICES:  # rather now than after all the rows
            raise ValueError(f"Expected a task among {', '.join(CHOICES)}. Got {task!r}.")
        self.task, self.text = task, frozenset(text)
        self.rows = 0
        self.names: tuple[str, ...] = ()
        self.is_named = self.is_categorical = False
        self.types: set[np.dtype[Any]] = set()
        self.labels: dict[Any, None] = {}  # as they came, no more than tell that they are many
        self.merged: MergedMoments | None = None
        self.is_numeric = True

    def add(self, y: Any) -> None:
        """The rows of one chunk, (rows,) or (rows, outputs)."""
        table = target_table(y)
        columns = target_columns(table)
        names = tuple(name for name, _ in columns)
        if self.names and names != self.names:
            raise ValueError(
                f"Expected the target of the first chunk, {quoted(self.names)}, in all. "
                f"Got {quoted(names)}."
            )
        self.names, self.is_named = names, table.is_named
        self.rows += table.rows
        if len(columns) > 1:
            numbers = [target_numbers(*column) for column in columns]
        else:
            values = columns[0][1]
            self._add_labels(table, values)
            found = numbers_in(values)
            self.is_numeric &= found is not None
            numbers = [] if found is None else [found]
        if self.is_numeric:
            part = MergedMoments.of(np.column_stack(numbers))
            self.merged = part if self.merged is None else self.merged.with_part(part)

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
        """What ``Target.fit`` finds in all the rows that were added."""
        if self.rows < 2:
            raise ValueError(f"Expected at least two rows. Got {('no', '1')[self.rows]} sample.")
        is_declared = self.task == "auto" and self.is_categorical
        found = Target.fit(self._few_rows(), "classification" if is_declared else self.task)
        if found.classes is not None or self.merged is None:
            return found
        mean, scale, _ = self.merged.moments()
        return replace(found, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))

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
        pandas = imported("pandas", "pandas")
        return pandas.DataFrame(values.reshape(-1, len(self.names)), columns=list(self.names))
