"""A second front, of score against what it costs to measure the columns that are read."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from torchsparcs import SearchConfig, SpectralNetwork, load_result, refit, search
from torchsparcs.judging.correction import expected_scores
from torchsparcs.searching.costs import front_by_cost

pytestmark = pytest.mark.usefixtures("brief_searches")
DRAW = np.random.default_rng(0)
X = pd.DataFrame(DRAW.normal(size=(150, 4)), columns=["cheap", "dear", "free", "noise"])
Y = X.cheap + 2 * X.dear + 0.3 * X.free + 0.1 * DRAW.normal(size=150)
COSTS = {"cheap": 1, "dear": 10.5, "noise": 2}
QUICK = {"config": SearchConfig(steps=60, ways=("asleep",)), "penalty_weights": [1e-3]}


@pytest.fixture(scope="module")
def result():
    return search(X, Y, costs=COSTS, widths=(4,), **QUICK, progress=False)


def read(result, candidate) -> set[str]:
    return {column.name for column in result.inputs.columns_read(candidate.network.reads)}


def test_each_column_that_is_read_is_paid_for_once(result):
    for found in (*result.front, *result.by_cost, result.linear):
        assert found.cost == sum(COSTS.get(name, 0) for name in read(result, found))
    costs, scores = zip(*((each.cost, each.score) for each in result.by_cost), strict=True)
    assert len(result.by_cost) > 1
    assert list(costs) == sorted(set(costs))
    assert list(scores) == sorted(set(scores))
    assert all(each.parts is None for each in (*result.front, *result.by_cost))


def test_nothing_that_costs_no_more_is_better(result):
    for each in result.front:
        rivals = [other for other in result.by_cost if other.cost <= each.cost]
        assert max(other.score for other in rivals) >= each.score - 1e-6


def test_what_a_budget_buys(result):
    assert "dear" not in read(result, result.within_cost(9))
    assert "dear" in read(result, result.within_cost(1000))
    assert result.pick("cost:9") is result.within_cost(9)
    cheapest = result.by_cost[0].cost
    if cheapest > 0:
        with pytest.raises(ValueError, match="Expected a budget of at least"):
            result.within_cost(cheapest / 2)
    for unknown in ("cost:much", "cost:-1"):
        with pytest.raises(ValueError, match=r"Expected a pick among .*, cost:X and 0"):
            result.pick(unknown)


def test_it_is_saved_and_refitted(result, tmp_path):
    result.save(tmp_path / "run")
    loaded = load_result(tmp_path / "run")
    assert [each.cost for each in loaded.by_cost] == [each.cost for each in result.by_cost]
    assert loaded.linear.cost == result.linear.cost
    assert np.array_equal(loaded.predict(X, "cost:9"), result.predict(X, "cost:9"))
    table = pd.read_csv(tmp_path / "run" / "costs.csv")
    assert table.cost.tolist() == [each.cost for each in result.by_cost]
    assert "cost" in pd.read_csv(tmp_path / "run" / "front.csv")
    again = refit(loaded, X[:100], Y[:100], steps=5, progress=False)
    assert again.by_cost
    assert again.within_cost(1000).cost <= 13.5
    front = json.loads((tmp_path / "run" / "front.json").read_text())
    front["by_cost"][0]["cost"] = -1
    (tmp_path / "run" / "front.json").write_text(json.dumps(front))
    with pytest.raises(ValueError, match="is damaged"):
        load_result(tmp_path / "run")


def test_the_expected_score_is_that_of_the_choice_among_what_costs_no_more(result):
    generator = torch.Generator().manual_seed(0)
    some = [*result.by_cost[:2], result.linear]
    parts = [torch.rand(50, generator=generator) / 50 for _ in some]
    costs, scores = (0.0, 0.0, 5.0), (0.5, 0.6, 0.7)
    three = [
        replace(each, parts=part, cost=cost, score=score)
        for each, part, cost, score in zip(some, parts, costs, scores, strict=True)
    ]
    found = front_by_cost(three)
    assert [each.score for each in found] == [0.6, 0.7]
    assert found[0].expected == expected_scores(parts[:2], [0, 0])[0]
    assert found[1].expected == expected_scores(parts, [0, 0, 5])[5]
    largest = max(each.parameters for each in three[:2])
    assert len(front_by_cost(three[:2], {"parameters": largest})) == 1


def test_bad_ones():
    for costs, words in (
        ({"cheep": 1}, "columns with a cost among .* Did you mean 'cheap'"),
        ({"cheap": -1}, "Expected a cost from 0 on for 'cheap'. Got -1"),
        ({"cheap": "1"}, "Expected a cost from 0 on for 'cheap'"),
        ([1, 2], "Expected costs by the names of columns"),
    ):
        with pytest.raises(ValueError, match=words):
            search(X, Y, costs=costs, **QUICK, progress=False)
    with pytest.raises(ValueError, match="Expected no costs where a network is given"):
        search(X.to_numpy(np.float32), Y, network=SpectralNetwork([4, 2, 1]), costs={"x0": 1})
    plain = search(X, Y, widths=(2,), **QUICK, progress=False)
    assert plain.by_cost == ()
    with pytest.raises(ValueError, match="Expected a search with costs of its columns"):
        plain.within_cost(3)
