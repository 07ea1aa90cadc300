"""Large tables: the sample of a search, and the last fits to all rows."""

import numpy as np
import pytest
import torch

from torchsparcs import SearchConfig, search
from torchsparcs.fitting import last_fits
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.last_fits import sampled
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 2000
DRAW = np.random.default_rng(0)
X = DRAW.uniform(-1, 1, (ROWS, 3))
Y = X @ [1.0, -2.0, 0.0] + 0.5 * DRAW.standard_normal(ROWS)
RARE = np.where(DRAW.uniform(size=ROWS) < 0.05, "rare", "usual")
QUICK = {
    "config": SearchConfig(steps=10, longest=10, path=1, ways=("asleep",), sample=300),
    "widths": (4,),
    "validation": 0.2,
    "penalty_weights": (1e-2,),
    "device": "cpu",
    "progress": False,
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(last_fits, "FEWEST", 20)


def folded(y=Y, validation=0.2, rows=ROWS):
    X_, y_ = X[:rows], y[:rows]
    preprocessing = Preprocessing(Inputs.fit(X_), Target.fit(y_))
    return FoldedData.of(preprocessing, X_, y_, None, validation=validation, seed=0)


def test_few_rows_are_all_searched_on():
    data = folded(rows=500)
    assert sampled(data, 300, 0) == (data, data)


@pytest.mark.parametrize("validation", [0.2, 4])
def test_nobody_who_chose_judges_in_the_end(validation):
    data = folded(validation=validation)
    some, whole = sampled(data, 300, 0)
    assert abs(len(some.inputs) - 300) <= 5
    assert some.fits == whole.fits == data.fits
    assert len(whole.inputs) == ROWS
    judging = {tuple(row) for row in whole.judging[0].tolist()}
    assert not judging & {tuple(row) for row in some.inputs.tolist()}
    assert len(judging) == len(data.folds.judged) - len(some.folds.judged)
    for fit in range(data.folds.judges):  # and nobody judges what it was fitted to
        seen = {tuple(row) for row in some.inputs[some.folds.fitted[fit]].tolist()}
        judged = whole.inputs[whole.folds.judge == fit].tolist()
        assert not seen & {tuple(row) for row in judged}


def test_rows_that_judge_are_at_most_half_in_the_sample():
    few = (X[:30], Y[:30])
    data = folded(validation=few)
    some, whole = sampled(data, 300, 0)
    assert len(some.folds.judged) == len(whole.folds.judged) == 15


def test_a_rare_class_has_enough_rows_that_count_less():
    some, _ = sampled(folded(RARE), 300, 0)
    rare = some.targets.flatten() == 0
    share = (RARE == "rare").mean()
    assert rare.sum() > 300 * share * 1.5
    assert (rare * some.weights).sum() / some.weights.sum() == pytest.approx(share, rel=0.1)
    even, _ = sampled(folded(np.where(X[:, 0] > 0, "a", "b")), 300, 0)
    assert (even.weights == 1).all()


def test_what_is_found_is_fitted_to_all_rows():
    result = search(X, Y, **QUICK)
    settings = result.settings
    assert settings["rows"] == ROWS
    assert settings["rows_searched"] < 320
    assert 300 < settings["judged_rows"] <= 400
    assert result.linear is not None
    inputs = result.inputs.transform(X, result.linear.network.reads)
    said = result.linear.network(inputs).detach().flatten().double()
    scaled = result.target.transform(Y).flatten().double()
    full = torch.cat([result.inputs.transform(X), torch.ones(ROWS, 1)], dim=1).double()
    best = torch.linalg.lstsq(full, scaled[:, None]).solution
    least = (full @ best).flatten().sub(scaled).square().mean()
    assert (said - scaled).square().mean() < least * 1.0005


def test_the_page_says_so(tmp_path):
    result = search(X, Y, **QUICK)
    result.report(tmp_path / "a.html")
    text = f"{result.settings['rows_searched']:,} of the rows; what was found, fitted to all"
    assert text in (tmp_path / "a.html").read_text()
