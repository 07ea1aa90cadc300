"""A search as the paper would do it."""

import numpy as np
import pytest

from torchsparcs import SearchConfig, load_result, search
from torchsparcs.searching.paper_search import WEIGHTS

DRAW = np.random.default_rng(0)
X = DRAW.uniform(-1, 1, (240, 2))
Y = np.abs(X[:, 0])
QUICK = SearchConfig(paper=True, longest=400, batch_size=32)


@pytest.fixture(scope="module")
def result():
    return search(X, Y, widths=(16,), config=QUICK, progress=False)


def test_one_network_for_each_weight_and_the_linear_model(result):
    assert len(result.attempts) == len(WEIGHTS) + 1
    assert result.settings["penalty_weights"] == WEIGHTS
    assert result.settings["config"]["paper"]
    assert result.linear.architecture.startswith("2 → 1")
    assert result.best().score > result.linear.score + 0.3
    assert {found.penalty_weight for found in result.front} <= {None, *WEIGHTS}


def test_it_is_saved_shown_and_loaded_as_any_other(result, tmp_path):
    result.save(tmp_path / "run")
    again = load_result(tmp_path / "run")
    np.testing.assert_allclose(again.predict(X[:5]), result.predict(X[:5]), rtol=1e-5)
    assert result.report(tmp_path / "page.html").is_file()


def test_the_same_again_and_other_weights():
    options = {"widths": (8,), "config": SearchConfig(paper=True, longest=20), "progress": False}
    one, two = (search(X, Y > 0.5, penalty_weights=[1e-2], **options) for _ in range(2))
    assert [a.score for a in one.attempts] == [b.score for b in two.attempts]
    assert len(one.attempts) == 2
