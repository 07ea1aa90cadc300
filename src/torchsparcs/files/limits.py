"""The memory there is, against which a file's size is compared before it is read."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

CONTAINER = Path("/sys/fs/cgroup/memory.max")
JSON_COPIES = 16  # of what is in a file, in memory on the way


def check_memory(path: str | Path, size: int, *, copies: int) -> None:
    """Raise a ValueError where a file claims more bytes than fit into memory ``copies`` times.

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


def read_json(path: Path) -> Any:
    """Read a JSON file; a ValueError where it holds something else, too much or is too deep."""
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"Expected a file. There is none at {path}.")
    check_memory(path, path.stat().st_size, copies=JSON_COPIES)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected JSON. {path} holds something else: {error}") from error
