"""The search as scikit-learn estimators."""

import copy
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.judging.folds import is_splitter
from torchsparcs.results.intervals import interval_around
from torchsparcs.results.result import SearchResult, most_cost
from torchsparcs.searching.costs import Costs
from torchsparcs.searching.refit import refit
from torchsparcs.searching.search import SearchConfig, search
from torchsparcs.tables.columns import has_text
from torchsparcs.tables.distinct import distinct_rows
from torchsparcs.tables.kinds import Kinds
from torchsparcs.tables.standardization import weights_of
from torchsparcs.tables.target_values import has_target
from torchsparcs.training.tasks import evaluation_mode

PICKS = ("smallest", "best")
NUMBERS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


class _Sparcs(BaseEstimator):
    """What both have in common."""

    task: str
    target_rules: dict[str, Any]  # for scikit-learn's check of y
    result_: SearchResult

    def __init__(
        self,
        *,
        widths: Sequence[int] | None = None,
        pick: str = "smallest",
        max_parameters: int | None = None,
        max_bytes: int | str | None = None,
        size: str = "parameters",
        chip: str | None = None,
        int8: bool = False,
        validation: Any = "auto",
        scoring: Any = "auto",
        penalty_weights: Sequence[float] | str = "auto",
        kinds: Kinds | None = None,
        costs: Costs | None = None,
        teacher: Any = None,
        teacher_fit: Any = None,
        extra_rows: Any = None,
        activation: str = "relu",
        steps: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        time_budget: float | None = None,
        device: str = "auto",
        verbose: bool = False,
    ):
        self.widths = widths
        self.pick = pick
        self.max_parameters = max_parameters
        self.max_bytes = max_bytes
        self.size = size
        self.chip = chip
        self.int8 = int8
        self.validation = validation
        self.scoring = scoring
        self.penalty_weights = penalty_weights
        self.kinds = kinds
        self.costs = costs
        self.teacher = teacher
        self.teacher_fit = teacher_fit
        self.extra_rows = extra_rows
        self.activation = activation
        self.steps = steps
        self.warm_start = warm_start
        self.random_state = random_state
        self.time_budget = time_budget
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Any:
        """Search on ``X`` (rows, columns) and ``y``; with ``warm_start`` the next fit refines.

        Weights (rows,) count by their ratios, and a row of weight zero is not there. Rows that are
        equal in X and y are one row with the sum of their weights: no copy of a row judges a
        network that was fitted to it, and rows that are repeated, weighted or in another order
        lead to the same fit, to the last bit. Where ``validation`` is a splitter, rows stay as
        they are and in their order, and ``groups`` (rows,) are for it.
        """
        picks = (*PICKS, "cost:X") if self.costs else PICKS
        is_cost = bool(self.costs) and most_cost(str(self.pick)) is not None
        if self.pick not in PICKS and not is_cost:
            raise ValueError(f"Expected pick to be one of {', '.join(picks)}. Got {self.pick!r}.")
        goes_on = bool(self.warm_start) and hasattr(self, "result_")
        if goes_on and not (self.teacher is None and self.teacher_fit is None):
            raise ValueError("Expected no teacher in a fit that goes on: it fine-tunes by labels.")
        table, target = self._checked_table(X, y, reset=not goes_on)
        weight = weights_of(sample_weight, len(target))
        if is_splitter(self.validation):
            rows = np.arange(len(target))
        else:
            rows, weight = distinct_rows(table, target, weight)
        table = table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]
        target = target[rows]
        options: dict[str, Any] = {
            "validation": self.validation,
            "sample_weight": weight,
            **self._of_classes(),
            "seed": self._seed(),
            "device": self.device,
            "progress": bool(self.verbose),
        }
        if groups is not None:
            options["groups"] = np.asarray(groups)[rows] if len(groups) == len(rows) else groups
        if goes_on:
            scoring = self.scoring if callable(self.scoring) else None
            self.result_ = refit(
                self.result_, table, target, steps=self.steps, scoring=scoring, **options
            )
        else:
            self._learn_classes(target)
            self.result_ = search(
                table,
                target,
                task=self.task,
                widths=self.widths,
                penalty_weights=self.penalty_weights,
                max_parameters=self.max_parameters,
                max_bytes=self.max_bytes,
                size=self.size,
                chip=self.chip,
                int8=self.int8,
                scoring=self.scoring,
                kinds=self.kinds,
                costs=self.costs,
                teacher=self.teacher,
                teacher_fit=self.teacher_fit,
                extra_rows=self.extra_rows,
                activation=self.activation,
                config=_config(self.steps),
                time_budget=self.time_budget,
                **options,
            )
        chosen = self.result_.pick(self.pick)
        self.front_ = self.result_.front
        self.network_ = chosen.network
        self.architecture_ = chosen.architecture
        self.history_ = self.result_.history_of(chosen)
        return self

    def _checked_table(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        """Columns and target by scikit-learn's own checks; text is left to ``Inputs``."""
        X = _frame_if_foreign(X)
        missing = 0 if y is None else int((~has_target(y)).sum())
        if missing:
            raise ValueError(
                f"Expected a target in every row. Input y contains NaN: it is missing in "
                f"{missing:,} of {len(y):,} rows. Leave them out of X and y."
            )
        rules = {"ensure_min_samples": 2, **self.target_rules}
        if has_text(X):
            validate_data(self, X, y, reset=reset, skip_check_array=True)
            _, target = check_X_y(np.zeros((len(X), 1)), y, estimator=self, **rules)
            return X.reset_index(drop=True), self._as_target(target)
        table, target = validate_data(self, X, y, reset=reset, **NUMBERS, **rules)
        if isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            table = pd.DataFrame(table, columns=self.feature_names_in_)
        return table, self._as_target(target)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _as_target(self, y: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _learn_classes(self, y: np.ndarray) -> None:
        pass

    def _of_classes(self) -> dict[str, Any]:
        """The options of a search that only classes have."""
        return {}

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _outputs(self, X: Any) -> Tensor:
        """Raw, (rows, outputs), in float64: in float32 a row's neighbours show in its last bits."""
        check_is_fitted(self)
        X = _frame_if_foreign(X)
        inputs = self.result_.inputs
        if has_text(X) or any(column.categories for column in inputs.columns):
            X = validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, **NUMBERS)
        network = copy.deepcopy(self.network_).cpu().double()
        assert isinstance(network, CompactNetwork)
        with evaluation_mode(network):
            return network(inputs.transform(X, network.reads).double())


class SparcsClassifier(ClassifierMixin, _Sparcs):
    """The smallest network that tells the classes apart, found by :func:`torchsparcs.search`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = SparcsClassifier(steps=100, penalty_weights=[1e-3], validation=0.25, random_state=0)
    >>> _ = model.fit(X, y)
    >>> model.predict_proba(X).shape, model.score(X, y) > 0.9
    ((150, 3), True)

    Args:
        widths, max_parameters, max_bytes, size, chip, int8: as in ``search``.
        validation, penalty_weights, kinds, activation, time_budget, device: as in ``search``.
        costs: as in ``search``; ``result_`` has the front of score against costs.
        teacher, teacher_fit, extra_rows: as in ``search``. scikit-learn forgets what an estimator
            has learnt where it makes copies, as in a grid search: give ``teacher_fit`` there.
        scoring: as in ``search``; the method ``score`` is accuracy, or R², whatever the scoring.
        pick: from the front, "smallest" (within a standard error of the best score) or "best";
            with costs also "cost:12", the best score of what costs at most that.
        steps: of the training; by default as many as ``SearchConfig`` says.
        class_weight: {label: weight}, "balanced" (each class counts the same, whatever its rows
            weigh) or None.
        calibrate: as in ``search``; of classes alone.
        warm_start: a second ``fit`` fine-tunes the front it finds on the new rows, by
            :func:`torchsparcs.refit`, instead of searching anew: other rows, the same columns,
            no new classes, the same architectures.
        random_state: a seed, a ``RandomState``, or None for another outcome every time.
        verbose: show progress.

    Attributes:
        front_: the candidates, from the smallest to the best; quote their ``expected`` scores,
            which are corrected for the choice among many.
        network_: the picked ``CompactNetwork``, from standardised columns to raw outputs.
        architecture_: of that network, in words.
        history_: of the training it comes from.
        classes_: the labels, sorted.
        n_features_in_, feature_names_in_: of the columns; names where all are text.
        result_: all of the ``SearchResult``.

    Shape:
        - X (rows, columns), an array, or a DataFrame that may have columns of text; y (rows,)
        - ``predict`` (rows,), ``predict_proba`` (rows, classes)
    """

    task = "classification"
    target_rules: dict[str, Any] = {}  # noqa: RUF012

    def __init__(
        self,
        *,
        widths: Sequence[int] | None = None,
        pick: str = "smallest",
        max_parameters: int | None = None,
        max_bytes: int | str | None = None,
        size: str = "parameters",
        chip: str | None = None,
        int8: bool = False,
        validation: Any = "auto",
        scoring: Any = "auto",
        penalty_weights: Sequence[float] | str = "auto",
        kinds: Kinds | None = None,
        costs: Costs | None = None,
        teacher: Any = None,
        teacher_fit: Any = None,
        extra_rows: Any = None,
        activation: str = "relu",
        steps: int | None = None,
        class_weight: Any = None,
        calibrate: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        time_budget: float | None = None,
        device: str = "auto",
        verbose: bool = False,
    ):
        super().__init__(
            widths=widths,
            pick=pick,
            max_parameters=max_parameters,
            max_bytes=max_bytes,
            size=size,
            chip=chip,
            int8=int8,
            validation=validation,
            scoring=scoring,
            penalty_weights=penalty_weights,
            kinds=kinds,
            costs=costs,
            teacher=teacher,
            teacher_fit=teacher_fit,
            extra_rows=extra_rows,
            activation=activation,
            steps=steps,
            warm_start=warm_start,
            random_state=random_state,
            time_budget=time_budget,
            device=device,
            verbose=verbose,
        )
        self.class_weight = class_weight
        self.calibrate = calibrate

    def predict(self, X: Any) -> np.ndarray:
        """The labels, (rows,)."""
        output = self._outputs(X)
        return self.result_.target.predict(output).astype(self.classes_.dtype)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, (rows, classes), in the order of ``classes_``."""
        output = self._outputs(X)
        return self.result_.target.probabilities(output)

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits, (rows, classes); of two classes (rows,), positive for the second."""
        output = self._outputs(X).numpy()
        return output[:, 0] if output.shape[1] == 1 else output

    def _as_target(self, y: np.ndarray) -> np.ndarray:
        check_classification_targets(y)
        return y

    def _learn_classes(self, y: np.ndarray) -> None:
        self.classes_ = np.unique(y)

    def _of_classes(self) -> dict[str, Any]:
        return {"class_weight": self.class_weight, "calibrate": self.calibrate}


class SparcsRegressor(RegressorMixin, _Sparcs):
    """The smallest network that predicts the numbers, found by :func:`torchsparcs.search`.

    >>> x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> model = SparcsRegressor(steps=100, penalty_weights=[1e-3], validation=0.25, random_state=0)
    >>> model.fit(x, np.abs(x[:, 0])).score(x, np.abs(x[:, 0])) > 0.9
    True

    Parameters and attributes are those of :class:`SparcsClassifier`, without classes.

    Shape:
        - X (rows, columns), an array, or a DataFrame that may have columns of text
        - y and ``predict`` (rows,) or (rows, outputs); one column of y is predicted as (rows,)
    """

    task = "regression"
    target_rules: dict[str, Any] = {"y_numeric": True, "multi_output": True}  # noqa: RUF012

    def predict(self, X: Any) -> np.ndarray:
        """Values in their own units, (rows,) or (rows, outputs)."""
        output = self._outputs(X)
        return self.result_.target.predict(output)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """From and to between which values lie, as often as ``coverage``.

        (rows, 2), or (rows, outputs, 2), see :meth:`SearchResult.predict_interval`.
        """
        output, result = self._outputs(X), self.result_
        residuals, rows = result.pick(self.pick).residuals, result.settings["judged_rows"]
        return interval_around(output, residuals, rows, coverage, result.target)

    def _as_target(self, y: np.ndarray) -> np.ndarray:
        return y.astype(np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _config(steps: int | None) -> SearchConfig:
    return SearchConfig() if steps is None else SearchConfig(steps=steps, epochs=1, longest=steps)


def _frame_if_foreign(X: Any) -> Any:
    """Other libraries' DataFrames as pandas has them."""
    return X.to_pandas() if hasattr(X, "to_pandas") else X
