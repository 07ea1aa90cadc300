"""The blocks of a stream: rows from arrays, memory maps, chunks of one's own and files."""

import mmap
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from torchsparcs.files.reading import first_line
from torchsparcs.tables.datasets import divided, resolved_target
from torchsparcs.tables.parquet import ParquetFiles, Span
from torchsparcs.tables.text_files import END, TextFile

CELLS = 2**20  # of a block
LEAST_ROWS, MOST_ROWS = 2**10, 2**16  # of a block

Chunk = tuple[Any, Any]


def block_rows(columns: int) -> int:
    """How many rows a block has where nobody says."""
    return max(LEAST_ROWS, min(MOST_ROWS, CELLS // max(1, columns)))


class Blocks:
    """Rows with their targets, in blocks that can be read in any order.

    Attributes:
        rows: how many there are, None where nobody has counted them yet.
        is_repeatable: whether they can be gone through more than once.
    """

    rows: int | None = None
    is_repeatable = True

    def blocks(self) -> list[Span]:
        """The first row of each block, and the one after its last."""
        return [(0, END if self.rows is None else self.rows)]

    def chunks(self, first: int, text: Collection[str]) -> Iterator[Chunk]:
        """The block that begins with row ``first`` in chunks (X, y); ``text`` as in read."""
        raise NotImplementedError

    def read(self, start: int, stop: int, text: Collection[str] = ()) -> Iterator[Chunk]:
        """The rows from ``start`` to before ``stop``, in order, as chunks (X, y).

        ``text`` names columns that are text whatever they look like.
        """
        for first, end in self.blocks():
            if stop <= first or end <= start:
                continue
            for X, y in self.chunks(first, text):
                part = slice(max(0, start - first), min(len(X), stop - first))
                if part.start < part.stop:
                    yield sliced(X, part), sliced(y, part)
                first += len(X)
                if stop <= first:
                    return
            if end == END:
                self.rows = first

    def targets(self, start: int, stop: int) -> Iterator[Any]:
        """The targets of these rows, in chunks."""
        return (y for _, y in self.read(start, stop))


class ArrayBlocks(Blocks):
    """X and y as arrays, of which each block is copied: memory maps, HDF5 and Zarr stay on disk.

    Either may be the path of an .npy file.

    Shape:
        - X (rows, columns), anything with a shape and slices, or a DataFrame
        - y (rows,) or (rows, outputs)
    """

    def __init__(self, X: Any, y: Any, chunk_rows: int | None = None):
        self.X, self.y = X, y = _mapped(X), _mapped(y)
        if len(X.shape) != 2 or len(y.shape) not in (1, 2) or len(X) != len(y) or len(X) == 0:
            raise ValueError(
                "Expected X of shape (rows, columns), and y with as many rows. "
                f"Got shapes {tuple(X.shape)} and {tuple(y.shape)}."
            )
        self.rows = len(X)
        self.chunk_rows = chunk_rows or block_rows(X.shape[1])

    def blocks(self) -> list[Span]:
        return self._spans(0, len(self.X))

    def read(self, start: int, stop: int, text: Collection[str] = ()) -> Iterator[Chunk]:
        for span in self._spans(start, min(stop, len(self.X))):
            yield _copied(self.X, slice(*span)), _copied(self.y, slice(*span))

    def targets(self, start: int, stop: int) -> Iterator[Any]:
        for span in self._spans(start, min(stop, len(self.y))):
            yield _copied(self.y, slice(*span))

    def _spans(self, start: int, stop: int) -> list[Span]:
        starts = range(start, stop, self.chunk_rows)
        return [(first, min(first + self.chunk_rows, stop)) for first in starts]


def _mapped(source: Any) -> Any:
    """The array in an .npy file, mapped into memory; anything but a path as it is."""
    if not isinstance(source, (str, Path)):
        return source
    try:
        return np.load(source, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # of NumPy and the system, of many kinds
        raise ValueError(
            f"Expected a whole .npy file of plain numbers or text. {source} cannot be read: "
            f"{first_line(error)}"
        ) from error


def _copied(data: Any, part: slice) -> Any:
    """Copy some rows and drop them from a memory map, whose pages would count as our memory."""
    values = sliced(data, part)
    if hasattr(data, "iloc") or isinstance(data, Tensor):
        return values
    values = np.array(values)
    pages: Any = getattr(data, "_mmap", None)
    if hasattr(pages, "madvise") and data.mode != "c":  # what was changed in "c" is nowhere else
        pages.madvise(mmap.MADV_DONTNEED)
    return values


class ChunkBlocks(Blocks):
    """Chunks (X, y) from an iterable, or from a function that returns an iterator for each pass."""

    def __init__(self, source: Any):
        self.source = source
        self.is_repeatable = callable(source) or not isinstance(source, Iterator)
        self._is_used = False

    def chunks(self, first: int, text: Collection[str]) -> Iterator[Chunk]:
        if self._is_used and not self.is_repeatable:
            raise ValueError(
                "Expected chunks that can be gone through again. Got a "
                f"{type(self.source).__name__}, which is used up: pass a function that returns a "
                "new one."
            )
        self._is_used = True
        for chunk in self.source() if callable(self.source) else self.source:
            if not isinstance(chunk, (tuple, list)) or len(chunk) != 2:
                raise ValueError(f"Expected chunks (X, y). Got {type(chunk).__name__}.")
            X, y = (part.to_pandas() if hasattr(part, "to_pandas") else part for part in chunk)
            if len(X) != len(y):
                raise ValueError(
                    f"Expected as many rows in X as in y in each chunk. Got {len(X)} and {len(y)}."
                )
            yield X, y


class FileBlocks(Blocks):
    """The table in a file, divided into X and its target."""

    def __init__(
        self,
        file: TextFile | ParquetFiles,
        target: Any = None,
        *,
        drop: str | Sequence[str] = (),
        chunk_rows: int | None = None,
    ):
        self.file, self.drop = file, drop
        if isinstance(file, ParquetFiles):
            file.check_kept([drop] if isinstance(drop, str) else drop)
        self.chunk_rows = chunk_rows or block_rows(file.width)
        self.target = resolved_target(target, file.columns(self.chunk_rows), drop=drop)
        _, end = file.blocks()[-1]
        self.rows = None if end == END else end

    def blocks(self) -> list[Span]:
        return [(first, min(end, self.rows or END)) for first, end in self.file.blocks()]

    def chunks(self, first: int, text: Collection[str]) -> Iterator[Chunk]:
        for table in self.file.frames(first, self.chunk_rows, dict.fromkeys(text, str)):
            table.columns = [str(name) for name in table.columns]
            yield divided(table, self.target, self.drop)


def sliced(data: Any, part: slice) -> Any:
    """Some rows of an array, tensor, list or DataFrame."""
    return data.iloc[part] if hasattr(data, "iloc") else data[part]
