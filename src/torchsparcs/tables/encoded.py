"""Columns of a table encoded together, with a word about what is surprising in them."""

import warnings

import numpy as np

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import Table
from torchsparcs.tables.encoding import Column, Encoded
from torchsparcs.tables.entries import check_finite, count_infinite, rows_in
from torchsparcs.tables.kinds import tell_strays

DWARFED = 0.01  # of its scale: where nine tenths of a column lie closer together, they look alike
MOST_LOOKED_AT = 1000  # rows, for that
UNSEEN = "Categories that were not seen in fit count as 'other', zeros"


def encoded_columns(
    table: Table, columns: list[Column], positions: list[int], *, is_new: bool = False
) -> np.ndarray:
    """Encode ``columns``, found at ``positions`` of ``table``, as float64 (rows, supplied).

    Unless they are new, what they have not seen in ``fit`` gets a warning.
    """
    is_plain = all(column.kind == "number" for column in columns)
    values = table.numbers(positions) if is_plain else None
    unseen: list[str] = []
    stray: list[str] = []
    if values is not None:
        missing = np.isnan(values).sum(axis=0).tolist()
    else:
        pairs = zip(columns, positions, strict=True)
        parts = [column.encode(table, position) for column, position in pairs]
        values = np.concatenate([part.values for part in parts], axis=1)
        unseen = [part.unseen for part in parts if part.unseen]
        missing = [part.missing for part in parts]
        others = [(each, part) for each, part in zip(columns, parts, strict=True) if part.strays]
        if is_new:
            tell_strays({column: part.strays for column, part in others})
        else:
            stray = [_stray(*each) for each in others if _is_surprising(*each)]
    names = [name for column in columns for name in column.supplied_names]
    check_finite(count_infinite(names, values))
    if is_new:
        return values
    surprising = [
        rows_in(column.name, count)
        for column, count in zip(columns, missing, strict=True)
        if count and column.gaps == "none"
    ]
    parsed = [
        repr(column.name)
        for column, position in zip(columns, positions, strict=True)
        if column.writing is not None
        and column.writing.decimal == ","
        and table.is_fractional(position)
    ]
    for words, found in (
        (f"{UNSEEN}, the mean or missing", unseen),
        ("What is no number or date, as in fit, counts as missing", stray),
        ("Missing values where none were missing in fit count as the mean or zeros", surprising),
        ("Numbers where text with a decimal comma was in fit; were they read right?", parsed),
    ):
        if found:
            more = f" and {len(found) - 5} more" * (len(found) > 5)
            warnings.warn(f"{words}: {'; '.join(found[:5])}{more}.", UserWarning, stacklevel=4)
    return values


def _is_surprising(column: Column, part: Encoded) -> bool:
    """Whether strays of a column are new: ``fit`` may have met some."""
    return part.stray is not None and not (column.has_strays and column.gaps != "none")


def _stray(column: Column, part: Encoded) -> str:
    """Words about entries that are not of the kind of a column, as long as others are.

    One such entry may be a slip; several, and none of the kind, are another column.
    """
    assert part.stray is not None
    if part.strays > 1 and part.strays + part.missing == len(part.values):
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
