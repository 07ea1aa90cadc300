"""Judgements: what rows that a network was not fitted to say about it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchsparcs.judging.calibration import reliability, temperature
from torchsparcs.judging.scores import by_row
from torchsparcs.judging.scoring import Scoring
from torchsparcs.training.tasks import resolve_task

MOST_ANSWERS = 500  # pairs of numbers that a judgement keeps
MOST_CLASSES = 200  # whose pairs it counts
MOST_RESIDUALS = 200  # of each output
LEAST_DOUBT = 1e-3  # of a score: less than that is no difference


class Judgement(NamedTuple):
    """The verdict on one group of fits by the rows they were not fitted to.

    Scores are in the unit of the :class:`~torchsparcs.judging.scoring.Scoring`. ``answers`` hold
    what was true and what was said: how often each pair of classes came up, (classes, classes); or
    some pairs of standardised numbers, (rows, outputs, 2). ``own`` is the score, on the same rows,
    of the fit that gives the network. ``parts`` (parts,) are what each part of the rows adds to the
    score, which is their sum: a row, or neighbours where many. ``residuals`` (some, outputs) are of
    numbers: |y − ŷ|, standardised, from the smallest to the largest, evenly spread over the rows.
    Of classes ``temperature`` and ``reliability`` are as :mod:`torchsparcs.judging.calibration`
    has them; scores are those at that temperature. ``loss``, by which networks are compared on the
    way, is as they were fitted, ``told_loss`` that at the temperature.
    """

    loss: float
    score: float
    standard_error: float
    answers: Tensor | None
    own: float
    parts: Tensor
    residuals: Tensor | None = None
    temperature: float = 1.0
    reliability: Tensor | None = None
    told_loss: float = math.nan

    @property
    def is_borne_out(self) -> bool:
        """Whether the network does as well on rows it has seen as others did on unseen ones.

        Each fit is cut by itself; now and then the one that gives the network ends worse.
        """
        return self.own >= self.score - max(self.standard_error, LEAST_DOUBT)


def judgement_of(
    said: Tensor,
    own: Tensor,
    target: Tensor,
    share: Tensor,
    part: Tensor,
    *,
    scoring: Scoring,
    task: str,
    loss: str,
    rows: int,
    has_classes: bool,
    is_calibrated: bool,
) -> Judgement:
    """The judgement by what others ``said`` of rows, and the network its ``own``, (n, ...) each.

    Args:
        share: (n,), how much each row counts, of one.
        part: (n,), which rows belong together, from 0.
        loss: the task that networks were trained for, maybe a quantile.
        rows: how many of them are no copies of others; they come first.
        has_classes: whether it is told how often probabilities came true.
        is_calibrated: whether the network will be, see :mod:`torchsparcs.judging.calibration`.
    """
    losses = resolve_task(loss).losses
    assert losses is not None
    raw, is_flat = share @ by_row(losses(said, target)), said.dim() == 2
    told, degree, times = raw, 1.0, len(said) / rows
    if is_calibrated and is_flat:
        degree = temperature(said, target, share, losses, times)
        if degree != 1:
            said, own = said / degree, own / degree
            told = share @ by_row(losses(said, target))
    values = scoring.values(said, target, share) / scoring.unit
    score = share @ values
    parts = _sums(share * values, part)
    error = (parts - _sums(share, part) * score).square().sum().sqrt().item()
    least = scoring.least_error(score.item(), target, share, times)
    judgement = Judgement(
        raw.item(),
        score.item(),
        max(error, least),
        None,
        scoring.score(own, target, share) / scoring.unit,
        parts.float().cpu(),
        temperature=degree,
        told_loss=told.item(),
    )
    if not is_flat:
        return judgement
    judgement = judgement._replace(answers=ANSWERS[task](said[:rows].cpu(), target[:rows].cpu()))
    if task == "regression":
        return judgement._replace(residuals=_residuals(said, target))
    if not has_classes:
        return judgement
    return judgement._replace(reliability=reliability(said, target, share))


def _sums(values: Tensor, part: Tensor) -> Tensor:
    """The sum over each part, (parts,) in float64."""
    count = int(part.max()) + 1
    return values.new_zeros(count, dtype=torch.float64).index_add(0, part, values.double())


def _residuals(output: Tensor, target: Tensor) -> Tensor:
    """|y − ŷ| in ascending order, (some, outputs): the last one of each of so many equal parts."""
    errors = (output - target.reshape(output.shape)).abs().double().sort(dim=0).values
    count = min(len(errors), MOST_RESIDUALS)
    ranks = [math.ceil((place + 1) * len(errors) / count) for place in range(count)]
    return errors[torch.tensor(ranks, device=errors.device) - 1].cpu()


def _pairs(output: Tensor, target: Tensor) -> Tensor:
    """Pairs of rows evenly spread, (rows, outputs, 2)."""
    stride = math.ceil(output.numel() / MOST_ANSWERS)
    pairs = torch.stack([target.reshape(output.shape).double(), output.double()], dim=-1)
    return pairs[::stride].round(decimals=4)


def _counts(said: Tensor, true: Tensor, classes: int) -> Tensor | None:
    """(classes, classes), true by said."""
    if classes > MOST_CLASSES:
        return None
    places = true.long() * classes + said.long()
    return torch.bincount(places, minlength=classes**2).view(classes, classes)


# What was true and what was said, by the task.
ANSWERS: dict[str, Callable[[Tensor, Tensor], Tensor | None]] = {
    "regression": _pairs,
    "binary": lambda output, target: (
        _counts(output[:, 0] > 0, target.flatten() > 0.5, 2) if output.shape[1] == 1 else None
    ),
    "multiclass": lambda output, target: _counts(output.argmax(1), target, output.shape[1]),
}
