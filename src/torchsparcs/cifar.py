"""CIFAR as it is published: archives of pickles, read without running what is in them.

A pickle is a program for a machine that may call anything by its name. Here it runs on a machine
that knows lists, dictionaries and the few names that an array in a pickle needs, and these stand
for plain containers; any other instruction or name is refused.
"""

import pickletools
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from torchsparcs.claims import first_line, gunzipped

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
        raise _broken(str(path), "a whole .tar.gz file", error) from error
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
    if not all(type(label) is int and abs(label) < 2**31 for label in labels):
        raise ValueError(f"Expected whole numbers as labels. {what} has something else.")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


# --- pickles --------------------------------------------------------------------------------------


class _Array:
    """Stands for NumPy's ndarray in a pickle: keeps what it is told and does nothing."""

    state: Any = None

    def __init__(self, *args: Any):
        pass

    def numbers(self, what: str) -> np.ndarray:
        """The array, of uint8, made from its raw bytes."""
        try:
            _, shape, dtype, is_fortran, content = self.state
            if dtype.is_uint8 and isinstance(content, bytes) and not is_fortran:
                return np.frombuffer(content, np.uint8).reshape(shape)
        except (AttributeError, OverflowError, TypeError, ValueError):
            pass
        raise ValueError(f"Expected an array of uint8. {what} has another.")


class _Dtype:
    """Stands for NumPy's dtype."""

    state: Any = None

    def __init__(self, code: Any = None, *args: Any):
        self.is_uint8 = code in ("u1", b"u1")


class _Latin1:
    """Stands for ``_codecs.encode``, with which Python 3 puts bytes into old kinds of pickle."""


STAND_INS: Mapping[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Latin1,
}
# Instructions that bring a value along, or text as Python 2 wrote it (bytes), or are a value.
VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
}
STRINGS = {"STRING", "SHORT_BINSTRING", "BINSTRING"}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _ForeignName(Exception):
    """A pickle asks for something that no array needs."""


def _built(content: bytes) -> Any:
    """What a pickle builds: its instructions, one by one, on a stack of stacks."""
    stack: list[Any] = []
    below: list[list[Any]] = []  # what lies under each mark
    memo: dict[int, Any] = {}
    texts: dict[str, bytes] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(content):
        match opcode.name:
            case name if name in VALUES:
                stack.append(argument)
            case name if name in STRINGS:
                stack.append(argument.encode("latin1"))
            case name if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case name if name in TUPLES:
                stack[-TUPLES[name]]  # there are as many
                stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
            case "EMPTY_LIST" | "EMPTY_DICT" as name:
                stack.append([] if name == "EMPTY_LIST" else {})
            case "MARK":
                below.append(stack)
                stack = []
            case "LIST" | "TUPLE" | "DICT" | "APPENDS" | "SETITEMS" as name:
                items, stack = stack, below.pop()
                if name in ("LIST", "TUPLE", "DICT"):
                    stack.append({"LIST": [], "TUPLE": (), "DICT": {}}[name])
                stack[-1] = _extended(stack[-1], items)
            case "APPEND":
                stack[-2:] = [_extended(stack[-2], stack[-1:])]
            case "SETITEM":
                stack[-3:] = [_extended(stack[-3], stack[-2:])]
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE" as name:
                memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(_stand_in(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack[-2:] = [_stand_in(*stack[-2:])]
            case "REDUCE":
                stack[-2:] = [_made(stack[-2], stack[-1], texts)]
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], (_Array, _Dtype)):
                    raise ValueError("an argument is neither an array nor its type")
                stack[-1].state = state
            case "STOP":
                return stack.pop()
            case name if name not in ("PROTO", "FRAME"):
                raise ValueError(f"it has {name}: {opcode.doc.splitlines()[0].lower()}")


def _extended(container: Any, items: list[Any]) -> Any:
    """A list, tuple or dictionary with more in it; its keys are text, which is quick to compare."""
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        keys, values = items[::2], items[1::2]
        if not all(isinstance(key, (str, bytes)) for key in keys):
            raise ValueError("a key is no text")
        container.update(zip(keys, values, strict=True))
    elif container == ():
        return tuple(items)
    else:
        raise ValueError("more is put into what is no list")
    return container


def _stand_in(module: Any, name: Any) -> type:
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError("a name is no text")
    if (module, name) not in STAND_INS:
        raise _ForeignName(f"{module}.{name}")
    return STAND_INS[module, name]


def _made(kind: Any, arguments: Any, texts: dict[str, bytes]) -> Any:
    """An array, a type or bytes: one object for one text, however often it is asked for."""
    if kind in (_Array, _Dtype):
        return kind(*arguments)
    if kind is not _Latin1:
        raise ValueError("what is called is neither an array nor its type")
    text, encoding = arguments
    if not isinstance(text, str) or not isinstance(encoding, str):
        raise ValueError("what is encoded is no text")
    if encoding != "latin1":
        raise ValueError(f"Expected latin1. Got {encoding!r}.")
    if text not in texts:
        texts[text] = text.encode("latin1")
    return texts[text]


def _unpickled(content: bytes, what: str) -> dict:
    try:
        value = _built(content)
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
    return ValueError(f"Expected {expected}. {what} cannot be read: {first_line(error)}.")
