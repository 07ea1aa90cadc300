"""Where rows come from, block by block: arrays, memory maps, chunks of one's own."""

import mmap
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from torchsparcs.messages import first_line

CELLS = 2**20  # of a block
LEAST_ROWS, MOST_ROWS = 2**10, 2**16  # of a block

Chunk = tuple[Any, Any]
Span = tuple[int, int | None]  # the first row, and the one after the last; None for the end


class Source(Protocol):
    """Rows with their targets; ``rows`` is how many, None where nobody has counted them yet."""

    rows: int | None
    is_repeatable: bool

    def blocks(self) -> list[Span]:
        """What can be read in any order, from the first row to the last."""
        ...

    def read(self, start: int, stop: int | None, text: Collection[str] = ()) -> Iterator[Chunk]:
        """The rows from ``start`` to before ``stop``, in order, as chunks (X, y).

        ``text`` names columns that are text whatever they look like.
        """
        ...


def block_rows(columns: int) -> int:
    """How many rows a block has where nobody says."""
    return max(LEAST_ROWS, min(MOST_ROWS, CELLS // max(1, columns)))


class ArraySource:
    """X and y as arrays, of which each block is copied: memory maps, HDF5 and Zarr stay on disk.

    Shape:
        - X (rows, columns), anything with a shape and slices, or a DataFrame
        - y (rows,) or (rows, outputs)
    """

    is_repeatable = True

    def __init__(self, X: Any, y: Any, chunk_rows: int | None = None):
        if len(X.shape) != 2 or len(y.shape) not in (1, 2) or len(X) != len(y) or len(X) == 0:
            raise ValueError(
                "Expected X of shape (rows, columns), and y with as many rows. "
                f"Got shapes {tuple(X.shape)} and {tuple(y.shape)}."
            )
        self.X, self.y = X, y
        self.rows: int | None = len(X)
        self.chunk_rows = chunk_rows or block_rows(X.shape[1])

    @classmethod
    def of_files(cls, X: Any, y: Any, chunk_rows: int | None = None) -> "ArraySource":
        """Either may be the path of an .npy file."""
        return cls(_mapped(X), _mapped(y), chunk_rows)

    def blocks(self) -> list[Span]:
        assert self.rows is not None
        starts = range(0, self.rows, self.chunk_rows)
        return [(start, min(start + self.chunk_rows, self.rows)) for start in starts]

    def read(self, start: int, stop: int | None, text: Collection[str] = ()) -> Iterator[Chunk]:
        stop = self.rows if stop is None else stop
        assert stop is not None
        for first in range(start, stop, self.chunk_rows):
            part = slice(first, min(first + self.chunk_rows, stop))
            yield _copied(self.X, part), _copied(self.y, part)


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
    """Some rows in memory, and no longer in a memory map, whose pages would count as ours."""
    values = sliced(data, part)
    if hasattr(data, "iloc") or isinstance(data, Tensor):
        return values
    values = np.array(values)
    pages = getattr(data, "_mmap", None)
    if (
        pages is not None and hasattr(pages, "madvise") and data.mode != "c"
    ):  # what was changed in "c" is nowhere else
        pages.madvise(mmap.MADV_DONTNEED)
    return values


class ChunkSource:
    """Chunks (X, y) from an iterable, or from a function that returns an iterator for each pass."""

    def __init__(self, chunks: Any):
        self.chunks = chunks
        self.rows: int | None = None
        self.is_repeatable = callable(chunks) or not isinstance(chunks, Iterator)
        self._is_used = False

    def blocks(self) -> list[Span]:
        return [(0, self.rows)]

    def read(self, start: int, stop: int | None, text: Collection[str] = ()) -> Iterator[Chunk]:
        if self._is_used and not self.is_repeatable:
            raise ValueError(
                "Expected chunks that can be gone through again. Got a "
                f"{type(self.chunks).__name__}, which is used up: pass a function that returns a "
                "new one."
            )
        self._is_used = True
        chunks = self.chunks() if callable(self.chunks) else self.chunks
        yield from window(counted(self, map(_checked, chunks)), 0, start, stop)


def _checked(chunk: Any) -> Chunk:
    if not isinstance(chunk, (tuple, list)) or len(chunk) != 2:
        raise ValueError(f"Expected chunks (X, y). Got {type(chunk).__name__}.")
    X, y = (part.to_pandas() if hasattr(part, "to_pandas") else part for part in chunk)
    if len(X) != len(y):
        raise ValueError(
            f"Expected as many rows in X as in y in each chunk. Got {len(X)} and {len(y)}."
        )
    return X, y


def counted(source: Source, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """``chunks`` as they are; once all have gone by, ``source`` knows how many rows it has."""
    rows = 0
    for chunk in chunks:
        rows += len(chunk[0])
        yield chunk
    source.rows = rows


def window(chunks: Iterable[Chunk], first: int, start: int, stop: int | None) -> Iterator[Chunk]:
    """Of ``chunks``, the first row of which is ``first``, the rows from ``start`` to ``stop``."""
    for X, y in chunks:
        rows = len(X)
        low = max(0, start - first)
        high = rows if stop is None else min(rows, stop - first)
        if low < high:
            part = slice(low, high)
            yield (X, y) if high - low == rows else (sliced(X, part), sliced(y, part))
        first += rows
        if stop is not None and first >= stop:
            return


def sliced(data: Any, part: slice) -> Any:
    """Some rows of an array, tensor, list or DataFrame."""
    return data.iloc[part] if hasattr(data, "iloc") else data[part]
