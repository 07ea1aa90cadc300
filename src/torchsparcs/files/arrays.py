"""Plain arrays out of NPZ files; objects, which would be pickles, are never read."""

import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np

from torchsparcs.files.reading import check_memory, first_line

ARRAY_COPIES = 4  # of what is in a file, in memory on the way
# The ways of packing that NumPy writes, and how many bytes can come of one.
PACKINGS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
KINDS = "buifUS"  # of types that are numbers or text


def read_arrays(path: Path, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file by name, all or those ``wanted``, as native numbers or text.

    Before memory is taken, what the zip's directory says of each array is compared with what can
    be packed into so many bytes, and the sum of them with the memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                info
                for info in archive.infolist()
                if wanted is None or info.filename.removesuffix(".npy") in wanted
            ]
        for info in members:
            if info.file_size > PACKINGS.get(info.compress_type, 0) * info.compress_size:
                raise ValueError(f"{info.filename} claims more bytes than can be in it")
    except Exception as error:  # of zip, of many kinds
        raise _not_arrays(path, error) from error
    check_memory(path, sum(info.file_size for info in members), copies=ARRAY_COPIES)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = [name for name in arrays.files if wanted is None or name in wanted]
            return {name: _plain(name, arrays[name]) for name in names}
    except Exception as error:  # of zip, zlib and NumPy, of many kinds; too little memory too
        raise _not_arrays(path, error) from error


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in KINDS or not array.itemsize:
        kind = array.dtype if isinstance(array, np.ndarray) else "other bytes"
        raise ValueError(f"{name}.npy holds {kind}, neither numbers nor text")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "U":
        np.char.encode(array, "utf-8")  # an error where there is no such letter
    return array


def _not_arrays(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"Expected a whole .npz file of plain arrays. {path} cannot be read: {first_line(error)}"
    )
