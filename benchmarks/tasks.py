"""Ten public tables and image sets, drawn by seed: raw arrays, and how they are made ready."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import train_test_split

Array = NDArray[np.generic]


class Split(NamedTuple):
    """Raw rows of one task under one seed; classes are 0, 1, ... and binary targets 0 and 1."""

    x_train: Array  # (rows, columns)
    y_train: Array  # (rows,)
    x_test: Array
    y_test: Array
    kind: str  # "regression", "binary" or "multiclass"
    one_scale: bool = False  # the columns are pixels: one mean and one deviation for all of them


def loaded(load: Callable, kind: str) -> Callable[[int], Split]:
    """A table of scikit-learn's; the seed sets a quarter of the rows aside, class by class."""

    def draw(seed: int) -> Split:
        x, y = load(return_X_y=True)
        classes = None if kind == "regression" else y
        x_train, x_test, y_train, y_test = train_test_split(
            x, y, test_size=0.25, random_state=seed, stratify=classes
        )
        return Split(x_train, y_train, x_test, y_test, kind)

    return draw


def made(make: Callable, rows: int, kind: str, **options: float) -> Callable[[int], Split]:
    """A table that scikit-learn makes: fresh from the seed, with 10,000 further rows as test."""

    def draw(seed: int) -> Split:
        x, y = make(n_samples=rows + 10_000, random_state=seed, **options)
        y = (y > 0).astype(int) if kind == "binary" else y
        return Split(x[:rows], y[:rows], x[rows:], y[rows:], kind)

    return draw


def mnist(seed: int, data: Path) -> Split:
    """60,000 and 10,000 images from an NPZ file, the same for every seed."""
    arrays = np.load(data)
    x_train, x_test = (arrays[f"{part}_x"].reshape(-1, 784) for part in ("train", "test"))
    y_train, y_test = (arrays[f"{part}_y"].astype(int) for part in ("train", "test"))
    return Split(x_train, y_train, x_test, y_test, "multiclass", one_scale=True)


TASKS: dict[str, Callable[..., Split]] = {
    "digits": loaded(datasets.load_digits, "multiclass"),
    "breast_cancer": loaded(datasets.load_breast_cancer, "binary"),
    "wine": loaded(datasets.load_wine, "multiclass"),
    "iris": loaded(datasets.load_iris, "multiclass"),
    "diabetes": loaded(datasets.load_diabetes, "regression"),
    "friedman1": made(datasets.make_friedman1, 2_000, "regression", noise=1.0),
    "friedman2": made(datasets.make_friedman2, 2_000, "regression", noise=125.0),
    "friedman3": made(datasets.make_friedman3, 2_000, "regression", noise=0.1),
    "hastie_10_2": made(datasets.make_hastie_10_2, 4_000, "binary"),
    "mnist": mnist,
}


def draw(task: str, seed: int, data: Path | None = None) -> Split:
    """The split of a task under a seed; MNIST is read from ``data``."""
    if task not in TASKS:
        raise ValueError(f"Expected a task of {', '.join(TASKS)}. Got {task!r}")
    if task != "mnist":
        return TASKS[task](seed)
    if data is None:
        raise ValueError("Expected an NPZ file with train_x, train_y, test_x, test_y. Got none")
    return TASKS[task](seed, data)


def standardise(split: Split) -> Split:
    """Zero mean and unit deviation on the training rows; columns constant there are dropped.

    The targets of a regression are standardised too, which leaves R² as it is.
    """
    varies = (split.x_train != split.x_train[:1]).any(0)
    x_train, x_test = (x[:, varies].astype(np.float32) for x in (split.x_train, split.x_test))
    axis = None if split.one_scale else 0
    centre, scale = x_train.mean(axis, dtype=float), x_train.std(axis, dtype=float)
    x_train, x_test = (((x - centre) / scale).astype(np.float32) for x in (x_train, x_test))
    y_train, y_test = split.y_train, split.y_test
    if split.kind == "regression":
        centre, scale = y_train.mean(), y_train.std()
        y_train, y_test = (((y - centre) / scale).astype(np.float32) for y in (y_train, y_test))
    return Split(x_train, y_train, x_test, y_test, split.kind, split.one_scale)
