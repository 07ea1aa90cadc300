"""The rows of a table a few at a time, each column as it would be were they all read at once.

What a few rows of a CSV look like need not be what its column is: whole numbers, and then one with
a fraction or a cell that is missing; numbers, and then text. So the types of columns are watched
from chunk to chunk. Where one turns out to be another, the rest of the file is gone through for its
types, and all of it is read again with these: twice at most.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

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

EMPTY = "nothing"  # begins the type of a column in rows where it has no entry
DATES = "dates to the"  # begins that of dates, which are written as the finest of them
TEXT, TRUTH, ODD = "text", "bool", "odd"
UNITS = ("D", "s", "ms", "us", "ns")


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
    file.columns(block_rows(file.width))  # whether the first one numbers the rows
    return file


def _frames(file: Any, types: Types, names: Collection[str]) -> Iterator[pd.DataFrame]:
    """All rows, in frames of :func:`block_rows`; columns ``names`` that objects lack are empty."""
    is_json, is_empty = isinstance(file, JsonLines), True
    firsts = [0] if is_json else [first for first, _ in file.blocks()]
    rows = block_rows(file.width)
    for first in firsts:
        for frame in file.frames(first, rows, types):
            check_names([str(name) for name in frame.columns])
            is_empty &= not len(frame)
            yield frame.assign(**dict.fromkeys({*names} - {*frame}, np.nan)) if is_json else frame
    if is_empty:
        raise ValueError(f"Expected rows below the header. {file.path} has none.")


def _watched(
    file: Any, types: Types, names: Collection[str], kept: Collection[str]
) -> Iterator[pd.DataFrame]:
    """The frames, until a column among ``names`` is of another type than in those before."""
    seen: dict[str, set[str]] = {name: set() for name in names if name not in types}
    turned: dict[str, str] = {}
    for frame in _frames(file, types, names):
        for name in seen:
            if name in frame:
                seen[name].add(_type(frame[name], name in kept))
        wholes = {name: _whole(found) for name, found in seen.items()}
        turned = {
            name: whole
            for name, whole in wholes.items()
            if not all(_is_alike(each, whole, name in kept) for each in seen[name])
        }
        if not turned:
            yield frame
    empty = [name for name in seen if all(each.startswith(EMPTY) for each in seen[name])]
    if ODD in turned.values() or (isinstance(file, JsonLines) and empty):
        raise TurnedError(None)
    if turned:
        raise TurnedError({name: str if kind == TEXT else kind for name, kind in turned.items()})


def _type(values: pd.Series, is_kept: bool) -> str:
    """What the entries of a column in some rows look like."""
    kind: Any = values.dtype
    is_empty = bool(values.isna().all())
    if isinstance(kind, np.dtype) and kind.kind in NUMBERS:
        return f"{EMPTY} {kind.name}" if is_empty else kind.name
    if is_empty:
        return EMPTY
    if is_kept and isinstance(kind, np.dtype) and kind.kind == "M":
        unit = next(u for u in UNITS if (values.dropna().dt.floor(u) == values.dropna()).all())
        return f"{DATES} {unit}"
    if is_kept and (getattr(kind, "kind", "") in ("m", "M") or str(kind) == "category"):
        return ODD
    return TRUTH if isinstance(values[values.first_valid_index()], (bool, np.bool_)) else TEXT


def _whole(found: Collection[str]) -> str:
    """What a column looks like that has rows of the types ``found``, as pandas reads it."""
    entries = {each for each in found if not each.startswith(EMPTY)}
    if not all(map(_is_number, entries)):
        if len(entries) == 1:
            return next(iter(entries))
        is_written = all(each in (TEXT, TRUTH) or _is_number(each) for each in entries)
        return TEXT if is_written else ODD
    if "uint64" in entries and len(found) > 1:
        return TEXT
    numbers = [each.removeprefix(EMPTY).strip() for each in found if each != EMPTY]
    return np.result_type(*numbers).name if numbers else EMPTY


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "uint", "float"))


def _is_alike(part: str, whole: str, is_kept: bool) -> bool:
    """Whether rows of the type ``part`` are read as a column of the type ``whole`` is."""
    if whole == ODD:
        return False
    if part == whole or part.startswith(EMPTY):
        return True
    return not is_kept and _is_number(part) and _is_number(whole)
