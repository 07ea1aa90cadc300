"""CIFAR as it is published: an archive of pickles, or the folder that is inside it.

A pickle can run anything. So only files whose md5 is the published one are unpickled, and these by
an unpickler that knows no more than the names that an array needs.
"""

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

LARGEST = 2**28  # bytes of an archive or of a file in it: more than those of CIFAR
NAMES = {  # what the pickle of an array asks for
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class Archive(NamedTuple):
    """A published data set: where it is, and what is called what inside."""

    title: str
    url: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: bytes
    meta: str
    classes: bytes

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]

    @property
    def members(self) -> tuple[str, ...]:
        """The files of its folder that are read."""
        return (*self.train, *self.test, self.meta)


ARCHIVES = {
    "cifar10": Archive(
        title="CIFAR-10",
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
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
        folder="cifar-100-python",
        train=("train",),
        test=("test",),
        labels=b"fine_labels",
        meta="meta",
        classes=b"fine_label_names",
    ),
}
MD5 = {  # of the archives, and of the files in them
    "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def read_cifar(path: Path) -> tuple[str, Tensor, Tensor, Tensor, Tensor, tuple[str, ...]]:
    """Read CIFAR-10 or -100: its name, images and labels to train and to test with, and classes.

    ``path`` is the archive or the folder that is inside it; whatever does not have the published
    checksum is a ValueError. Nothing is unpacked to disk.

    Shape:
        - images (N, 3, 32, 32) of uint8, labels (N,) of int64
    """
    name, files = _files_of_folder(path) if path.is_dir() else _files_of_archive(path)
    archive = ARCHIVES[name]
    batches = {file: _ArrayUnpickler(content).load() for file, content in files.items()}
    tensors: list[Tensor] = []
    for part in (archive.train, archive.test):
        pixels = np.concatenate([batches[file][b"data"] for file in part])
        labels = [label for file in part for label in batches[file][archive.labels]]
        tensors += [torch.from_numpy(pixels.reshape(-1, 3, 32, 32)), torch.tensor(labels)]
    train_x, train_y, test_x, test_y = tensors
    classes = tuple(label.decode() for label in batches[archive.meta][archive.classes])
    return name, train_x, train_y, test_x, test_y, classes


def _files_of_folder(path: Path) -> tuple[str, dict[str, bytes]]:
    for name, archive in ARCHIVES.items():
        missing = [file for file in archive.members if not (path / file).is_file()]
        if not missing:
            return name, {
                file: _published(path / file, {file: archive})[1] for file in archive.members
            }
        if len(missing) < len(archive.members):
            raise ValueError(
                f"Expected the whole of {archive.title}. {path} lacks {', '.join(missing)}; "
                f"the md5 of {archive.file} is {MD5[archive.file]}."
            )
    titles = " or ".join(archive.title for archive in ARCHIVES.values())
    raise ValueError(f"Expected the Python version of {titles}. {path} is something else.")


def _files_of_archive(path: Path) -> tuple[str, dict[str, bytes]]:
    names = {archive.file: name for name, archive in ARCHIVES.items()}
    file, content = _published(path, {file: ARCHIVES[name] for file, name in names.items()})
    archive = ARCHIVES[names[file]]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        files = {file: _member(tar, f"{archive.folder}/{file}") for file in archive.members}
    return names[file], files


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    member = tar.getmember(name)
    stream = tar.extractfile(member)
    if stream is None or member.size > LARGEST:
        raise ValueError(f"Expected a file of at most {LARGEST:,} bytes. {name} is none.")
    return stream.read()


def _published(path: Path, files: dict[str, Archive]) -> tuple[str, bytes]:
    """Which of the published ``files`` is at ``path``, and its bytes; a ValueError if none is."""
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"Expected at most {LARGEST:,} bytes. {path} has {size:,}.")
    content = path.read_bytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    for name in files:
        if MD5[name] == md5:
            return name, content
    expected = " or ".join(f"{name} (md5 {MD5[name]})" for name in files)
    urls = " or ".join(archive.url for archive in files.values())
    raise ValueError(
        f"Expected {expected} as it is published. {path} has the md5 {md5}: it is damaged, was "
        f"changed or is something else. Download {urls} again."
    )


class _ArrayUnpickler(pickle.Unpickler):
    """Lists, dictionaries and arrays as Python 2 pickled them, and nothing else."""

    def __init__(self, content: bytes):
        super().__init__(io.BytesIO(content), encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMES:
            raise ValueError(f"Expected a pickle of arrays. It asks for {module}.{name}.")
        return NAMES[module, name]
