"""scikit-learn's scorers, by their names or as they are, on what networks said of rows."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.tables.target import Target

Scorer = Callable[..., float]


def found_scorer(scoring: Any, known: Sequence[str]) -> tuple[str, Scorer]:
    """The name of a scorer, and the scorer ``(estimator, X, y) → number``.

    A ValueError names those of ``known`` where there is none of that name.
    """
    if callable(scoring) and not isinstance(scoring, type):
        function = getattr(scoring, "_score_func", scoring)
        sign = "neg_" if getattr(scoring, "_sign", 1) < 0 else ""
        return f"{sign}{getattr(function, '__name__', 'score')}", scoring
    from sklearn.metrics import get_scorer, get_scorer_names

    if not isinstance(scoring, str) or scoring not in get_scorer_names():
        raise ValueError(
            f"Expected a scoring among auto, {', '.join(known)}, another name that scikit-learn "
            f"has, or a scorer. Got {scoring!r}."
        )
    return scoring, get_scorer(scoring)


def scored(scorer: Scorer, output: Tensor, target: Tensor, share: Tensor, aim: Target) -> float:
    """What ``scorer`` gives an estimator that says ``output`` (n, k) of the rows of ``target``."""
    from sklearn.exceptions import UndefinedMetricWarning

    rows = np.arange(len(output))[:, None]
    weights = {} if _is_even(share) else {"sample_weight": share.cpu().numpy()}
    if weights and not _takes_weights(scorer):
        raise ValueError(
            "Expected a scorer that takes sample_weight, as some rows count for more. Got "
            f"{scorer!r}."
        )
    estimator, labels = _estimator(output, aim), _labels(target, aim)
    with warnings.catch_warnings():  # of a network that never says a class
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return float(scorer(estimator, rows, labels, **weights))


def foreign_values(
    scorer: Scorer, output: Tensor, target: Tensor, share: Tensor, aim: Target, part: Tensor
) -> Tensor:
    """The score as a mean over rows, (n,), by a jackknife that leaves out ``part`` (n,) by part.

    v = S + (G − 1) (S̄ − S₋), of G parts, with S₋ the score without the row's part and S̄ their mean.
    """
    score, parts = scored(scorer, output, target, share, aim), int(part.max()) + 1
    without = torch.full((parts,), score, dtype=torch.float64)
    for place in range(parts) if parts > 1 else ():
        kept = part != place
        some = share[kept] / share[kept].sum()
        without[place] = scored(scorer, output[kept], target[kept], some, aim)
    value = (parts - 1) * -without.to(share.device)[part]
    return score + value - share @ value


def _labels(target: Tensor, aim: Target) -> np.ndarray:
    """The target as it was before it was encoded."""
    if aim.classes is not None:
        return np.array(aim.classes)[target.cpu().round().long().numpy()]
    values = aim.in_units(target.reshape(len(target), -1))
    return values[:, 0] if aim.outputs == 1 else values


def _estimator(output: Tensor, aim: Target) -> Any:
    """A fitted estimator of scikit-learn's whose X are the places of rows of ``output``."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class Regressor(RegressorMixin, BaseEstimator):
        def predict(self, X: np.ndarray) -> np.ndarray:
            return aim.predict(output[X[:, 0]])

    class Classifier(ClassifierMixin, BaseEstimator):
        classes_ = np.array(aim.classes)

        def predict(self, X: np.ndarray) -> np.ndarray:
            return aim.predict(output[X[:, 0]])

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return aim.probabilities(output[X[:, 0]])

        def decision_function(self, X: np.ndarray) -> np.ndarray:
            raw = output[X[:, 0]].detach().cpu().double().numpy()
            return raw[:, 0] if raw.shape[1] == 1 else raw

    return Regressor() if aim.classes is None else Classifier()


def _is_even(share: Tensor) -> bool:
    return bool(torch.allclose(share, share.mean(), rtol=1e-6, atol=0))


def _takes_weights(scorer: Scorer) -> bool:
    given = inspect.signature(scorer).parameters.values()
    return any(one.name == "sample_weight" or one.kind is one.VAR_KEYWORD for one in given)
