"""Intervals hold as often as they say, on rows that nobody has seen."""

import dataclasses

import numpy as np
import pytest

from torchsparcs import SearchConfig, SparcsRegressor, load_result, search

pytestmark = pytest.mark.usefixtures("brief_searches")
DRAW = np.random.default_rng(0)
X = DRAW.uniform(-1, 1, (3000, 2))
Y = 1000 + 50 * np.abs(X[:, 0]) + 10 * DRAW.normal(size=3000)
QUICK = {"config": SearchConfig(steps=60, ways=("asleep",)), "penalty_weights": [1e-3]}


@pytest.fixture(scope="module")
def result():
    return search(X[:400], Y[:400], **QUICK, progress=False)


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_as_often_as_they_say(result, coverage):
    low, high = result.predict_interval(X[400:], coverage).T
    held = (low <= Y[400:]) & (Y[400:] <= high)
    assert held.mean() == pytest.approx(coverage, abs=0.06)
    middle = result.predict(X[400:])
    assert np.allclose((low + high) / 2, middle)


def test_far_rows_have_intervals_as_wide_as_others(result):
    far = np.array([[1e6, 0.0], [0.1, 0.0]])
    low, high = result.predict_interval(far).T
    assert high[0] - low[0] == pytest.approx(high[1] - low[1])
    assert (low + high)[0] / 2 == pytest.approx(result.predict(far)[0])


def test_the_rank_is_counted(result):
    """Of four rows, the second smallest error is what two of five next ones stay below."""
    best = result.best()
    errors = np.array([[0.1], [0.2], [0.3], [0.4]])
    four = dataclasses.replace(best, residuals=best.residuals.new_tensor(errors))
    known = dataclasses.replace(result, settings={**result.settings, "judged_rows": 4})
    for coverage, error in ((0.2, 0.1), (0.21, 0.2), (0.4, 0.2), (0.8, 0.4)):
        low, high = known.predict_interval(X[:1], coverage, four)[0]
        assert (high - low) / 2 == pytest.approx(error * result.target.scale[0])
    for bad in (0.81, 0.0, 1.0, -1, float("nan")):
        with pytest.raises(ValueError, match=r"a coverage above 0 and up to 0\.8000, as 4 rows"):
            known.predict_interval(X[:1], bad, four)


def test_from_a_folder_and_an_older_one(result, tmp_path):
    result.save(tmp_path / "run")
    again = load_result(tmp_path / "run").predict_interval(X[:5])
    assert np.allclose(again, result.predict_interval(X[:5]), rtol=1e-5)
    older = dataclasses.replace(result.best(), residuals=None)
    with pytest.raises(ValueError, match="Expected a regression whose errors were kept"):
        result.predict_interval(X[:5], 0.9, older)


def test_several_outputs_and_the_estimator():
    both = np.column_stack([Y, X[:, 1] * 3])[:300]
    model = SparcsRegressor(steps=40, penalty_weights=[1e-3], validation=2, random_state=0)
    ends = model.fit(X[:300], both).predict_interval(X[300:900], 0.8)
    assert ends.shape == (600, 2, 2)
    held = (ends[:, 0, 0] <= Y[300:900]) & (Y[300:900] <= ends[:, 0, 1])
    assert held.mean() == pytest.approx(0.8, abs=0.08)
    expected = model.result_.predict_interval(X[300:900], 0.8)
    assert np.allclose(ends, expected, rtol=1e-4)
