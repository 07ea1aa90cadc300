"""The front of score against size, and the rules that pick from it."""

import math
import operator
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Generic, Protocol, TypeVar

LEAST_TOLERANCE = 1e-3  # of a score: nobody pays parameters for less
ROUNDING = 1e-7  # of a score: what float32 does not resolve is no difference


class Judged(Protocol):
    """A network of some size and what it is worth."""

    @property
    def parameters(self) -> int: ...
    @property
    def score(self) -> float: ...
    @property
    def standard_error(self) -> float: ...
    @property
    def loss(self) -> float: ...


Found = TypeVar("Found", bound=Judged)


class Front(Generic[Found]):
    """What has a ``front``: candidates, each with a better score than all smaller ones."""

    front: tuple[Found, ...]

    def best(self) -> Found:
        """The best score."""
        return self.front[-1]

    @property
    def tolerance(self) -> float:
        """What :meth:`smallest` gives away by default."""
        return max(self.best().standard_error, LEAST_TOLERANCE)

    def smallest(self, tolerance: float | None = None) -> Found:
        """The smallest network whose score is within ``tolerance`` of the best one's.

        By default that is one standard error of the best score, and at least 0.001.
        """
        best = self.best()
        allowed = self.tolerance if tolerance is None else tolerance
        if not allowed >= 0:
            raise ValueError(f"Expected a tolerance >= 0. Got {tolerance!r}.")
        return next(found for found in self.front if found.score >= best.score - allowed)

    def within(self, max_parameters: int) -> Found:
        """The best score with at most ``max_parameters``."""
        fitting = [found for found in self.front if found.parameters <= max_parameters]
        if not fitting:
            raise ValueError(
                f"Expected a budget of at least {self.front[0].parameters} parameters, the "
                f"smallest network of the front. Got {max_parameters}."
            )
        return fitting[-1]

    def pick(self, rule: "str | int | Found" = "smallest") -> Found:
        """The candidate that a rule picks, or of that place on the front.

        The rules are "best" and "smallest", for a table also "linear".
        """
        if isinstance(rule, type(self.front[0])):
            return rule
        rules = self._rules()
        if isinstance(rule, str) and rule in rules:
            return rules[rule]()
        if isinstance(rule, Integral) and not isinstance(rule, bool):
            place = int(rule)
            if 0 <= place < len(self.front):
                return self.front[place]
        raise ValueError(
            f"Expected a pick among {', '.join(rules)} and 0 to {len(self.front) - 1}. "
            f"Got {rule!r}."
        )

    def _rules(self) -> dict[str, Callable[[], Found]]:
        return {"best": self.best, "smallest": self.smallest}


def on_the_front(candidates: Iterable[Found], max_parameters: int | None = None) -> list[Found]:
    """Keep what has a better score than all that have no more parameters, by size.

    Better is more than rounding: two networks that get as many rows right, though not the same
    ones, are equally good.
    """
    judged = [found for found in candidates if not math.isnan(found.score)]
    if not judged:
        raise ValueError("Expected validation rows whose target varies. Got one value in all.")
    by_size = sorted(judged, key=lambda found: (found.parameters, -found.score))
    if max_parameters is not None and by_size[0].parameters > max_parameters:
        raise ValueError(
            f"Expected max_parameters of at least {by_size[0].parameters}, the smallest network "
            f"that was found. Got {max_parameters}."
        )
    front, best = [], -math.inf
    for found in by_size:
        if max_parameters is not None and found.parameters > max_parameters:
            break
        if found.score > best + ROUNDING:
            front.append(found)
            best = found.score
    return front


def is_same(one: Judged, other: Judged) -> bool:
    """Whether two candidates are one; read from files they are different objects."""
    numbers = ((each.parameters, each.score, each.loss) for each in (one, other))
    return one is other or operator.eq(*numbers)
