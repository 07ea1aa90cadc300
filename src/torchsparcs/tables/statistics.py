"""Statistics of a stream in one pass: what ``Inputs.fit`` and ``Target.fit`` learn, from chunks.

They agree with those of the whole table: categories and classes are the same, mean and
scale but for rounding. Kinds are those of the first chunk that has anything in a column: one that
is of another in a later chunk is counted as text in another pass, if there can be one, whatever the
whole table would show.
In memory is one chunk, the categories and a few numbers for each column.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import Table
from torchsparcs.tables.encoding import Column
from torchsparcs.tables.entries import (
    NUMBERS,
    check_finite,
    count_infinite,
    number,
    parsed_numbers,
)
from torchsparcs.tables.fitting import identifiers, missing_patterns, settled
from torchsparcs.tables.kinds import Kinds, NoneOfKind, check_kinds, chosen, text_kinds
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.tables.recognition import (
    MOST_TEXTS,
    count_texts,
    is_named_identifier,
    recognised,
    text_column,
)
from torchsparcs.tables.standardization import MergedMoments
from torchsparcs.tables.target import CHOICES, Target, ends_of
from torchsparcs.tables.target_values import (
    target_columns,
    target_numbers,
    target_table,
    target_writing,
)
from torchsparcs.tables.writing import Writing

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

    def __init__(self, text: Collection[str] = (), kinds: Kinds | None = None):
        self.kinds = kinds or {}
        super().__init__({*text, *text_kinds(self.kinds)})
        self.strays: Counter[str] = Counter()  # rows that are not of the kind of their column
        self.columns: list[Column] = []  # their kinds, as their first entries tell
        self.unseen: list[int] = []  # columns without any entry so far
        self.refused: dict[int, NoneOfKind] = {}  # those of them with entries of no use
        self.gone = np.zeros(1, dtype=np.uint64)  # the pattern of what is missing throughout
        self.counts: dict[int, Counter[str]] = {}  # of the texts in the columns of text
        self.missing: Counter[int] = Counter()  # rows of those columns
        self.places: dict[int, range] = {}  # of the columns of numbers, among what they supply
        self.patterns = np.zeros(0, dtype=np.uint64)  # of what is missing there
        self.spans: set[int] = set()  # columns of lengths of time
        self.distinct: dict[int, set[int]] = {}  # in the columns that are named like identifiers
        self.whole: set[int] = set()  # columns of whole numbers

    def add(self, X: Any) -> None:
        """Count the rows of one chunk, (rows, columns)."""
        table, first = Table.of(X), self.rows
        if not self.names:
            self._begin(table)
        self._add_rows(table.names, table.rows)
        self._meet(table, first)
        self._check_spans(table)
        numbers = self._numbers(table)
        check_finite(count_infinite(self._number_names, numbers))
        for index in self.counts:
            self._count(table, index)
        self.whole = {index for index in self.whole if table.is_whole(index)}
        for index in self.distinct.keys() & self.whole:
            if len(self.distinct[index]) <= MOST_TEXTS:
                self.distinct[index].update(np.unique(table.column(index)).tolist())
        if self.places:
            self.patterns += missing_patterns(numbers, first)
            self._add_numbers(numbers)

    def _begin(self, table: Table) -> None:
        """Take the names of the first chunk; nothing is known of the columns yet."""
        check_kinds(self.kinds, table.names)
        self.columns = [Column(name) for name in table.names]
        self.unseen = [*range(len(table.names))]
        self.whole = {*self.unseen} if table.is_named else set()

    def _meet(self, table: Table, first: int) -> None:
        """Learn which kinds those columns are of that have their first entries in this chunk.

        In the rows before ``first`` they were missing.
        """
        if not self.unseen:
            return
        absent, supplied = _absent(table), len(self.patterns)
        for index in self.unseen:
            column = self._recognised(table, index, is_absent=bool(absent[index]))
            if column is None:
                continue
            self.columns[index] = column
            if column.kind == "text":
                self.counts[index], self.missing[index] = Counter(), first
                continue
            end = supplied + len(column.supplied_names)
            self.places[index], supplied = range(supplied, end), end
            if is_named_identifier(column.name):
                self.distinct[index] = set()
        met = {index for index in self.unseen if index in self.counts or index in self.places}
        self.spans |= {index for index in met if table.is_span(index)}
        self.unseen = [index for index in self.unseen if index not in met]
        new = np.repeat(self.gone, supplied - len(self.patterns))
        blank = MergedMoments.of(np.empty((0, len(new))))
        self.patterns = np.concatenate([self.patterns, new])
        self.merged = MergedMoments.joined([self.merged, blank] if self.merged else [blank])
        self.gone += missing_patterns(np.full((table.rows, 1), np.nan), first)

    def _recognised(self, table: Table, index: int, *, is_absent: bool) -> Column | None:
        """The kind of a column, None where this chunk has nothing to tell it by."""
        name = table.names[index]
        if name in self.text and name not in self.kinds:
            return Column(name, (), "text")
        if is_absent and name not in self.text:
            return None
        if name not in self.kinds:
            return recognised(table, index)
        try:
            column = chosen(table, index, self.kinds[name])
        except NoneOfKind as error:  # a later chunk may have some
            self.refused[index] = error
            self.strays[name] += int(pd.notna(table.column(index)).sum())
            return None
        self.refused.pop(index, None)
        return column

    def _check_spans(self, table: Table) -> None:
        """Lengths of time are numbers of days; other numbers are not."""
        met = (*self.places, *self.counts)
        others = [index for index in met if table.is_span(index) != (index in self.spans)]
        absent = _absent(table) if others else ()
        names = [self.names[index] for index in others if not absent[index]]
        if names:
            raise ValueError(
                f"Expected lengths of time throughout {quoted(names)}, or nowhere. Got them in "
                "some rows only: turn them into numbers, or drop the column."
            )

    @property
    def _number_names(self) -> list[str]:
        return [name for index in self.places for name in self.columns[index].supplied_names]

    def _numbers(self, table: Table) -> np.ndarray:
        """The columns of numbers, dates and ordered categories, float64 (rows, supplied)."""
        if not self.places:
            return np.empty((table.rows, 0))
        if all(self.columns[index].kind == "number" for index in self.places):
            numbers = table.numbers([*self.places])
            if numbers is not None:
                return numbers
        parts, mixed = [], {}
        for index in self.places:
            column = self.columns[index]
            is_other = (column.categories if column.kind == "ordered" else ()) != table.order(index)
            is_other |= column.kind != "ordered" and table.is_categorical(index)
            if is_other and not column.is_chosen:
                mixed[column.name] = table.column(index).tolist()[0]
                continue
            encoded = column.encode(table, index)
            parts.append(encoded.values)
            if column.has_strays:
                self.strays[column.name] += encoded.strays
            elif encoded.stray is not None:
                mixed[column.name] = encoded.stray.example
        if mixed:
            raise MixedColumns([*mixed], next(iter(mixed.values())))
        return np.concatenate(parts, axis=1)

    def _count(self, table: Table, index: int) -> None:
        """Add the texts of one column to its counts."""
        name, values, counts = self.names[index], table.column(index), self.counts[index]
        is_number = values.dtype.kind in NUMBERS and not table.is_categorical(index)
        if is_number and name not in self.text and np.isfinite(values).any():
            raise MixedColumns([name], next(iter(counts), "text"))
        if len(counts) <= MOST_TEXTS:  # more would fill the memory, and are an identifier
            texts, missing = count_texts(values)
            counts.update(texts)
            self.missing[index] += missing

    def fitted(self) -> Inputs:
        """The inputs as ``Inputs.fit`` finds them in all the rows that were added."""
        self._check_rows()
        if self.refused:
            raise next(iter(self.refused.values()))
        columns, parts, patterns = [*self.columns], [], []
        for index, name in enumerate(self.names):
            if index in self.counts:
                column = text_column(
                    name,
                    self.counts[index],
                    self.rows,
                    self.missing[index],
                    is_chosen=columns[index].is_chosen,
                )
                columns[index] = column
                parts.append(MergedMoments.of_shares(self._shares(column, index), self.rows))
                patterns += [0] * len(column.supplied_names)
                continue
            if index in self.places:
                assert self.merged is not None
                parts.append(self.merged.at(self.places[index]))
                patterns += self.patterns[list(self.places[index])].tolist()
                continue
            parts.append(MergedMoments.of(np.empty((0, 1))))
            patterns += self.gone.tolist()
        merged = MergedMoments.joined(parts)
        distinct = {index: len(self.distinct.get(index, ())) for index in self.whole}
        left_out = identifiers(columns, merged, self.rows, distinct)
        missing = np.array(patterns, dtype=np.uint64)
        return Inputs(*settled(columns, merged, missing, self.rows, left_out))

    def _shares(self, column: Column, index: int) -> np.ndarray:
        """The share of the rows that have a one in each of a text's columns."""
        counts = [self.counts[index][text] for text in column.categories or ()]
        if column.has_rest:
            counts.append(self.counts[index].total() - sum(counts))
        if column.gaps == "told":
            counts.append(self.missing[index])
        shares = np.array(counts, dtype=np.float64) / self.rows
        return shares[len(shares) - len(column.supplied_names) :]


def _absent(table: Table) -> np.ndarray:
    """Whether a column has no entry at all, (columns,)."""
    return np.asarray(pd.isna(table.source).all(axis=0))


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
        self.writing: Writing | None = None  # as the first chunk tells
        self.types: set[np.dtype[Any]] = set()
        self.labels: dict[Any, None] = {}  # as they came, no more than tell that they are many

    def add(self, y: Any) -> None:
        """Count the rows of one chunk, (rows,) or (rows, outputs)."""
        table = target_table(y)
        columns = target_columns(table)
        self._add_rows(tuple(name for name, _ in columns), table.rows)
        self.is_named = table.is_named
        if len(columns) > 1:
            self._add_numbers(target_numbers(columns))
            return
        values = columns[0][1]
        self._add_labels(table, values)
        if self.rows == table.rows:  # the first chunk
            self.writing = target_writing(values)
        parse = number if self.writing is None else self.writing.number
        found = parsed_numbers(values, parse)
        self.is_numeric &= found is not None
        if found is not None and self.is_numeric:
            self._add_numbers(found[:, None])

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
        if target.classes is not None:
            return target
        if self.merged is None or not self.is_numeric:
            raise ValueError(
                f"Expected numbers in {quoted(self.names)} that are written as in the first chunk. "
                "Got others: make them numbers."
            )
        mean, scale = (tuple(part.tolist()) for part in self.merged.moments()[:2])
        writings = () if self.writing is None else (self.writing,)
        low, high = ends_of(self.merged.low, self.merged.high)
        return replace(target, mean=mean, scale=scale, writings=writings, low=low, high=high)

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
