"""The score that drives the front, the picks and the page, and how it is written."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsparcs.judging import scores
from torchsparcs.judging.scorers import Scorer, foreign_values, found_scorer, scored
from torchsparcs.tables.target import Target
from torchsparcs.training.quantiles import quantile_level

PSEUDO_ROWS = 4  # that a share of rows is thought to have seen besides, half of them right
MOST_PARTS, FOREIGN_PARTS = 2000, 20  # of the rows, whose scores are kept; of others' scorers

WEIGHTED = "weighted "

Values = Callable[[Tensor, Tensor, Tensor, Target], Tensor]


class Style(NamedTuple):
    """How a score is written: times so much, with so many decimals, and a unit.

    Decimals are None where the size of the numbers is the user's: four digits then. What is
    written as less than zero is a loss, the smaller the better.
    """

    times: float
    decimals: int | None
    unit: str = ""


SHARE, NUMBER, LOSS = Style(100, 2, " %"), Style(1, 4), Style(-1, 4)
AMOUNT, LOST_SHARE = Style(-1, None), Style(-100, 2, " %")


class Row(NamedTuple):
    """A row of :data:`SCORINGS`.

    Attributes:
        is_for_classes: else for numbers.
        values: of (output, target, share, aim), see :mod:`torchsparcs.judging.scores`.
        counts: what the score is a share of: "rows", or as much of each of the "classes"; None
            where it is no share of anything.
        loss: what networks are trained for where it is not the task itself, "quantile 0.5".
    """

    label: str
    is_for_classes: bool
    values: Values
    style: Style
    counts: str | None = None
    loss: str | None = None


MEDIAN = "quantile 0.5"
SCORINGS: dict[str, Row] = {
    "accuracy": Row("accuracy", True, scores.task_scores, SHARE, "rows"),
    "log_loss": Row("log loss", True, scores.log_losses, LOSS),
    "balanced_accuracy": Row("balanced accuracy", True, scores.balanced_hits, SHARE, "classes"),
    "roc_auc": Row("ROC AUC", True, scores.roc_areas, NUMBER, "classes"),
    "f1": Row("F1", True, scores.f1_values, NUMBER, "classes"),
    "average_precision": Row(
        "average precision", True, scores.average_precisions, NUMBER, "classes"
    ),
    "r2": Row("R²", False, scores.task_scores, NUMBER),
    "mae": Row("mean absolute error", False, scores.absolute_errors, AMOUNT, loss=MEDIAN),
    "mape": Row(
        "mean absolute percentage error", False, scores.relative_errors, LOST_SHARE, loss=MEDIAN
    ),
}
QUANTILE = "pinball_0.9"  # of any level: a name that is made, not looked up
SAME = {
    "neg_log_loss": "log_loss",
    "neg_mean_absolute_error": "mae",
    "neg_mean_absolute_percentage_error": "mape",
}  # scikit-learn's names


@dataclass(frozen=True)
class Scoring:
    """A score of what networks say of a target; the larger the better.

    Attributes:
        values: of (output, target, share), a mean over rows, see
            :mod:`torchsparcs.judging.scores`.
        counts, loss: as in :class:`Row`.
        unit: of the score, where it has one of its own; differences are told in it.
        constant: the score of the best answer that is the same for all rows; None where no rows
            were looked at.
        whole: the score itself of the same, where that is simpler: of scikit-learn's scorers.
        is_own: whether it is a function of somebody's, without a name that finds it.
        is_weighted: whether some rows counted more than others.
    """

    name: str
    label: str
    style: Style
    values: Callable[[Tensor, Tensor, Tensor], Tensor]
    counts: str | None = None
    loss: str | None = None
    unit: float = 1.0
    constant: float | None = None
    whole: Callable[[Tensor, Tensor, Tensor], float] | None = None
    is_own: bool = False
    is_weighted: bool = False

    def weighted(self, is_weighted: bool) -> "Scoring":
        """The same, whose label says whether some rows counted more than others."""
        label = self.label.removeprefix(WEIGHTED)
        label = WEIGHTED + label if is_weighted else label
        return replace(self, label=label, is_weighted=is_weighted)

    @property
    def is_foreign(self) -> bool:
        """Whether it is a scorer of scikit-learn's."""
        return self.whole is not None

    def score(self, output: Tensor, target: Tensor, share: Tensor) -> float:
        """The score itself."""
        if self.whole is not None:
            return self.whole(output, target, share)
        return (share @ self.values(output, target, share)).item()

    def part_of(self, rows: int) -> Tensor:
        """The part of the rows that each belongs to, (rows,): itself, or neighbours where many.

        A scorer of others is taken without each of a few parts, drawn always alike.
        """
        return foreign_parts(rows) if self.is_foreign else neighbours(rows)

    def least_error(self, score: float, target: Tensor, share: Tensor, times: float = 1.0) -> float:
        """The standard error that a share of rows has at least, also where all or none are right.

        √(p (1 − p) / (n + 4)), with p of n rows and four more, of which half are right (A. Agresti
        and B. Coull, *Approximate is better than "exact"*, The American Statistician 52, 1998). n
        is 1 / Σ share², with shares that give each class as much where the score does; less where
        each row is there several ``times``.
        """
        if self.counts is None:
            return 0.0
        if self.counts == "classes":
            _, code = target.unique(return_inverse=True)
            of_class = share.new_zeros(int(code.max()) + 1).index_add(0, code, share)
            share = share / (of_class[code] * len(of_class))
        rows = 1 / share.square().sum().item() / times
        p = (score * rows + PSEUDO_ROWS / 2) / (rows + PSEUDO_ROWS)
        return math.sqrt(max(0.0, p * (1 - p)) / (rows + PSEUDO_ROWS))

    def words(self, score: float, error: float | None = None, *, short: bool = False) -> str:
        """The score as people read it, with its standard error; ``short``: a digit less of shares.

        >>> scoring_of("accuracy", Target.fit(["a", "b"])).words(0.9705, 0.004)
        '97.05 % ± 0.40'
        >>> scoring_of("mae", Target.fit([1.5, 1e5])).words(-1234.5, 100.0)
        '1,234 ± 100'
        """
        if not math.isfinite(score):
            return "–"
        times, decimals, unit = self.style
        if decimals is None:  # four digits
            decimals = max(0, 3 - math.floor(math.log10(abs(score)))) if score else 0
        decimals -= short and abs(times) == 100
        words = f"{times * score:z,.{decimals}f}{unit}"
        if error is None or not math.isfinite(error):
            return words
        return f"{words} ± {abs(times) * error:,.{decimals}f}"

    @property
    def is_loss(self) -> bool:
        """Whether it is written with the other sign, the smaller the better."""
        return self.style.times < 0


def neighbours(rows: int) -> Tensor:
    """The rows dealt into parts of neighbours, at most ``MOST_PARTS``, (rows,)."""
    return torch.arange(rows) * min(rows, MOST_PARTS) // rows


def foreign_parts(rows: int) -> Tensor:
    drawn = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    return drawn % min(rows, FOREIGN_PARTS)


def scoring_of(scoring: Any, target: Target) -> Scoring:
    """The scoring of that name in :data:`SCORINGS`, or one of scikit-learn's scorers.

    "auto" is accuracy or R². Scores of numbers are in the units of ``target``.
    """
    is_classes = target.classes is not None
    if isinstance(scoring, str):
        scoring = SAME.get(scoring, scoring)
        if scoring == "auto":
            scoring = "accuracy" if is_classes else "r2"
    row = None
    if isinstance(scoring, str):
        row = SCORINGS[scoring] if scoring in SCORINGS else _quantile_row(scoring)
    if row is not None:
        if row.is_for_classes is not is_classes:
            raise ValueError(
                f"Expected a scoring for {'classes' if is_classes else 'numbers'}, as "
                f"{', '.join(_names(is_classes))}. Got {scoring!r}."
            )
        label = f"macro {row.label}" if scoring == "f1" and target.outputs > 1 else row.label
        values = partial(_with_aim, row.values, target)
        return Scoring(scoring, label, row.style, values, row.counts, row.loss)
    name, scorer = found_scorer(scoring, _names(is_classes))
    if is_classes and isinstance(scoring, str):  # they take 1 for the class that is meant
        target = replace(target, classes=tuple(range(len(target.classes or ()))))
    return Scoring(
        name,
        name.removeprefix("neg_").replace("_", " "),
        AMOUNT if name.startswith("neg_") else NUMBER,
        partial(_with_parts, scorer, target),
        whole=partial(_with_aim, partial(scored, scorer), target),
        is_own=not isinstance(scoring, str),
    )


def _names(is_classes: bool) -> list[str]:
    names = [name for name, row in SCORINGS.items() if row.is_for_classes is is_classes]
    return names if is_classes else [*names, QUANTILE]


def _quantile_row(name: str) -> Row | None:
    """The row of a pinball loss, whose level is in its name; None of other names."""
    kind, _, level = name.partition("_")
    if kind != "pinball":
        return None
    loss = f"quantile {level}"
    try:
        known = quantile_level(loss)
    except ValueError as error:
        raise ValueError(
            f"Expected pinball_ and a level between 0 and 1, as in {QUANTILE}. Got {name!r}."
        ) from error
    assert known is not None
    values = partial(scores.pinball_losses, level=known)
    return Row(f"pinball loss at {known:g}", False, values, AMOUNT, loss=loss)


def _with_aim(
    values: Callable[..., Any], aim: Target, output: Tensor, target: Tensor, share: Tensor
) -> Any:
    return values(output, target, share, aim)


def _with_parts(
    scorer: Scorer, aim: Target, output: Tensor, target: Tensor, share: Tensor
) -> Tensor:
    part = foreign_parts(len(output)).to(share.device)
    return foreign_values(scorer, output, target, share, aim, part)


def score_settings(scoring: Scoring) -> dict[str, Any]:
    """What a result remembers of its scoring, for :func:`recorded_scoring`."""
    constant = scoring.constant
    return {
        "scoring": scoring.name,
        "scoring_is_own": scoring.is_own,
        "score_is_weighted": scoring.is_weighted,
        "score_unit": scoring.unit,
        "constant_score": constant if constant is None or math.isfinite(constant) else None,
    }


def recorded_scoring(settings: dict[str, Any], target: Target) -> Scoring:
    """The scoring of a result; older ones have accuracy or R².

    That of a function of somebody's is known by its name alone: it writes scores and gives none.
    """
    name, unit = settings.get("scoring", "auto"), settings.get("score_unit", 1.0)
    if settings.get("scoring_is_own"):
        style = AMOUNT if name.startswith("neg_") else NUMBER
        label = name.removeprefix("neg_").replace("_", " ")
        unknown = partial(_unknown, name)
        found = Scoring(name, label, style, unknown, whole=unknown, is_own=True)
    else:
        found = scoring_of(name, target)
    found = found.weighted(settings.get("score_is_weighted", False))
    return replace(found, unit=unit, constant=settings.get("constant_score"))


def _unknown(name: str, *rows: Tensor) -> Any:
    raise ValueError(
        "Expected the scorer again, scoring=..., as this search was scored by a function, "
        f"{name!r}, which a result does not hold."
    )
