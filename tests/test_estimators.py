"""The estimators are scikit-learn's, in every check it has, and do what they say beside."""

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import BaggingClassifier
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, GroupKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import torchsparcs
from torchsparcs import SearchConfig, SparcsClassifier, SparcsRegressor, estimators
from torchsparcs.searching.refit import refit
from torchsparcs.training.train import train

SHORT = {"widths": (8,), "penalty_weights": (1e-3,), "validation": 2, "random_state": 0}
QUICK = SearchConfig(
    steps=30, epochs=1, longest=30, ways=("asleep",), shrink=0.2, tune_share=0.5, lr=0.03
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(estimators, "_config", lambda steps: QUICK)


def table(rows=80):
    """Numbers and text, and a target that is the sum of two columns."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(rows, 2)), columns=["age", "noise"])
    frame["city"] = draw.choice(["Oslo", "Rome"], rows)
    return frame, frame["age"] + 3 * (frame["city"] == "Rome")


@pytest.mark.parametrize("kind", [SparcsClassifier, SparcsRegressor])
def test_every_check_of_scikit_learn(kind, monkeypatch):
    shorter = dataclasses.replace(QUICK, steps=10, longest=10, shrink=0.1)
    monkeypatch.setattr(estimators, "_config", lambda steps: shorter)
    checks = check_estimator(kind(**{**SHORT, "widths": (4,), "random_state": None}), on_skip=None)
    others = {check["check_name"] for check in checks if check["status"] != "passed"}
    assert len(checks) > 50
    assert others <= {"check_array_api_input"}  # skipped where SciPy's array API is off


def test_the_library_loads_without_scikit_learn():
    code = "import sys, torchsparcs; assert not {'sklearn', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'SparcsGuess'"):
        torchsparcs.SparcsGuess  # noqa: B018


def test_bytes_of_a_chip_are_a_size():
    X, y = table()
    options = {"size": "bytes", "chip": "cortex-m0", "int8": True, "max_bytes": "0.5kB"}
    model = SparcsRegressor(**SHORT, **options).fit(X, y)
    assert model.result_.size.unit == "bytes"
    assert all(each.bytes <= 500 and each.int8_score is not None for each in model.front_)


def test_a_table_with_text_and_labels_that_are_text():
    X, y = table()
    labels = np.where(y > 1.5, "warm", "cold").astype(object)
    model = SparcsClassifier(**SHORT).fit(X, labels)
    assert model.score(X, labels) > 0.9
    assert model.classes_.tolist() == ["cold", "warm"]
    assert model.predict(X).dtype == model.classes_.dtype == object
    assert list(model.feature_names_in_) == ["age", "noise", "city"]
    assert model.result_.preprocessing.inputs.encoded_names == ("age", "noise", "city=Rome")
    assert (model.result_.predict(X) == model.predict(X)).all()
    chosen = model.predict_proba(X).argmax(axis=1)
    assert (model.classes_[chosen] == model.predict(X)).all()
    assert ((model.decision_function(X) > 0) == chosen).all()
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(X[["city", "age", "noise"]])
    numbers = X[["age", "noise"]]
    assert SparcsRegressor(**SHORT).fit(numbers, y).result_.preprocessing.inputs.names == (
        "age",
        "noise",
    )


def test_missing_values_and_dates():
    X, y = table()
    X["day"] = pd.date_range("2024-01-01", periods=len(X))
    X.loc[::5, "age"], X.loc[::7, "city"], X.loc[::9, "day"] = np.nan, None, pd.NaT
    y = y.where(X["age"].notna(), 9.0).astype(float)
    y = y.where(X["city"].notna(), -5.0)
    model = SparcsRegressor(**SHORT).fit(X, y)
    assert {"age is missing", "city is missing", "day: Monday"} < {
        *model.result_.inputs.encoded_names
    }
    assert np.isfinite(model.predict(X)).all()
    numbers = X[["age", "noise"]]
    model = SparcsRegressor(**SHORT).fit(numbers.to_numpy(), y)
    assert model.result_.inputs.encoded_names == ("x0", "x0 is missing", "x1")
    assert np.isfinite(model.predict(numbers.to_numpy())).all()
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(numbers, y.where(y > 0))


def test_costs_of_columns_and_a_pick_by_them():
    X, y = table()
    model = SparcsRegressor(costs={"city": 5.0, "noise": 1.0}, pick="cost:1", **SHORT).fit(X, y)
    chosen = model.result_.within_cost(1)
    assert chosen.cost <= 1
    assert chosen.network is model.network_
    assert max(found.cost for found in model.result_.by_cost) >= 5
    assert clone(model).costs == model.costs
    with pytest.raises(ValueError, match="'town'"):
        SparcsRegressor(costs={"town": 5.0}, **SHORT).fit(X, y)


def test_a_pick_that_nobody_knows_is_told_before_the_search(monkeypatch):
    X, y = table()
    monkeypatch.setattr(estimators, "search", lambda *_, **__: pytest.fail("it searched"))
    for costs in (None, {}):
        with pytest.raises(ValueError, match=r"one of smallest, best\. Got 'cost:1'"):
            SparcsRegressor(costs=costs, pick="cost:1", **SHORT).fit(X, y)
    for pick in ("cheap", "cost:abc", "cost:-1", "cost:nan", "cost:"):
        with pytest.raises(ValueError, match=rf"smallest, best, cost:X\. Got '{pick}'"):
            SparcsRegressor(costs={"city": 5.0}, pick=pick, **SHORT).fit(X, y)


def test_rows_without_a_target_are_answered_by_the_teacher():
    X, y = table()
    asked = []

    def teacher(rows):
        asked.append(len(rows))
        return np.asarray(rows["age"]) + 3 * (rows["city"] == "Rome").to_numpy()

    more = pd.concat([X.sample(frac=1, random_state=1)] * 5).assign(noise=0.0)
    model = SparcsRegressor(teacher=teacher, extra_rows=more, **SHORT).fit(X, y)
    assert model.extra_rows is more
    with_more, asked[:] = sum(asked), []
    SparcsRegressor(teacher=teacher, **SHORT).fit(X, y)
    assert with_more != sum(asked)
    with pytest.raises(ValueError, match="teacher"):
        SparcsRegressor(extra_rows=more, **SHORT).fit(X, y)


def test_several_outputs():
    X, y = table()
    both = np.column_stack([y, 100 - 5 * X["age"]])
    model = SparcsRegressor(**SHORT).fit(X, both)
    assert model.predict(X).shape == both.shape
    assert model.score(X, both) > 0.9


def test_balanced_classes_find_the_rare_one():
    X, y = make_blobs([95, 5], centers=[(0, 0), (1.5, 1.5)], random_state=0)
    plain, balanced = (
        recall_score(y, SparcsClassifier(class_weight=weight, **SHORT).fit(X, y).predict(X))
        for weight in (None, "balanced")
    )
    assert balanced > plain + 0.3
    by_hand = SparcsClassifier(class_weight={0: 0.0, 1: 1.0}, **SHORT)
    with pytest.raises(ValueError, match="class"):
        by_hand.fit(X, y)


def test_weighted_rows_are_repeated_rows():
    """To the last bit, in whatever order, also where rows repeat that weigh something."""
    X, y = table(40)
    both = pd.concat([X, X]), np.concatenate([y, -y])  # two answers to every row
    counts = np.arange(40) % 3 + 1
    weight = np.concatenate([counts, np.zeros(40)])
    model = SparcsRegressor(**SHORT)
    weighted = model.fit(*both, sample_weight=weight).predict(X)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(40), counts))
    repeated = X.iloc[order], y.iloc[order]
    assert np.array_equal(weighted, model.fit(*repeated).predict(X))
    assert model.result_.settings["rows"] == 40
    each = (weight[:40] * 5 / counts)[order]
    assert np.array_equal(weighted, model.fit(*repeated, sample_weight=each).predict(X))
    assert not np.array_equal(weighted, model.fit(X, y).predict(X))
    assert model.fit(*both, sample_weight=weight + 0.01).score(X, y) > 0.9
    assert model.fit(*both).score(X, y) < 0.5
    assert model.result_.settings["rows"] == 80  # another answer is another row
    with pytest.raises(ValueError, match="not negative"):
        model.fit(*both, sample_weight=-weight)


def test_balanced_classes_count_what_rows_weigh():
    X, y = make_blobs([30, 10], centers=[(0, 0), (1.5, 1.5)], random_state=0)
    weight = np.arange(40) % 3 + 1
    rows = np.repeat(np.arange(40), weight)
    model = SparcsClassifier(class_weight="balanced", **SHORT)
    weighted = model.fit(X, y, sample_weight=weight).predict_proba(X)
    assert np.array_equal(weighted, model.fit(X[rows], y[rows]).predict_proba(X))


class TestRandomLabels:
    """What cannot be known is not known: no copy of a row judges a network fitted to it.

    Where one does, scores are 0.85 and more.
    """

    X = np.random.default_rng(0).normal(size=(80, 5))
    y = np.random.default_rng(1).integers(0, 2, 80)

    @pytest.fixture(autouse=True)
    def _long_enough_to_memorise(self, monkeypatch):
        config = dataclasses.replace(QUICK, steps=150, longest=150, tune_share=0.1)
        monkeypatch.setattr(estimators, "_config", lambda steps: config)

    def model(self):
        options = {"widths": (32,), "penalty_weights": (1e-4,), "validation": 4, "random_state": 0}
        return SparcsClassifier(pick="best", **options)

    def test_with_weights(self):
        plain = self.model().fit(self.X, self.y)
        assert plain.result_.best().expected < 0.6
        tripled = self.model().fit(self.X, self.y, sample_weight=np.full(80, 3))
        assert tripled.result_.best().score == plain.result_.best().score
        weighted = self.model().fit(self.X, self.y, sample_weight=2 + np.arange(80) % 3)
        assert weighted.result_.best().expected < 0.6

    def test_in_rows_that_repeat(self):
        rows = np.repeat(np.arange(80), 3)
        repeated = self.model().fit(self.X[rows], self.y[rows])
        assert repeated.result_.best().expected < 0.6

    def test_in_bags(self):
        bags = BaggingClassifier(self.model(), n_estimators=2, random_state=0).fit(self.X, self.y)
        assert max(bag.result_.best().expected for bag in bags.estimators_) < 0.6


def test_a_splitter_sees_the_rows_in_their_order():
    """The later half is noise, and what judges in time is later: it cannot look good."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(80, 3))
    y = np.where(np.arange(80) < 40, x[:, 0], draw.normal(size=80))
    short = {**SHORT, "validation": TimeSeriesSplit(3)}
    later = SparcsRegressor(**short).fit(x, y).result_
    assert later.settings["judged_rows"] == 60
    earlier = SparcsRegressor(**short).fit(x[::-1], y[::-1]).result_
    assert later.linear.score != earlier.linear.score
    grouped = SparcsRegressor(**{**SHORT, "validation": GroupKFold(2)})
    assert grouped.fit(x, y, groups=np.arange(80) // 4).result_.settings["fits"] == 3
    with pytest.raises(ValueError, match="a group for each of 80 rows"):
        grouped.fit(x, y, groups=[1, 2])


def test_in_a_pipeline_that_a_grid_search_fits_in_processes():
    X, _ = table()
    options = {**SHORT, "steps": 20}
    pipeline = make_pipeline(StandardScaler(), SparcsRegressor(**options))
    grid = {"sparcsregressor__pick": ["smallest", "best"]}
    found = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(X[["age"]], X["age"] ** 2)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_estimator_[-1].network_.widths[0] == 1


def test_fitted_attributes_survive_pickling_and_clones_have_none():
    X, y = table()
    model = SparcsRegressor(pick="best", **SHORT).fit(X, y)
    best = model.result_.best()
    assert model.front_ is model.result_.front
    assert model.network_ is best.network
    assert model.architecture_ == best.architecture
    assert model.history_ == model.result_.history_of(best)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.architecture_ == model.architecture_
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "network_")
    with pytest.raises(ValueError, match=r"pick to be one of smallest, best\. Got 'largest'"):
        copied.set_params(pick="largest").fit(X, y)


def test_warm_start_goes_on_from_the_networks_that_are_there():
    X, y = table()
    model = SparcsRegressor(warm_start=True, pick="best", **SHORT).fit(X, y)
    before = model.result_
    shifted = y + 1
    assert model.score(X, shifted) < 0.8
    model.set_params(steps=200).fit(X, shifted)
    assert model.score(X, shifted) > 0.9
    assert model.result_.inputs is before.inputs
    assert model.result_.target.high[0] == pytest.approx(before.target.high[0] + 1)
    known = {found.architecture for found in (*before.front, before.linear)}
    assert {found.architecture for found in model.front_} <= known
    assert model.history_.epochs == model.result_.history.epochs == 150  # the most there are
    with pytest.raises(ValueError, match="feature names should match"):
        model.fit(X[["age", "city"]], y)
    model.set_params(warm_start=False).fit(X, y)
    assert model.result_.history.epochs == 30


def test_refit_judges_on_rows_that_were_not_fitted_to():
    X, y = table(200)
    noise = np.random.default_rng(2).permutation(y)
    model = SparcsRegressor(**SHORT).fit(X, y)
    found = refit(model.result_, X, noise, steps=100, validation=4, progress=False)
    assert found.best().score < 0.1
    given = refit(model.result_, X, y, validation=(X, -y), progress=False)
    assert given.best().score < 0 < given.score(X, y)
    assert given.settings["judged_rows"] == 200
    labels = SparcsClassifier(warm_start=True, **SHORT).fit(X, y > 1.5)
    with pytest.raises(ValueError, match="Expected labels in 'y' among"):
        labels.fit(X, np.where(y > 1.5, "yes", "no"))


def test_refit_leaves_out_rows_of_weight_zero_and_leaves_threads_alone(monkeypatch):
    X, y = table()
    result = SparcsRegressor(**SHORT).fit(X, y).result_
    weight = np.arange(80) % 4 > 0
    during = []
    monkeypatch.setattr(
        sys.modules["torchsparcs.parallel.executor"],
        "train",
        lambda *parts, **more: during.append(torch.get_num_threads()) or train(*parts, **more),
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weighted = refit(
            result, X, y.where(weight, 1e3), steps=5, sample_weight=weight, progress=False
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert during == [1]
    without = refit(result, X[weight], y[weight], steps=5, progress=False)
    assert weighted.settings["rows"] == 60
    assert np.array_equal(weighted.predict(X), without.predict(X))
    assert [found.score for found in weighted.front] == [found.score for found in without.front]


def test_refit_of_bad_input():
    X, y = table()
    result = SparcsRegressor(**SHORT).fit(X, y).result_
    for options, message in [
        ({"validation": (X,)}, r"validation to be a pair \(X, y\), or a splitter.*Got 1"),
        ({"validation": (X, y[:3])}, r"for validation\. Got 80 and 3"),
        ({"y": y[:3]}, r"as many rows in X as in y\. Got 80 and 3"),
        ({"steps": 0}, r"steps to be a positive integer\. Got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            refit(result, X, **{"y": y, "progress": False, **options})
