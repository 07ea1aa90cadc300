"""The scoring of a search: the default for its rows, and what one answer for all is worth."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torchsparcs.judging.scoring import AMOUNT, Scoring, scoring_of
from torchsparcs.tables.target import Target

RARE = 0.2  # of an even share: a class with fewer rows is rare
QUANTILES = 19  # of the target, that are tried as one answer for all rows
MOST_SAID = 20  # classes that are
SURE, LEAST_SHARE = 0.98, 1e-12  # of a class that is said alone; of one that does not come up


def scoring_for(
    scoring: Any, aim: Target, target: Tensor, weight: Tensor, judged: Tensor
) -> Scoring:
    """The scoring of a search on rows of ``target``, of which some are ``judged``, by their places.

    "auto" is R² for numbers. For classes it is accuracy, and where one of them is rare log loss:
    what always says the others is then right nearly always.

    Args:
        weight: (rows,), how much each row counts.
    """
    if isinstance(scoring, str) and scoring == "auto" and _is_rare(aim, target, weight):
        scoring = "log_loss"
    found = scoring if isinstance(scoring, Scoring) else scoring_of(scoring, aim)
    is_of_task = found.name in ("accuracy", "r2")
    if target.dim() > (1 if aim.classes is not None else 2):
        if is_of_task:
            return found
        raise ValueError(f"Expected one answer a row for the scoring {found.name!r}. Got more.")
    true, share = target[judged], weight[judged].double()
    constant = _constant_score(found, true, share / share.sum(), aim)
    if not math.isfinite(constant) and not is_of_task:
        raise ValueError(
            f"Expected rows to judge by that have a {found.label}. Got none: they may not all be "
            "of one class, and where errors are relative no target may be zero."
        )
    unit = abs(constant) if found.style is AMOUNT and constant else 1.0
    is_weighted = bool((share != share[0]).any())
    return replace(found, unit=unit, constant=constant).weighted(is_weighted)


def _is_rare(aim: Target, target: Tensor, weight: Tensor) -> bool:
    """Whether a class has much less than an even share of the rows."""
    if aim.classes is None or target.dim() > 1:
        return False
    count = len(aim.classes)
    of_class = torch.bincount(target.cpu().round().long(), weight.cpu().double())
    return bool(of_class[of_class > 0].min() * count < RARE * of_class.sum())


def _constant_score(scoring: Scoring, target: Tensor, share: Tensor, aim: Target) -> float:
    """The best of some answers that are the same for all rows."""
    answers = (one.expand(len(target), -1) for one in _constants(target, share, aim))
    found = [scoring.score(answer, target, share) for answer in answers]
    return max((score for score in found if math.isfinite(score)), default=math.nan)


def _constants(target: Tensor, share: Tensor, aim: Target) -> Iterator[Tensor]:
    """Raw outputs (outputs,): mean and quantiles; the shares of the classes, and each alone."""
    if aim.classes is None:
        columns = target.reshape(len(target), -1).double()
        yield share @ columns
        ordered = columns.sort(dim=0).values
        for place in range(1, QUANTILES + 1):
            yield ordered[place * len(ordered) // (QUANTILES + 1)]
        return
    classes = len(aim.classes)
    of_class = share.new_zeros(classes).index_add(0, target.round().long(), share)
    largest = of_class.topk(min(classes, MOST_SAID)).indices
    sure = F.one_hot(largest, classes) * SURE + (1 - SURE) / classes
    for shares in (of_class.clamp(min=LEAST_SHARE), *sure.to(share)):
        logits = shares.log()
        yield logits[1:] - logits[:1] if aim.task == "binary" else logits
