"""What a person sees of the clock of a search: on a terminal, in a notebook, in a file."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchsparcs.training.notebook import NotebookLine
from torchsparcs.training.progress import duration_words

if TYPE_CHECKING:
    from torchsparcs.searching.clock import Clock

EVERY, SINCE = 10.0, 2.0  # seconds between plain lines: at most, and before the next stage's
REFRESH = 4  # times a second, on a terminal
BAR = 24  # characters
STAGES = {
    **{
        "linear": "linear model",
        "pilot": "first look",
        "training": "training",
        "cutting": "cutting",
    },
    **{"teacher": "teacher", "decays": "weight decays", "fits": "L-BFGS fits"},
    **{"taught": "fits with a teacher", "deeper": "longer fits"},
    **{"single": "single connections", "last": "fits to all rows"},
}


@contextlib.contextmanager
def shown(clock: "Clock", enabled: bool) -> Iterator[None]:
    """Stages and their times, kept up to date on a terminal and in a notebook.

    Elsewhere there is a plain line now and then.
    """
    if not enabled:
        yield
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if console.is_terminal:
        with _on_terminal(clock, console):
            yield
    elif console.is_jupyter:
        line = NotebookLine()
        with _ticking(lambda: line.update(f"{bar(clock)}  {clock}"), 1.0):
            yield
        line.update(totals(clock), is_last=True)
    else:
        lines = _Lines(clock)
        clock.tell = lambda: lines.say(SINCE)
        with _ticking(lambda: lines.say(EVERY), 1.0):
            yield
        if lines.are_begun:
            print(totals(clock), file=sys.stderr)


@contextlib.contextmanager
def _on_terminal(clock: "Clock", console: Any) -> Iterator[None]:
    from rich.live import Live

    with Live(
        console=console,
        get_renderable=lambda: _table(clock),
        refresh_per_second=REFRESH,
        transient=True,
    ):
        yield
    console.print(totals(clock))


def _table(clock: "Clock") -> Any:
    """The stages that were begun, one below the other, and what is left."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True)
    spent = clock.spent()
    for name, seconds in spent.items():
        doing = clock.doing if name == [*spent][-1] else ""
        table.add_row(f"  {STAGES.get(name, name)}", duration_words(seconds), doing)
    table.add_row(f"  {bar(clock)}", duration_words(clock.passed), clock.left_in_words())
    return table


def bar(clock: "Clock") -> str:
    """How much of the time has passed, as far as it can be told: "███░░░░░  38 %"."""
    passed, left = clock.passed, clock.remaining()
    share = 0.0 if left is None else passed / max(passed + left, 1e-9)
    full = int(BAR * share)
    return f"{'█' * full}{'░' * (BAR - full)} {100 * share:3.0f} %"


def totals(clock: "Clock") -> str:
    """How long each stage took, and all of them: "training 8 s, cutting 12 s: 20 s"."""
    long = {name: seconds for name, seconds in clock.spent().items() if seconds >= 0.5}
    parts = [f"{STAGES.get(name, name)} {duration_words(long[name])}" for name in long]
    return f"{', '.join(parts) or 'search'}: {duration_words(clock.passed)}"


class _Lines:
    """Plain lines on the stream of errors, not too many of them."""

    def __init__(self, clock: "Clock"):
        self.clock, self.are_begun = clock, False
        self._said_at = time.time()

    def say(self, after: float) -> None:
        """Print a line, unless there was one less than ``after`` seconds ago."""
        if time.time() - self._said_at >= after:
            self._said_at, self.are_begun = time.time(), True
            print(self.clock, file=sys.stderr)


@contextlib.contextmanager
def _ticking(tick: Any, seconds: float) -> Iterator[None]:
    """Call ``tick`` every so many seconds, beside what is done here."""
    is_done = threading.Event()

    def run() -> None:
        while not is_done.wait(seconds):
            tick()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
