"""Teachers that are fitted again and again, so that none answers a row that it has seen."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.lesson import Lesson, more_rows, ranges_of
from torchsparcs.fitting.teachers import Teacher, teacher_name
from torchsparcs.judging.folds import folds_of
from torchsparcs.tables.columns import rows_of
from torchsparcs.tables.preprocessing import Preprocessing

PARTS = 5  # of the rows of each fit, of which each is answered by what the others taught


def lesson_of(
    teacher: Any,
    teacher_fit: Any,
    folded: FoldedData,
    preprocessing: Preprocessing,
    rows: tuple[Any, Any],
    extra: Any,
    seed: int,
) -> Lesson | None:
    """What a ``teacher``, or those that ``teacher_fit`` gives, say, where there are any."""
    if teacher is None and teacher_fit is None:
        if extra is not None:
            raise ValueError("Expected a teacher for extra_rows, which have no target. Got none.")
        return None
    if teacher_fit is None:
        known = Teacher(teacher, preprocessing.target)
        return Lesson.of(known, preprocessing, *rows, extra, seed)
    return _out_of_fold(teacher_fit, folded, preprocessing, *rows, extra, seed)


def check_teachers(teacher: Any, teacher_fit: Any, *, is_paper: bool) -> None:
    """A ValueError where both are asked for, one that cannot be fitted, or one that nobody asks."""
    if is_paper and (teacher is not None or teacher_fit is not None):
        raise ValueError("Expected no teacher where the paper's recipe trains: it has none.")
    if teacher_fit is None:
        return
    if teacher is not None:
        raise ValueError("Expected a teacher, or teacher_fit to fit some. Got both.")
    if not (callable(teacher_fit) or hasattr(teacher_fit, "fit")):
        raise ValueError(
            "Expected teacher_fit to be an estimator, or a function of rows and their targets that "
            f"gives a fitted teacher. Got {type(teacher_fit).__name__}."
        )


def teacher_settings(teacher: Any, teacher_fit: Any, *, is_target: bool) -> dict[str, Any]:
    """What settings say of teachers: their name, and what they were asked for."""
    if teacher is None and teacher_fit is None:
        return {}
    return {
        "teacher": teacher_name(teacher if teacher_fit is None else teacher_fit),
        "teacher_is_refitted": teacher_fit is not None,
        "teacher_is_target": is_target,
    }


def _out_of_fold(
    fit: Any,
    folded: FoldedData,
    preprocessing: Preprocessing,
    X: Any,
    y: Any,
    extra: Any,
    seed: int,
) -> Lesson:
    """What teachers say of rows that none of them has seen, for each fit of ``folded``.

    The rows of a fit are dealt out into parts; of each, a teacher speaks that was fitted to the
    others. Of rows that are made, and ``extra`` ones, all of them do, on average. So neither the
    target of a row itself nor that of a row that judges is in what a network is taught.

    Args:
        fit: what gives fitted teachers, as :func:`torchsparcs.search` takes it.
        X, y: the rows of ``folded``, as they are in the table, without those of a validation pair.
    """
    rows, target = len(X), preprocessing.target
    known = folded.targets[:rows].cpu()
    values = known.reshape(rows, -1)[:, 0]
    kinds = ranges_of(values) if target.classes is None else values.long().numpy()
    made = more_rows(preprocessing, X, kinds, extra, seed)
    said = torch.zeros(folded.fits, rows, target.outputs)
    answers = torch.zeros(folded.fits, len(made.inputs), target.outputs)
    for place, fitted in enumerate(folded.folds.fitted[:, :rows].cpu()):
        own = fitted.nonzero().squeeze(1)
        part = _parts(folded, own, known, seed)
        for each in part.unique():
            held, others = (torch.zeros(rows, dtype=torch.bool) for _ in range(2))
            held[own[part == each]] = others[own[part != each]] = True
            seen = rows_of(X, others.numpy()), rows_of(y, others.numpy())
            teacher = Teacher(fitted_teacher(fit, *seen, seed), target, may_lack=True)
            said[place, held] = teacher.answers(rows_of(X, held.numpy()))
            told = torch.cat([teacher.answers(some) for some in made.tables])
            answers[place] += told / len(part.unique())
    return Lesson(said, made.inputs, answers, made.parents)


def _parts(folded: FoldedData, own: Tensor, known: Tensor, seed: int) -> Tensor:
    """The part of each row of a fit, (own,); rows that depend on each other are in one."""
    count = min(PARTS, len(own))
    if count < 2:
        raise ValueError(f"Expected rows to fit a teacher to and others. Got {len(own)} of a fit.")
    groups = None if folded.clusters is None else folded.clusters[: len(known)].cpu()[own]
    if groups is None or len(groups.unique()) == len(own):
        return folds_of(count, known[own], folded.has_classes, seed).judge
    code = groups.unique(return_inverse=True)[1]
    generator = torch.Generator().manual_seed(seed % 2**63)
    return torch.randperm(int(code.max()) + 1, generator=generator)[code] % count


def fitted_teacher(fit: Any, X: Any, y: Any, seed: int) -> Any:
    """A teacher of these rows: of a copy of an estimator, or what a function gives.

    Where an estimator would draw in its own way, ``random_state=None``, it draws by the ``seed``.
    """
    try:
        if hasattr(fit, "fit") and not isinstance(fit, type):
            from sklearn.base import clone

            teacher = clone(fit)
            states = {
                name: seed % 2**32
                for name, value in teacher.get_params().items()
                if value is None and name.split("__")[-1] == "random_state"
            }
            return teacher.set_params(**states).fit(X, np.asarray(y))
        return fit(X, y)
    except Exception as error:
        raise ValueError(
            f"Expected teacher_fit to fit a teacher to {len(X)} rows: {teacher_name(fit)} ended "
            f"with {type(error).__name__}: {error}"
        ) from error
