"""A teacher for small networks: a forest, and what it says of rows that its trees have not seen."""

import numpy as np
import torch
from torch import Tensor

from torchsparcs.searching.fit_rows import FitRows
from torchsparcs.training.quantiles import quantile_level

TREES = 100


def lessons(rows: FitRows, seed: int) -> Tensor | None:
    """What a forest says of the rows of each fit, (fits, rows, O); None for quantiles.

    A forest is grown on the rows of one fit, and of each row only those trees speak that have not
    seen it: neither the rows that judge nor a label of its own are in what a network is taught. Of
    classes they are probabilities. Where no tree may speak, and of other rows, the target stands.
    """
    if quantile_level(rows.task) is not None:
        return None
    x, y = rows.inputs.cpu().double().numpy(), rows.targets.cpu().double().numpy()
    said = [_out_of_bag(x, y, weights, rows.task, seed) for weights in rows.weights.cpu().numpy()]
    return torch.from_numpy(np.stack(said)).float().to(rows.inputs.device)


def _out_of_bag(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, task: str, seed: int
) -> np.ndarray:
    """(rows, O) of one fit."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    seen = weights > 0
    options = {
        "n_estimators": TREES,
        "bootstrap": True,
        "oob_score": True,
        "random_state": seed % 2**32,
        "n_jobs": 1,
    }
    if task == "regression":
        said = y.reshape(len(y), -1).copy()
        forest = ExtraTreesRegressor(**options)
        forest.fit(x[seen], y[seen].squeeze(), sample_weight=weights[seen])
        spoken = forest.oob_prediction_.reshape(int(seen.sum()), -1)
    else:
        classes = int(y.max()) + 1
        one_hot = np.eye(max(2, classes))[y.reshape(-1).astype(int)]
        forest = ExtraTreesClassifier(**options)
        forest.fit(x[seen], y[seen].reshape(-1).astype(int), sample_weight=weights[seen])
        chances = np.zeros((int(seen.sum()), one_hot.shape[1]))
        chances[:, forest.classes_] = forest.oob_decision_function_
        binary = task == "binary"
        said, spoken = (one_hot[:, 1:], chances[:, 1:]) if binary else (one_hot, chances)
    said[seen] = np.where(np.isfinite(spoken), spoken, said[seen])
    return said
