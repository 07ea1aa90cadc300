"""The score that is asked for makes the front, the picks and what is kept of them."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from torchsparcs import (
    SearchConfig,
    SparcsClassifier,
    SpectralNetwork,
    TrainConfig,
    load_result,
    refit,
    search,
)

pytestmark = pytest.mark.usefixtures("brief_searches")
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(400, 3))
RARE = np.where(2.5 * X[:, 0] + 1.5 * X[:, 1] + DRAW.logistic(size=400) > 5, "yes", "no")
QUICK = {"config": SearchConfig(steps=60, ways=("asleep",)), "penalty_weights": [1e-3]}


@pytest.fixture(scope="module")
def rare():
    return search(X, RARE, **QUICK, progress=False)


def test_what_always_says_no_is_not_picked(rare):
    assert 0.03 < (RARE == "yes").mean() < 0.1
    assert rare.scoring.name == "log_loss"
    assert rare.settings["scoring_is_auto"]
    assert rare.best().score < 0
    assert rare.smallest().score > rare.scoring.constant + 0.03
    shares = rare.predict_proba(X)[:, 1]
    assert roc_auc_score(RARE == "yes", shares) > 0.85
    assert rare.score(X, RARE) == pytest.approx(
        np.log(np.where(RARE == "yes", shares, 1 - shares)).mean(), abs=1e-5
    )


def test_a_folder_and_a_refit_keep_it(rare, tmp_path):
    rare.save(tmp_path / "run")
    known = load_result(tmp_path / "run")
    assert known.scoring.name == "log_loss"
    assert known.scoring.constant == rare.scoring.constant
    again = refit(known, X[:300], RARE[:300], steps=20, validation=2, progress=False)
    assert again.scoring.name == "log_loss"
    assert again.best().score < 0


def test_errors_are_in_the_units_of_the_target():
    y = 5000 + 1000 * np.abs(X[:, 0])
    held = (X[300:], y[300:])
    result = search(X[:300], y[:300], validation=held, scoring="mae", **QUICK, progress=False)
    for found in (*result.front, result.linear):
        error = mean_absolute_error(y[300:], result.predict(X[300:], found))
        assert -found.score == pytest.approx(error, rel=1e-3)
        assert result.score(*held, found) == pytest.approx(found.score, rel=1e-3)
    assert result.scoring.unit == pytest.approx(-result.scoring.constant)
    assert result.tolerance >= 1e-3 * result.scoring.unit
    assert {found.score for found in result.front} <= {each.score for each in result.attempts}
    tiny = (X[300:], y[300:] * 1e-9)
    small = search(X[:300], y[:300] * 1e-9, validation=tiny, scoring="mae", **QUICK, progress=False)
    assert len(small.front) == len(result.front)  # tiny numbers differ as well


def test_estimators_and_networks_take_it():
    model = SparcsClassifier(scoring="roc_auc", steps=30, penalty_weights=[1e-3], random_state=0)
    assert model.fit(X[:150], RARE[:150]).result_.scoring.name == "roc_auc"
    assert 0.5 < model.front_[-1].score <= 1
    codes = (RARE == "yes").astype(np.int64)
    network = SpectralNetwork([3, 4, 2])
    config = TrainConfig(epochs=3, batch_size=50)
    inputs = X.astype(np.float32)
    found = search(
        inputs, codes, network=network, config=config, scoring="balanced_accuracy", progress=False
    )
    assert found.scoring.label == "balanced accuracy"
    assert found.scoring.constant == pytest.approx(0.5)
    with pytest.raises(ValueError, match="Expected no class_weight where a network is given"):
        search(inputs, codes, network=network, class_weight="balanced")


def most_wrong(estimator, X, y) -> float:
    return -float(np.abs(estimator.predict(X) - y).max())


def test_a_function_is_asked_for_again(tmp_path):
    y = np.abs(X[:, 0])
    result = search(X[:90], y[:90], scoring=most_wrong, **QUICK, progress=False)
    result.save(tmp_path / "run")
    for known in (result, load_result(tmp_path / "run")):
        with pytest.raises(ValueError, match=r"Expected the scorer again, .* 'most_wrong'"):
            known.score(X, y)
        said = known.predict(X)
        expected = -np.abs(said - y).max()
        assert known.score(X, y, scoring=most_wrong) == pytest.approx(expected, rel=1e-4)
        assert known.score(X, y, scoring="r2") == pytest.approx(r2_score(y, said), abs=1e-4)
    with pytest.raises(ValueError, match="Expected the scorer again"):
        refit(result, X[90:], y[90:], steps=5, progress=False)
    again = refit(result, X[90:], y[90:], scoring=most_wrong, steps=5, progress=False)
    assert again.scoring.name == "most_wrong"
