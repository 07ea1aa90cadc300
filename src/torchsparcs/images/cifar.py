"""CIFAR as it is published: an archive of pickles, or the folder that is inside it."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from torchsparcs.files.limits import gunzipped
from torchsparcs.images.pickles import Array, unpickled

LARGEST = 2**29  # bytes of an archive, unpacked, or of a file: more than twice those of CIFAR
BLOCK = 512  # bytes, of which a tar file has a whole number for everything
EMPTY = (b"1", b"2", b"3", b"4", b"5", b"6")  # links, devices, folders: they have a header only


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
    names = unpickled(held[row.meta], f"{path}: {row.meta}").get(row.classes)
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
    files = [path / file for file in sorted(_wanted()) if (path / file).is_file()]
    for file in files:
        _check_size(file)
    return {file.name: file.read_bytes() for file in files}


def _files_of_tar(path: Path) -> dict[str, bytes]:
    """The wanted files of CIFAR's folders; nothing is unpacked to disk."""
    _check_size(path)
    with path.open("rb") as start:
        is_packed = start.read(2) == b"\x1f\x8b"
    content = gunzipped(path, LARGEST) if is_packed else path.read_bytes()
    wanted, folders = _wanted(), {row.folder for row in ARCHIVES.values()}
    held = {}
    try:
        for name, place in _members(content):
            folder, file = ("", "", *PurePosixPath(name).parts)[-2:]
            if folder in folders and file in wanted:
                held[file] = bytes(content[place])
    except ValueError as error:
        raise ValueError(
            f"Expected a whole .tar.gz file. {path} cannot be read: {error}."
        ) from error
    return held


def _check_size(path: Path) -> None:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"Expected at most {LARGEST:,} bytes. {path} has more.")


def _members(content: bytes | bytearray) -> Iterator[tuple[str, slice]]:
    """The files of a tar file: name, and place in ``content``. All else in it is gone past."""
    start = 0
    while header := bytes(content[start : start + BLOCK]).rstrip(b"\0"):
        header = header.ljust(BLOCK, b"\0")
        total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        if total != _octal(header[148:156]):
            raise ValueError("a checksum does not fit")
        kind = header[156:157]
        stop = start + BLOCK + (0 if kind in EMPTY else _octal(header[124:136]))
        if stop > len(content):
            raise ValueError("unexpected end of data")
        if kind in (b"0", b"\0"):
            name, prefix = (part.split(b"\0")[0] for part in (header[:100], header[345:500]))
            parts = (prefix, name) if header[257:263] == b"ustar\0" and prefix else (name,)
            yield b"/".join(parts).decode("utf-8", "replace"), slice(start + BLOCK, stop)
        start = stop + -stop % BLOCK


def _octal(field: bytes) -> int:
    digits = field.strip(b"\0 ") or b"0"
    if not digits.isdigit():
        raise ValueError("a size is no number")
    return int(digits, 8)


def _batch(content: bytes, key: bytes, what: str) -> tuple[np.ndarray, np.ndarray]:
    batch = unpickled(content, what)
    data, labels = batch.get(b"data"), batch.get(key)
    if not isinstance(data, Array) or not isinstance(labels, list):
        raise ValueError(f"Expected b'data' and {key!r}. {what} has {[*batch]}.")
    pixels = data.numbers(what)
    if pixels.ndim != 2 or pixels.shape[1] != 3 * 32 * 32 or len(pixels) != len(labels):
        raise ValueError(
            "Expected images as rows of 3072 numbers, and as many labels. "
            f"{what} has {pixels.shape} and {len(labels)}."
        )
    if not all(type(label) is int and abs(label) < 2**31 for label in labels):
        raise ValueError(f"Expected whole numbers as labels. {what} has something else.")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)
