"""Columns of a table encoded together, with a word about what is surprising in them."""

import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import Table
from torchsparcs.tables.encoding import MOST_UNKNOWN, Column, Encoded
from torchsparcs.tables.entries import check_finite, count_infinite, rows_in
from torchsparcs.tables.kinds import tell_strays

DWARFED = 0.01  # of its scale: where nine tenths of a column lie closer together, they look alike
MOST_LOOKED_AT = 1000  # rows, for that
NOTHING = np.empty(0)  # in place of values that are counted
COMMA = "text with a decimal comma was in fit"
UNSEEN = "Categories that were not seen in fit count as 'other', zeros"


@dataclass
class Surprises:
    """What is surprising in rows, counted over as many parts of them as there are.

    Attributes:
        rows: how many have been looked at.
        columns: those that have been looked at, by name.
        found: by the same names, what they have in all rows, counted; without the values.
        infinite: rows in which a number is infinite, by its name.
        written: columns of numbers where text with a decimal comma was in ``fit``.
        far: what is wrong with the first number out of all proportion, "" for none.
    """

    rows: int = 0
    columns: dict[str, Column] = field(default_factory=dict)
    found: dict[str, Encoded] = field(default_factory=dict)
    infinite: Counter[str] = field(default_factory=Counter)
    written: set[str] = field(default_factory=set)
    far: str = ""

    def add(self, column: Column, part: Encoded) -> None:
        """Count another part of a column."""
        name = column.name
        self.columns[name] = column
        part = part._replace(values=NOTHING)
        if (stray := part.stray) is not None:
            part = part._replace(stray=stray._replace(row=self.rows + stray.row))
        if (known := self.found.get(name)) is not None:
            unknown = dict.fromkeys((*known.unknown, *part.unknown))
            part = Encoded(
                values=NOTHING,
                missing=known.missing + part.missing,
                unseen=known.unseen + part.unseen,
                unknown=(*unknown,)[: MOST_UNKNOWN + 1],
                strays=known.strays + part.strays,
                stray=part.stray if known.stray is None else known.stray,
            )
        self.found[name] = part

    def tell(self) -> None:
        """Warn of all of it, each kind in a line; what cannot be used is a ValueError."""
        pairs = [(self.columns[name], part) for name, part in self.found.items()]
        stray = [_stray(*pair, self.rows) for pair in pairs if _is_surprising(*pair)]
        names = [name for column in self.columns.values() for name in column.supplied_names]
        infinite = [(self.infinite[name], name) for name in names if name in self.infinite]
        check_finite([f"{count} infinite in {name!r}" for count, name in infinite])
        unseen = [
            f"{rows_in(column.name, part.unseen)} with {quoted(part.unknown, MOST_UNKNOWN)}"
            for column, part in pairs
            if part.unseen
        ]
        missing = [
            rows_in(column.name, part.missing)
            for column, part in pairs
            if part.missing and column.gaps == "none"
        ]
        written = [repr(name) for name in self.columns if name in self.written]
        for words, found in (
            (f"{UNSEEN}, the mean or missing", unseen),
            ("What is no number or date, as in fit, counts as missing", stray),
            ("Missing values where none were missing in fit count as the mean or zeros", missing),
            (f"Numbers where {COMMA}; were they read right?", written),
        ):
            if found:
                more = f" and {len(found) - 5} more" * (len(found) > 5)
                warnings.warn(f"{words}: {'; '.join(found[:5])}{more}.", UserWarning, stacklevel=5)
        if self.far:
            raise ValueError(self.far)


def encoded_columns(
    table: Table,
    columns: list[Column],
    positions: list[int],
    *,
    is_new: bool = False,
    surprises: Surprises | None = None,
) -> np.ndarray:
    """Encode ``columns``, found at ``positions`` of ``table``, as float64 (rows, supplied).

    Unless they are new, what they have not seen in ``fit`` gets a warning; with ``surprises``, who
    has them tells it, and what is infinite is NaN until then.
    """
    is_plain = all(column.kind == "number" for column in columns)
    values = table.numbers(positions) if is_plain else None
    if values is not None:
        missing = np.isnan(values).sum(axis=0).tolist()
        parts = [Encoded(NOTHING, count) for count in missing]
    else:
        pairs = zip(columns, positions, strict=True)
        parts = [column.encode(table, position) for column, position in pairs]
        values = np.concatenate([part.values for part in parts], axis=1)
    names = [name for column in columns for name in column.supplied_names]
    if is_new:
        others = [(each, part) for each, part in zip(columns, parts, strict=True) if part.strays]
        tell_strays({column: part.strays for column, part in others})
        check_finite(count_infinite(names, values))
        return values
    found = Surprises() if surprises is None else surprises
    for column, position, part in zip(columns, positions, parts, strict=True):
        found.add(column, part)
        is_written = column.writing is not None and column.writing.decimal == ","
        if is_written and table.is_fractional(position):
            found.written.add(column.name)
    is_infinite = np.isinf(values)
    for place in np.flatnonzero(is_infinite.any(axis=0)).tolist():
        found.infinite[names[place]] += int(is_infinite[:, place].sum())
    found.rows += table.rows
    if surprises is None:
        found.tell()
    elif found.infinite:
        values = np.where(is_infinite, np.nan, values)
    return values


def _is_surprising(column: Column, part: Encoded) -> bool:
    """Whether strays of a column are new: ``fit`` may have met some."""
    return part.stray is not None and not (column.has_strays and column.gaps != "none")


def _stray(column: Column, part: Encoded, rows: int) -> str:
    """Words about entries that are not of the kind of a column, as long as others are.

    One such entry may be a slip; several, and none of the kind, are another column.
    """
    assert part.stray is not None
    if part.strays > 1 and part.strays + part.missing == rows:
        expected = f"{column.kind}s in {column.name!r}, as in fit"
        if column.writing is not None and column.writing.example:
            expected += f", where they are written like {column.writing.example!r}"
        raise ValueError(f"Expected {expected}. Got {part.stray.words(column.name)}.")
    return f"{rows_in(column.name, part.strays)}, for instance {part.stray.example!r}"


def warn_of_outliers(encoded: np.ndarray, names: list[str], scale: np.ndarray) -> None:
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
