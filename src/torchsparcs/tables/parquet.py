"""Parquet files: all rows at once, or a row group at a time; pyarrow is loaded when it is used."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.files.reading import check_memory, memory, quoted, reading

COPIES = 4  # of what a file claims, in memory on the way to a table
AT_ONCE = 2**18  # rows on the way to a table
LARGEST_BATCH = 2**28  # bytes of them
READ_AHEAD = 2**18  # bytes of each column
PYARROW = 15  # the oldest version that does not unpickle what a file says
DECIMAL = 32  # bytes that a decimal number counts: in pandas it is an object
LONG = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")

Span = tuple[int, int]  # the first row, and the one after the last


class ParquetFiles:
    """A Parquet file, or all those of a folder, by name; each row group is a block.

    A row group with many rows is read in slices.
    """

    def __init__(self, path: Path):
        self.path, self.size = path, 0  # bytes, as the files claim
        paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not paths:
            raise ValueError(f"Expected a folder of .parquet files. {path} has none.")
        self.metadata: dict[Path, Any] = {}
        self.groups: dict[int, tuple[Path, int, int]] = {}  # by first row: file, place, end
        self.names: list[str] = []
        self.nested: set[str] = set()  # columns of lists or records
        self.text: set[str] = set()
        self.categorical: set[str] = set()
        rows, types = 0, load_pyarrow().types
        kinds: dict[str, str] = {}  # of the columns
        for part in paths:
            with _opened_parquet(part) as file:
                fields = [*file.schema_arrow]
                names = [str(name) for name in file.schema_arrow.empty_table().to_pandas().columns]
                counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
                self.metadata[part] = file.metadata
                self.size += _claimed(file)
            for kind, known in (
                (_is_nested, self.nested),
                (_is_text, self.text),
                (types.is_dictionary, self.categorical),
            ):
                known |= {str(field.name) for field in fields if kind(field.type)}
            self.names = self.names or names
            if names != self.names:
                raise ValueError(
                    f"Expected the columns of {paths[0].name} in all files. {part} has "
                    f"{', '.join(sorted({*names} ^ {*self.names})) or 'them in another order'}."
                )
            _check_types(kinds, fields, part)
            for place, count in enumerate(counts):
                if count:
                    self.groups[rows] = (part, place, rows + count)
                    rows += count
        self.width = len(self.names)

    def check_kept(self, dropped: Collection[str] = ()) -> None:
        """A ValueError for lists or records in a column that is not ``dropped``."""
        check_flat(self.path, self.nested - {*dropped})

    def whole(self, text: Collection[str] = ()) -> pd.DataFrame:
        """Read all rows at once; the file itself says what is text."""
        self.check_kept()
        check_memory(self.path, self.size, copies=COPIES)
        frames, taken, room = [], 0, memory()  # which falls with every frame
        for first in self.groups:
            for frame, size in self._measured(first, AT_ONCE):
                taken += size  # the files may have told less
                check_memory(self.path, taken, copies=COPIES, room=room)
                frames.append(frame)
        if not frames:
            raise ValueError(f"Expected rows. {self.path} has none.")
        table = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        for name in self.categorical & {*table.columns}:
            table[name] = table[name].astype("category")  # several frames differ in theirs
        return table

    def columns(self, rows: int) -> list[str]:
        """The names of the columns."""
        if not self.groups:
            raise ValueError(f"Expected rows. {self.path} has none.")
        return self.names

    def blocks(self) -> list[Span]:
        return [(first, end) for first, (_, _, end) in self.groups.items()]

    def frames(self, first: int, rows: int, types: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
        """Read the row group that begins with row ``first``, ``rows`` rows at a time.

        Of rows that are long, fewer. Numbers are of given ``types``; the file says what is text.
        """
        numbers = {name: kind for name, kind in types.items() if kind is not str}
        for frame, _ in self._measured(first, rows):
            yield frame.astype(numbers) if numbers else frame

    def _measured(self, first: int, rows: int) -> Iterator[tuple[pd.DataFrame, int]]:
        """The frames, in which all rows that have a text share it, and their bytes."""
        path, place, end = self.groups[first]
        long = self.metadata[path].row_group(place).total_byte_size // (end - first)
        if long > LARGEST_BATCH:
            raise ValueError(
                f"Expected rows of at most {LARGEST_BATCH:,} bytes. {path} has some of {long:,}."
            )
        rows = min(rows, max(1, LARGEST_BATCH // max(1, long)))
        options = {"metadata": self.metadata[path], "read_dictionary": [*self.text]}
        with _opened_parquet(path, **options) as file:
            for batch in file.iter_batches(rows, row_groups=[place]):
                yield _frame(batch, self.text), batch.nbytes


def _frame(batch: Any, text: Collection[str]) -> pd.DataFrame:
    """The rows of a batch; its columns ``text`` are dictionaries, which pandas reads slowly."""
    pyarrow = load_pyarrow()
    table, texts = pyarrow.Table.from_batches([batch]), {}
    for place, name in enumerate(batch.schema.names):
        if name in text:
            column = batch.column(place)
            known = [*column.dictionary.to_pylist(), None]
            codes = column.indices.fill_null(len(known) - 1).to_numpy()
            texts[name] = pd.Series(np.array(known, dtype=object)[codes], dtype=object)
            table = table.set_column(place, name, pyarrow.nulls(len(batch)))
    frame = table.to_pandas().reset_index(drop=True)
    return frame.assign(**{name: texts[name] for name in frame if name in texts})


def _is_text(kind: Any) -> bool:
    """Whether entries may have any length; one that many rows have is once in the file."""
    return str(getattr(kind, "storage_type", kind)) in LONG


def _is_nested(kind: Any) -> bool:
    is_json = getattr(kind, "extension_name", "") == "arrow.json"
    return is_json or load_pyarrow().types.is_nested(kind)


def _check_types(known: dict[str, str], fields: Collection[Any], path: Path) -> None:
    """A ValueError for a column that is of another type than in the first file.

    Numbers of any kind are one type; so are texts and categories of them. A column with nothing in
    it has none.
    """
    for field in fields:
        name, kind = str(field.name), _family(field.type)
        if kind != "null" and kind != known.setdefault(name, kind):
            raise ValueError(
                f"Expected one type for each column in all files. {path} has {kind} in {name!r}, "
                f"where the first has {known[name]}."
            )


def _family(kind: Any) -> str:
    """The type of a column, as far as it matters which one it is."""
    types = load_pyarrow().types
    if types.is_dictionary(kind):
        return _family(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "dates" if types.is_temporal(kind) else str(kind)


def check_flat(path: Path, nested: Collection[str]) -> None:
    """A ValueError where there are columns ``nested``, of lists or records."""
    if nested:
        raise ValueError(
            f"Expected columns of numbers or text. {path} has lists or records in "
            f"{quoted(sorted(nested), 3)}."
        )


def _claimed(file: Any) -> int:
    """The bytes that all rows of a Parquet file take, as it says itself; a text counts once."""
    # asked about one column of a group, Arrow ends the process where something does not fit
    width = sum(_width(file.schema.column(place)) for place in range(len(file.schema)))
    groups = (file.metadata.row_group(place) for place in range(file.num_row_groups))
    return sum(max(group.total_byte_size, group.num_rows * width) for group in groups)


def _width(column: Any) -> int:
    """The bytes that one number of a column takes, at least."""
    return max(column.length, DECIMAL if column.logical_type.type == "DECIMAL" else 8)


@contextlib.contextmanager
def _opened_parquet(path: Path, **options: Any) -> Iterator[Any]:
    """The file as pyarrow has it; whatever goes wrong with it is a ValueError.

    ``pre_buffer`` would read whole row groups.
    """
    options |= {"buffer_size": READ_AHEAD, "pre_buffer": False}
    opened = load_pyarrow().parquet.ParquetFile
    with reading("a whole parquet file", path), opened(path, **options) as file:
        yield file


def load_pyarrow() -> Any:
    """pyarrow with the parts that are used here; an ImportError where it is missing or too old."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet

        version = pyarrow.__version__
    except ImportError:
        version = "none"
    if version == "none" or int(version.split(".")[0]) < PYARROW:
        raise ImportError(
            f"Expected pyarrow {PYARROW} or newer. Got {version}: "
            "pip install 'torchsparcs[parquet]'"
        )
    return pyarrow
