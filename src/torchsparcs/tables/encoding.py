"""One column of X, and how its entries become numbers. All of it is data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from torchsparcs.files.reading import Record, quoted
from torchsparcs.tables.columns import Table
from torchsparcs.tables.dates import PARTS, calendar_parts, each_date
from torchsparcs.tables.entries import (
    Stray,
    distinct_entries,
    entries_of,
    number,
    parsed_numbers,
    text_of,
)
from torchsparcs.tables.writing import Writing

REST = "other"
GAPS = ("none", "filled", "told")
MOST_UNKNOWN = 3  # texts that are told as examples


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
        is_chosen: whether somebody chose the kind; entries of another one are then missing in
            ``fit`` too.
        stray: where nearly all entries are numbers or dates, one of the others in ``fit``, which
            count as missing; "" for none.
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
    is_chosen: bool = False
    stray: str = ""

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
    def is_either(self) -> bool:
        """Whether it is one of two texts in every row: what is neither counts as the mean."""
        count = len(self.categories or ())
        return self.kind == "text" and count == len(self._levels) == 2

    @property
    def has_strays(self) -> bool:
        """Whether entries that are not of its kind count as missing in ``fit`` too."""
        return self.is_chosen or bool(self.stray)

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
        """Encode the column of ``table`` at ``position``, with NaN for what counts as the mean."""
        return KINDS[self.kind].encode(self, table.column(position))


class Encoded(NamedTuple):
    """Numbers of a column.

    Attributes:
        values: (rows, supplied), float64.
        missing: how many rows are missing.
        unseen: the rows with texts that have no place.
        unknown: these texts, as they came first; only as many as are told.
        strays: how many others hold something that is not of the kind, and are NaN.
        stray: the first of these where it is a number or date that was expected.
    """

    values: np.ndarray
    missing: int
    unseen: int = 0
    unknown: tuple[str, ...] = ()
    strays: int = 0
    stray: Stray | None = None


class Kind(NamedTuple):
    """What a kind of column becomes: the names of its numbers, and the numbers."""

    names: Callable[[Column], tuple[str, ...]]
    encode: Callable[[Column, np.ndarray], Encoded]


def _numbers(column: Column, values: np.ndarray) -> Encoded:
    parse = column.parse
    if column.writing is None and (writing := Writing.certain(values)):
        parse = writing.number  # whole numbers in fit, and now "33,5"
    numbers = parsed_numbers(values, lambda value: _or_missing(parse(value)))
    if numbers is None:  # dates of pandas
        numbers = np.full(len(values), np.nan)
    return _with_gaps(numbers[:, None], values)


def _or_missing(parsed: float | None) -> float:
    return np.nan if parsed is None else parsed


def _dates(column: Column, values: np.ndarray) -> Encoded:
    dates = each_date(values, column.order)
    if column.order:  # what is written as ISO 8601 has it can be nothing else
        dates = dates.where(dates.notna(), each_date(values))
    return _with_gaps(calendar_parts(dates, column.categories or ()), values)


def _with_gaps(numbers: np.ndarray, entries: np.ndarray) -> Encoded:
    """``numbers`` with the counts of what is missing among ``entries``, and of what is stray."""
    is_missing = pd.isna(entries)
    strays = np.flatnonzero(np.isnan(numbers[:, :1]).any(axis=1) & ~is_missing)
    stray = Stray(int(strays[0]), entries_of(entries[strays[:1]])[0]) if len(strays) else None
    return Encoded(numbers, int(is_missing.sum()), strays=len(strays), stray=stray)


def _places(column: Column, values: np.ndarray) -> Encoded:
    """The place of each category in the order, from 0; one that has none counts as missing."""
    codes, texts = _texts(column, values)
    place = {text: float(place) for place, text in enumerate(column.categories or ())}
    numbers = np.array([*(place.get(text, np.nan) for text in texts), np.nan])[codes]
    missing = int((codes < 0).sum())
    strays = int(np.isnan(numbers).sum()) - missing if column.is_chosen else 0
    return Encoded(numbers[:, None], missing, *_unseen(column, codes, texts), strays)


def _ones(column: Column, values: np.ndarray) -> Encoded:
    """A one for the level of each text, and zeros; NaN for what is neither of two."""
    codes, texts = _texts(column, values)
    levels, own = column._levels, column.categories or ()
    place = {text: index for index, text in enumerate(own)}
    rest = len(own) if column.has_rest else -1
    missing = len(levels) - 1 if column.gaps == "told" else -1
    first = len(levels) - len(column.supplied_names)  # of two, the first has no column
    places = np.array([*(place.get(text, rest) for text in texts), missing])[codes] - first
    encoded = np.zeros((len(codes), len(levels) - first))
    rows = np.flatnonzero(places >= 0)
    encoded[rows, places[rows]] = 1
    if column.is_either:
        encoded[places < -1] = np.nan
    return Encoded(encoded, int((codes < 0).sum()), *_unseen(column, codes, texts))


def _texts(column: Column, values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """For each row the place of its text among those there are, −1 where it is missing.

    Where the only category is a number, it may be written in any way.
    """
    codes, entries = distinct_entries(values)
    own, texts = column.categories or (), [text_of(value) for value in entries]
    if len(own) == 1 and (only := number(own[0])) is not None:
        pairs = zip(entries, texts, strict=True)
        texts = [own[0] if column.parse(value) == only else text for value, text in pairs]
    return codes, texts


def _unseen(column: Column, codes: np.ndarray, texts: list[str]) -> tuple[int, tuple[str, ...]]:
    """The rows with texts that have no place, and the first of these texts."""
    if column.has_rest and not column.others:  # nobody knows
        return 0, ()
    known = {*(column.categories or ()), *column.others}
    unseen = [place for place, text in enumerate(texts) if text not in known]
    if not unseen:
        return 0, ()
    examples = dict.fromkeys(texts[place] for place in unseen)
    return int(np.isin(codes, unseen).sum()), (*examples,)[: MOST_UNKNOWN + 1]


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
