"""Fidelity: how much of a teacher a network has kept, on rows that both have not seen."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from torchsparcs.searching.scoring import scoring_of
from torchsparcs.searching.teachers import Teacher

if TYPE_CHECKING:
    from torchsparcs.searching.result import SearchResult

LEAST_CHANCE = 1e-6  # of a class, in a logarithm
WORST = 10  # rows on which the two disagree most


class Fidelity(NamedTuple):
    """A network beside its teacher.

    Attributes:
        agreement: the share of rows of the same class; of numbers the correlation.
        divergence: the mean of KL(teacher, network), in nats; of numbers the mean square of what is
            between them, in units of the target's variance.
        score, teacher_score: against the labels, accuracy or R²; None where there are none.
        seconds, teacher_seconds: that the rows took.
        disagreed: the places of the rows on which they disagree most, the worst first.
    """

    agreement: float
    divergence: float
    score: float | None
    teacher_score: float | None
    seconds: float
    teacher_seconds: float
    disagreed: tuple[int, ...]


def fidelity_of(result: "SearchResult", model: Any, X: Any, y: Any, pick: Any) -> Fidelity:
    """What the picked network kept of ``model``, on rows that are best new to both."""
    target = result.target
    teacher = Teacher(model, target)
    seconds, output = _timed(lambda: result.outputs(X, pick))
    teacher_seconds, said = _timed(lambda: teacher.answers(X))
    mine, its = target.bounded(output.double().cpu()), said.double()
    if target.classes is None:
        apart = (mine - its).square().mean(dim=1)
        pairs = zip(mine.T.numpy(), its.T.numpy(), strict=True)
        agreement = float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))
    else:
        chances = torch.from_numpy(target.probabilities(output))
        its = torch.cat([1 - its, its], dim=1) if its.shape[1] == 1 else its
        ratio = its.clamp_min(LEAST_CHANCE).log() - chances.clamp_min(LEAST_CHANCE).log()
        apart = (its * ratio).sum(dim=1)
        agreement = float((chances.argmax(1) == its.argmax(1)).double().mean())
        its = its.logit()[:, 1:] if target.task == "binary" else its.log()
    scores: list[float | None] = [None, None]
    if y is not None:
        known = target.transform(y)
        share = torch.full((len(mine),), 1 / len(mine), dtype=torch.float64)
        measure = scoring_of("accuracy" if target.classes is not None else "r2", target)
        scores = [measure.score(each, known, share) for each in (mine, its)]
    worst = apart.argsort(descending=True)[:WORST]
    return Fidelity(
        agreement,
        float(apart.mean()),
        scores[0],
        scores[1],
        seconds,
        teacher_seconds,
        tuple(worst.tolist()),
    )


def _timed(work: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found
