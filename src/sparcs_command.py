"""The command ``sparcs`` before torch is loaded, so that Ctrl-C is one line from the beginning."""

import os
import signal
from typing import Any, NoReturn

STOPPED = 130  # the exit code after Ctrl-C, as in cli.py, which loads torch


def main() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # in the background of a shell it is ignored
        signal.signal(signal.SIGINT, _stop)
    from torchsparcs.command.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _stop(number: int, frame: Any) -> NoReturn:
    """At once: some modules answer an interruption while they load with errors of their own."""
    os.write(2, b"stopped\n")
    os._exit(STOPPED)
