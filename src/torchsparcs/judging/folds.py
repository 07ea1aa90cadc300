"""Folds: which rows each fit sees, and which of them judge it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

FOLDS = 3  # of a cross-validation
MANY_ROWS = 10_000  # enough for one hold-out to judge well
HELD_OUT = 0.2
BINS = 10  # of the ranks of numbers
REPEATED = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,2})")  # so many folds, so often


@dataclass(frozen=True)
class Folds:
    """A table of which fit sees which rows; the last one gives the networks.

    Every row that is judged is judged by one fit that was not fitted to it. Where several are to
    judge it, there are copies of the row behind all others, which no fit sees.

    Attributes:
        fitted: (fits, rows) bool, the rows each fit sees.
        judge: (rows,), the fit that judges each row, -1 for none.
        source: (rows,), the row of the data that each row is; None where there are no copies.
    """

    fitted: Tensor
    judge: Tensor
    source: Tensor | None = None

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

    @property
    def judged_rows(self) -> int:
        """How many rows of the data are judged, each of them counted once."""
        judged = self.judged
        return len(judged if self.source is None else self.source[judged].unique())

    def to(self, device: torch.device) -> "Folds":
        source = None if self.source is None else self.source.to(device)
        return Folds(self.fitted.to(device), self.judge.to(device), source)


def folds_of(validation: Any, target: Tensor, is_classes: bool, seed: int) -> Folds:
    """The folds of ``validation``: a share of the rows to hold out, a number of folds, or "auto".

    With k folds, k fits judge what they were not fitted to and one more is fitted to all rows; with
    a share there is one and one more. Classes are spread evenly over the folds, and numbers so
    that each fold has as many of each quantile. "3x2" are three folds, dealt out twice.
    """
    rows = len(target)
    if isinstance(validation, str) and (found := REPEATED.fullmatch(validation)):
        deals = [
            folds_of(int(found[1]), target, is_classes, (seed + deal) % 2**64)
            for deal in range(int(found[2]))
        ]
        return _assembled(
            [
                (deal.fitted[fit], (deal.judge == fit).nonzero().squeeze(1))
                for deal in deals
                for fit in range(deal.judges)
            ]
        )
    if isinstance(validation, str) and validation == "auto":
        validation = min(FOLDS, rows) if rows < MANY_ROWS else HELD_OUT
    whole = isinstance(validation, Integral) and not isinstance(validation, bool)
    is_share = (
        not whole and isinstance(validation, Real) and 0 < float(validation) <= 0.5 and rows >= 2
    )
    if not is_share and not (whole and 2 <= validation <= rows):
        raise ValueError(
            "Expected validation to be 'auto', a share of the rows up to 0.5, a number of folds "
            f"from 2 to {rows}, '3x2' for three folds twice, a splitter, or a pair (X, y). Got "
            f"{validation!r}."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    if (stratum := _strata(target.cpu(), is_classes)) is not None:
        order = order[torch.argsort(stratum[order], stable=True)]
    judge = torch.full((rows,), -1)
    if is_share:
        held_out = max(1, round(validation * rows))
        judge[order[torch.arange(held_out) * rows // held_out]] = 0
    else:
        judge[order] = torch.arange(rows) % validation
    fits = 1 if is_share else validation
    fitted = torch.stack([*(judge != index for index in range(fits)), torch.ones(rows) > 0])
    return Folds(fitted, judge)


def _strata(target: Tensor, is_classes: bool) -> Tensor | None:
    """What is to be spread evenly: classes, or tenths of the ranks of numbers, (rows,).

    Rows with several numbers have none.
    """
    if is_classes:
        return target
    if target.dim() > 1 and target[0].numel() > 1:
        return None
    ranks = target.flatten().argsort(stable=True).argsort()
    return ranks * BINS // len(ranks)


def is_splitter(validation: Any) -> bool:
    """Whether it splits rows as scikit-learn's splitters do."""
    return hasattr(validation, "split") and not isinstance(validation, (str, type, Tensor))


def split_folds(splitter: Any, X: Any, y: Any, groups: Any = None) -> Folds:
    """The folds of a scikit-learn splitter: one fit for each split, and one to all rows.

    No row may judge what is fitted to it; some may not judge at all, as the first ones in the order
    of time, and others several times, as in repeated folds.
    """
    splits = []
    for train, test in splitter.split(X, y, groups):
        is_train, test = torch.zeros(len(y), dtype=torch.bool), torch.as_tensor(test)
        is_train[torch.as_tensor(train)] = True
        if not len(test) or not is_train.any() or is_train[test].any():
            raise ValueError(
                "Expected splits in which no row judges what it is fitted to. Got others from "
                f"{splitter!r}."
            )
        splits.append((is_train, test))
    if not splits:
        raise ValueError(f"Expected a splitter that gives splits. Got none from {splitter!r}.")
    return _assembled(splits)


def _assembled(splits: list[tuple[Tensor, Tensor]]) -> Folds:
    """The folds of splits: which rows a fit sees, (rows,) bool, and those that judge it."""
    rows = len(splits[0][0])
    judge, copies, judges = torch.full((rows,), -1), [], []
    for index, (_, test) in enumerate(splits):
        is_first = judge[test] < 0
        judge[test[is_first]] = index
        copies.append(test[~is_first])
        judges.append(torch.full_like(copies[-1], index))
    fitted = torch.stack([*(is_train for is_train, _ in splits), torch.ones(rows) > 0])
    copy = torch.cat(copies)
    if not len(copy):
        return Folds(fitted, judge)
    unseen = torch.zeros(len(fitted), len(copy), dtype=torch.bool)
    source = torch.cat([torch.arange(rows), copy])
    return Folds(torch.cat([fitted, unseen], dim=1), torch.cat([judge, *judges]), source)


class LaterRows:
    """A splitter by time: later rows judge what is fitted to all earlier ones.

    The different times fall into one part more than there are folds, each of about as many. The
    first judges nobody; rows of one time are never on both sides.
    """

    def __init__(self, folds: int):
        self.folds = folds

    def split(self, X: Any, y: Any, groups: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """``groups`` (rows,) are the times."""
        from sklearn.model_selection import TimeSeriesSplit

        times, code = np.unique(groups, return_inverse=True)
        if len(times) <= self.folds:
            raise ValueError(
                f"Expected more different times than folds. Got {len(times)} and {self.folds}."
            )
        for earlier, later in TimeSeriesSplit(self.folds).split(times):
            yield np.flatnonzero(np.isin(code, earlier)), np.flatnonzero(np.isin(code, later))

    def __repr__(self) -> str:
        return f"LaterRows({self.folds})"


def held_out(is_judge: Tensor) -> Folds:
    """The folds of one fit that never sees the rows that judge it, (rows,) bool."""
    return Folds(~is_judge[None], torch.where(is_judge, 0, -1))
