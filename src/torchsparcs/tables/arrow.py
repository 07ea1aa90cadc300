"""Arrow and Feather files: what they unpack to is compared with the memory before any is taken."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.files.reading import check_memory, memory, reading
from torchsparcs.tables.parquet import COPIES, check_flat, load_pyarrow

MAGIC = b"ARROW1"  # begins and ends a file; two bytes later there is a stream
BUFFERS = {"record batch", "dictionary"}  # the messages that have some
ENTRY = 8  # bytes that one counts, at least
VIEWS = ("string_view", "binary_view")  # entries that may share what they show


def read_arrow(path: Path) -> pd.DataFrame:
    """A table as Arrow writes it to a file or a stream; Feather is such a file."""
    pyarrow = load_pyarrow()
    room = memory()
    check_memory(path, path.stat().st_size, copies=COPIES, room=room)
    with reading("a whole Arrow or Feather file", path), pyarrow.OSFile(str(path)) as source:
        start = 8 if source.read(len(MAGIC)) == MAGIC else 0
        source.seek(source.size() - len(MAGIC))
        if start and source.read() != MAGIC:
            raise ValueError(f"Expected a whole Arrow or Feather file. {path} has no end.")
        source.seek(start)
        width = len(pyarrow.ipc.open_stream(source).schema)
        source.seek(start)
        messages = pyarrow.ipc.MessageReader.open_stream(source)
        size = sum(_claimed(message, width) for message in messages)
        check_memory(path, size, copies=COPIES, room=room)
        source.seek(start)
        table = pyarrow.ipc.open_stream(source).read_all()
        table.validate(full=True)
        if not len(table):
            raise ValueError(f"Expected rows. {path} has none.")
        check_flat(path, {str(f.name) for f in table.schema if pyarrow.types.is_nested(f.type)})
        check_memory(path, table.nbytes + _shown(table), copies=COPIES, room=room)
        return table.to_pandas().reset_index(drop=True)


def _claimed(message: Any, width: int) -> int:
    """The bytes that a message takes once it is unpacked, as it says itself.

    It begins with a flatbuffer, laid out as in ``format/Message.fbs`` of Arrow, which tells where
    in its body the buffers are. The first eight bytes of a packed one are what it unpacks to, −1
    where it is as it was.
    """
    if message.type not in BUFFERS:
        return 0
    data, body = bytes(message.metadata), memoryview(message.body)
    batch = _pointed(data, _field(data, _pointed(data, 0), 2))
    if message.type == "dictionary":
        batch, width = _pointed(data, _field(data, batch, 1)), 1
    (rows,) = struct.unpack_from("<q", data, place) if (place := _field(data, batch, 0)) else (0,)
    size = len(body)
    if _field(data, batch, 3):  # they are packed
        buffers = _pointed(data, _field(data, batch, 2))
        (count,) = struct.unpack_from("<I", data, buffers)
        places = struct.iter_unpack("<qq", data[buffers + 4 : buffers + 4 + 16 * count])
        sizes = [struct.unpack_from("<q", body, place)[0] for place, length in places if length]
        size += sum(size for size in sizes if size > 0)
    return max(size, rows * width * ENTRY)


def _pointed(data: bytes, place: int) -> int:
    """Where the offset at ``place`` of a flatbuffer points to."""
    (offset,) = struct.unpack_from("<I", data, place)
    return int(place + offset)


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a field of a table in a flatbuffer, 0 where the table has none."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, fields)
    place = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", data, fields + place) if place < size else (0,)
    return int(table + offset) if offset else 0


def _shown(table: Any) -> int:
    """The bytes of texts that rows may share, written out for each row."""
    chunks = [
        chunk
        for column in table.columns
        if str(column.type) in VIEWS
        for chunk in column.chunks
        if len(chunk)
    ]
    return sum(
        int(np.frombuffer(chunk.buffers()[1], np.int32)[::4].sum(dtype=np.int64))
        for chunk in chunks
    )
