"""Twenty small tables of all kinds, made up: columns, what is to be learnt, options of a search."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Table = tuple[Any, Any, dict[str, Any]]  # X, y, options of the search


def bent(draw: np.random.Generator, rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A few columns, and a number that bends in one of them."""
    X = draw.normal(size=(rows or draw.integers(50, 120), draw.integers(3, 8)))
    return X, np.abs(X[:, 0]) - X[:, 1] + 0.1 * draw.normal(size=len(X))


def classes(draw: np.random.Generator, count: int, rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same columns, and the number cut into ``count`` classes of about equal size."""
    X, y = bent(draw, rows)
    return X, np.searchsorted(np.quantile(y, np.arange(1, count) / count), y)


def weighted(draw: np.random.Generator, X: Any, y: Any) -> Table:
    """With weights, some of them zero."""
    weight = draw.uniform(0.1, 3, len(y)) * (draw.random(len(y)) > 0.1)
    return X, y, {"sample_weight": weight}


def collinear(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """With a copy of each column, and sums of two."""
    return np.hstack([X, X, X + np.roll(X, 1, axis=1)]), y, {}


def constant(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """With columns of a single value."""
    return np.hstack([np.full((len(X), 2), [0.0, 7.0]), X]), y, {}


def texts(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """With columns of text, one of which says something about the number."""
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    frame["sign"] = np.where(X[:, 0] > 0, "up", "down")
    frame["city"] = draw.choice(["Rome", "Oslo", "Lima", "Bern"], len(X))
    return frame, y, {}


def repeated(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """Of every row a copy."""
    return np.vstack([X, X]), np.concatenate([y, y]), {}


def plain(draw: np.random.Generator, X: Any, y: Any) -> Table:
    return X, y, {}


MANY = 10_500  # rows: one share of them judges, not folds

TABLES: dict[str, Callable[[np.random.Generator], Table]] = {
    "numbers": lambda draw: plain(draw, *bent(draw)),
    "numbers, weights": lambda draw: weighted(draw, *bent(draw)),
    "numbers, collinear": lambda draw: collinear(draw, *bent(draw)),
    "numbers, constant columns": lambda draw: constant(draw, *bent(draw)),
    "numbers, text": lambda draw: texts(draw, *bent(draw)),
    "numbers, 9 rows": lambda draw: plain(draw, *bent(draw, 9)),
    "numbers, rows twice": lambda draw: repeated(draw, *bent(draw)),
    "numbers, more columns than rows": lambda draw: plain(
        draw, X := draw.normal(size=(30, 60)), X[:, 0] - X[:, 1]
    ),
    "numbers, large ones": lambda draw: plain(draw, *(1e8 * part for part in bent(draw))),
    "two targets": lambda draw: plain(
        draw, X := bent(draw)[0], np.column_stack([np.abs(X[:, 0]), X[:, 1] * X[:, 2]])
    ),
    "two classes": lambda draw: plain(draw, *classes(draw, 2)),
    "two classes, weights": lambda draw: weighted(draw, *classes(draw, 2)),
    "two classes, text": lambda draw: texts(draw, *classes(draw, 2)),
    "two classes, collinear": lambda draw: collinear(draw, *classes(draw, 2)),
    "two classes, noise alone": lambda draw: plain(draw, bent(draw, 60)[0], np.arange(60) % 2),
    "three classes": lambda draw: plain(draw, *classes(draw, 3)),
    "three classes, constant columns": lambda draw: constant(draw, *classes(draw, 3)),
    "five classes, weights": lambda draw: weighted(draw, *classes(draw, 5)),
    "many rows, numbers": lambda draw: plain(draw, *bent(draw, MANY)),
    "many rows, three classes": lambda draw: plain(draw, *classes(draw, 3, MANY)),
}
