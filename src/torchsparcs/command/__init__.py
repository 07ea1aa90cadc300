"""The command line, ``sparcs``: it parses, calls and prints."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

STOPPED = 130  # the exit code after Ctrl-C


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command, with the arguments of the process by default, and exit."""
    with loading():
        from torchsparcs.command.app import invoke
    invoke(arguments)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Ctrl-C as one line while modules load: some answer it with errors of their own.

    What prints help loads neither torch nor pandas. Each command imports its work in here.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if before is not signal.default_int_handler:  # in the background of a shell it is ignored
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(number: int, frame: Any) -> NoReturn:
    os.write(2, b"stopped\n")
    os._exit(STOPPED)
