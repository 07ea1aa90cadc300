"""The clock of a search: its stages, and the time that each may take."""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from numbers import Real

from torchsparcs.parallel.executor import Executor
from torchsparcs.searching.progress import shown as shown_clock
from torchsparcs.training.deadline import Deadline, stopped_by_user
from torchsparcs.training.progress import duration_words

AFTERWARDS = 0.03  # of a time budget is for what comes after the last stage
STOPPING = "Stopping: the best front so far will be kept. Ctrl-C again aborts."
STOPPED = "The search was stopped by Ctrl-C: this is the best front that it had found."


class Clock:
    """Stages one after the other, of which each has its share of the time.

    What is left of the time to the ``deadline`` is shared out anew at every stage; so is, without
    one, the guess of how long the rest will take, by what the stages so far have taken.

    Args:
        executor: it is given the deadline of each stage.
        shares: by the names of the stages, in their order, what each is expected to take.
        deadline: of the whole; None where Ctrl-C is not its business.
    """

    def __init__(
        self, executor: Executor, shares: Mapping[str, float], deadline: Deadline | None = None
    ):
        self.executor, self.shares, self.deadline = executor, dict(shares), deadline
        self.is_cut_short = False
        self._started = time.time()
        self.doing = ""  # what is being done, in words
        self.tell: Callable[[], None] = lambda: None  # is called where a stage begins
        self._stage = ""
        self._spent: dict[str, float] = {}  # seconds, by stage, the running part not counted
        self._is_running = False
        self._rest = 0.0  # of the share of the running stage, the running part not counted
        self._part, self._part_started = 0.0, self._started

    @property
    def is_over(self) -> bool:
        """Whether nothing new is to be begun."""
        return self.deadline is not None and self.deadline.is_over

    @contextlib.contextmanager
    def stage(self, name: str, text: str, left: int = 1) -> Iterator[None]:
        """One of the parts of the stage ``name`` that are ``left``, this one counted."""
        self._spent.setdefault(name, 0.0)
        if name != self._stage:
            self._stage, self._rest = name, self.shares[name]
        self._part = self._rest / left
        self._rest -= self._part
        self.doing, self._part_started = text, time.time()
        self._is_running = True
        self.tell()
        before = self.executor.deadline
        if self.deadline is not None:
            rest = self._rest + self._later
            self.executor.deadline = self.deadline.part(self._part / (self._part + rest))
        try:
            yield
        finally:
            mine, self.executor.deadline = self.executor.deadline, before
            self._part = 0.0
            self._spent[name] += time.time() - self._part_started
            self._is_running = False
            self.is_cut_short |= mine is not None and mine.is_over

    @property
    def ended(self) -> str | None:
        """What ended it before it was done: "interrupt", "budget", or nothing."""
        if self.deadline is not None and self.deadline.is_stopped:
            return "interrupt"
        return "budget" if self.is_cut_short else None

    @property
    def _later(self) -> float:
        """The shares of the stages to come."""
        names = [*self.shares]
        place = names.index(self._stage) if self._stage in names else -1
        return sum(self.shares[name] for name in names[place + 1 :])

    def remaining(self) -> float | None:
        """About how many seconds it will still take, None where nothing tells."""
        now, rest = time.time(), self._rest + self._later
        whole = sum(self.shares.values())
        done = whole - rest - self._part
        left = None
        if done > 0:
            per_share = (self._part_started - self._started) / done
            running = max(0.0, per_share * self._part - (now - self._part_started))
            left = running + per_share * rest
        if self.deadline is not None and self.deadline.left < float("inf"):
            left = self.deadline.left if left is None else min(left, self.deadline.left)
        return left

    @property
    def passed(self) -> float:
        """Seconds since it was made."""
        return time.time() - self._started

    def spent(self) -> dict[str, float]:
        """Seconds by stage, in the order in which they were begun, the running one the last."""
        spent = self._spent.copy()  # another thread asks
        if self._is_running:
            spent[self._stage] = spent.pop(self._stage) + time.time() - self._part_started
        return spent

    def left_in_words(self) -> str:
        """About how long it will still take; nothing where that is not known, or no time."""
        left = self.remaining()
        return "" if left is None or left < 0.5 else f"about {duration_words(left)} left"

    def __str__(self) -> str:
        left = self.left_in_words()
        return f"{self.doing}: {duration_words(self.passed)}{', ' * bool(left)}{left}"

    @contextlib.contextmanager
    def timed(self, started: float, time_budget: float | None, *, shown: bool) -> Iterator[None]:
        """Its deadline, by a budget from ``started`` on and by Ctrl-C; and it is ``shown``."""
        engine = self.executor.engine
        if engine.ranks.world > 1:  # they would have to agree on the moment
            with shown_clock(self, shown):
                yield
            return
        seconds = math.inf if time_budget is None else time_budget * (1 - AFTERWARDS)
        self.deadline = Deadline(started + seconds)
        engine.deadline = self.executor.steps.deadline = self.deadline
        with stopped_by_user(self.deadline, STOPPING), shown_clock(self, shown):
            yield
        if self.ended == "interrupt":
            warnings.warn(STOPPED, UserWarning, stacklevel=4)


def checked_budget(time_budget: float | None, processes: int) -> float | None:
    """The time budget, checked."""
    if time_budget is None:
        return None
    is_number = isinstance(time_budget, Real) and not isinstance(time_budget, bool)
    if not is_number or not 0 < time_budget < math.inf:
        raise ValueError(f"Expected time_budget in seconds, above 0. Got {time_budget!r}.")
    if processes > 1:
        raise ValueError(
            f"Expected no time_budget where {processes} processes of torch.distributed work."
        )
    return float(time_budget)
