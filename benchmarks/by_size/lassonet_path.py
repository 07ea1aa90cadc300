"""LassoNet (Lemhadri, Ruan, Abraham, Tibshirani 2021), by its authors' package `lassonet`.

A hidden layer beside a skip: a column may enter the hidden layer only as far as the skip takes it,
and a path of penalties takes column after column. Every network of the path is one of the front;
two widths make it go from small sizes to large ones. Optimisers, epochs and early stopping are the
package's defaults, the learning rate is ten times its own; penalties and widths are judged on the
folds, along the path of penalties that the fit to all training rows went.
"""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from by_size.preparing import Array, Split, folds, front, judged, point


class Settings(NamedTuple):
    widths: tuple[int, ...] = (4, 32)
    rate: float = 1e-2  # with the package's own, 1e-3, phoneme's dense network fell short
    multiplier: float = 1.3  # from a penalty of the path to the next
    epochs: tuple[int, int] = (1_000, 100)  # at most: of the dense network, and of each penalty


class Direct(NamedTuple):
    """What predicts: hidden weights (width, columns), those to the outputs, and the skip."""

    hidden: Array
    hidden_bias: Array
    outward: Array
    bias: Array
    skip: Array

    @property
    def parameters(self) -> int:
        return sum(int(np.count_nonzero(part)) for part in self)

    def outputs(self, x: NDArray) -> NDArray:
        heard = np.maximum(x @ self.hidden.T + self.hidden_bias, 0)
        return heard @ self.outward.T + x @ self.skip.T + self.bias


def direct(state: dict[str, Any], classes: int) -> Direct:
    """The network of a state: one output for two classes, neurons that hear nothing in the bias."""
    hidden, hidden_bias, outward, bias, skip = (
        state[name].numpy().astype(float)
        for name in (
            "layers.0.weight",
            "layers.0.bias",
            "layers.1.weight",
            "layers.1.bias",
            "skip.weight",
        )
    )
    if classes == 2:
        outward, bias, skip = (part[1:] - part[:1] for part in (outward, bias, skip))
    hears = (hidden != 0).any(1)
    bias = bias + outward[:, ~hears] @ np.maximum(hidden_bias[~hears], 0)
    return Direct(hidden[hears], hidden_bias[hears], outward[:, hears], bias, skip)


def path(
    split: Split, rows: NDArray, model: Any, penalties: list[float] | None
) -> list[tuple[float, Direct]]:
    """Penalties and networks, the dense one first; ``penalties`` None: the package finds them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lambda_start")  # that its path begins late
        y = split.y[rows] if split.classes else split.y[rows].astype(np.float32)
        found = model.path(
            split.x[rows].astype(np.float32), y, lambda_seq=penalties, return_state_dicts=True
        )
    return [(one.lambda_, direct(one.state_dict, split.classes)) for one in found]


def lassonet(split: Split, settings: Settings = Settings()) -> dict:  # noqa: B008
    """Every network of the paths, by its score on the folds."""
    from lassonet import LassoNetClassifier, LassoNetRegressor

    kind = LassoNetClassifier if split.classes else LassoNetRegressor
    inner, points = folds(split), []
    descents = (torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9))
    for width in settings.widths:
        model = kind(
            hidden_dims=(width,),
            path_multiplier=settings.multiplier,
            optim=tuple(partial(descent, lr=settings.rate) for descent in descents),
            n_iters=settings.epochs,
            device=torch.device(split.device),
            verbose=0,
            random_state=split.seed,
            torch_seed=split.seed,
        )
        whole = path(split, np.arange(len(split.y)), model, None)
        penalties = [penalty for penalty, _ in whole[1:]]
        scores = []
        for fit, held in inner:
            found = [
                judged(network.outputs(split.x[held]), split.y[held], split.classes)[0]
                for _, network in path(split, fit, model, penalties)
            ]
            scores.append(found + found[-1:] * (len(whole) - len(found)))  # nothing was left
        for (penalty, network), validation in zip(whole, np.mean(scores, 0), strict=True):
            test = judged(network.outputs(split.x_test), split.y_test, split.classes)
            name = f"{width} hidden, penalty {penalty:.3g}"
            points.append(point(network.parameters, name, float(validation), test))
    return {"points": front(points, "parameters"), "device": split.device}
