"""Rows from files that hold a table with its target: Parquet by row groups, CSV from top to bottom.

pandas and pyarrow are loaded when they are used.
"""

import codecs
import gzip
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchsparcs.messages import first_line
from torchsparcs.tables.datasets import divided, resolved_target
from torchsparcs.tables.readers import check_pyarrow, check_text, imported, text_header
from torchsparcs.tables.sources import Chunk, Span, block_rows, counted, window

READ_AHEAD = 2**18  # bytes of each column of a Parquet file
BEGINNING = 2**20  # bytes of a text file that tell how it is written


class _Group(NamedTuple):
    path: Path
    place: int
    start: int
    rows: int


class ParquetSource:
    """The row groups of a Parquet file, or of all the files of a folder, by name.

    A row group is a block; one with many rows is read in slices.
    """

    is_repeatable = True

    def __init__(
        self,
        path: Path,
        target: Any = None,
        *,
        drop: str | Sequence[str] = (),
        chunk_rows: int | None = None,
    ):
        check_pyarrow()
        self._parquet = imported("pyarrow.parquet", "'torchsparcs[parquet]'")
        paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not paths:
            raise ValueError(f"Expected a folder of .parquet files. {path} has none.")
        self._metadata = {part: self._opened(part).metadata for part in paths}
        self._groups: list[_Group] = []
        rows = 0
        for part, metadata in self._metadata.items():
            for place in range(metadata.num_row_groups):
                self._groups.append(_Group(part, place, rows, metadata.row_group(place).num_rows))
                rows += self._groups[-1].rows
        if rows == 0:
            raise ValueError(f"Expected rows. {path} has none.")
        self.rows: int | None = rows
        columns = [str(name) for name in self._nothing(paths[0]).columns]
        for part in paths[1:]:
            others = [str(name) for name in self._nothing(part).columns]
            if others != columns:
                raise ValueError(
                    f"Expected the columns of {paths[0].name} in all files. {part} has "
                    f"{', '.join(sorted({*others} ^ {*columns})) or 'them in another order'}."
                )
        self.target, self.drop = resolved_target(target, columns, drop=drop), drop
        self.chunk_rows = chunk_rows or block_rows(len(columns))

    def blocks(self) -> list[Span]:
        return [(group.start, group.start + group.rows) for group in self._groups if group.rows]

    def read(self, start: int, stop: int | None, text: Collection[str] = ()) -> Iterator[Chunk]:
        stop = self.rows if stop is None else stop
        assert stop is not None
        for group in self._groups:
            if group.start < stop and start < group.start + group.rows:
                yield from window(self._chunks(group), group.start, start, stop)

    def _chunks(self, group: _Group) -> Iterator[Chunk]:
        with self._opened(group.path, self._metadata[group.path]) as file:
            try:
                for batch in file.iter_batches(self.chunk_rows, row_groups=[group.place]):
                    yield _divided(batch.to_pandas(), self.target, self.drop)
            except OSError as error:  # Arrow's own for what is broken
                raise ValueError(
                    f"Expected a whole parquet file. {group.path} cannot be read: "
                    f"{first_line(error)}"
                ) from error

    def _opened(self, path: Path, metadata: Any = None) -> Any:
        try:
            return self._parquet.ParquetFile(
                path,
                metadata=metadata,
                buffer_size=READ_AHEAD,
                pre_buffer=False,  # which would read whole row groups
            )
        except FileNotFoundError:
            raise
        except Exception as error:  # of Arrow and the system, of many kinds
            raise ValueError(
                f"Expected a parquet file. {path} cannot be read: {first_line(error)}"
            ) from error

    def _nothing(self, path: Path) -> Any:
        """The table of no rows, whose columns are those of the others."""
        return self._opened(path).schema_arrow.empty_table().to_pandas()


class TextSource:
    """A CSV or TSV file, also .gz: read from its beginning each time, so that it is one block."""

    is_repeatable = True

    def __init__(
        self,
        path: Path,
        target: Any = None,
        *,
        drop: str | Sequence[str] = (),
        chunk_rows: int | None = None,
    ):
        self.path, self._pandas = path, imported("pandas", "pandas")
        self.rows: int | None = None
        self.separator, self.header = text_header(_beginning(path), path)
        self.chunk_rows = chunk_rows or block_rows(len(self.header))
        self.skipped = 0  # columns: a first one without a name that counts the rows
        first = next(self._frames(), None)
        if first is None or not len(first):
            raise ValueError(f"Expected rows below the header. {path} has none.")
        if not self.header[0] and len(self.header) > 1 and first.iloc[:, 0].dtype.kind == "i":
            self.skipped = int((first.iloc[:, 0].diff().iloc[1:] == 1).all())
        columns = [str(name) for name in first.columns[self.skipped :]]
        self.target, self.drop = resolved_target(target, columns, drop=drop), drop
        if self.skipped:
            warnings.warn(
                f"The first column of {path} has no name and counts the rows: it is left out.",
                UserWarning,
                stacklevel=4,
            )

    def blocks(self) -> list[Span]:
        return [(0, self.rows)]

    def read(self, start: int, stop: int | None, text: Collection[str] = ()) -> Iterator[Chunk]:
        yield from window(counted(self, self._chunks(text)), 0, start, stop)

    def _chunks(self, text: Collection[str]) -> Iterator[Chunk]:
        for frame in self._frames(text):
            yield _divided(frame.iloc[:, self.skipped :], self.target, self.drop)

    def _frames(self, text: Collection[str] = ()) -> Iterator[Any]:
        errors = self._pandas.errors
        try:
            with self._pandas.read_csv(
                self.path,
                sep=self.separator,
                encoding="utf-8-sig",
                index_col=False,
                low_memory=False,
                skipinitialspace=True,
                chunksize=self.chunk_rows,
                dtype=dict.fromkeys(text, str),
            ) as reader:
                while (frame := self._next(reader)) is not None:
                    yield frame
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Expected text in UTF-8. {self.path} has other bytes: save it as UTF-8 first."
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"Expected a whole gzip file. {self.path} is not: {error}.") from error
        except (errors.ParserWarning, errors.ParserError) as error:
            reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            raise ValueError(
                f"Expected {len(self.header)} fields in each row, as in the header. "
                f"{self.path}: {reason}."
            ) from error

    def _next(self, reader: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error", self._pandas.errors.ParserWarning)
            return next(reader, None)


def _divided(frame: Any, target: str | list[str], drop: str | Sequence[str]) -> Chunk:
    frame.columns = [str(name) for name in frame.columns]
    return divided(frame, target, drop)


def _beginning(path: Path) -> str:
    """The first characters of a text file, none of which say that it is something else."""
    is_packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if is_packed else path.open("rb") as file:
            content = file.read(BEGINNING)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"Expected a whole gzip file. {path} is not: {error}.") from error
    check_text(content, path)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(content)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected text in UTF-8. {path} has other bytes: save it as UTF-8 first."
        ) from error
    if not text.strip():
        raise ValueError(f"Expected a table with a header. {path} is empty.")
    return text
