"""Fidelity: how much of a teacher a network has kept, on rows that the network has not seen."""

import io
import pickle
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.files.visible import visible
from torchsparcs.fitting.teachers import Teacher
from torchsparcs.judging.scoring import scoring_of
from torchsparcs.tables.columns import rows_of
from torchsparcs.tables.target import Target

if TYPE_CHECKING:
    from torchsparcs.results.result import SearchResult

LEAST_CHANCE = 1e-6  # of a class, in a logarithm
WORST = 10  # rows on which the two disagree most
TIMES = 5  # that one row is answered, for its time
SEEN = "Where it was fitted to these rows, its answers there look better than they are."


class Fidelity(NamedTuple):
    """A network beside its teacher.

    Attributes:
        agreement: the share of rows of the same class; of numbers the correlation.
        divergence: the mean of KL(teacher, network), in nats; of numbers the mean square of what is
            between them, in units of the target's variance.
        score, teacher_score: against the labels, accuracy or R²; None where there are none.
        seconds, teacher_seconds: that the rows took.
        disagreed: the places of the rows on which they disagree most, the worst first.
        correlation: of probabilities, or values, the mean over the classes or outputs; NaN where
            one of the two always says the same.
        rows: how many there were.
        one_row, teacher_one_row: seconds of a single row, the median of some.
        parameters: of the network.
        teacher_bytes: of its file, or of what pickle makes of it; None of a function.
        said, teacher_said, labels: as texts, of the rows that ``disagreed`` names; () where there
            are no labels.
        teacher: its name.
    """

    agreement: float
    divergence: float
    score: float | None
    teacher_score: float | None
    seconds: float
    teacher_seconds: float
    disagreed: tuple[int, ...]
    correlation: float
    rows: int
    one_row: float
    teacher_one_row: float
    parameters: int
    teacher_bytes: int | None
    said: tuple[str, ...]
    teacher_said: tuple[str, ...]
    labels: tuple[str, ...]
    teacher: str


def fidelity_of(result: "SearchResult", model: Any, X: Any, y: Any, pick: Any) -> Fidelity:
    """What the picked network kept of ``model``, on rows that are best new to both."""
    target, candidate = result.target, result.pick(pick)
    teacher = Teacher(model, target)
    seconds, output = _timed(lambda: result.outputs(X, candidate))
    teacher_seconds, said = _timed(lambda: teacher.answers(X))
    known, labels = None, np.array([])
    if y is not None:
        known, labels = target.transform(y), np.asarray(y)
        teacher.check_order(said, y)
    found = compared(target, output.cpu(), said, known)
    worst = found.apart.argsort(descending=True)[:WORST].tolist()
    first = rows_of(X, np.arange(len(said)) == 0)
    return Fidelity(
        **found.kept,
        seconds=seconds,
        teacher_seconds=teacher_seconds,
        disagreed=tuple(worst),
        one_row=_median_time(lambda: result.outputs(first, candidate)),
        teacher_one_row=_median_time(lambda: teacher.answers(first)),
        parameters=candidate.parameters,
        teacher_bytes=_bytes(model),
        said=tuple(found.words[0][place] for place in worst),
        teacher_said=tuple(found.words[1][place] for place in worst),
        labels=tuple(str(labels[place]) for place in worst if len(labels)),
        teacher=teacher.name,
    )


class Compared(NamedTuple):
    """Two that answered the same rows: what was kept, how far apart they are, and their words."""

    kept: dict[str, Any]
    apart: Tensor
    words: list[list[str]]


def compared(
    target: Target,
    output: Tensor,
    said: Tensor,
    known: Tensor | None,
    share: Tensor | None = None,
) -> Compared:
    """A network's ``output`` (rows, O) beside what a teacher ``said``, and what is ``known``.

    In the scores each row counts by its ``share`` (rows,) of one; without, all count the same.
    """
    mine, its = target.bounded(output.double()), said.double()
    if target.classes is None:
        apart = (mine - its).square().mean(dim=1)
        correlation = agreement = _correlation(mine, its)
        words = [[f"{v:.4g}" for v in target.in_units(each)[:, 0]] for each in (mine, its)]
    else:
        chances = torch.from_numpy(target.probabilities(output)).double()
        its = torch.cat([1 - its, its], dim=1) if its.shape[1] == 1 else its
        ratio = its.clamp_min(LEAST_CHANCE).log() - chances.clamp_min(LEAST_CHANCE).log()
        apart = (its * ratio).sum(dim=1)
        agreement = float((chances.argmax(1) == its.argmax(1)).double().mean())
        correlation = _correlation(chances, its)
        words = [_likeliest(each, target.classes) for each in (chances, its)]
        its = its.logit()[:, 1:] if target.task == "binary" else its.log()
    scores: list[float | None] = [None, None]
    if known is not None:
        if share is None:
            share = torch.full((len(mine),), 1 / len(mine), dtype=torch.float64)
        measure = scoring_of("accuracy" if target.classes is not None else "r2", target)
        scores = [measure.score(each, known, share) for each in (mine, its)]
    kept = {
        "agreement": agreement,
        "divergence": float(apart.mean()),
        "score": scores[0],
        "teacher_score": scores[1],
        "correlation": correlation,
        "rows": len(mine),
    }
    return Compared(kept, apart, words)


def plain_fidelity(values: Mapping[str, Any]) -> dict[str, Any]:
    """What settings keep of it: values that JSON has."""
    return {name: list(v) if isinstance(v, tuple) else _finite(v) for name, v in values.items()}


def fidelity_words(result: "SearchResult") -> str | None:
    """What the result remembers to have kept of a teacher, in a line."""
    kept = result.settings.get("fidelity")
    if kept is None:
        return None
    what = "correlation" if result.target.classes is None else "agreement"
    told, scores = "–" if kept["agreement"] is None else f"{kept['agreement']:.4f}", ""
    if kept["score"] is not None and kept["teacher_score"] is not None:
        scores = f"; score {kept['score']:.4f}, the teacher's {kept['teacher_score']:.4f}"
    rows = f"{kept['rows']:,} rows{' of the folds' * kept.get('is_of_folds', False)}"
    words = f"{what} with {visible(kept['teacher'])} on {rows}: {told}{scores}"
    return f"{words}. {SEEN}" if is_flattered(result.settings) else words


def is_flattered(settings: Mapping[str, Any]) -> bool:
    """Whether the teacher has a score on rows that it may have been fitted to."""
    kept = settings["fidelity"]
    has_score = kept.get("is_of_folds", False) and kept["teacher_score"] is not None
    return has_score and not settings.get("teacher_is_refitted", False)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _correlation(one: Tensor, other: Tensor) -> float:
    """The mean over the columns of both, (rows, columns)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs = zip(one.T.numpy(), other.T.numpy(), strict=True)
        return float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))


def _likeliest(chances: Tensor, classes: tuple[Any, ...]) -> list[str]:
    """The class with the largest probability of each row, and how large that is."""
    most, places = chances.max(dim=1)
    each = zip(most.tolist(), places.tolist(), strict=True)
    return [f"{classes[place]} ({chance:.0%})" for chance, place in each]


def _bytes(model: Any) -> int | None:
    """How large a teacher is, as a file."""
    if isinstance(model, str | Path):
        return Path(model).stat().st_size
    if isinstance(model, nn.Module):
        return sum(each.nbytes for each in model.state_dict().values())
    if not hasattr(model, "predict"):
        return None
    written = io.BytesIO()
    try:
        pickle.dump(model, written)
    except Exception:  # nobody has to be able to
        return None
    return written.tell()


def _median_time(work: Callable[[], Tensor]) -> float:
    return statistics.median(_timed(work)[0] for _ in range(TIMES))


def _timed(work: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found
