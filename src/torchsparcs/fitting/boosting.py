"""Gradient boosting as a teacher of small networks, where it is better than they are.

Its answers are out of fold: none is of a row that it has seen, or of one that depends on such a
row. And it answers rows that are made.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.fitting import losses_of, row_losses, with_rows_last
from torchsparcs.fitting.fit_rows import FitRows
from torchsparcs.fitting.lesson import made_count, ranges_of
from torchsparcs.parallel.executor import Executor
from torchsparcs.tables.made_rows import made_inputs
from torchsparcs.training.deadline import Turn
from torchsparcs.training.quantiles import quantile_level

PARTS = 3  # of the rows of each fit, of which each is answered by what the others taught
TREES, FEWEST_ROUNDS, RATE, LEAVES, PATIENCE = 300, 50, 0.1, 16, 10
FEW_OF_A_CLASS = 10  # rows, below which none are held out to stop early
FEWEST, FEWEST_JUDGES = 60, 20  # rows of a fit, and of those that judge it
MOST_ENTRIES = 1_000_000  # rows times columns times outputs: more would take too long
SURE = 1e-3  # chances stay so far from 0 and 1 where a loss is taken


class Known(NamedTuple):
    """Rows that trees are grown on; targets are numbers (rows, O), or classes (rows,)."""

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray  # (fits, rows)
    task: str
    outputs: int
    seed: int

    @classmethod
    def of(cls, rows: FitRows, outputs: int, seed: int) -> "Known":
        targets = rows.targets.reshape(len(rows.targets), -1).cpu().double().numpy()
        if rows.task != "regression":
            targets = targets[:, 0].astype(int)
        inputs, weights = (part.cpu().double().numpy() for part in (rows.inputs, rows.weights))
        return cls(inputs, targets, weights, rows.task, outputs, seed % 2**32)

    def boosted(self, weights: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """What boosting that has grown on rows of weight above zero says of others, (asked, O).

        Values, or the chances of classes: of two that of the second.
        """
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # as the search beside it; the sums do not depend on it then
            return self._boosted(weights, asked)

    def _boosted(self, weights: np.ndarray, asked: np.ndarray) -> np.ndarray:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        seen = weights > 0
        x, y, weights = self.inputs[seen], self.targets[seen], weights[seen]
        options: dict[str, Any] = {
            "learning_rate": RATE,
            "max_leaf_nodes": LEAVES,
            "n_iter_no_change": PATIENCE,
            "random_state": self.seed,
        }
        if self.task == "regression":
            options |= {"max_iter": TREES, "early_stopping": True}
            models = [
                HistGradientBoostingRegressor(**options).fit(x, each, weights) for each in y.T
            ]
            return np.stack([model.predict(asked) for model in models], axis=1)
        classes, counts = np.unique(y, return_counts=True)
        said = np.zeros((len(asked), max(2, self.outputs)))
        if len(classes) == 1:
            said[:, classes] = 1.0
        else:
            trees = 1 if len(classes) == 2 else len(classes)
            options["max_iter"] = max(FEWEST_ROUNDS, TREES // trees)
            options["early_stopping"] = bool(counts.min() >= FEW_OF_A_CLASS)
            model = HistGradientBoostingClassifier(**options).fit(x, y, weights)
            said[:, model.classes_] = model.predict_proba(asked)
        return said[:, 1:] if self.task == "binary" else said


def leads(rows: FitRows, group: list[DirectSpace], outputs: int, seed: int) -> bool:
    """Whether boosting has a lower loss than the networks of ``group``, by more than its error.

    The first fit is asked, on the rows that judge it. Of quantiles and of few rows boosting knows
    nothing here, and very large tables would take it too long.
    """
    if quantile_level(rows.task) is not None or rows.inputs.numel() * outputs > MOST_ENTRIES:
        return False
    device, share = group[0].weights.device, rows.shares[0]
    is_few = (rows.weights > 0).sum(dim=1).min() < FEWEST
    if is_few or (share > 0).sum() < FEWEST_JUDGES:
        return False
    x, y = (part[share > 0] for part in rows.judging)
    of_network = row_losses(group[:1], (x.to(device), y.to(device)), rows.task)[0]
    of_trees = _losses(Known.of(rows, outputs, seed), (x.cpu(), y.cpu()))
    gains, share = of_network.cpu() - of_trees, (share[share > 0] / share.sum()).cpu()
    mean = (gains * share).sum()
    error = ((gains - mean).square() * share.square()).sum().sqrt()
    return bool(mean > error)


def _losses(known: Known, judging: tuple[Tensor, Tensor]) -> Tensor:
    """The loss of boosting like the first fit on each of some rows, (rows,)."""
    said = torch.from_numpy(known.boosted(known.weights[0], judging[0].double().numpy()))
    if known.task == "binary":
        said = said.clamp(SURE, 1 - SURE).logit()
    elif known.task == "multiclass":
        said = said.clamp_min(SURE).log()
    _, target = with_rows_last(judging, known.task, torch.float32, known.outputs)
    return losses_of(known.task)(said.T.float()[None], target)[0][0]


def lesson(rows: FitRows, outputs: int, seed: int, executor: Executor) -> list[Tensor] | None:
    """What boosting says of the rows of each fit and of made ones: the tensors of a lesson.

    The rows of a fit are dealt out into parts, those of a cluster into one; of each, boosting
    speaks that has grown on the others. Of made rows all of them do, on average. None where there
    was no time.
    """
    known, count = Known.of(rows, outputs, seed), made_count(len(rows.inputs))
    is_numeric = known.task == "regression"
    kinds = ranges_of(rows.targets.reshape(len(rows.targets), -1)[:, 0].cpu())
    kinds = kinds if is_numeric else known.targets
    made = executor.first(lambda: made_inputs(known.inputs, rows.columns, kinds, count, seed))
    part = _parts(rows, seed)
    items = [(fit, each) for fit in range(rows.fits) for each in range(PARTS)]
    work = partial(_answered, known, part, made.X, executor.turn(len(items)))
    said = torch.zeros(rows.fits, len(known.inputs), outputs)
    answers = torch.zeros(rows.fits, count, outputs)
    for (fit, each), found in zip(items, executor.map(work, items), strict=True):
        if found is None:
            return None
        said[fit, torch.from_numpy(part == each)] = found[0]
        answers[fit] += found[1] / PARTS
    parents = torch.from_numpy(np.stack([made.base, made.partner], axis=1))
    return [said, torch.from_numpy(made.X).float(), answers, parents]


def _parts(rows: FitRows, seed: int) -> np.ndarray:
    """The part of each row, (rows,)."""
    codes = np.arange(len(rows.inputs))
    if rows.clusters is not None:
        codes = np.unique(rows.clusters.numpy(), return_inverse=True)[1]
    return np.random.default_rng(seed % 2**63).permutation(codes.max() + 1)[codes] % PARTS


def _answered(
    known: Known, part: np.ndarray, made: np.ndarray, turn: Turn, item: tuple[int, int]
) -> tuple[Tensor, Tensor] | None:
    """What boosting like a fit says of one part of the rows, and of made ones, (.., O)."""
    fit, each = item
    weights = known.weights[fit] * (part != each)
    if turn.whole.is_over or not weights.any():
        return None
    asked = np.concatenate([known.inputs[part == each], made])
    said = torch.from_numpy(known.boosted(weights, asked)).float()
    return said[: -len(made)], said[-len(made) :]
