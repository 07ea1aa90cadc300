"""The ladder: networks cut to a smaller size, refitted, fine-tuned and judged, rung by rung."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from torchsparcs.training.config import TrainConfig

PASSED_OVER = 2  # rungs with too high a loss before it is given up


class Judged(Protocol):
    """What networks are worth on rows that they were not fitted to."""

    @property
    def loss(self) -> float: ...
    @property
    def score(self) -> float: ...


Network = TypeVar("Network")
Verdict = TypeVar("Verdict", bound=Judged)


class Family(Protocol[Network, Verdict]):
    """How networks of a kind are cut, fine-tuned and judged.

    They come in groups of fits: networks made in the same way and fitted to different rows, for
    cross-validation; the last of a group is the one that is kept. ``name`` is that of the step.
    """

    def size(self, network: Network) -> int:
        """How many parameters count."""

    def cut(
        self, name: str, groups: list[list[Network]], sizes: list[int]
    ) -> list[dict[str, list[Network]]]:
        """Of each group the ways to have at most so many parameters, the plain one first."""

    def tune(
        self, name: str, groups: list[list[Network]], tuning: TrainConfig
    ) -> list[list[Network] | None]:
        """The groups fine-tuned; None where that diverges. ``groups`` stay as they are."""

    def judge(self, groups: list[list[Network]]) -> list[Verdict]:
        """The verdict on each group."""


@dataclass(frozen=True)
class Rung(Generic[Network, Verdict]):
    """One group at one size.

    Attributes:
        group: its number.
        cuts: how often it was cut.
        way: how it was cut the last time.
        networks: one for each fit; the last one is what is found there.
    """

    group: int
    cuts: int
    way: str
    networks: list[Network]
    judgement: Verdict
    parameters: int

    @property
    def network(self) -> Network:
        return self.networks[-1]

    @property
    def loss(self) -> float:
        return self.judgement.loss


class Ladder(Generic[Network, Verdict]):
    """The way down of the groups of one family."""

    def __init__(self, family: Family[Network, Verdict]):
        self.family, self.cuts = family, 0
        self._cut: list[tuple[int, str, list[Network]]] = []  # the last time, not yet fine-tuned

    def top(self, groups: list[list[Network]]) -> list[Rung[Network, Verdict]]:
        """The groups as they are."""
        return self._judged([(place, "", group) for place, group in enumerate(groups)])

    def step(
        self, rungs: Sequence[Rung[Network, Verdict]], sizes: list[int], tuning: TrainConfig
    ) -> list[Rung[Network, Verdict]]:
        """Every group cut to its size in every way there is, fine-tuned and judged.

        What diverges is left out.
        """
        self.cuts += 1
        groups = [rung.networks for rung in rungs]
        ways = self.family.cut(f"cut {self.cuts}", groups, sizes)
        self._cut = [
            (rung.group, way, networks)
            for rung, found in zip(rungs, ways, strict=True)
            for way, networks in found.items()
        ]
        return self._tuned(f"tuning {self.cuts}", self._cut, tuning)

    def again(
        self, rung: Rung[Network, Verdict], tuning: TrainConfig
    ) -> list[Rung[Network, Verdict]]:
        """The group of ``rung``, of the last step, fine-tuned by another config."""
        cut = [each for each in self._cut if each[:2] == (rung.group, rung.way)]
        return self._tuned(f"tuning {self.cuts} again", cut, tuning)

    def _tuned(
        self, name: str, cut: list[tuple[int, str, list[Network]]], tuning: TrainConfig
    ) -> list[Rung[Network, Verdict]]:
        tuned = self.family.tune(name, [networks for _, _, networks in cut], tuning)
        found = zip(cut, tuned, strict=True)
        kept = [(group, way, after) for (group, way, _), after in found if after is not None]
        return self._judged(kept)

    def _judged(self, groups: list[tuple[int, str, list[Network]]]) -> list[Rung[Network, Verdict]]:
        if not groups:
            return []
        judgements = self.family.judge([networks for _, _, networks in groups])
        return [
            Rung(group, self.cuts, way, networks, judgement, self.family.size(networks[-1]))
            for (group, way, networks), judgement in zip(groups, judgements, strict=True)
        ]


class Step(Protocol):
    """A network on its way down."""

    @property
    def loss(self) -> float: ...
    @property
    def parameters(self) -> int: ...


AnyStep = TypeVar("AnyStep", bound=Step)


def last_within(rungs: Iterable[AnyStep], allowance: float, show: Callable[[str], None]) -> AnyStep:
    """The last of ``rungs`` whose loss is at most ``allowance`` higher than the lowest so far.

    A few that are not are passed over: smaller ones may have got rid of what was in the way.
    """
    best, limit, passed = None, math.inf, 0
    for rung in rungs:
        show(f"{rung.parameters:,} parameters, loss {rung.loss:.4g}, allowed {limit:.4g}")
        if best is None or rung.loss <= limit:
            best, limit, passed = rung, min(limit, rung.loss + allowance), 0
        elif (passed := passed + 1) > PASSED_OVER:
            break
    assert best is not None
    return best
