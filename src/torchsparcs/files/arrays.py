"""Plain arrays out of NPZ files; objects, which would be pickles, are never read."""

import math
import warnings
import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np

from torchsparcs.files.limits import PIECE, check_claim
from torchsparcs.messages import first_line

ARRAY_COPIES = 4  # of what is in a file, in memory on the way
# The ways of packing that NumPy knows, and how many bytes can come of one; its array headers; the
# kinds of its types that are numbers or text.
PACKINGS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
KINDS = "buifUS"


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
