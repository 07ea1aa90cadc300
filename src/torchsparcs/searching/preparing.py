"""The rows of a call: preprocessing learnt, weights by class, a sample of a stream."""

from typing import Any

import numpy as np

from torchsparcs.fitting.folded import Rows, counted_rows
from torchsparcs.fitting.teachers import labels_of
from torchsparcs.judging.class_weights import ByClass, class_weighted, weights_by_class
from torchsparcs.tables.kinds import Kinds
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.streams import RowStream


def prepared(
    X: Any,
    y: Any,
    task: str,
    sample_weight: Any,
    class_weight: Any,
    groups: Any,
    seed: int,
    kinds: Kinds | None,
    teacher: Any = None,
) -> tuple[Preprocessing, Rows, ByClass | None, int]:
    """The preprocessing, rows to work on (X, y, weights, groups), classes, how many there were.

    Classes have their weights, rows theirs times that of their class. Where there is no y, the
    labels of a ``teacher`` stand for it.
    """
    is_taught = y is None and teacher is not None
    if isinstance(X, np.memmap) and sample_weight is None and groups is None and not is_taught:
        X, y = RowStream.of((X, y if hasattr(y, "shape") else np.asarray(y))), None
    if isinstance(X, RowStream):
        if y is not None or sample_weight is not None or groups is not None:
            raise ValueError(
                "Expected neither y nor sample weights nor groups beside a stream. Got some."
            )
        sample = X.sample(task, seed, kinds)
        _check_classes(class_weight, sample.preprocessing.target)
        by_class = weights_by_class(sample.y, class_weight)
        rows: Rows = (sample.X, sample.y, class_weighted(sample.y, by_class), None)
        return sample.preprocessing, rows, by_class, sample.rows
    if is_taught:
        y = labels_of(teacher, X, task)
    if y is None:
        raise ValueError("Expected a target y beside X, which is no stream of both. Got None.")
    X, y, weight, groups = counted_rows(X, y, sample_weight, groups)
    target = Target.fit(y, task, weight)
    _check_classes(class_weight, target)
    by_class = weights_by_class(y, class_weight, weight)
    weight = class_weighted(y, by_class, weight)
    preprocessing = Preprocessing(Inputs.fit(X, weight, kinds), target)
    return preprocessing, (X, y, weight, groups), by_class, len(X)


def class_weight_words(class_weight: Any) -> str | dict[str, float] | None:
    """Class weights as settings have them: labels are texts."""
    if class_weight is None or isinstance(class_weight, str):
        return class_weight
    return {str(label): float(weight) for label, weight in class_weight.items()}


def _check_classes(class_weight: Any, target: Target) -> None:
    if class_weight is not None and target.classes is None:
        raise ValueError("Expected classes to predict where class_weight is given. Got numbers.")
