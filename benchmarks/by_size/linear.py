"""Linear and logistic regression with L1: a front of sizes, each also refitted on what is left.

The path of penalties goes down from the one that silences every column, by FISTA from the weights
of the one before. What is not zero is then fitted again under the decays of ridge regression. The
size of a point is its non-zero coefficients and intercepts.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from by_size.mlps import Architecture, Fitting
from by_size.preparing import Array, Split, folds, judged, point

PENALTIES = 14  # of the path, from the largest down to 1/2000 of it
STEPS = 200  # of FISTA for each
DECAYS = (0.1, 3.0, 30.0)  # of a refit, times 1/rows


def silencing(split: Split) -> float:
    """The smallest L1 weight under which every coefficient is zero."""
    fitting = Fitting(Architecture((), False), split)
    start = split.y.mean() if not split.classes else None
    counts = np.bincount(split.y, minlength=split.classes) if split.classes else None
    if counts is None:
        outputs = np.full((len(split.y), 1), start)
    else:
        logs = np.log(counts / counts.sum())
        outputs = np.tile(logs if split.classes > 2 else logs[1:] - logs[:1], (len(split.y), 1))
    return float(np.abs(split.x.T @ fitting.error(outputs, split.y)[1]).max())


def path(split: Split, x: Array, y: NDArray, penalties: Array) -> list[Array]:
    """Weights (columns + 1, outputs), the intercepts last, under each penalty."""
    fitting = Fitting(Architecture((), False), split)
    x = np.hstack([x, np.ones((len(x), 1))])
    steep = {0: 1.0, 2: 0.25}.get(split.classes, 0.5)
    pace = len(x) / (steep * np.linalg.norm(x, 2) ** 2)
    weights, found = np.zeros((x.shape[1], split.outputs)), []
    for penalty in penalties:
        ahead, speed = weights, 1.0
        for _ in range(STEPS):
            moved = ahead - pace * (x.T @ fitting.error(x @ ahead, y)[1])
            shrunk = np.sign(moved) * np.maximum(np.abs(moved) - pace * penalty, 0)
            shrunk[-1] = moved[-1]
            if ((ahead - shrunk) * (shrunk - weights)).sum() > 0:
                speed = 1.0  # it went too far: start anew from here
            faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
            ahead = shrunk + (speed - 1) / faster * (shrunk - weights)
            weights, speed = shrunk, faster
        found.append(weights)
    return found


def refitted(split: Split, x: Array, y: NDArray, start: Array, decay: float) -> Array:
    """The weights that are not zero, with a decay in place of L1."""
    fitting = Fitting(Architecture((), False), split)
    mask = start != 0
    mask[-1] = True
    whole = np.zeros_like(start)

    def objective(free: Array) -> tuple[float, Array]:
        whole[mask] = free
        loss, gradient = fitting.objective(whole.ravel(), x, y, decay)
        return loss, gradient.reshape(whole.shape)[mask]

    end = minimize(objective, start[mask], method="L-BFGS-B", jac=True, options={"maxiter": 200})
    made = np.zeros_like(start)
    made[mask] = end.x
    return made


def fronts(split: Split, x: Array, y: NDArray, penalties: Array) -> dict[str, Array]:
    """All linear models of these rows by name."""
    found = {}
    for penalty, weights in zip(penalties, path(split, x, y, penalties), strict=True):
        found[f"L1 {penalty:.3g}"] = weights
        for decay in DECAYS:
            again = refitted(split, x, y, weights, decay)
            found[f"L1 {penalty:.3g} refitted {decay:g}"] = again
    everything = np.full((x.shape[1] + 1, split.outputs), 1e-9)
    for decay in DECAYS:
        found[f"ridge {decay:g}"] = refitted(split, x, y, everything, decay)
    return found


def linear(split: Split) -> dict:
    """Every penalty, with and without a refit, by its score on the folds."""
    top = silencing(split)
    penalties = top * np.logspace(0, -np.log10(2_000), PENALTIES + 1)[1:]
    inner = [
        (fronts(split, split.x[fit], split.y[fit], penalties), held) for fit, held in folds(split)
    ]
    points = []
    for name, weights in fronts(split, split.x, split.y, penalties).items():
        scores = [
            judged(split.x[held] @ w[name][:-1] + w[name][-1], split.y[held], split.classes)[0]
            for w, held in inner
        ]
        outputs = split.x_test @ weights[:-1] + weights[-1]
        test = judged(outputs, split.y_test, split.classes)
        points.append(point(np.count_nonzero(weights), name, float(np.mean(scores)), test))
    return {"points": points}
