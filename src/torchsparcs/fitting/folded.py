"""Folded data: the rows of a search, what networks are fitted to and how the others judge them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.fitting.lesson import Lesson
from torchsparcs.judging.class_weights import ByClass, class_weighted
from torchsparcs.judging.default_scoring import scoring_for
from torchsparcs.judging.folds import (
    MANY_ROWS,
    Folds,
    folds_of,
    held_out,
    is_splitter,
    split_folds,
)
from torchsparcs.judging.judgement import Judgement, judgement_of
from torchsparcs.judging.scoring import MOST_PARTS, Scoring
from torchsparcs.tables.columns import rows_of
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.tables.standardization import weights_of
from torchsparcs.tables.target_values import has_target, warn_of_missing_targets
from torchsparcs.training.data import digest
from torchsparcs.training.tasks import predict

__all__ = ["MANY_ROWS", "FoldedData", "Folds", "Judgement", "Rows", "counted_rows"]

Rows = tuple[Any, Any, np.ndarray | None, Any]  # X, y, weights and groups


@dataclass(frozen=True)
class FoldedData:
    """Standardised rows and the folds that share them out.

    A population for it has groups of members, one member for each fit of the folds, in that order.

    Shape:
        - inputs (rows, I); targets as the task has them
        - weights (rows,), how much each row counts
        - clusters (rows,), whole numbers that are the same for rows that depend on each other

    Of classes of a table it is told how often probabilities came true, and networks will be
    calibrated where ``is_calibrated`` says so. What networks put out is judged as ``bounded`` has
    it. A teacher's ``lesson`` is of all rows. ``columns`` are those of the table, for each input.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    folds: Folds
    task: str
    scoring: Scoring
    clusters: Tensor | None = None
    has_classes: bool = False
    is_calibrated: bool = False
    bounded: Callable[[Tensor], Tensor] | None = None
    lesson: Lesson | None = None
    columns: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        preprocessing: Preprocessing,
        X: Any,
        y: Any,
        weight: np.ndarray | None,
        groups: Any = None,
        *,
        validation: Any,
        seed: int,
        scoring: Any = "auto",
        by_class: ByClass | None = None,
        calibrate: bool = True,
    ) -> "FoldedData":
        """The rows of a table as ``preprocessing`` sees them, ``validation`` of them to judge.

        Args:
            weight, groups: (rows,) each, as :func:`counted_rows` gives them; groups are for a
                splitter.
            validation: what ``folds_of`` takes, a splitter, or a pair (X, y) of rows that nobody
                is fitted to.
            scoring: as in :func:`torchsparcs.search`, or one that is resolved.
            by_class: how much rows of a pair count; ``weight`` has it of the others.
            calibrate: whether networks of classes will be.
        """
        if not isinstance(calibrate, bool):
            raise ValueError(f"Expected calibrate to be True or False. Got {calibrate!r}.")
        target = preprocessing.target
        inputs, targets = _transformed(preprocessing, X, y)
        weights = torch.ones(len(inputs)) if weight is None else torch.from_numpy(weight).float()
        if groups is not None and not is_splitter(validation):
            raise ValueError("Expected a splitter as the validation where groups are given.")
        clusters = None if groups is None else torch.from_numpy(_codes(groups))
        if not isinstance(validation, (tuple, list)):
            folds = (
                split_folds(validation, X, y, groups)
                if is_splitter(validation)
                else folds_of(validation, targets, target.classes is not None, seed)
            )
        elif len(validation) != 2:
            raise ValueError(
                "Expected validation to be a pair (X, y), or a splitter, like PredefinedSplit. Got "
                f"{len(validation)}."
            )
        else:
            X, y, _, _ = counted_rows(validation[0], validation[1], None, purpose=" for validation")
            others = _transformed(preprocessing, X, y)
            folds = held_out(torch.arange(len(inputs) + len(others[0])) >= len(inputs))
            inputs, targets = torch.cat([inputs, others[0]]), torch.cat([targets, others[1]])
            of_pair = class_weighted(y, by_class)
            of_pair = np.ones(len(others[0])) if of_pair is None else of_pair
            weights = torch.cat([weights, torch.from_numpy(of_pair).float()])
        if folds.source is not None:
            inputs, targets, weights = (each[folds.source] for each in (inputs, targets, weights))
            clusters = folds.source if clusters is None else clusters[folds.source]
        resolved = scoring_for(scoring, target, targets, weights, folds.judged)
        if folds.source is not None and resolved.is_foreign:
            raise ValueError(
                "Expected folds in which every row judges once where a scorer of scikit-learn's "
                f"judges. Got others, and {resolved.name!r}."
            )
        return cls(
            inputs,
            targets,
            weights,
            folds,
            target.task,
            resolved,
            clusters,
            has_classes=target.classes is not None,
            is_calibrated=calibrate and target.classes is not None,
            bounded=target.bounded,
            columns=tuple(
                place
                for place, column in enumerate(preprocessing.inputs.columns)
                for _ in column.encoded_names
            ),
        )

    def taught(self, lesson: Lesson | None) -> "FoldedData":
        """The same rows with what teachers say of those of X, the first ones here."""
        return replace(self, lesson=lesson and lesson.padded(len(self.inputs)))

    @property
    def loss(self) -> str:
        """The task that networks are trained for: that of the score where it has one of its own."""
        return self.scoring.loss or self.task

    @property
    def fits(self) -> int:
        return self.folds.fits

    def final(self, group: int) -> int:
        """The member, among all groups of fits, that gives the network of ``group``."""
        return (group + 1) * self.fits - 1

    @property
    def rows(self) -> int:
        """The number of rows that some fit is fitted to."""
        return int(self.folds.is_fitted.sum())

    @cached_property
    def pair(self) -> tuple[Tensor, Tensor]:
        """The rows that some fit is fitted to, inputs and targets."""
        fitted = self.folds.is_fitted
        return self.inputs[fitted], self.targets[fitted]

    def digest(self) -> str:
        """A hash that tells these rows, and their folds, from any others."""
        parts = (self.inputs, self.targets, self.weights, self.folds.fitted, self.folds.judge)
        return digest((*parts, *(() if self.lesson is None else self.lesson.tensors)))

    def to(self, device: torch.device) -> "FoldedData":
        return replace(
            self,
            inputs=self.inputs.to(device),
            targets=self.targets.to(device),
            weights=self.weights.to(device),
            folds=self.folds.to(device),
            lesson=None if self.lesson is None else self.lesson.to(device),
        )

    def of_fit(self, fit: int) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
        """The rows that ``fit`` sees, inputs and targets, and their weights where they differ."""
        rows = self.folds.fitted[fit]
        weights = self.weights[rows]
        pair = self.inputs[rows], self.targets[rows]
        return pair, None if (weights == 1).all() else weights

    @cached_property
    def judging(self) -> tuple[Tensor, Tensor]:
        """The rows that judge, inputs and targets."""
        rows = self.folds.judged
        return self.inputs[rows], self.targets[rows]

    def judging_fits(self, count: int | None = None) -> "FoldedData":
        """The same rows with only those fits that judge some, or the first ``count`` of them."""
        folds = self.folds
        count = folds.judges if count is None else count
        judge = torch.where(folds.judge < count, folds.judge, -1)
        return replace(self, folds=Folds(folds.fitted[:count], judge, folds.source))

    def member_weights(self, groups: int) -> Tensor:
        """What each row of :attr:`pair` counts for each member, (groups · fits, rows)."""
        each = self.folds.fitted * self.weights
        return each[:, self.folds.is_fitted].repeat(groups, 1)

    def least_squares(self, fit: int) -> tuple[Tensor, Tensor]:
        """The linear model of the rows that ``fit`` sees: weights (outputs, I) and bias."""
        weight = (self.folds.fitted[fit] * self.weights).double().sqrt()[:, None]
        x = torch.cat([self.inputs, torch.ones_like(self.inputs[:, :1])], dim=1).double() * weight
        y = self.targets.reshape(len(x), -1).double() * weight
        if x.shape[1] > len(x):  # (xᵀx + r)⁻¹ xᵀ = xᵀ (xxᵀ + r)⁻¹, the smaller system
            gram = x @ x.T
            gram.diagonal().add_(1e-9 * x.square().sum() / x.shape[1])
            solution = (x.T @ torch.linalg.solve(gram, y)).T
            return solution[:, :-1], solution[:, -1]
        gram = x.T @ x
        gram.diagonal().add_(1e-9 * gram.diagonal().mean())
        solution = torch.linalg.solve(gram, x.T @ y).T
        return solution[:, :-1], solution[:, -1]

    def some_inputs(self, fit: int, count: int) -> Tensor:
        """The inputs of at most ``count`` rows that ``fit`` sees, evenly spread, in float64."""
        rows = self.folds.fitted[fit].nonzero().squeeze(1)
        stride = max(1, math.ceil(len(rows) / count))
        return self.inputs[rows[::stride]].double()

    @cached_property
    def judged_rows(self) -> int:
        """How many rows judge, each counted once however often it does; they come first."""
        return self.folds.judged_rows

    @torch.no_grad()
    def judge(self, population: nn.Module) -> list[Judgement]:
        """The judgement of each group of a population's members."""
        return self.judge_outputs(predict(population, self.judging)[0])

    @torch.no_grad()
    def judge_outputs(self, output: Tensor) -> list[Judgement]:
        """The judgement of each group by its outputs, (groups · fits, judged rows, ...).

        Every row counts with the output of the fit that was not fitted to it.
        """
        rows = self.folds.judged
        output = output if self.bounded is None else self.bounded(output)
        target, weight = self.targets[rows], self.weights[rows].double()
        share, part = weight / weight.sum(), self._parts(rows)
        return [
            judgement_of(
                self.unseen_outputs(group),
                group[-1],
                target,
                share,
                part,
                scoring=self.scoring,
                task=self.task,
                loss=self.loss,
                rows=self.judged_rows,
                has_classes=self.has_classes,
                is_calibrated=self.is_calibrated,
            )
            for group in output.unflatten(0, (-1, self.fits))
        ]

    def unseen_outputs(self, group: Tensor) -> Tensor:
        """What each row that judges gets from the fit that was not fitted to it, (rows, ...).

        Shape:
            - group (fits, rows, ...), outputs of the fits of one network for the rows that judge
        """
        judge = self.folds.judge[self.folds.judged]
        return group[judge, torch.arange(len(judge), device=group.device)]

    def _parts(self, rows: Tensor) -> Tensor:
        """The part that each of ``rows`` belongs to, (rows,): a cluster, or as the score has it."""
        if self.clusters is None or self.scoring.is_foreign:
            return self.scoring.part_of(len(rows)).to(rows.device)
        return self.clusters.to(rows.device)[rows].unique(return_inverse=True)[1] % MOST_PARTS


def counted_rows(X: Any, y: Any, sample_weight: Any, groups: Any = None, purpose: str = "") -> Rows:
    """X, y, the weights and the groups, checked.

    Rows of weight zero are left out, and with a warning those whose target is missing.
    """
    _check_rows(X, y, purpose)
    groups = None if groups is None else np.asarray(groups)
    if groups is not None and groups.shape != (len(y),):
        raise ValueError(f"Expected a group for each of {len(y)} rows. Got {groups.shape}.")
    weight = weights_of(sample_weight, len(X))
    counts = has_target(y)
    warn_of_missing_targets(len(y) - int(counts.sum()), len(y))
    if weight is not None:
        counts &= weight > 0
    if counts.all():
        return X, y, weight, groups
    kept = (None if part is None else part[counts] for part in (weight, groups))
    return rows_of(X, counts), rows_of(y, counts), *kept


def _codes(groups: np.ndarray) -> np.ndarray:
    """A whole number for each group, (rows,)."""
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _transformed(preprocessing: Preprocessing, X: Any, y: Any) -> tuple[Tensor, Tensor]:
    return preprocessing.inputs.transform(X), preprocessing.target.transform(y)


def _check_rows(X: Any, y: Any, purpose: str = "") -> None:
    if len(X) != len(y):
        raise ValueError(f"Expected as many rows in X as in y{purpose}. Got {len(X)} and {len(y)}.")
