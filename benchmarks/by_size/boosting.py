"""Gradient boosting, scikit-learn's: cut to a size, and without a limit.

Bytes are those of a format without pointers: for each tree one bit a node that says split or leaf,
in preorder; a split is its column (one byte, two beyond 256 columns) and a float32 threshold, a
leaf a float32 value; and a float32 to start from for each output. Preprocessing is left out, as
everywhere.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from by_size.preparing import Split, folds, front, judged, point

LARGEST = 16_384  # bytes
LEAVES = (2, 3, 4, 6, 8, 16)
RATES = (0.1, 0.3, 0.7)
STOPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # rounds
UNLIMITED = {"leaves": (6, 16, 31), "rates": (0.05, 0.15), "rounds": 500}


def tree_bytes(leaves: int, columns: int) -> float:
    """Of one tree."""
    return (2 * leaves - 1) / 8 + (leaves - 1) * (5 if columns <= 256 else 6) + 4 * leaves


def boosted(split: Split, x: NDArray, y: NDArray, **options: float):
    kind = HistGradientBoostingClassifier if split.classes else HistGradientBoostingRegressor
    return kind(random_state=split.seed, **options).fit(x, y)


def stages(model, x: NDArray) -> Iterator[NDArray]:
    """Raw outputs after each round."""
    decide = getattr(model, "staged_decision_function", model.staged_predict)
    return decide(x)


def stopped(model, x: NDArray, y: NDArray, classes: int) -> dict[int, tuple[float, float]]:
    """Score and loss after the rounds of ``STOPS``."""
    seen = enumerate(stages(model, x), 1)
    return {rounds: judged(out, y, classes) for rounds, out in seen if rounds in STOPS}


def boosting(split: Split) -> dict:
    """Every number of leaves and rate of learning, after every number of rounds that fits."""
    columns, inner, points = split.x.shape[1], folds(split), []
    for leaves, rate in itertools.product(LEAVES, RATES):
        fitting = int(LARGEST / tree_bytes(leaves, columns) / split.outputs)
        rounds = max(stop for stop in STOPS if stop <= max(1, fitting))
        options = {"max_leaf_nodes": leaves, "learning_rate": rate, "max_iter": rounds}
        options["early_stopping"] = False
        scores = [
            stopped(
                boosted(split, split.x[fit], split.y[fit], **options),
                split.x[held],
                split.y[held],
                split.classes,
            )
            for fit, held in inner
        ]
        model = boosted(split, split.x, split.y, **options)
        sizes = np.cumsum(
            [
                sum(tree_bytes(int(tree.nodes["is_leaf"].sum()), columns) for tree in trees)
                for trees in model._predictors  # no public way to the nodes
            ]
        )
        for stop, test in stopped(model, split.x_test, split.y_test, split.classes).items():
            validation = float(np.mean([found[stop][0] for found in scores]))
            made = point(0, f"{stop} × {leaves} leaves, rate {rate:g}", validation, test)
            size = int(np.ceil(sizes[stop - 1])) + 4 * split.outputs
            points.append({**made, "parameters": None, "bytes": size})
    return {"points": front(points, "bytes")}


def tuned(split: Split) -> tuple[float, dict[str, float]]:
    """The score on the folds and the options of the best of any size; rounds by early stopping."""
    grid = itertools.product(UNLIMITED["leaves"], UNLIMITED["rates"])
    inner, best = folds(split), (-np.inf, {})
    for leaves, rate in grid:
        options = {"max_leaf_nodes": leaves, "learning_rate": rate, "max_iter": UNLIMITED["rounds"]}
        options |= {"early_stopping": True, "n_iter_no_change": 20}
        scores = []
        for fit, held in inner:
            model = boosted(split, split.x[fit], split.y[fit], **options)
            outputs = getattr(model, "decision_function", model.predict)(split.x[held])
            scores.append(judged(outputs, split.y[held], split.classes)[0])
        best = max(best, (float(np.mean(scores)), options), key=lambda found: found[0])
    return best


def unlimited_boosting(split: Split) -> dict:
    """The best of any size."""
    validation, options = tuned(split)
    model = boosted(split, split.x, split.y, **options)
    outputs = getattr(model, "decision_function", model.predict)(split.x_test)
    leaves = [int(tree.nodes["is_leaf"].sum()) for trees in model._predictors for tree in trees]
    size = sum(tree_bytes(count, split.x.shape[1]) for count in leaves) + 4 * split.outputs
    name = f"{len(leaves)} × {options['max_leaf_nodes']} leaves, rate {options['learning_rate']:g}"
    made = point(0, name, validation, judged(outputs, split.y_test, split.classes))
    return {"points": [{**made, "parameters": None, "bytes": int(np.ceil(size))}]}
