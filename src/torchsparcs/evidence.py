"""The rows of a search: what members are fitted to, and how they are judged on the others."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.folds import Folds
from torchsparcs.population import members_of
from torchsparcs.tasks import predict, resolve_task


class Judgement(NamedTuple):
    """Of one group of fits on the rows they were not fitted to; the score with its error."""

    loss: float
    score: float
    standard_error: float


@dataclass(frozen=True)
class Evidence:
    """Standardised rows and the folds that share them out.

    A population for it has groups of members, one member for each fit of the folds, in that order.

    Shape:
        - inputs (rows, I); targets as the task has them
        - weights (rows,), how much each row counts
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    folds: Folds
    task: str

    @property
    def fits(self) -> int:
        return self.folds.fits

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        return self.inputs, self.targets

    def to(self, device: torch.device) -> "Evidence":
        return replace(
            self,
            inputs=self.inputs.to(device),
            targets=self.targets.to(device),
            weights=self.weights.to(device),
            folds=self.folds.to(device),
        )

    def judging_fits(self, count: int | None = None) -> "Evidence":
        """The same rows with only those fits that judge some, or the first ``count`` of them."""
        folds = self.folds
        count = int(folds.judge.max()) + 1 if count is None else count
        judge = torch.where(folds.judge < count, folds.judge, -1)
        return replace(self, folds=Folds(folds.fitted[:count], judge))

    def member_weights(self, groups: int) -> Tensor:
        """What each row counts in the training of each member, (groups · fits, rows)."""
        return (self.folds.fitted * self.weights).repeat(groups, 1)

    def some_inputs(self, fit: int, count: int) -> Tensor:
        """At most ``count`` rows that ``fit`` sees, evenly spread, in float64."""
        rows = self.folds.fitted[fit].nonzero().squeeze(1)
        stride = max(1, math.ceil(len(rows) / count))
        return self.inputs[rows[::stride]].double()

    @torch.no_grad()
    def judge(self, population: nn.Module) -> list[Judgement]:
        """Of each group, every judged row by the fit that was not fitted to it."""
        members, task = members_of(population), resolve_task(self.task)
        assert members is not None
        assert task.losses is not None
        assert task.scores is not None
        rows = self.folds.judged
        target, weight = self.targets[rows], self.weights[rows].double()
        output, _, _ = predict(population, (self.inputs[rows], target))
        grouped = output.unflatten(0, (members // self.fits, self.fits))
        place = torch.arange(len(rows), device=output.device)
        judgements = []
        for group in grouped:
            own = group[self.folds.judge[rows], place]
            losses = task.losses(own, target).double()
            share = weight / weight.sum()
            scores = task.scores(own, target, share).double()
            score = share @ scores
            error = (share.square() @ (scores - score).square()).sqrt()
            judgements.append(Judgement((share @ losses).item(), score.item(), error.item()))
        return judgements
