"""One column of X, and how its entries become numbers. All of it is data."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from torchsparcs.files.reading import Record, quoted
from torchsparcs.tables.columns import Table
from torchsparcs.tables.dates import PARTS, calendar_parts, dates_in, ordered_dates, stray_date
from torchsparcs.tables.entries import (
    StrayEntry,
    as_numbers,
    entries_of,
    is_missing,
    number,
    rows_in,
    text_of,
)
from torchsparcs.tables.writing import Writing

REST = "other"
GAPS = ("none", "filled", "told")


@dataclass(frozen=True)
class Column(Record):
    """One column of X.

    Attributes:
        name: as in the table.
        categories: None for numbers; the texts of a column of text that have a name of their own;
            the order of ordered categories; the parts of a date; () for a column that is left out
            and never looked at again.
        kind: one of :data:`KINDS`; "" is what older files have, "number", "text" or "constant".
        gaps: "none" where no row was missing in ``fit``; "told" where missing rows have an input of
            their own; "filled" where another column's tells the same.
        has_rest: whether texts without a name count as one, "other".
        writing: how numbers are written that are text and not plain ones.
        others: the texts that count as "other", () where they are too long to keep.
        order: of day, month and year where dates are text and not as ISO 8601 has them.
        reason: why the column is left out, in words.
    """

    name: str
    categories: tuple[str, ...] | None = None
    kind: str = ""
    gaps: str = "none"
    has_rest: bool = False
    writing: Writing | None = None
    others: tuple[str, ...] = ()
    order: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        known = () if self.categories is None else self.categories
        if self.kind == "":
            kind = "number" if self.categories is None else "text" if known else "constant"
            object.__setattr__(self, "kind", kind)
        if (
            not isinstance(known, tuple)
            or not all(isinstance(text, str) for text in (self.name, *known))
            or len(set(known)) < len(known)
            or (self.kind == "text" and len(self._levels) == 1)
        ):
            raise ValueError(
                "Expected a name, and None or several different texts as categories. "
                f"Got {self.name!r} and {self.categories!r}."
            )
        if self.kind not in KINDS or (self.categories is None) != (self.kind == "number"):
            raise ValueError(f"Expected a kind among {', '.join(KINDS)}. Got {self.kind!r}.")
        if self.kind == "date" and not {*known} <= {*PARTS}:
            raise ValueError(f"Expected parts of a date, {quoted([*PARTS])}. Got {quoted(known)}.")
        if self.gaps not in GAPS:
            raise ValueError(f"Expected gaps among {', '.join(GAPS)}. Got {self.gaps!r}.")

    @property
    def _levels(self) -> tuple[str, ...]:
        """The names that a text may have as zeros and ones: its own, the rest, what is missing."""
        own = [f"{self.name}={text}" for text in self.categories or ()]
        rest = [f"{self.name}={REST}"] if self.has_rest else []
        return (*own, *rest, *([f"{self.name} is missing"] if self.gaps == "told" else []))

    @property
    def supplied_names(self) -> tuple[str, ...]:
        """The numbers that an entry becomes; of a text with two levels, the second tells all."""
        return KINDS[self.kind].names(self)

    @property
    def has_indicator(self) -> bool:
        """Whether an input beside the numbers tells that they are missing."""
        return self.gaps == "told" and self.kind != "text"

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The inputs of the network that this column becomes."""
        told = (f"{self.name} is missing",) if self.has_indicator else ()
        return (*self.supplied_names, *told)

    def parse(self, value: Any) -> float | None:
        """An entry as a number, NaN where it is missing, None where it is no number."""
        return number(value) if self.writing is None else self.writing.number(value)

    def encode(self, table: Table, position: int) -> "Encoded":
        """Encode the column of ``table`` at ``position``, with NaN for missing numbers."""
        return KINDS[self.kind].encode(self, table.column(position))


class Encoded(NamedTuple):
    """Numbers of a column.

    Attributes:
        values: (rows, supplied), float64.
        missing: how many rows are missing.
        unseen: a line about texts that have no place, "" for none.
    """

    values: np.ndarray
    missing: int
    unseen: str = ""


class Kind(NamedTuple):
    """What a kind of column becomes: the names of its numbers, and the numbers."""

    names: Callable[[Column], tuple[str, ...]]
    encode: Callable[[Column, np.ndarray], Encoded]


def _numbers(column: Column, values: np.ndarray) -> Encoded:
    expected = f"numbers in {column.name!r}, as in fit"
    if column.writing is not None and column.writing.example:
        expected += f", where they are written like {column.writing.example!r}"
    return _with_gaps(as_numbers(values, column.name, expected, column.parse)[:, None])


def _dates(column: Column, values: np.ndarray) -> Encoded:
    dates = dates_in(values)
    if dates is None and column.order:
        dates = ordered_dates(values, column.order)
    if dates is None:
        expected = f"dates in {column.name!r}, as in fit"
        row, example = stray_date(values, column.order)
        raise StrayEntry(column.name, expected, example, row)
    return _with_gaps(calendar_parts(dates, column.categories or ()))


def _with_gaps(values: np.ndarray) -> Encoded:
    return Encoded(values, int(np.isnan(values[:, 0]).sum()) if values.shape[1] else 0)


def _places(column: Column, values: np.ndarray) -> Encoded:
    """The place of each category in the order, from 0; one that has none counts as missing."""
    texts = _texts(column, values)
    place = {text: float(place) for place, text in enumerate(column.categories or ())}
    numbers = np.array([np.nan if text is None else place.get(text, np.nan) for text in texts])
    return Encoded(numbers[:, None], texts.count(None), _unseen(column, texts))


def _ones(column: Column, values: np.ndarray) -> Encoded:
    """A one for the level of each text, and zeros."""
    texts, levels, own = _texts(column, values), column._levels, column.categories or ()
    place = dict.fromkeys(texts, len(own) if column.has_rest else -1)
    place[None] = len(levels) - 1 if column.gaps == "told" else -1
    place |= {text: index for index, text in enumerate(own)}
    first = len(levels) - len(column.supplied_names)  # of two, the first has no column
    codes = np.array([place[text] for text in texts]) - first
    encoded = np.zeros((len(texts), len(levels) - first))
    rows = np.flatnonzero(codes >= 0)
    encoded[rows, codes[rows]] = 1
    return Encoded(encoded, texts.count(None), _unseen(column, texts))


def _texts(column: Column, values: np.ndarray) -> list[str | None]:
    """Entries as the texts of categories, None for what is missing.

    Where the only category is a number, it may be written in any way.
    """
    entries, own = entries_of(values), column.categories or ()
    text = {value: None if is_missing(value) else text_of(value) for value in set(entries)}
    if len(own) == 1 and (only := number(own[0])) is not None:
        text |= {value: own[0] for value in text if column.parse(value) == only}
    return [text[value] for value in entries]


def _unseen(column: Column, texts: list[str | None]) -> str:
    if column.has_rest and not column.others:  # nobody knows
        return ""
    known = {None, *(column.categories or ()), *column.others}
    counts = Counter(text for text in texts if text not in known)
    if not counts:
        return ""
    return f"{rows_in(column.name, counts.total())} with {quoted([*counts], 3)}"


def _nothing(column: Column, values: np.ndarray) -> Encoded:
    return Encoded(np.empty((len(values), 0)), 0)


KINDS: dict[str, Kind] = {
    "number": Kind(lambda column: (column.name,), _numbers),
    "text": Kind(lambda c: c._levels[1:] if len(c._levels) == 2 else c._levels, _ones),
    "ordered": Kind(lambda column: (column.name,), _places),
    "date": Kind(lambda c: tuple(f"{c.name}: {part}" for part in c.categories or ()), _dates),
    "constant": Kind(lambda column: (), _nothing),
    "identifier": Kind(lambda column: (), _nothing),
}
