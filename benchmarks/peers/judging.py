"""What runs say: the answer to a budget, and one contestant beside another at equal size.

A run is what `contest.compete` returns, and those of this module have ended without an error; its
networks are ``run["found"]``. Nothing here looks at test scores to choose.
"""

import math
from collections.abc import Iterable
from statistics import mean
from typing import NamedTuple

import numpy as np

ENOUGH = 0.999  # R² at which a student of the teacher counts as having learnt it
TEACHER = (20,)  # its hidden layers; it has no skips


def finished(runs: Iterable[dict]) -> list[dict]:
    return [run for run in runs if "error" not in run]


def front(found: list[dict]) -> list[dict]:
    """From small to large, those that expect more than every smaller one."""
    kept: list[dict] = []
    for network in sorted(found, key=lambda one: (one["parameters"], -one["expected"])):
        if not kept or network["expected"] > kept[-1]["expected"]:
            kept.append(network)
    return kept


def answer(found: list[dict], budget: float) -> dict | None:
    """The network a contestant would hand out for a budget of parameters."""
    return next((one for one in reversed(front(found)) if one["parameters"] <= budget), None)


def best_of(run: dict) -> dict:
    """The network that expects most, the smaller of two that expect the same."""
    return front(run["found"])[-1]


def picked(run: dict) -> dict | None:
    """What is handed out where nobody chooses; None where there is no such network."""
    return run["found"][run["pick"]] if "pick" in run else None


def budgets(runs: list[dict]) -> list[int]:
    """Sizes at which a contestant's answer changes under some seed, from where all seeds answer."""
    fronts = [[one["parameters"] for one in front(run["found"])] for run in runs]
    least = max((sizes[0] for sizes in fronts), default=0)
    return sorted({size for sizes in fronts for size in sizes if size >= least})


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error; infinite, since unknown, with a single value."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.inf
    return float(np.mean(values)), spread / math.sqrt(len(values))


def curve(runs: list[dict]) -> list[tuple[float, float, float]]:
    """Mean size, mean test score and its standard error, budget by budget."""
    points = []
    for budget in budgets(runs):
        found = [answer(run["found"], budget) for run in runs]
        score, error = mean_and_error([one["test"] for one in found])
        points.append((mean(one["parameters"] for one in found), score, error))
    return points


class Gap(NamedTuple):
    """Our mean test score less theirs, over the seeds, for one budget of parameters."""

    budget: int
    mean: float
    error: float  # standard error of the paired difference


class Verdict(NamedTuple):
    """Our front beside a peer's at the sizes of the peer's networks."""

    seeds: int  # that both finished
    gaps: list[Gap]  # where both hand out a network under every seed; none with fewer than 2 seeds
    smaller: int  # sizes of the peer at which we have no network yet

    @property
    def below(self) -> list[Gap]:
        """Where we are below by more than a standard error."""
        return [gap for gap in self.gaps if gap.mean < -gap.error]

    @property
    def above(self) -> list[Gap]:
        return [gap for gap in self.gaps if gap.mean > gap.error]

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of the sizes compared: above, neither, below."""
        above, below = (len(some) / len(self.gaps) for some in (self.above, self.below))
        return above, 1 - above - below, below

    def __str__(self) -> str:
        if self.seeds < 2:
            return f"no verdict from {self.seeds} seed{'s' * (self.seeds != 1)}"
        parts = [self._compared()]
        if self.smaller:
            parts.append(f"{self.smaller} below our smallest")
        return "; ".join(parts)

    def _compared(self) -> str:
        if not self.gaps:
            return "no size in common"
        if not self.below:
            return f"not below ({len(self.gaps)})"
        worst = min(self.below, key=lambda gap: gap.mean)
        return (
            f"**below** at {len(self.below)} of {len(self.gaps)}, at most by {-worst.mean:.4f} ± "
            f"{worst.error:.4f} ({worst.budget:,})"
        )


def verdict(ours: list[dict], theirs: list[dict]) -> Verdict:
    """We are compared at each of their budgets, over the seeds that both finished."""
    by_seed = {run["seed"]: run for run in ours}
    pairs = [(by_seed[run["seed"]], run) for run in theirs if run["seed"] in by_seed]
    gaps: list[Gap] = []
    if len(pairs) < 2:
        return Verdict(len(pairs), gaps, 0)
    sizes = budgets([run for _, run in pairs])
    for budget in sizes:
        answers = [(answer(a["found"], budget), answer(b["found"], budget)) for a, b in pairs]
        if all(mine is not None for mine, _ in answers):
            differences = [mine["test"] - other["test"] for mine, other in answers]
            gaps.append(Gap(budget, *mean_and_error(differences)))
    return Verdict(len(pairs), gaps, len(sizes) - len(gaps))


def smallest_student(run: dict) -> dict | None:
    """The smallest network of a run that expects to have learnt the teacher."""
    return next((one for one in front(run["found"]) if one["expected"] >= ENOUGH), None)


def is_teacher(network: dict | None) -> bool:
    return network is not None and tuple(network["hidden"]) == TEACHER and not network["skips"]
