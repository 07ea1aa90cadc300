"""How much rows count by their class."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import array_of

ByClass = dict[Any, float]  # the weight of each label


def weights_by_class(y: Any, class_weight: Any, weight: np.ndarray | None = None) -> ByClass | None:
    """The weight of each class of ``y`` (rows,); None where none is asked for.

    Args:
        class_weight: {label: weight}, where classes that it does not name have 1 and labels may be
            written as text; "balanced", so that each class counts the same, whatever its rows
            weigh; or None.
        weight: (rows,), of the rows; None where each has 1.
    """
    if class_weight is None:
        return None
    classes, codes = np.unique(array_of(y).ravel(), return_inverse=True)
    labels = classes.tolist()
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(codes, weight)
        by_class = counts.sum() / (len(counts) * counts)
    elif isinstance(class_weight, Mapping):
        named = {str(label): label for label in labels}
        given = {named.get(str(label), label): value for label, value in class_weight.items()}
        if unknown := [label for label in given if label not in labels]:
            raise ValueError(
                f"Expected class weights of classes among {quoted(labels)}. Got {quoted(unknown)}."
            )
        by_class = np.array([given.get(label, 1.0) for label in labels], dtype=np.float64)
    else:
        raise ValueError(
            "Expected class_weight to be 'balanced', weights by label, or None. Got "
            f"{class_weight!r}."
        )
    if not (np.isfinite(by_class) & (by_class > 0)).all():
        raise ValueError(f"Expected class weights above zero. Got {class_weight!r}.")
    return dict(zip(labels, by_class.tolist(), strict=True))


def class_weighted(
    y: Any, by_class: ByClass | None, weight: np.ndarray | None = None
) -> np.ndarray | None:
    """The weights of rows of classes ``y``, (rows,), each times that of its class."""
    if by_class is None:
        return weight
    classes, codes = np.unique(array_of(y).ravel(), return_inverse=True)
    by_row = np.array([by_class.get(label, 1.0) for label in classes.tolist()])[codes]
    return by_row if weight is None else by_row * weight
