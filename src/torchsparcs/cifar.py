"""CIFAR as it is published: archives of pickles, read without running what is in them.

A pickle may call anything by its name. Here the few names that an array in a pickle needs stand for
plain containers, and any other name is refused.
"""

import io
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np


class Archive(NamedTuple):
    """A published data set: where it is, and what is called what inside."""

    title: str
    url: str
    md5: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: bytes
    meta: str
    classes: bytes

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


ARCHIVES = {
    "cifar10": Archive(
        title="CIFAR-10",
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        md5="c58f30108f718f92721af3b95e74349a",
        folder="cifar-10-batches-py",
        train=tuple(f"data_batch_{i}" for i in range(1, 6)),
        test=("test_batch",),
        labels=b"labels",
        meta="batches.meta",
        classes=b"label_names",
    ),
    "cifar100": Archive(
        title="CIFAR-100",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        folder="cifar-100-python",
        train=("train",),
        test=("test",),
        labels=b"fine_labels",
        meta="meta",
        classes=b"fine_label_names",
    ),
}


class Cifar(NamedTuple):
    """Images (N, 3, 32, 32) of uint8, labels (N,) of int64."""

    name: str
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: tuple[str, ...]


def read_cifar(path: Path) -> Cifar:
    """What is in the archive or in its folder, whichever of the data sets it is."""
    held = _files_of_folder(path) if path.is_dir() else _files_of_tar(path)
    name = next((name for name, row in ARCHIVES.items() if {*row.train, *row.test} & {*held}), None)
    if name is None:
        titles = " or ".join(row.title for row in ARCHIVES.values())
        raise ValueError(f"Expected the Python version of {titles}. {path} is something else.")
    row = ARCHIVES[name]
    missing = [file for file in (*row.train, *row.test, row.meta) if file not in held]
    if missing:
        raise ValueError(
            f"Expected the whole of {row.title}. {path} lacks {', '.join(missing)}; "
            f"the md5 of {row.file} is {row.md5}."
        )
    names = _unpickled(held[row.meta], f"{path}: {row.meta}").get(row.classes)
    if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names):
        raise ValueError(f"Expected the names of the classes. {path}: {row.meta} has none.")
    parts: list[np.ndarray] = []
    for files in (row.train, row.test):
        batches = [_batch(held[file], row.labels, f"{path}: {file}") for file in files]
        parts += [np.concatenate(arrays) for arrays in zip(*batches, strict=True)]
    train_x, train_y, test_x, test_y = parts
    classes = tuple(name.decode("utf-8", "replace") for name in names)
    return Cifar(name, train_x, train_y, test_x, test_y, classes)


def _wanted() -> set[str]:
    return {file for row in ARCHIVES.values() for file in (*row.train, *row.test, row.meta)}


def _files_of_folder(path: Path) -> dict[str, bytes]:
    return {file: (path / file).read_bytes() for file in _wanted() if (path / file).is_file()}


def _files_of_tar(path: Path) -> dict[str, bytes]:
    """The wanted files of CIFAR's folders in one pass over the archive; nothing is unpacked."""
    wanted, folders = _wanted(), {row.folder for row in ARCHIVES.values()}
    held = {}
    try:
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                folder, file = ("", "", *PurePosixPath(member.name).parts)[-2:]
                if member.isfile() and folder in folders and file in wanted:
                    stream = tar.extractfile(member)
                    assert stream is not None  # it is a file
                    held[file] = stream.read()
    except Exception as error:  # of tar, gzip and zlib, of many kinds
        raise _broken(str(path), "a whole .tar.gz file", error) from error
    return held


def _batch(content: bytes, key: bytes, what: str) -> tuple[np.ndarray, np.ndarray]:
    batch = _unpickled(content, what)
    data, labels = batch.get(b"data"), batch.get(key)
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise ValueError(f"Expected b'data' and {key!r}. {what} has {[*batch]}.")
    pixels = data.numbers(what)
    if pixels.ndim != 2 or pixels.shape[1] != 3 * 32 * 32 or len(pixels) != len(labels):
        raise ValueError(
            "Expected images as rows of 3072 numbers, and as many labels. "
            f"{what} has {pixels.shape} and {len(labels)}."
        )
    if not all(type(label) is int for label in labels):
        raise ValueError(f"Expected whole numbers as labels. {what} has something else.")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


# --- pickles --------------------------------------------------------------------------------------


class _Array:
    """Stands for NumPy's ndarray in a pickle: keeps what it is told and does nothing."""

    state: Any = None

    def __init__(self, *args: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def numbers(self, what: str) -> np.ndarray:
        """The array, of uint8, made from its raw bytes."""
        try:
            _, shape, dtype, is_fortran, content = self.state
            if dtype.is_uint8 and isinstance(content, bytes) and not is_fortran:
                return np.frombuffer(content, np.uint8).reshape(shape)
        except (AttributeError, TypeError, ValueError):
            pass
        raise ValueError(f"Expected an array of uint8. {what} has another.")


class _Dtype:
    """Stands for NumPy's dtype."""

    def __init__(self, code: Any = None, *args: Any):
        self.is_uint8 = code in ("u1", b"u1")

    def __setstate__(self, state: Any) -> None:
        pass


class _Latin1:
    """Stands for ``_codecs.encode``, with which Python 3 puts bytes into old kinds of pickle."""

    def __new__(cls, text: str, encoding: str) -> Any:
        if encoding != "latin1":
            raise ValueError(f"Expected latin1. Got {encoding!r}.")
        return text.encode("latin1")


STAND_INS: Mapping[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Latin1,
}


class _ForeignName(Exception):
    """A pickle asks for something that no array needs."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in STAND_INS:
            raise _ForeignName(f"{module}.{name}")
        return STAND_INS[module, name]


def _unpickled(content: bytes, what: str) -> dict:
    try:
        value = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _ForeignName as error:
        raise ValueError(
            f"Expected a pickle of arrays and nothing else. {what} asks for {error}, which is "
            "refused: the file is not what it seems."
        ) from error
    except Exception as error:  # of a broken pickle, of many kinds
        raise _broken(what, "a whole pickle", error) from error
    if not isinstance(value, dict):
        raise ValueError(f"Expected a dictionary. {what} has a {type(value).__name__}.")
    return value


def _broken(what: str, expected: str, error: Exception) -> ValueError:
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(f"Expected {expected}. {what} cannot be read: {line}.")
