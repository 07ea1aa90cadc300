"""Rows count by their class."""

import numpy as np
import pytest

from torchsparcs import SearchConfig, search
from torchsparcs.searching.class_weights import class_weighted

pytestmark = pytest.mark.usefixtures("brief_searches")
Y = np.array(["no", "no", "no", "yes"])


def test_weights_by_class():
    assert class_weighted(Y, None) is None
    assert class_weighted(Y, {"yes": 3}).tolist() == [1, 1, 1, 3]
    assert class_weighted(Y, "balanced").tolist() == pytest.approx([2 / 3] * 3 + [2])
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    balanced = class_weighted(Y, "balanced", weight)
    assert balanced[:3].sum() == pytest.approx(balanced[3])
    assert class_weighted([0, 1, 1], {"1": 5.0, 0: 2}).tolist() == [2, 5, 5]


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
        class_weighted(Y, bad)


def test_a_search_counts_by_them():
    """Balanced, half of the weight is the rare class's: a constant answer is right in half."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 2))
    y = np.where(x[:, 0] + draw.normal(size=200) > 2, "yes", "no")
    quick = {"config": SearchConfig(steps=40, ways=("asleep",)), "penalty_weights": [1e-3]}
    result = search(x, y, class_weight="balanced", **quick, progress=False)
    assert result.scoring.name == "accuracy"  # with such weights nothing is rare
    assert result.scoring.constant == pytest.approx(0.5)
    assert (result.predict(x[y == "yes"]) == "yes").mean() > 0.6
    with pytest.raises(ValueError, match="Expected classes to predict where class_weight is given"):
        search(x, x[:, 0], class_weight="balanced", **quick)
