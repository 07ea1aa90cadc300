"""Plain ReLU MLPs of one and two hidden layers, with and without a skip, fitted by L-BFGS.

The objective is that of scikit-learn's ``MLPClassifier`` and ``MLPRegressor``: mean loss plus
decay / (2 · rows) times the sum of the squared weights. The decay of a width is found by climbing:
from the best of the width before to its neighbours, as long as the score on the folds rises. What
is then fitted to all training rows is the better one, by its objective, of two starts.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from by_size.preparing import Array, Split, folds, judged, point

LARGEST = 16_384  # parameters
WIDTHS = {  # by hidden layers and skip
    (1, False): (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128),
    (1, True): (1, 2, 4, 8, 16, 32, 64),
    (2, False): (2, 4, 8, 16, 32, 64),
    (2, True): (2, 4, 8, 16, 32),
}


class Architecture(NamedTuple):
    hidden: tuple[int, ...]
    skip: bool

    def shapes(self, columns: int, outputs: int) -> list[tuple[int, int]]:
        """Of the weights, layer by layer, then of the skip."""
        layers = list(itertools.pairwise([columns, *self.hidden, outputs]))
        return layers + [(columns, outputs)] * self.skip

    def parameters(self, columns: int, outputs: int) -> int:
        """Weights and biases; a skip has weights only."""
        weights = sum(of * to for of, to in self.shapes(columns, outputs))
        return weights + sum(self.hidden) + outputs

    @property
    def family(self) -> str:
        return f"{len(self.hidden)} hidden{', skip' * self.skip}"

    def __str__(self) -> str:
        return "-".join(map(str, self.hidden)) + " skip" * self.skip


def families(columns: int, outputs: int) -> Iterator[list[Architecture]]:
    """The four kinds of network, each from narrow to wide, none too large."""
    for (layers, skip), widths in WIDTHS.items():
        grid = [Architecture((width,) * layers, skip) for width in widths]
        yield [one for one in grid if one.parameters(columns, outputs) <= LARGEST]


@dataclass(frozen=True)
class Effort:
    """How much is spent on a fit."""

    decays: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0, 3.0, 10.0, 30.0, 100.0)
    starts: int = 2  # of the fit to all training rows
    fold_starts: int = 1
    steps: int = 200


def split_up(flat: Array, shapes: list[tuple[int, int]], layers: int) -> tuple[list, list]:
    """Weights (from, to) of all maps, biases of the layers: views of one vector."""
    ends = np.cumsum([of * to for of, to in shapes] + [to for _, to in shapes[:layers]])
    pieces = np.split(flat, ends[:-1])
    weights = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=False)]
    return weights, pieces[len(shapes) :]


class Fitting:
    """An architecture on the rows (x, y): objective, gradient and fit."""

    def __init__(self, architecture: Architecture, split: Split) -> None:
        self.layers = len(architecture.hidden) + 1
        self.skip, self.classes = architecture.skip, split.classes
        self.shapes = architecture.shapes(split.x.shape[1], split.outputs)

    def start(self, seed: int) -> Array:
        """Glorot's uniform weights, and biases like them, as scikit-learn draws them."""
        draw = np.random.default_rng(seed)
        bounds = [math.sqrt(6 / (of + to)) for of, to in self.shapes]
        weights = [draw.uniform(-b, b, of * to) for b, (of, to) in zip(bounds, self.shapes)]  # noqa: B905
        layers = list(zip(bounds, self.shapes, strict=True))[: self.layers]
        return np.concatenate([*weights, *(draw.uniform(-b, b, to) for b, (_, to) in layers)])

    def forward(self, weights: list, biases: list, x: NDArray) -> list[NDArray]:
        """What goes into each layer, and the outputs last."""
        seen = [x]
        for weight, bias in zip(weights[: self.layers], biases, strict=True):
            z = seen[-1] @ weight
            z += bias
            seen.append(z if len(seen) == self.layers else np.maximum(z, 0, out=z))
        if self.skip:
            seen[-1] += x @ weights[-1]
        return seen

    def error(self, outputs: NDArray, y: NDArray) -> tuple[float, NDArray]:
        """Mean loss, and its derivative by the outputs."""
        rows = len(outputs)
        if not self.classes:
            off = outputs - y[:, None]
            return 0.5 * float(np.square(off).mean()), off / rows
        if self.classes == 2:
            z, sign = outputs[:, 0], 2 * y - 1
            margin = np.exp(-np.abs(z))
            loss = np.log1p(margin) + np.maximum(-z * sign, 0)
            right = np.where(z >= 0, 1, margin) / (1 + margin)
            return float(loss.mean()), ((right - y) / rows)[:, None]
        z = outputs - outputs.max(1, keepdims=True)
        share = np.exp(z)
        total = share.sum(1, keepdims=True)
        chosen = (np.arange(rows), y)
        loss = float((np.log(total[:, 0]) - z[chosen]).mean())
        share /= total
        share[chosen] -= 1
        return loss, share / rows

    def objective(self, flat: Array, x: NDArray, y: NDArray, decay: float) -> tuple[float, Array]:
        weights, biases = split_up(flat.astype(x.dtype, copy=False), self.shapes, self.layers)
        seen = self.forward(weights, biases, x)
        loss, back = self.error(seen[-1], y)
        gradients, shifts = [], []
        if self.skip:
            gradients = [x.T @ back]
        for layer in reversed(range(self.layers)):
            gradients.insert(0, seen[layer].T @ back)
            shifts.insert(0, back.sum(0))
            if layer:
                back = back @ weights[layer].T
                back *= seen[layer] > 0
        shrink = decay / len(x)
        loss += 0.5 * shrink * sum(float(np.vdot(w, w)) for w in weights)
        gradients = [g + shrink * w for g, w in zip(gradients, weights, strict=True)]
        flat_gradient = np.concatenate([part.ravel() for part in (*gradients, *shifts)])
        return loss, flat_gradient.astype(float, copy=False)

    def fit(self, x: NDArray, y: NDArray, decay: float, steps: int, seeds: range) -> Array:
        """The start that ends lowest."""
        ends = [
            minimize(
                self.objective,
                self.start(seed),
                (x, y, decay),
                method="L-BFGS-B",
                jac=True,
                options={"maxiter": steps, "maxfun": 2 * steps, "gtol": 1e-5},
            )
            for seed in seeds
        ]
        return min(ends, key=lambda end: end.fun if np.isfinite(end.fun) else np.inf).x

    def outputs(self, flat: Array, x: NDArray) -> NDArray:
        return self.forward(*split_up(flat.astype(x.dtype), self.shapes, self.layers), x)[-1]


def climb(count: int, start: int, value) -> int:
    """The place of the best value among neighbours, from ``start`` uphill; values are kept."""
    known: dict[int, tuple] = {}

    def at(place: int) -> tuple:
        if place not in known:
            known[place] = value(place)
        return known[place]

    best = start
    while True:
        near = [place for place in (best - 1, best, best + 1) if 0 <= place < count]
        top = max(near, key=lambda place: (at(place), place == best))
        if top == best:
            return best
        best = top


def mlps_by_lbfgs(split: Split, effort: Effort = Effort()) -> dict:  # noqa: B008
    """Every architecture with its decay, refitted to all training rows."""
    x, x_test = split.x.astype(np.float32), split.x_test.astype(np.float32)
    y = split.y if split.classes else split.y.astype(np.float32)
    inner, points, first = folds(split), [], 1_000 * split.seed
    seeds, fold_seeds = (range(first, first + n) for n in (effort.starts, effort.fold_starts))
    for family in families(x.shape[1], split.outputs):
        place = len(effort.decays) // 2
        for architecture in family:
            fitting = Fitting(architecture, split)
            scores: dict[int, float] = {}

            def value(place: int, fitting=fitting, scores=scores) -> tuple[float, float]:
                found = []
                for fit, held in inner:
                    flat = fitting.fit(
                        x[fit], y[fit], effort.decays[place], effort.steps, fold_seeds
                    )
                    found.append(judged(fitting.outputs(flat, x[held]), y[held], split.classes))
                score, loss = np.mean(found, 0)
                scores[place] = float(score)
                return float(score), -float(loss)

            place = climb(len(effort.decays), place, value)
            flat = fitting.fit(x, y, effort.decays[place], effort.steps, seeds)
            test = judged(fitting.outputs(flat, x_test), split.y_test, split.classes)
            size = architecture.parameters(x.shape[1], split.outputs)
            made = point(size, str(architecture), scores[place], test)
            points.append({**made, "family": architecture.family, "decay": effort.decays[place]})
    return {"points": points}
