"""Plain data in files: frozen dataclasses as JSON and back, arrays out of NPZ. Data, never code.

What a file claims is believed once it has been compared with what it has, and with the memory.
"""

import contextlib
import dataclasses
import gzip
import json
import math
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

CONTAINER = Path("/sys/fs/cgroup/memory.max")
JSON_COPIES, ARRAY_COPIES = 16, 4  # of what is in a file, in memory on the way
PIECE = 2**20  # bytes unpacked at once
# The ways of packing that NumPy knows, and how many bytes can come of one; its array headers; the
# kinds of its types that are numbers or text.
PACKINGS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
KINDS = "buifUS"


class Record:
    """A dataclass whose fields are text, numbers, None, tuples of them, or records again.

    What JSON reads is checked where the values are: in ``__post_init__``.
    """

    # How fields that hold records are read: one record, or a tuple of them.
    nested: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def to_json(self) -> dict[str, Any]:
        """The fields, by name, as JSON knows them."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The record that :meth:`to_json` wrote; anything else is a ValueError."""
        try:
            values = {}
            for name, value in data.items():
                read = cls.nested.get(name, lambda value: value)
                values[name] = (
                    tuple(read(item) for item in value) if isinstance(value, list) else read(value)
                )
            return cls(**values)
        except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"Expected {cls.__name__} as to_json wrote it. {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def read_json(path: Path) -> Any:
    """What a file holds; a ValueError where that is no JSON, too large or too deep."""
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"Expected a file. There is none at {path}.")
    check_claim(path, path.stat().st_size, copies=JSON_COPIES)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected JSON. {path} holds something else: {error}") from error


def unpacked(path: Path, most: int) -> bytearray:
    """What a gzip file holds; a ValueError where it is broken, or more than ``most`` bytes."""
    content = bytearray()
    try:
        with gzip.open(path) as file:
            while len(content) <= most and (piece := file.read(PIECE)):
                content += piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"Expected a whole gzip file. {path} is not: {error}.") from error
    if len(content) > most:
        raise ValueError(f"Expected at most {most:,} bytes. {path} unpacks to more.")
    return content


def read_arrays(path: Path, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name, all or those ``wanted``.

    Before memory is taken, what the file claims is compared: an array with its part of the file,
    unpacked; that with what can be packed into so many bytes; and all of them with the memory.
    Numbers and text are read, objects never are: they would be pickles.
    """
    members = array_members(path)
    chosen = {name: members[name] for name in members if wanted is None or name in wanted}
    check_claim(path, sum(info.file_size for info in chosen.values()), copies=ARRAY_COPIES)
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: _array(archive, info) for name, info in chosen.items()}
    except Exception as error:  # of zip, zlib and NumPy, of many kinds
        raise _not_arrays(path, error) from error


def array_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """What the directory of an .npz file says of its arrays, by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    except Exception as error:  # of zip, of many kinds
        raise _not_arrays(path, error) from error


def _not_arrays(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"Expected a whole .npz file of plain arrays. {path} cannot be read: {first_line(error)}"
    )


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """One array, whose header is believed where the member is as long as it says."""
    if info.file_size > PACKINGS.get(info.compress_type, 0) * info.compress_size:
        raise ValueError(f"{info.filename} claims more bytes than can be in it")
    with archive.open(info) as member, warnings.catch_warnings():
        warnings.simplefilter("error")  # of headers that Python 2 wrote, or nobody
        version = np.lib.format.read_magic(member)
        if version not in HEADERS:
            raise ValueError(f"{info.filename} has the unknown format {version}")
        shape, is_fortran, dtype = HEADERS[version](member)
        length = math.prod(shape) * dtype.itemsize
        if dtype.kind not in KINDS or dtype.itemsize == 0:
            raise ValueError(f"{info.filename} holds {dtype}, neither numbers nor text")
        if min(shape, default=0) < 0 or length != info.file_size - member.tell():
            raise ValueError(f"{info.filename} claims shape {shape} and has another")
        content, start = bytearray(length), 0
        while start < length:
            piece = member.read(min(PIECE, length - start))
            if not piece:
                raise EOFError(f"{info.filename} is cut short")
            content[start : start + len(piece)] = piece
            start += len(piece)
        member.read(1)  # compares the checksum
    array = np.ndarray(shape, dtype, content, order="F" if is_fortran else "C")
    array = array.astype(dtype.newbyteorder("="), copy=False)
    if dtype.kind == "U" and array.size:
        letters = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if letters.size and ((letters > 0x10FFFF) | (letters >> 11 == 0x1B)).any():
            raise ValueError(f"{info.filename} holds letters that do not exist")
    return array


def check_claim(path: str | Path, size: int, *, copies: int) -> None:
    """A ValueError where a file claims more bytes than fit into memory ``copies`` times.

    Asked before any memory is taken: what a file says of itself may be a lie.
    """
    most = memory() // copies
    if size > most:
        raise ValueError(
            f"Expected a file that fits into memory. {path} claims {_gigabytes(size)}, and there "
            f"is room for {_gigabytes(most)}."
        )


def memory() -> int:
    """Bytes that this process may take: all there are, or its limit where it has one."""
    limits = [sys.maxsize]
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):  # "max" is no limit
        limits.append(int(CONTAINER.read_text()))
    if resource is not None:
        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(limit for limit in limits if limit > 0)  # -1 is none


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.3g} GB" if size < 10**30 else "more than there is"


def first_line(error: Exception) -> str:
    """What an error says, or its name where it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
