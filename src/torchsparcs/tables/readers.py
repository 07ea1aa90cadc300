"""Files that hold a table, CSV, Parquet or NPZ: read whole, or a few rows at a time."""

import codecs
import contextlib
import csv
import gzip
import io
import math
import sys
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from torchsparcs.files.arrays import read_arrays
from torchsparcs.files.reading import check_memory, first_line, memory, quoted
from torchsparcs.tables.columns import check_names
from torchsparcs.tables.entries import NUMBERS, number
from torchsparcs.tables.parquet import COPIES, ParquetFiles, Span

SEPARATORS = ",;\t|"
FOREIGN = {b"PAR1": "parquet", b"PK\x03\x04": "a zip archive", b"\x1f\x8b": "gzip"}
TEXT_COPIES = 14  # of what a file claims, in memory on the way to a table
BEGINNING = 2**20  # bytes of a text file that tell how it is written
LONGEST = 2**28  # bytes of a header
LINE = 2**24  # bytes of a line that is read whole
PIECE = 2**20  # bytes of a text file that are unpacked at once
MOST_COLUMNS = 2**20  # of an array, which may be packed into next to nothing

END = sys.maxsize  # in place of a number of rows that is not known yet


def read_table(path: str | Path, text: Collection[str] = ()) -> pd.DataFrame:
    """Read the DataFrame in a file that ends in .csv, .tsv, either with .gz, .parquet or .npz.

    Columns ``text`` of a CSV or TSV file are text whatever they look like.
    """
    path = Path(path)
    ending = ending_of(path).lower()
    if path.is_dir():
        raise ValueError(f"Expected a data file. {path} is a folder.")
    _check_filled(path)
    try:
        table = _read_npz(path) if ending == ".npz" else FILES[ending](path).whole(text)
    except MemoryError as error:
        raise ValueError(f"Expected a table that fits into memory. {path} does not.") from error
    check_names([str(column) for column in table.columns])
    if len(table) == 0:
        raise ValueError(f"Expected rows below the header. {path} has none.")
    return table


def open_table(path: Path) -> "TextFile | ParquetFiles":
    """Open a file that can be read a few rows at a time, or a folder of Parquet files."""
    if path.is_dir():
        return ParquetFiles(path)
    _check_filled(path)
    return FILES[ending_of(path, (*FILES,), ", or a pair of .npy files").lower()](path)


def ending_of(path: Path, known: Sequence[str] = (), also: str = "") -> str:
    """The ending of a file that can be read, as the file has it; any other is a ValueError."""
    known = known or (*FILES, ".npz")
    for ending in known:
        if path.name.lower().endswith(ending):
            return path.name[-len(ending) :]
    raise ValueError(f"Expected a file that ends in {', '.join(known)}{also}. Got {str(path)!r}.")


def _check_filled(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"Expected a data file. There is none at {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"Expected a table with a header. {path} is empty.")


class TextFile:
    """A CSV or TSV file, also .gz: one block, since it can be read from its beginning only.

    The separator is the most frequent of comma, semicolon, tab and bar in the first line. A first
    column without a name that counts the rows is left out.
    """

    def __init__(self, path: Path):
        self.path, self.skipped = path, 0  # columns that are left out
        size = BEGINNING
        start = self._start(size)
        while len(start) == size < LONGEST and not {*b"\r\n"} & {*start}:  # a very long header
            size *= 8
            start = self._start(size)
        try:
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
        except UnicodeDecodeError as error:
            raise self._not_utf8(f"another byte at position {error.start}") from error
        if not text.strip():
            raise ValueError(f"Expected a table with a header. {path} is empty.")
        separator, self.header = _header(text, path)
        self.width = len(self.header)
        self.options: dict[str, Any] = {
            "sep": separator,
            "encoding": "utf-8-sig",
            "index_col": False,
            "low_memory": False,
            "skipinitialspace": True,
        }

    def whole(self, text: Collection[str] = ()) -> pd.DataFrame:
        """Read all rows at once; columns ``text`` are text whatever they look like."""
        check_memory(self.path, self.path.stat().st_size, copies=TEXT_COPIES)
        most = memory() // TEXT_COPIES
        content = self._start(most + 1)
        if len(content) > most:
            raise ValueError(f"Expected at most {most:,} bytes. {self.path} unpacks to more.")
        for start in range(0, len(content) - LINE, LINE):
            if not any(content.find(end, start, start + LINE) >= 0 for end in (b"\n", b"\r")):
                raise ValueError(f"Expected lines of at most {LINE:,} bytes. {self.path} has more.")
        lines = 1 + max(content.count(b"\n"), content.count(b"\r"))
        check_memory(self.path, lines * self.width * 8, copies=COPIES)  # short rows are filled up
        with self._errors():
            types: Any = dict.fromkeys(text, str)
            table = pd.read_csv(io.BytesIO(content), dtype=types, **self.options)
        skipped = self._row_numbers(table)
        return table.iloc[:, skipped:] if skipped else table  # a slice of many columns takes long

    def columns(self, rows: int) -> list[str]:
        """The names of the columns, of which ``rows`` rows are looked at."""
        first = next(self.frames(0, rows), None)
        if first is None or not len(first):
            raise ValueError(f"Expected rows below the header. {self.path} has none.")
        self.skipped = self._row_numbers(first)
        return [str(name) for name in first.columns[self.skipped :]]

    def blocks(self) -> list[Span]:
        return [(0, END)]

    def frames(self, first: int, rows: int, text: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Read ``rows`` rows at a time; columns ``text`` are text whatever they look like."""
        options: dict[str, Any] = {"chunksize": rows, "dtype": dict.fromkeys(text, str)}
        with self._errors():
            reader: Any = pd.read_csv(self.path, **self.options, **options)
        with reader:
            while True:
                with self._errors():  # not around the yield: it sets a filter of warnings
                    frame = next(reader, None)
                if frame is None:
                    return
                yield frame.iloc[:, self.skipped :]

    def _row_numbers(self, table: pd.DataFrame) -> int:
        """1 where the first column has no name and counts the rows, with a warning; else 0."""
        first = table.iloc[:, 0]
        if self.header[0] or self.width == 1 or not len(table) or first.dtype.kind != "i":
            return 0
        if not (first.diff().iloc[1:] == 1).all():
            return 0
        warnings.warn(
            f"The first column of {self.path} has no name and counts the rows: it is left out.",
            UserWarning,
            stacklevel=5,
        )
        return 1

    def _start(self, size: int) -> bytearray:
        """The first ``size`` bytes, unpacked; a ValueError where they are no text."""
        is_packed = self.path.suffix.lower() == ".gz"
        with self._errors(), gzip.open(self.path) if is_packed else self.path.open("rb") as file:
            content = bytearray()  # piece by piece: a read of ``size`` would take that much
            while piece := file.read(min(PIECE, size - len(content))):
                content += piece
        for start, kind in FOREIGN.items():
            if content.startswith(start):
                raise ValueError(
                    f"Expected text. {self.path} is {kind}: give it the ending of what it is."
                )
        if b"\0" in content:
            raise self._not_utf8("zeros: it is binary, or in UTF-16")
        return content

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what gzip and pandas raise, and their warnings of lost fields, into ValueErrors."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                yield
        except UnicodeDecodeError as error:
            raise self._not_utf8("other bytes") from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"Expected a whole gzip file. {self.path} is not: {error}.") from error
        except (pd.errors.ParserWarning, pd.errors.ParserError) as error:
            reason = first_line(error).removeprefix("Error tokenizing data. C error: ")
            raise ValueError(
                f"Expected {self.width} fields in each row, as in the header. {self.path}: "
                f"{reason.rstrip('.')}."
            ) from error

    def _not_utf8(self, what: str) -> ValueError:
        return ValueError(
            f"Expected text in UTF-8. {self.path} has {what}: save it as UTF-8 first."
        )


def _header(text: str, path: Path) -> tuple[str, list[str]]:
    """The separator, which is the most frequent in the first line, and the names there."""
    first = next(line for line in io.StringIO(text, newline=None) if line.strip())
    outside_quotes = "".join(first.split('"')[::2])
    separator = max(SEPARATORS, key=outside_quotes.count)
    lines = csv.reader(
        io.StringIO(text.lstrip(), newline=None), delimiter=separator, skipinitialspace=True
    )
    try:
        header = next(lines)
    except csv.Error as error:  # of a name that is endless
        raise ValueError(
            f"Expected names in the first line. {path} has others: {error}."
        ) from error
    check_names([name for name in header if name])
    values = [name for name in header if "." in name and number(name) is not None]
    if values:
        raise ValueError(
            f"Expected names in the first line. {path} has numbers there, {quoted(values, 3)}: "
            "add a line with the names of the columns."
        )
    return separator, header


def _read_npz(path: Path) -> pd.DataFrame:
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


FILES: dict[str, type[TextFile] | type[ParquetFiles]] = {
    ".csv": TextFile,
    ".tsv": TextFile,
    ".csv.gz": TextFile,
    ".tsv.gz": TextFile,
    ".parquet": ParquetFiles,
}
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet computes begins with one of them


def for_spreadsheets(value: Any) -> Any:
    """``value``, a text that begins like a formula behind an apostrophe; numbers are left alone.

    >>> [for_spreadsheets(value) for value in ("=1+1", "-1", "a=1", -1.5)]
    ["'=1+1", '-1', 'a=1', -1.5]
    """
    is_formula = isinstance(value, str) and value.startswith(FORMULAS) and number(value) is None
    return f"'{value}" if is_formula else value


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with names and texts as :func:`for_spreadsheets` has them."""
    texts = {
        name: table[name].map(for_spreadsheets)
        for name in table
        if table[name].dtype.kind not in NUMBERS
    }
    return table.assign(**texts).rename(columns=for_spreadsheets)


WRITERS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    ".csv": lambda table: table.to_csv(index=False, lineterminator="\n").encode(),
    ".parquet": lambda table: table.to_parquet(index=False),
}
