"""Stopping safely: files that are either whole or not there, and Ctrl-C between two steps."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from torchsparcs.files.packing import packed, unpacked

CHECKPOINT_VERSION = 2  # 1 was a pickle


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Call ``write`` on a temporary neighbour of ``path`` and move it there once it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = f"{os.getpid()}-{threading.get_ident()}"
    partial = path.with_name(f".{path.name}.{mine}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is not None:  # a full disk does not say what did not fit
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    content = packed({"version": CHECKPOINT_VERSION, **state})
    write_atomically(path, lambda file: file.write(content))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved; anything but a whole checkpoint is a ValueError."""
    try:
        state = unpacked(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"Expected a torchsparcs checkpoint. {path} cannot be read: {error}"
        ) from error
    version = state.get("version") if isinstance(state, dict) else None
    if version != CHECKPOINT_VERSION:
        raise ValueError(
            f"Expected a torchsparcs checkpoint of version {CHECKPOINT_VERSION}. "
            f"Got {version!r} in {path}."
        )
    return state


@contextlib.contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Ctrl-C as a flag, so that a run stops between two steps; pressed again it acts at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, remember)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
