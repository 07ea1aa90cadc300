"""CSV and TSV files: all rows at once, or a few at a time."""

import codecs
import contextlib
import csv
import gzip
import io
import sys
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from torchsparcs.files.reading import check_memory, first_line, memory, quoted
from torchsparcs.tables.columns import check_names
from torchsparcs.tables.entries import number
from torchsparcs.tables.parquet import COPIES, Span

SEPARATORS = ",;\t|"
FOREIGN = {b"PAR1": "parquet", b"PK\x03\x04": "a zip archive", b"\x1f\x8b": "gzip"}
TEXT_COPIES = 14  # of what a file claims, in memory on the way to a table
BEGINNING = 2**20  # bytes of a text file that tell how it is written
LONGEST = 2**28  # bytes of a header
LINE = 2**24  # bytes of a line that is read whole
WIDE = 10_000  # columns
PIECE = 2**20  # bytes of a text file that are unpacked at once

Types = Mapping[str, Any]  # of columns, by name, as pandas takes them
END = sys.maxsize  # in place of a number of rows that is not known yet


class TextFile:
    """A CSV or TSV file, also .gz: one block, since it can be read from its beginning only.

    The separator is the most frequent of comma, semicolon, tab and bar in the first line. A first
    column without a name that numbers the rows is left out.
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
        content = bounded(self.path, TEXT_COPIES)
        for start in range(0, len(content) - LINE, LINE):
            if not any(content.find(end, start, start + LINE) >= 0 for end in (b"\n", b"\r")):
                raise _too_long(self.path)
        lines = 1 + max(content.count(b"\n"), content.count(b"\r"))
        check_memory(self.path, lines * self.width * 8, copies=COPIES)  # short rows are filled up
        with self._errors():
            types: Any = dict.fromkeys(text, str)
            table = pd.read_csv(io.BytesIO(content), dtype=types, **self.options)
        if self.width > WIDE:
            table = table.copy()  # pandas then has one array in place of one for each column
        skipped = self._row_numbers(table)
        return table.iloc[:, skipped:] if skipped else table  # a slice of many columns takes long

    def columns(self, rows: int) -> list[str]:
        """The names of the columns, of which ``rows`` rows are looked at."""
        first = next(self.frames(0, rows, {}), None)
        if first is None or not len(first):
            raise ValueError(f"Expected rows below the header. {self.path} has none.")
        self.skipped = self._row_numbers(first)
        return [str(name) for name in first.columns[self.skipped :]]

    def blocks(self) -> list[Span]:
        return [(0, END)]

    def frames(self, first: int, rows: int, types: Types) -> Iterator[pd.DataFrame]:
        """Read ``rows`` rows at a time, columns of given ``types`` as such."""
        options: dict[str, Any] = {"chunksize": rows, "dtype": dict(types)}
        with self._errors(), contextlib.ExitStack() as stack:
            lines: Any = _Lines(stack.enter_context(opened(self.path)), self.path)
            reader: Any = pd.read_csv(lines, **self.options, **options)
            opening = stack.pop_all()
        with opening, reader:
            while True:
                with self._errors():  # not around the yield: it sets a filter of warnings
                    frame = next(reader, None)
                if frame is None:
                    return
                yield frame.iloc[:, self.skipped :]

    def _row_numbers(self, table: pd.DataFrame) -> int:
        """1 where the first column has no name and numbers the rows, with a warning; else 0."""
        if self.header[0] or self.width == 1 or not names_rows(table.iloc[:, 0]):
            return 0
        tell_row_numbers(self.path)
        return 1

    def _start(self, size: int) -> bytearray:
        """The first ``size`` bytes, unpacked; a ValueError where they are no text."""
        content = unpacked(self.path, size)
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
        """Turn what pandas raises, and their warnings of lost fields, into ValueErrors."""
        try:
            with whole_gzip(self.path), warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                yield
        except UnicodeDecodeError as error:
            raise self._not_utf8("other bytes") from error
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


class _Lines:
    """A file that is read; a line that does not end is a ValueError before it fills the memory."""

    def __init__(self, file: Any, path: Path):
        self.file, self.path, self.begun = file, path, 0  # bytes of the last line

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self.file.read(size)
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        self.begun = len(piece) - end - 1 + (self.begun if end < 0 else 0)
        if self.begun > LINE:
            raise _too_long(self.path)
        return piece

    def __iter__(self) -> Iterator[bytes]:  # pandas asks whether it is a file
        return iter(self.file)


def _too_long(path: Path) -> ValueError:
    return ValueError(f"Expected lines of at most {LINE:,} bytes. {path} has more.")


def opened(path: Path) -> Any:
    """The file, unpacked where its name ends in .gz."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def bounded(path: Path, copies: int) -> bytearray:
    """All bytes of a text file, unpacked, where they fit into memory ``copies`` times."""
    check_memory(path, path.stat().st_size, copies=copies)
    most = memory() // copies
    content = unpacked(path, most + 1)
    if len(content) > most:
        raise ValueError(f"Expected at most {most:,} bytes. {path} unpacks to more.")
    return content


def unpacked(path: Path, size: int) -> bytearray:
    """The first ``size`` bytes of a file, which is unpacked where its name ends in .gz."""
    with whole_gzip(path), opened(path) as file:
        content = bytearray()  # piece by piece: a read of ``size`` would take that much
        while piece := file.read(min(PIECE, size - len(content))):
            content += piece
    return content


@contextlib.contextmanager
def whole_gzip(path: Path) -> Iterator[None]:
    """Turn what gzip raises of a damaged file into a ValueError."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"Expected a whole gzip file. {path} is not: {error}.") from error


def names_rows(column: pd.Series) -> bool:
    """Whether a column holds whole numbers of which none repeats, as an index does."""
    return len(column) > 0 and column.dtype.kind == "i" and column.is_unique


def tell_row_numbers(place: Any) -> None:
    """Warn of a first column that is left out."""
    warnings.warn(
        f"The first column of {place} has no name and numbers the rows: it is left out.",
        UserWarning,
        stacklevel=6,
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
