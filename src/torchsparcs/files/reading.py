"""Reading what a file says without believing it: bounded by the memory, compared with a type.

What a file claims of its size is compared with the memory before any is taken. Who reads JSON
declares what it holds, as a :class:`Record` or a ``TypedDict``, and :func:`read_as` compares: what
does not fit is a ValueError that names the place. Whatever goes wrong after that is a mistake of
ours, and surfaces as itself. Data, never code.
"""

import contextlib
import dataclasses
import json
import os
import re
import reprlib
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from torchsparcs.files.visible import LONGEST

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

CONTAINER, AVAILABLE = Path("/sys/fs/cgroup/memory.max"), Path("/proc/meminfo")
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
JSON_COPIES = 16  # of what is in a file, in memory on the way


def check_memory(path: str | Path, size: int, *, copies: int, room: int | None = None) -> None:
    """Raise a ValueError where a file claims more bytes than fit into memory ``copies`` times.

    Asked before any memory is taken: what a file says of itself may be a lie. Where some is taken
    already, ``room`` is the memory that there was.
    """
    most = (memory() if room is None else room) // copies
    if size > most:
        raise ValueError(
            f"Expected a file that fits into memory. {path} claims {_gigabytes(size)}, and there "
            f"is room for {_gigabytes(most)}."
        )


def memory() -> int:
    """Bytes that this process may take: all that are free, or its limit where it has one."""
    limits = [sys.maxsize]
    with contextlib.suppress(OSError, ValueError, IndexError):  # Linux tells
        available = AVAILABLE.read_text().split("MemAvailable:")[1]
        limits.append(1024 * int(available.split()[0]))
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):  # "max" is no limit
        limits.append(int(CONTAINER.read_text()))
    if resource is not None:
        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(limit for limit in limits if limit > 0)  # -1 is none


@contextlib.contextmanager
def reading(kind: str, path: str | Path) -> Iterator[None]:
    """Whatever goes wrong in a library that reads ``path`` is a ValueError; ours stay as they are.

    ``kind`` is what was expected: "a whole parquet file".
    """
    try:
        yield
    except Exception as error:  # of libraries and the system, of many kinds
        if type(error) is ValueError and str(error).startswith("Expected"):
            raise
        raise ValueError(f"Expected {kind}. {path} cannot be read: {first_line(error)}") from error


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.3g} GB" if size < 10**30 else "more than there is"


def read_json(path: Path) -> Any:
    """Read a JSON file; a ValueError where it holds something else, too much or is too deep."""
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"Expected a file. There is none at {path}.")
    check_memory(path, path.stat().st_size, copies=JSON_COPIES)
    try:
        return parsed_json(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected JSON. {path} holds something else: {error}") from error


def parsed_json(text: str) -> Any:
    """What JSON says; a ValueError for half a character, which can be written there and nowhere
    else."""
    value = json.loads(text)
    if SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


LARGEST = 2**1023  # whole numbers below are floats too
PLAIN = (bool, int, float, str)


class Record:
    """A dataclass whose fields are text, numbers, None, tuples of them, or records again.

    :meth:`from_json` checks the types of the fields, ``__post_init__`` their values.
    """

    def to_json(self) -> dict[str, Any]:
        """The fields, by name, as JSON knows them."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The record that :meth:`to_json` wrote; anything else is a ValueError."""
        fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        needed = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
        hints = get_type_hints(cls, include_extras=True)
        try:
            _check_keys(data, needed)
            if unknown := [key for key in data if key not in fields]:
                raise ValueError(f"it has no {', '.join(map(reprlib.repr, unknown))}")
            return cls(**{name: read_as(hints[name], value, name) for name, value in data.items()})
        except ValueError as error:
            raise ValueError(f"Expected {cls.__name__} as to_json wrote it. {error}") from error


def read_as(kind: Any, value: Any, name: str) -> Any:
    """``value``, which JSON read, as the type ``kind``; a ValueError where it is something else.

    >>> read_as(tuple[int, ...] | None, [3, 4], "widths")
    (3, 4)
    >>> read_as(list[Annotated[float, lambda share: share <= 1]], [0.5, 2], "shares")
    Traceback (most recent call last):
    ValueError: shares[1] is 2, out of its range

    Args:
        kind: ``Any``, bool, int, str or float (a whole number is a float too, a truth value
            is neither); ``X | Y``, ``X | None``; ``list[X]``, ``tuple[X, ...]`` or ``tuple[X, Y]``;
            ``dict[str, X]``; a ``Record``; a ``TypedDict``, beside whose keys others may be; or
            ``Annotated[X, check, ...]``, where each check says whether a value is in its range.
        name: of the value, for the error.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is NotRequired:
        return read_as(parts[0], value, name)
    if origin is Annotated:
        read = read_as(parts[0], value, name)
        if not all(check(read) for check in parts[1:]):
            raise ValueError(f"{name} is {reprlib.repr(value)}, out of its range")
        return read
    if origin in (Union, UnionType):
        for part in parts:
            with contextlib.suppress(ValueError):
                return read_as(part, value, name)
    if origin in (list, tuple) and type(value) is list:
        if parts[0] in PLAIN and parts[1:] in ((), (...,)) and {*map(type, value)} <= {parts[0]}:
            return origin(value)  # millions of numbers are looked at quickly
        each = parts if origin is tuple and Ellipsis not in parts else parts[:1] * len(value)
        if len(each) == len(value):
            pairs = enumerate(zip(each, value, strict=True))
            return origin(read_as(part, item, f"{name}[{i}]") for i, (part, item) in pairs)
    if origin is dict and type(value) is dict:
        return {key: read_as(parts[1], item, f"{key} of {name}") for key, item in value.items()}
    if is_typeddict(kind):
        _check_keys(value, kind.__required_keys__, name)
        hints = get_type_hints(kind, include_extras=True)
        return {key: read_as(hints.get(key, Any), item, key) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.from_json(value)
    if kind is float and type(value) is int and abs(value) < LARGEST:
        return float(value)
    if type(value) is kind:
        return value
    raise ValueError(f"{name} is {reprlib.repr(value)}, not {_words(kind)}")


def _check_keys(data: Any, needed: Collection[str], name: str = "it") -> None:
    """A ValueError unless ``data`` is a dict that has the keys ``needed``."""
    if type(data) is not dict:
        raise ValueError(f"{name} is {reprlib.repr(data)}, not dict")
    if lacking := [key for key in needed if key not in data]:
        raise ValueError(f"{name} lacks {', '.join(sorted(lacking))}")


def _words(kind: Any) -> str:
    """The outermost type, as an error names it."""
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_words, parts))
    if get_origin(kind) is Annotated:
        return _words(parts[0])
    outer = get_origin(kind) or kind
    return {NoneType: "None", tuple: "list"}.get(outer, outer.__name__)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def quoted(values: Sequence[Any], most: int = 10) -> str:
    """'a', 'b', 'c', ...: the first of ``values``, as an error names them, long ones shortened."""
    shown = ", ".join(repr(_shortened(value)) for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown


def _shortened(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > LONGEST
    return f"{value[: LONGEST - 1]}…" if is_long else value


def first_line(error: Exception) -> str:
    """What an error says, or its name where it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
