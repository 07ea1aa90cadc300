"""Rows that need not fit into memory: chunk by chunk, and as batches in a new order every epoch."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchsparcs.tables.blocks import (
    ArrayBlocks,
    Blocks,
    Chunk,
    ChunkBlocks,
    FileBlocks,
    block_rows,
    sliced,
)
from torchsparcs.tables.kinds import Kinds, text_kinds
from torchsparcs.tables.parquet import Span
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.tables.readers import open_table
from torchsparcs.tables.sample import StreamSample, sampled
from torchsparcs.tables.statistics import MixedColumns
from torchsparcs.tables.target_values import has_target, warn_of_missing_targets, with_targets
from torchsparcs.tables.text_files import END

POOL = 8  # blocks whose rows are shuffled together


@dataclass(frozen=True)
class RowStream:
    """The rows of a source, from the first to the last, as often as one likes.

    Attributes:
        source: where they come from.
        span: the rows of the source that are meant, by default all of them.
        text: columns that are read as text, though a part of them may look like numbers.

    Shape:
        - each chunk is (X, y): X (rows, columns), an array or a DataFrame; y (rows,) or
          (rows, outputs)

    Example:
        >>> import numpy as np
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> stream = RowStream.of((x, x.sum(axis=1)), chunk_rows=4)
        >>> [X.shape for X, y in stream], stream.count()
        ([(4, 2), (2, 2)], 6)
        >>> [len(y) for X, y in stream.part(1, 2)]
        [3]
    """

    source: Blocks
    span: Span = (0, END)
    text: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(
        cls,
        source: Any,
        target: Any = None,
        *,
        drop: str | Sequence[str] = (),
        chunk_rows: int | None = None,
    ) -> "RowStream":
        """The rows of ``source``, which is one of

        - a path that ends in .parquet (or a folder of such files), .csv, .tsv or .txt, also .gz;
        - a pair (X, y), each an array, a memory map, the path of an .npy file, or anything else
          with a shape and slices, like the data sets of HDF5 and Zarr;
        - an iterable of chunks (X, y), or a function that returns a new iterator for each pass.

        Args:
            target: the column that is predicted, or a list of them, where the source is a table in
                a file; by default the one called target, label, class or y.
            drop: columns of such a table that are left out.
            chunk_rows: how many rows are read at once; by default those of about a million cells.
        """
        if isinstance(source, cls) and target is None and not drop:
            return source
        if chunk_rows is not None and (not isinstance(chunk_rows, int) or chunk_rows < 1):
            raise ValueError(f"Expected chunk_rows of at least 1. Got {chunk_rows!r}.")
        if isinstance(source, (str, Path)):
            file = open_table(Path(source))
            return cls(FileBlocks(file, target, drop=drop, chunk_rows=chunk_rows))
        if target is not None or drop:
            raise ValueError(
                "Expected a table in a file where columns are named. Got "
                f"{type(source).__name__} and {target or drop!r}."
            )
        if (
            isinstance(source, (tuple, list))
            and len(source) == 2
            and all(isinstance(part, (str, Path)) or hasattr(part, "shape") for part in source)
        ):
            return cls(ArrayBlocks(source[0], source[1], chunk_rows))
        if callable(source) or (isinstance(source, Iterable) and not hasattr(source, "shape")):
            return cls(ChunkBlocks(source))
        raise ValueError(
            "Expected a path, a pair (X, y), or chunks (X, y) to go through. "
            f"Got {type(source).__name__}."
        )

    def __iter__(self) -> Iterator[Chunk]:
        return self.source.read(*self.span, self.text)

    def read(self, span: Span) -> Iterator[Chunk]:
        """The chunks of one of the :meth:`blocks`."""
        return self.source.read(*span, self.text)

    @property
    def rows(self) -> int | None:
        """The number of rows, None where that is known only after a pass."""
        start, stop = self.span
        if stop == END:
            known = self.source.rows
            return None if known is None else max(0, known - start)
        return stop - start

    def targets(self) -> Iterator[Any]:
        """The targets alone, chunk by chunk; of arrays, X is not read for them."""
        return self.source.targets(*self.span)

    def count(self) -> int:
        """Count the rows; where their number is not known yet, they are gone through."""
        if self.rows is None:
            for _ in self:
                pass
        assert self.rows is not None
        return self.rows

    def blocks(self) -> list[Span]:
        """The blocks, which can be read in any order, in the order of the source."""
        first, last = self.span
        common = [(max(start, first), min(stop, last)) for start, stop in self.source.blocks()]
        return [(start, stop) for start, stop in common if start < stop]

    def as_text(self, names: Collection[str]) -> "RowStream":
        """The same rows, with columns ``names`` read as text whatever they look like."""
        return replace(self, text=self.text | frozenset(names))

    def part(self, rank: int, world: int) -> "RowStream":
        """The share of one of ``world`` processes: consecutive rows, as many for each.

        At most ``world`` − 1 rows are in no part.
        """
        rows = self.count()
        if not 0 <= rank < world <= rows:
            raise ValueError(
                f"Expected a rank below the number of processes, and no more of them than {rows} "
                f"rows. Got rank {rank} of {world}."
            )
        start = self.span[0] + rank * rows // world
        return replace(self, span=(start, start + rows // world))

    def sample(self, task: str = "auto", seed: int = 0, kinds: Kinds | None = None) -> StreamSample:
        """Draw a uniform sample of the rows, and learn the preprocessing from all of them.

        It takes one pass; where a column turns out to be of another kind than its first entries,
        it is text, and the pass starts again. The sample has at most 2²⁰ rows or 50 million cells,
        but never fewer than 10,000 rows. Rows that are no more than that are all there, and what is
        learnt from them is that of a table in memory to the last bit.

        Args:
            task: what is predicted, as for :func:`torchsparcs.search`.
            seed: decides which rows are drawn, whatever the chunks in which they come.
            kinds: of columns, by their names, as for :func:`torchsparcs.search`.

        >>> import numpy as np
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> sample = RowStream.of((x, x.sum(axis=1)), chunk_rows=4).sample()
        >>> sample.rows, sample.X.shape, sample.preprocessing.target.task
        (6, (6, 2), 'regression')
        """
        stream = self.as_text(text_kinds(kinds or {}))
        while True:
            try:
                return sampled(stream, stream.text, task, seed, kinds)
            except MixedColumns as mixed:
                if not self.source.is_repeatable:
                    raise
                stream = stream.as_text(mixed.names)

    def batches(
        self, preprocessing: Preprocessing, batch_size: int = 1024, seed: int = 0
    ) -> "StreamBatches":
        """Standardised batches for :func:`torchsparcs.train`, in a new order every epoch.

        Rows whose target is missing are left out; it takes one pass to count the others.
        """
        return StreamBatches(self, preprocessing, batch_size, seed)


class StreamBatches:
    """The rows of a stream as batches (inputs, targets), in a new random order for every pass.

    Blocks come in a random order; the rows of several blocks are shuffled together. A source that
    can be read only from top to bottom is one block: its rows move no farther than that, so it
    should not be sorted by what is predicted.

    Attributes:
        rows: how many have a target; the others are left out.
        generator: decides the order; a pass that starts from the same state gives the same batches.

    Shape:
        - inputs (batch, encoded), float32
        - targets (batch,) or (batch, outputs), as the task has them
    """

    def __init__(self, stream: RowStream, preprocessing: Preprocessing, batch_size: int, seed: int):
        if not isinstance(preprocessing, Preprocessing):
            raise ValueError(f"Expected a Preprocessing. Got {type(preprocessing).__name__}.")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"Expected batch_size of at least 1. Got {batch_size!r}.")
        self.stream = stream.as_text(_text_columns(preprocessing))
        self.preprocessing, self.batch_size = preprocessing, batch_size
        counts = [(len(y), int(has_target(y).sum())) for y in stream.targets()]
        if not counts:
            raise ValueError("Expected at least one row. Got 0 samples.")
        rows, self.rows = map(sum, zip(*counts, strict=True))
        warn_of_missing_targets(rows - self.rows, rows)
        self.piece = block_rows(len(preprocessing.inputs.encoded_names))  # rows that are one block
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return math.ceil(self.rows / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        seed = int(torch.randint(2**62, (), generator=self.generator))
        own = torch.Generator().manual_seed(seed)
        pool: list[tuple[Tensor, Tensor]] = []
        for piece in self._pieces(own):
            pool.append(piece)
            if sum(len(inputs) for inputs, _ in pool) >= max(POOL * self.piece, self.batch_size):
                rest = yield from self._shuffled(pool, own, is_last=False)
                pool = [rest]
        yield from self._shuffled(pool, own, is_last=True)

    def _pieces(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """The blocks in a random order, standardised, none of them large once it is encoded."""
        inputs, target = self.preprocessing.inputs, self.preprocessing.target
        blocks = self.stream.blocks()
        for place in torch.randperm(len(blocks), generator=generator).tolist():
            for X, y in self.stream.read(blocks[place]):
                X, y, _ = with_targets(X, y)
                for start in range(0, len(X), self.piece):
                    part = slice(start, start + self.piece)
                    yield inputs.transform(sliced(X, part)), target.transform(sliced(y, part))

    def _shuffled(
        self, pool: list[tuple[Tensor, Tensor]], generator: torch.Generator, is_last: bool
    ) -> Any:
        """Batches of the rows of ``pool``, which is emptied; returns what is less than a batch."""
        inputs, targets = (torch.cat(parts) for parts in zip(*pool, strict=True))
        pool.clear()
        order = torch.randperm(len(inputs), generator=generator)
        end = len(order) if is_last else len(order) // self.batch_size * self.batch_size
        for start in range(0, end, self.batch_size):
            rows = order[start : start + self.batch_size]
            yield inputs[rows], targets[rows]
        return inputs[order[end:]], targets[order[end:]]


def _text_columns(preprocessing: Preprocessing) -> list[str]:
    """The columns that were text when they were fitted."""
    inputs, target = preprocessing.inputs, preprocessing.target
    is_text = target.classes is not None and isinstance(target.classes[0], str)
    texts = [column.name for column in inputs.columns if column.kind == "text"]
    return [*texts, *inputs.text_names, *(name for name in target.names if is_text)]
