"""Files that are either whole or not there."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], Any]) -> None:
    """Write ``content``, or let it write, beside ``path``; moved there once it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = f"{os.getpid()}-{threading.get_ident()}"
    partial = path.with_name(f".{path.name}.{writer}.partial")
    try:
        with partial.open("wb") as file:
            content(file) if callable(content) else file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is not None:  # a full disk does not say what did not fit
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
