"""Columns of a table encoded together, with a word about what is surprising in them."""

import warnings

import numpy as np

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import Table
from torchsparcs.tables.encoding import Column
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
    unseen, surprising = [], []
    if values is not None:
        missing = np.isnan(values).sum(axis=0).tolist()
    else:
        pairs = zip(columns, positions, strict=True)
        parts = [column.encode(table, position) for column, position in pairs]
        values = np.concatenate([part.values for part in parts], axis=1)
        unseen = [part.unseen for part in parts if part.unseen]
        missing = [part.missing for part in parts]
        if is_new:
            strays = [part.strays for part in parts]
            tell_strays(dict(zip((column.name for column in columns), strays, strict=True)))
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
        ("Missing values where none were missing in fit count as the mean or zeros", surprising),
        ("Numbers where text with a decimal comma was in fit; were they read right?", parsed),
    ):
        if found:
            more = f" and {len(found) - 5} more" * (len(found) > 5)
            warnings.warn(f"{words}: {'; '.join(found[:5])}{more}.", UserWarning, stacklevel=4)
    return values


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
