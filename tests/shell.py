"""The command line run in this process: its exit code and what it prints."""

import contextlib
import io
import math
from typing import NamedTuple
from unittest.mock import patch

import pytest

from torchsparcs.command import main
from torchsparcs.searching import progress


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def sparcs(*arguments) -> Outcome:
    """What the command prints where no terminal is, and its exit code.

    How often it says how long it will take depends on the machine: here never.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with (
        patch.multiple(progress, EVERY=math.inf, SINCE=math.inf),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as exit,
    ):
        main([str(argument) for argument in arguments])
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Outcome(exit.value.code, *texts)
