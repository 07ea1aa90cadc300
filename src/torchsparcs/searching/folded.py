"""Folded data: the rows of a search, what networks are fitted to and how the others judge them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.tables.columns import rows_of
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.tables.standardization import weights_of
from torchsparcs.tables.target import has_target, warn_of_missing_targets
from torchsparcs.training.data import digest
from torchsparcs.training.tasks import predict, resolve_task

FOLDS = 3  # of a cross-validation
MANY_ROWS = 10_000  # enough for one hold-out to judge well
HELD_OUT = 0.2


@dataclass(frozen=True)
class Folds:
    """A table of which fit sees which rows; the last one gives the networks.

    Every row that is judged is judged by one fit that was not fitted to it.

    Attributes:
        fitted: (fits, rows) bool, the rows each fit sees.
        judge: (rows,), the fit that judges each row, -1 for none.
    """

    fitted: Tensor
    judge: Tensor

    @property
    def fits(self) -> int:
        return len(self.fitted)

    @property
    def judges(self) -> int:
        """The number of fits that judge rows."""
        return int(self.judge.max()) + 1

    @property
    def is_fitted(self) -> Tensor:
        """Whether any fit sees a row, (rows,) bool."""
        return self.fitted.any(dim=0)

    @property
    def judged(self) -> Tensor:
        """The rows that are judged."""
        return (self.judge >= 0).nonzero().squeeze(1)

    def to(self, device: torch.device) -> "Folds":
        return Folds(self.fitted.to(device), self.judge.to(device))


def folds_of(validation: Any, target: Tensor, is_classes: bool, seed: int) -> Folds:
    """The folds of ``validation``: a share of the rows to hold out, a number of folds, or "auto".

    With k folds, k fits judge what they were not fitted to and one more is fitted to all rows; with
    a share there is one and one more. Classes are spread evenly over the folds.
    """
    rows = len(target)
    if isinstance(validation, str) and validation == "auto":
        validation = min(FOLDS, rows) if rows < MANY_ROWS else HELD_OUT
    whole = isinstance(validation, Integral) and not isinstance(validation, bool)
    is_share = (
        not whole and isinstance(validation, Real) and 0 < float(validation) <= 0.5 and rows >= 2
    )
    if not is_share and not (whole and 2 <= validation <= rows):
        raise ValueError(
            "Expected validation to be 'auto', a share of the rows up to 0.5, a number of folds "
            f"from 2 to {rows}, a splitter, or a pair (X, y). Got {validation!r}."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    if is_classes:
        order = order[torch.argsort(target.cpu()[order], stable=True)]
    judge = torch.full((rows,), -1)
    if is_share:
        held_out = max(1, round(validation * rows))
        judge[order[torch.arange(held_out) * rows // held_out]] = 0
    else:
        judge[order] = torch.arange(rows) % validation
    fits = 1 if is_share else validation
    fitted = torch.stack([*(judge != index for index in range(fits)), torch.ones(rows) > 0])
    return Folds(fitted, judge)


def is_splitter(validation: Any) -> bool:
    """Whether it splits rows as scikit-learn's splitters do."""
    return hasattr(validation, "split") and not isinstance(validation, (str, type, Tensor))


def split_folds(splitter: Any, X: Any, y: Any, groups: Any = None) -> Folds:
    """The folds of a scikit-learn splitter: one fit for each split, and one to all rows.

    No row may judge twice, and none that it is fitted to; some may not judge at all, as the first
    ones in the order of time.
    """
    rows = len(y)
    judge, fitted = torch.full((rows,), -1), []
    for index, (train, test) in enumerate(splitter.split(X, y, groups)):
        train, test = torch.as_tensor(train), torch.as_tensor(test)
        is_train = torch.zeros(rows, dtype=torch.bool)
        is_train[train] = True
        if not len(test) or not len(train) or is_train[test].any() or (judge[test] >= 0).any():
            raise ValueError(
                "Expected splits in which every row judges at most once, and never what it is "
                f"fitted to. Got others from {splitter!r}."
            )
        judge[test] = index
        fitted.append(is_train)
    if not fitted:
        raise ValueError(f"Expected a splitter that gives splits. Got none from {splitter!r}.")
    return Folds(torch.stack([*fitted, torch.ones(rows) > 0]), judge)


def held_out(is_judge: Tensor) -> Folds:
    """The folds of one fit that never sees the rows that judge it, (rows,) bool."""
    return Folds(~is_judge[None], torch.where(is_judge, 0, -1))


MOST_ANSWERS = 500  # pairs of numbers that a judgement keeps
MOST_CLASSES = 200  # whose pairs it counts
MOST_PARTS = 2000  # of the rows, whose scores it keeps
LEAST_DOUBT = 1e-3  # of a score: less than that is no difference

Rows = tuple[Any, Any, np.ndarray | None, Any]  # X, y, weights and groups


class Judgement(NamedTuple):
    """The verdict on one group of fits by the rows they were not fitted to.

    ``answers`` hold what was true and what was said: how often each pair of classes came up,
    (classes, classes); or some pairs of standardised numbers, (rows, outputs, 2). ``own`` is the
    score, on the same rows, of the fit that gives the network. ``parts`` (parts,) are what each
    part of the rows adds to the score, which is their sum: a row, or neighbours where many.
    """

    loss: float
    score: float
    standard_error: float
    answers: Tensor | None
    own: float
    parts: Tensor

    @property
    def is_borne_out(self) -> bool:
        """Whether the network does as well on rows it has seen as others did on unseen ones.

        Each fit is cut by itself; now and then the one that gives the network ends worse.
        """
        return self.own >= self.score - max(self.standard_error, LEAST_DOUBT)


@dataclass(frozen=True)
class FoldedData:
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
    ) -> "FoldedData":
        """The rows of a table as ``preprocessing`` sees them, ``validation`` of them to judge.

        Args:
            weight, groups: (rows,) each, as :func:`counted_rows` gives them; groups are for a
                splitter.
            validation: what ``folds_of`` takes, a splitter, or a pair (X, y) of rows that nobody
                is fitted to.
        """
        target = preprocessing.target
        inputs, targets = _transformed(preprocessing, X, y)
        weights = torch.ones(len(inputs)) if weight is None else torch.from_numpy(weight).float()
        if groups is not None and not is_splitter(validation):
            raise ValueError("Expected a splitter as the validation where groups are given.")
        if not isinstance(validation, (tuple, list)):
            folds = (
                split_folds(validation, X, y, groups)
                if is_splitter(validation)
                else folds_of(validation, targets, target.classes is not None, seed)
            )
            return cls(inputs, targets, weights, folds, target.task)
        if len(validation) != 2:
            raise ValueError(
                "Expected validation to be a pair (X, y), or a splitter, like PredefinedSplit. Got "
                f"{len(validation)}."
            )
        X, y, _, _ = counted_rows(validation[0], validation[1], None, purpose=" for validation")
        others = _transformed(preprocessing, X, y)
        return cls(
            torch.cat([inputs, others[0]]),
            torch.cat([targets, others[1]]),
            torch.cat([weights, torch.ones(len(others[0]))]),
            held_out(torch.arange(len(inputs) + len(others[0])) >= len(inputs)),
            target.task,
        )

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
        return digest(parts)

    def to(self, device: torch.device) -> "FoldedData":
        return replace(
            self,
            inputs=self.inputs.to(device),
            targets=self.targets.to(device),
            weights=self.weights.to(device),
            folds=self.folds.to(device),
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
        return replace(self, folds=Folds(folds.fitted[:count], judge))

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

    @torch.no_grad()
    def judge(self, population: nn.Module) -> list[Judgement]:
        """The judgement of each group of a population's members."""
        return self.judge_outputs(predict(population, self.judging)[0])

    @torch.no_grad()
    def judge_outputs(self, output: Tensor) -> list[Judgement]:
        """The judgement of each group by its outputs, (groups · fits, judged rows, ...).

        Every row counts with the output of the fit that was not fitted to it.
        """
        task, rows = resolve_task(self.task), self.folds.judged
        assert task.losses is not None
        assert task.scores is not None
        target, weight = self.targets[rows], self.weights[rows].double()
        place = torch.arange(len(rows), device=output.device)
        share = weight / weight.sum()
        judgements = []
        for group in output.unflatten(0, (-1, self.fits)):
            said = group[self.folds.judge[rows], place]
            scores = _by_row(task.scores(said, target, share))
            score = share @ scores
            error = (share.square() @ (scores - score).square()).sqrt()
            loss = share @ _by_row(task.losses(said, target))
            own = share @ _by_row(task.scores(group[-1], target, share))
            numbers = (loss.item(), score.item(), error.item())
            answers = ANSWERS[self.task](said.cpu(), target.cpu()) if said.dim() == 2 else None
            judgements.append(Judgement(*numbers, answers, own.item(), _parts(share * scores)))
        return judgements


def _parts(values: Tensor) -> Tensor:
    """Sums of neighbours, at most ``MOST_PARTS``, in float32 on the CPU."""
    count = min(len(values), MOST_PARTS)
    part = torch.arange(len(values), device=values.device) * count // len(values)
    return values.new_zeros(count).index_add(0, part, values).float().cpu()


def _by_row(values: Tensor) -> Tensor:
    """The number of each row, in float64; where a row has several, their mean."""
    return values.double() if values.dim() == 1 else values.double().flatten(1).mean(dim=1)


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


def _transformed(preprocessing: Preprocessing, X: Any, y: Any) -> tuple[Tensor, Tensor]:
    return preprocessing.inputs.transform(X), preprocessing.target.transform(y)


def _check_rows(X: Any, y: Any, purpose: str = "") -> None:
    if len(X) != len(y):
        raise ValueError(f"Expected as many rows in X as in y{purpose}. Got {len(X)} and {len(y)}.")
