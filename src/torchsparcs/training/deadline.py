"""Deadlines: when long work has to end with what it has, by its time or by the first Ctrl-C."""

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

_stopped = threading.Event()  # all work of this process, which is a worker of another


class OutOfTime(Exception):
    """Work was ended by its deadline before it had anything to give."""


class Deadline:
    """When work has to end, by the wall clock, which processes have in common; never by default.

    Parts of the work have deadlines of their own, that are over when the ``whole`` is.

    >>> whole = Deadline(time.time() + 60)
    >>> part = whole.part(0.5)
    >>> part.left <= 30, part.is_over
    (True, False)
    >>> whole.stop()
    >>> part.is_over
    True
    """

    def __init__(self, end: float = math.inf, whole: "Deadline | None" = None):
        self._end, self._whole, self.is_stopped = end, whole, False

    @property
    def end(self) -> float:
        whole = self._whole
        return self._end if whole is None else min(self._end, whole.end)

    @property
    def left(self) -> float:
        """Seconds, at least zero."""
        return max(0.0, self.end - time.time())

    @property
    def is_over(self) -> bool:
        """Whether work that has something to give ends now."""
        return time.time() >= self.end or _stopped.is_set()

    @property
    def is_final(self) -> bool:
        """Whether the whole is over, and not this part alone."""
        return self.is_over if self._whole is None else self._whole.is_final

    def part(self, share: float) -> "Deadline":
        """That of a part, which has a share of the time that is left."""
        left = self.left
        return Deadline(time.time() + (left if math.isinf(left) else share * left), self)

    def stop(self) -> None:
        """Make it now."""
        self.is_stopped = True
        self._end = min(self._end, time.time())

    def hasten(self, seconds: float) -> None:
        """Make it earlier: so much of the time was spent before."""
        self._end -= seconds


NEVER = Deadline()


class Turn(NamedTuple):
    """The time of one of several pieces of work, that are done one after the other."""

    whole: Deadline
    seconds: float

    def begun(self) -> Deadline:
        """The deadline of the piece that begins now."""
        return Deadline(time.time() + self.seconds, self.whole)


def stop_all() -> None:
    """End the work of this process, whatever its deadlines, until it goes on."""
    _stopped.set()


def go_on() -> None:
    """Begin other work, which has a time of its own."""
    _stopped.clear()


@contextlib.contextmanager
def stopped_by_user(deadline: Deadline, words: str) -> Iterator[None]:
    """The first Ctrl-C is the deadline, and says ``words``; the second acts at once, as ever."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(before):  # in the background of a shell it is ignored
        yield
        return

    def stop(number: int, frame: Any) -> None:
        deadline.stop()
        signal.signal(signal.SIGINT, before)
        with contextlib.suppress(RuntimeError):  # in the middle of another line
            print(words, file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
