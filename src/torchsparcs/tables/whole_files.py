"""Files that are read whole: NPZ arrays, Excel."""

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from torchsparcs.files.arrays import read_arrays
from torchsparcs.files.reading import check_memory, memory, quoted, reading
from torchsparcs.tables.columns import check_names
from torchsparcs.tables.text_files import names_rows, tell_row_numbers

MOST_COLUMNS = 2**20  # of an array, which may be packed into next to nothing
EXCEL_COPIES = 8  # of the texts in a workbook, in memory on the way to a table
OFTEN = 1000  # rows after which the memory is looked at
MOST_ROWS = 2**20  # of a sheet, as Excel has them
MOST_EMPTY = 2**26  # cells without a value at the ends of its rows


def read_npz(path: Path) -> pd.DataFrame:
    """Arrays X (rows, features) and y, or one array for each column."""
    arrays = read_arrays(path)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none"
    key = next((key for key in ("X", "x") if key in arrays and arrays[key].ndim > 1), None)
    if key is None:
        if {array.ndim for array in arrays.values()} != {1} or len(
            {*map(len, arrays.values())}
        ) > 1:
            raise ValueError(
                "Expected arrays X (rows, features) and y, or columns of one length. "
                f"{path} has {shapes}."
            )
        return pd.DataFrame(arrays)
    X, y = arrays[key], arrays.get("y")
    if X.ndim != 2 or (y is not None and (y.ndim not in (1, 2) or len(y) != len(X))):
        raise ValueError(
            f"Expected X of shape (rows, features), and y with as many rows. {path} has {shapes}."
        )
    if not X.size:
        raise ValueError(f"Expected rows and columns in {key}. {path} has {shapes}.")
    if X.shape[1] + (0 if y is None else math.prod(y.shape[1:])) > MOST_COLUMNS:
        raise ValueError(f"Expected at most {MOST_COLUMNS} columns. {path} has {shapes}.")
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    if y is None:
        return table
    names = ["y"] if y.size == len(y) else [f"y{i}" for i in range(y.shape[1])]
    return pd.concat([table, pd.DataFrame(y.reshape(len(y), -1), columns=names)], axis=1)


def read_excel(path: Path, sheet: str | None = None) -> pd.DataFrame:
    """A sheet of an .xlsx workbook: names in its first row, values below; formulas as computed."""
    try:
        import openpyxl
        from openpyxl.cell.cell import ERROR_CODES
    except ImportError as error:
        raise ImportError(
            "Reading .xlsx files needs openpyxl: pip install 'torchsparcs[excel]'."
        ) from error
    with reading("a whole .xlsx workbook", path), path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:  # no member unpacks to more than it claims
            claimed = sum(part.file_size for part in archive.infolist())
        check_memory(path, claimed, copies=EXCEL_COPIES)
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        filled = {each.title: each for each in book.worksheets if any(_rows(each, path))}
        name = chosen_name(path, "sheet", [*filled], sheet)
        return _sheet_table(filled[name], f"{path}, sheet {name!r},", path, {*ERROR_CODES})


def chosen_name(source: Any, what: str, names: list[str], name: str | None) -> str:
    """``name`` where it is among ``names``, or the only one of them; else a question."""
    if name is None and len(names) == 1:
        return names[0]
    if name in names:
        return str(name)
    if not names:
        raise ValueError(f"Expected a {what} with values. {source} has none.")
    if name is None:
        raise ValueError(
            f"Expected the name of a {what}, as there are several. {source} has {quoted(names)}: "
            "pass one as sheet."
        )
    raise ValueError(f"Expected a {what} of {source}, {quoted(names)}. Got {name!r}.")


def _rows(sheet: Any, path: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of a sheet without empty cells at their ends.

    A file of a few bytes can say that there is a cell in the last row of billions.
    """
    sheet.reset_dimensions()  # what it says of itself may be wrong
    empty = 0
    for count, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        trimmed = _trimmed(row)
        empty += len(row) - len(trimmed)
        if count > MOST_ROWS or empty > MOST_EMPTY:
            raise ValueError(
                f"Expected at most {MOST_ROWS:,} rows, with values in their cells. {path} has "
                f"more in sheet {sheet.title!r}."
            )
        yield trimmed


def _sheet_table(sheet: Any, place: str, path: Path, errors: set[str]) -> pd.DataFrame:
    rows = _rows(sheet, path)
    header = next(row for row in rows if row)
    header = tuple("" if cell is None and not i else cell for i, cell in enumerate(header))
    if None in header:
        raise _nameless(place, header.index(None))
    check_names([*map(str, header)])
    width, room = len(header), memory()
    columns: list[list[Any]] = [[] for _ in header]
    for count, row in enumerate(rows):
        if len(row) > width:
            raise ValueError(
                f"Expected {width} columns, as in the first row. {place} has a value beside them, "
                f"{row[-1]!r}."
            )
        if row:  # an empty one is a gap
            for column, cell in zip(columns, row + (None,) * (width - len(row)), strict=True):
                column.append(None if cell in errors else cell)
        if count % OFTEN == 0:
            check_memory(path, len(columns[0]) * width * 8, copies=EXCEL_COPIES, room=room)
    table = pd.DataFrame(dict(zip(map(str, header), columns, strict=True)))
    if header[0]:
        return table
    if width == 1 or not names_rows(table.iloc[:, 0]):
        raise _nameless(place, 0)
    tell_row_numbers(place.removesuffix(","))
    return table.iloc[:, 1:]


def _nameless(place: str, column: int) -> ValueError:
    return ValueError(
        f"Expected a name above each column. {place} has none above column {column + 1}."
    )


def _trimmed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without empty cells at the end."""
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]
