"""A teacher for small networks: a forest, and what it says of rows that its trees have not seen."""

import warnings
from functools import partial

import numpy as np
import torch
from torch import Tensor

from torchsparcs.fitting.fit_rows import FitRows
from torchsparcs.parallel.executor import Executor
from torchsparcs.training.quantiles import quantile_level

TREES, FEWEST_TREES = 100, 10  # of a forest, and of one for a quick look
FEWEST = 10  # rows that trees are grown on
MOST_ENTRIES = 2_000_000  # rows times columns of one forest: a larger one would take too long


def lessons(
    rows: FitRows, outputs: int, seed: int, executor: Executor, effort: float = 1.0
) -> Tensor | None:
    """What a forest says of the rows of each fit, (fits, rows, O); None for quantiles.

    A forest is grown on the rows of one fit, and of each row only those trees speak that have not
    seen it: neither the rows that judge nor a label of its own are in what a network is taught. Of
    classes they are probabilities. Where no tree may speak, and of other rows, the target stands.
    How much rows count is left to the fits of the networks. Very large tables have no teacher.
    ``effort`` is a share of the usual trees.
    """
    if quantile_level(rows.task) is not None or rows.inputs.numel() > MOST_ENTRIES:
        return None
    x, y = rows.inputs.cpu().double().numpy(), rows.targets.cpu().double().numpy()
    trees = max(FEWEST_TREES, round(TREES * effort))
    work = partial(_out_of_bag, x, y, rows.task, outputs, seed, trees)
    said = executor.map(work, [*(rows.weights > 0).cpu().numpy()])
    return torch.from_numpy(np.stack(said)).float().to(rows.inputs.device)


def _out_of_bag(
    x: np.ndarray,
    y: np.ndarray,
    task: str,
    outputs: int,
    seed: int,
    trees: int,
    seen: np.ndarray,
) -> np.ndarray:
    """(rows, O) of one fit."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    if seen.sum() < FEWEST:  # every tree has seen them
        known = y if task == "regression" else np.eye(max(2, outputs))[y.reshape(-1).astype(int)]
        return known[:, 1:] if task == "binary" else known.reshape(len(y), -1)
    options = {
        "n_estimators": trees,
        "bootstrap": True,
        "oob_score": True,
        "random_state": seed % 2**32,
        "n_jobs": 1,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores", UserWarning)
        if task == "regression":
            said = y.reshape(len(y), -1).copy()
            forest = ExtraTreesRegressor(**options).fit(x[seen], said[seen].squeeze())
            spoken = forest.oob_prediction_.reshape(int(seen.sum()), -1)
            has_voice = np.isfinite(spoken).all(axis=1)
        else:
            classes = y.reshape(-1).astype(int)
            one_hot = np.eye(max(2, outputs))[classes]
            forest = ExtraTreesClassifier(**options).fit(x[seen], classes[seen])
            chances = np.zeros((int(seen.sum()), one_hot.shape[1]))
            chances[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_)
            has_voice = chances.sum(axis=1) > 0.5
            is_binary = task == "binary"
            said, spoken = (one_hot[:, 1:], chances[:, 1:]) if is_binary else (one_hot, chances)
    said[seen] = np.where(has_voice[:, None], spoken, said[seen])
    return said
