"""The rows of a table a few at a time, each column as it would be were they all read at once.

What a few rows of a CSV look like need not be what its column is: whole numbers, and then one with
a fraction or a cell that is missing; numbers, and then text. So the types of columns are watched
from chunk to chunk. Where one turns out to be another, the rest of the file is gone through for its
types, and all of it is read again with these: twice at most.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from torchsparcs.tables.blocks import block_rows
from torchsparcs.tables.columns import check_names
from torchsparcs.tables.databases import is_database
from torchsparcs.tables.entries import NUMBERS
from torchsparcs.tables.json_lines import JsonLines, read_json_lines
from torchsparcs.tables.parquet import ParquetFiles
from torchsparcs.tables.readers import FILES, WHOLE, ending_of, open_table, read_table
from torchsparcs.tables.text_files import TextFile, Types

NOTHING, NUMERIC, DATES = "nothing", "numbers", "dates"
TEXT, TRUTHS, ODD = "text", "truths", "odd"
UNITS = ("D", "s", "ms", "us", "ns")


class Look(NamedTuple):
    """What the entries of a column look like.

    Attributes:
        kind: what they are; ``NOTHING`` where there are none, ``ODD`` where pandas has to decide.
        detail: of numbers, and of a column without entries that becomes one of numbers, their type
            in NumPy; of dates the unit of the finest, as which all of them are written.
    """

    kind: str
    detail: str = ""


class TurnedError(Exception):
    """Columns are of other types than rows before had them."""

    def __init__(self, types: Types | None):
        self.types = types
        super().__init__("a column turned out to be of another type")


def chunkwise(
    take: Callable[[Iterator[pd.DataFrame]], Any],
    source: str | Path,
    *,
    text: Collection[str] = (),
    read: Collection[str] = (),
    kept: Collection[str] = (),
    sheet: str | None = None,
) -> Any:
    """What ``take`` makes of the rows of ``source``, which it gets as frames, one after the other.

    It may be called again, from the first row, and what it made before is then forgotten. Files
    that cannot be read in parts are one frame.

    Args:
        source, text, sheet: as for :func:`torchsparcs.tables.readers.read_table`.
        read: columns whose numbers, texts and dates matter; all others may be of any type.
        kept: those of them that are written down again, and have to look the same.
    """
    file = _opened(source, sheet)
    if file is None:
        return take(iter([read_table(source, text, sheet)]))
    types = dict.fromkeys(text, str) if isinstance(file, TextFile) else {}
    try:
        return take(_watched(file, types, {*read, *kept}, {*kept}))
    except TurnedError as turned:
        if turned.types is None:
            return take(iter([read_table(source, text)]))
        return take(_frames(file, {**types, **turned.types}, {*read, *kept}))


def _opened(source: str | Path, sheet: str | None) -> "TextFile | ParquetFiles | JsonLines | None":
    """The file, None for what is read whole."""
    if is_database(source) or sheet is not None:
        return None
    path = Path(source)
    ending = "" if path.is_dir() else ending_of(path).lower()
    if ending and (not path.exists() or path.stat().st_size == 0):
        return None  # its reader says what is wrong
    if WHOLE.get(ending) is read_json_lines:
        return JsonLines(path)
    if ending and ending not in FILES:
        return None
    file = open_table(path)
    if isinstance(file, ParquetFiles):
        file.check_kept()
    return file


def _frames(file: Any, types: Types, names: Collection[str]) -> Iterator[pd.DataFrame]:
    """All rows, in frames of :func:`block_rows`.

    Columns ``names`` that the objects of a frame lack are empty there. Those that all objects lack
    are missing from one more frame: who reads it says so.
    """
    is_json, is_empty = isinstance(file, JsonLines), True
    firsts = [0] if is_json else [first for first, _ in file.blocks()]
    rows = block_rows(file.width)
    found: dict[str, None] = {}  # columns, in the order of a table that is read whole
    for first in firsts:
        for frame in file.frames(first, rows, types):
            check_names([str(name) for name in frame.columns])
            is_empty &= not len(frame)
            found.update(dict.fromkeys(frame))
            yield frame.assign(**dict.fromkeys({*names} - {*frame}, np.nan)) if is_json else frame
    if is_empty:
        raise ValueError(f"Expected rows below the header. {file.path} has none.")
    if is_json and not {*names} <= {*found}:
        yield pd.DataFrame({name: [np.nan] for name in found})
        raise TurnedError(None)  # nobody minded


def _watched(
    file: Any, types: Types, names: Collection[str], kept: Collection[str]
) -> Iterator[pd.DataFrame]:
    """The frames, until a column among ``names`` is of another type than in those before."""
    empty = Look(NOTHING, "float64" if isinstance(file, JsonLines) else "")
    seen: dict[str, set[Look]] = {name: set() for name in names if name not in types}
    turned: dict[str, Look] = {}
    for frame in _frames(file, types, names):
        for name in seen:
            if name in frame:
                seen[name].add(_look(frame[name], name in kept, empty))
        wholes = {name: _whole(looks) for name, looks in seen.items()}
        turned = {
            name: whole
            for name, whole in wholes.items()
            if not all(_is_alike(each, whole, name in kept) for each in seen[name])
        }
        if not turned or not {*names} <= {*frame}:
            yield frame
    if any(whole.kind == ODD for whole in turned.values()):
        raise TurnedError(None)
    if turned:
        raise TurnedError(
            {name: str if whole.kind == TEXT else whole.detail for name, whole in turned.items()}
        )


def _look(values: pd.Series, is_kept: bool, empty: Look) -> Look:
    """What a column looks like in some rows; ``empty`` where it has no entry and no type."""
    kind: Any = values.dtype
    is_empty = bool(values.isna().all())
    if isinstance(kind, np.dtype) and kind.kind in NUMBERS:
        if kind.kind == "b":
            return Look(TRUTHS)
        return Look(NOTHING if is_empty else NUMERIC, kind.name)
    if is_empty:
        return empty
    if is_kept and isinstance(kind, np.dtype) and kind.kind == "M":
        dates = values.dropna()
        return Look(DATES, next(unit for unit in UNITS if (dates.dt.floor(unit) == dates).all()))
    if is_kept and (getattr(kind, "kind", "") in ("m", "M") or str(kind) == "category"):
        return Look(ODD)
    is_truth = isinstance(values[values.first_valid_index()], (bool, np.bool_))
    return Look(TRUTHS if is_truth else TEXT)


def _whole(looks: Collection[Look]) -> Look:
    """What a column looks like that has rows of these looks, as pandas reads it."""
    entries = {each for each in looks if each.kind != NOTHING}
    kinds = {each.kind for each in entries}
    if kinds - {NUMERIC}:
        if len(entries) == 1:
            return next(iter(entries))
        return Look(TEXT if kinds <= {TEXT, TRUTHS, NUMERIC} else ODD)
    if Look(NUMERIC, "uint64") in entries and len(looks) > 1:
        return Look(TEXT)
    types = [each.detail for each in looks if each.detail]
    return Look(NUMERIC, np.result_type(*types).name) if types else Look(NOTHING)


def _is_alike(part: Look, whole: Look, is_kept: bool) -> bool:
    """Whether rows that look like ``part`` are read as a column that looks like ``whole`` is."""
    if whole.kind == ODD:
        return False
    if part == whole or part.kind == NOTHING:
        return True
    return not is_kept and part.kind == whole.kind == NUMERIC
