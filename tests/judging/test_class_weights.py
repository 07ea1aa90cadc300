"""Rows count by their class."""

import numpy as np
import pytest

from torchsparcs import SearchConfig, load_result, refit, search
from torchsparcs.judging.class_weights import class_weighted, weights_by_class

pytestmark = pytest.mark.usefixtures("brief_searches")
Y = np.array(["no", "no", "no", "yes"])


def weighted(y, class_weight, weight=None):
    return class_weighted(y, weights_by_class(y, class_weight, weight), weight)


def test_weights_by_class():
    assert weighted(Y, None) is None
    assert weighted(Y, {"yes": 3}).tolist() == [1, 1, 1, 3]
    assert weighted(Y, "balanced").tolist() == pytest.approx([2 / 3] * 3 + [2])
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    balanced = weighted(Y, "balanced", weight)
    assert balanced[:3].sum() == pytest.approx(balanced[3])
    assert weighted([0, 1, 1], {"1": 5.0, 0: 2}).tolist() == [2, 5, 5]
    assert class_weighted(["no"], {"no": 2.0, "yes": 3.0}).tolist() == [2]  # other rows of them


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("even", "'balanced', weights by label, or None. Got 'even'"),
        ({"maybe": 2}, "classes among 'no', 'yes'. Got 'maybe'"),
        ({"yes": 0}, "class weights above zero"),
        ({"yes": float("nan")}, "class weights above zero"),
    ],
)
def test_bad_ones(bad, message):
    with pytest.raises(ValueError, match=message):
        weights_by_class(Y, bad)


QUICK = {"config": SearchConfig(steps=40, ways=("asleep",)), "penalty_weights": [1e-3]}


def test_a_search_counts_by_them(tmp_path):
    """Balanced, half of the weight is the rare class's: a constant answer is right in half."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 2))
    y = np.where(x[:, 0] + draw.normal(size=200) > 2, "yes", "no")
    result = search(x, y, class_weight="balanced", **QUICK, progress=False)
    assert result.scoring.name == "accuracy"  # with such weights nothing is rare
    assert result.scoring.constant == pytest.approx(0.5)
    assert (result.predict(x[y == "yes"]) == "yes").mean() > 0.6
    with pytest.raises(ValueError, match="Expected classes to predict where class_weight is given"):
        search(x, x[:, 0], class_weight="balanced", **QUICK)
    result.save(tmp_path / "run")
    result.settings["fidelity"] = result.settings["relevance"] = {}  # of networks and rows before
    again = refit(load_result(tmp_path / "run"), x[:120], y[:120], steps=5, progress=False)
    assert again.scoring.constant == pytest.approx(0.5)  # balanced as before, on these rows
    even = refit(result, x[:120], y[:120], class_weight=None, steps=5, progress=False)
    assert even.scoring.constant == pytest.approx((y[:120] == "no").mean())
    assert not {"fidelity", "relevance"} & {*even.settings}
    assert (again.settings["class_weight"], even.settings["class_weight"]) == ("balanced", None)


def test_rows_of_a_pair_count_by_them():
    """The weights are those that balance the rows of the search: 0.6 and 3 here."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 2)), np.array(["no"] * 50 + ["yes"] * 10)
    pair = (x[30:], y[30:])  # 20 of "no", 10 of "yes"
    result = search(x, y, validation=pair, class_weight="balanced", **QUICK, progress=False)
    assert result.scoring.is_weighted
    assert result.scoring.constant == pytest.approx(10 * 3.0 / (20 * 0.6 + 10 * 3.0))
