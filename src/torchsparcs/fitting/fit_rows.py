"""The rows that second-order fits see, how much each counts, and what a teacher says of them."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from torchsparcs.compact.batches import trained
from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.fitting import fitted, row_losses
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.lesson import Lesson
from torchsparcs.training.deadline import Deadline

MOST_ROWS, FEWEST_ROWS = 10_000, 200  # that are fitted to, of all and of each fit
MADE_FITTED = 4_000  # made rows in a second-order fit, which sees all of its rows at every turn


class Recipe(NamedTuple):
    """How a network is fitted: the weight decay, the teacher's share of its target, made rows.

    ``made`` is how much these count, all together, beside all others; in minibatches each of them
    counts as much as any other.
    """

    decay: float
    taught: float = 0.0
    made: float = 0.0


class Made(NamedTuple):
    """Made rows (made, I), answers (fits, made, O), what each counts for each fit (fits, made)."""

    inputs: Tensor
    answers: Tensor
    weights: Tensor

    def some(self, count: int) -> "Made":
        """About so many of them, evenly spread, which count as much together."""
        stride = max(1, math.ceil(len(self.inputs) / max(1, count)))
        weights = self.weights[:, ::stride] * stride
        return Made(self.inputs[::stride], self.answers[:, ::stride], weights)


@dataclass(frozen=True)
class FitRows:
    """What networks are fitted to and judged by.

    Attributes:
        weights: (fits, rows), how much each row counts for each fit.
        judging: inputs and targets of rows that judge.
        shares: (fits, judging rows), how much each of those counts in the verdict on each fit.
        lessons: (fits, rows, O), what the teacher of each fit says of its rows.
        made: rows that were made for that teacher.
        columns: of the table, that each input comes from.
        clusters: (rows,), as :class:`FoldedData` has them.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    judging: tuple[Tensor, Tensor]
    shares: Tensor
    task: str
    lessons: Tensor | None = None
    made: Made | None = None
    columns: tuple[int, ...] = ()
    clusters: Tensor | None = None

    @classmethod
    def of(cls, folded: FoldedData, seed: int) -> "FitRows":
        """Some of the rows of ``folded``."""
        inputs, targets = folded.pair
        weights = folded.member_weights(1)
        some = some_rows(weights, seed)
        judges, others = folded.judging
        rows = folded.folds.judged
        stride = math.ceil(len(rows) / MOST_ROWS)
        by = folded.folds.judge[rows][::stride]
        fits = torch.arange(folded.fits, device=by.device)
        shares = (fits[:, None] == by) * folded.weights[rows][::stride]
        judging = judges[::stride], others[::stride]
        own = cls(
            inputs[some],
            targets[some],
            weights[:, some],
            judging,
            shares,
            folded.loss,
            columns=folded.columns or tuple(range(inputs.shape[1])),
            clusters=_some_of(folded.clusters, folded.folds.is_fitted, some),
        )
        if folded.lesson is None:
            return own
        return own.taught(folded.lesson.at(folded.folds.is_fitted.nonzero().squeeze(1)[some]))

    def taught(self, lesson: Lesson) -> "FitRows":
        """The same rows with what teachers say of them, and of others that were made."""
        said, answers = (part.expand(self.fits, -1, -1) for part in (lesson.said, lesson.answers))
        made = Made(lesson.inputs, answers, lesson.weights(self.weights))
        return replace(self, lessons=said, made=made)

    def to(self, device: torch.device) -> "FitRows":
        return replace(
            self,
            inputs=self.inputs.to(device),
            targets=self.targets.to(device),
            weights=self.weights.to(device),
            judging=(self.judging[0].to(device), self.judging[1].to(device)),
            shares=self.shares.to(device),
            lessons=None if self.lessons is None else self.lessons.to(device),
            made=None if self.made is None else Made(*(each.to(device) for each in self.made)),
        )

    @property
    def fits(self) -> int:
        return len(self.weights)

    @property
    def judged_fits(self) -> slice:
        """The fits that rows judge; where nobody else is, the one that gives the network."""
        return slice(0, max(1, self.fits - 1))

    def loss(self, group: list[DirectSpace]) -> float:
        """The mean loss of the fits of a group on the rows that judge them."""
        device = group[0].weights.device
        judging = self.judging[0].to(device), self.judging[1].to(device)
        each, shares = row_losses(group, judging, self.task), self.shares[: len(group)].to(device)
        return float(((each * shares).sum() / shares.sum()).nan_to_num(nan=math.inf))

    def fitted(
        self,
        networks: list[DirectSpace],
        recipes: list[Recipe],
        turns: int,
        fits: slice,
        deadline: Deadline,
    ) -> list[list[DirectSpace]]:
        """Groups of those ``fits``, one after the other, each fitted by its recipe."""
        count = len(networks) // len(recipes)
        pair, weights = self._pair(networks[0].outputs, recipes, fits, MADE_FITTED)
        found = fitted(
            networks,
            pair,
            weights,
            [recipe.decay for recipe in recipes for _ in range(count)],
            self.task,
            turns=turns,
            deadline=deadline,
        )
        return [found[start : start + count] for start in range(0, len(found), count)]

    def trained(
        self,
        networks: list[DirectSpace],
        recipe: Recipe,
        steps: int,
        seed: int,
        deadline: Deadline,
    ) -> list[DirectSpace]:
        """A group trained by minibatches, made rows among the others, all of them under one decay.

        The recipe says how much a teacher has of the target; its decay is for what comes after.
        """
        assert self.made is not None
        fits = slice(0, self.fits)
        pair, weights = self._pair(networks[0].outputs, [recipe], fits, len(self.made.inputs))
        real, made = weights.tensor_split([len(self.inputs)], dim=1)
        made = made * ((made > 0).sum(dim=1) / (real > 0).sum(dim=1))[:, None]
        weights = torch.cat([real, made], dim=1)
        return trained(
            networks, pair, weights, self.task, steps=steps, seed=seed, deadline=deadline
        )

    def _pair(
        self, outputs: int, recipes: list[Recipe], fits: slice, most: int
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Inputs and targets of all rows, at ``most`` so many made ones, and what they count."""
        inputs, targets = self.inputs, self._targets(outputs, recipes, fits)
        weights = self.weights[fits].repeat(len(recipes), 1)
        if self.made is None or not any(recipe.made for recipe in recipes):
            return (inputs, targets), weights
        more, said, counts = self.made.some(most)
        said = said[fits].to(targets).repeat(len(recipes), 1, 1)
        made = torch.cat([counts[fits] * recipe.made for recipe in recipes])
        return (
            (torch.cat([inputs, more]), torch.cat([targets, said], dim=1)),
            torch.cat([weights, made.to(weights)], dim=1),
        )

    def _targets(self, outputs: int, recipes: list[Recipe], fits: slice) -> Tensor:
        """Those of everybody, or of each network, (networks, rows, O), where some are taught."""
        if self.lessons is None or not any(recipe.taught for recipe in recipes):
            return self.targets
        targets = self.targets
        if self.task == "multiclass":
            targets = F.one_hot(targets.long().reshape(-1), outputs)
        said = self.lessons[fits]
        known = targets.reshape(len(targets), -1).to(said)
        return torch.cat([known + recipe.taught * (said - known) for recipe in recipes])


def _some_of(clusters: Tensor | None, fitted: Tensor, some: Tensor) -> Tensor | None:
    """Those of ``some`` of the rows that are ``fitted`` to."""
    return None if clusters is None else clusters.cpu()[fitted.cpu()][some.cpu()]


def some_rows(weights: Tensor, seed: int) -> Tensor:
    """Rows to fit to, in their order: drawn at random, and a few at least of every fit's own.

    ``weights``: (fits, rows), how much each row counts for each.
    """
    generator = torch.Generator().manual_seed(seed % 2**63)
    order = torch.randperm(weights.shape[1], generator=generator).to(weights.device)
    own = [order[mine[order] > 0][:FEWEST_ROWS] for mine in weights]
    return torch.cat([order[:MOST_ROWS], *own]).unique()
