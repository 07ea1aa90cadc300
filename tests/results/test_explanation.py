"""What columns are worth and do, on a network that is worked out by hand."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from reports import chain_result

from torchsparcs import Candidate, CompactNetwork, History, SearchResult
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

DRAW = np.random.default_rng(0)
ROWS = 200
TABLE = pd.DataFrame(
    {
        "a": DRAW.normal(10, 2, ROWS),
        "b": DRAW.normal(size=ROWS),
        "city": DRAW.choice(["Bern", "Oslo", "Rome"], ROWS),
        "day": pd.date_range("2024-01-01", periods=ROWS),
        "id": [f"name {chr(200 + i)}" for i in range(ROWS)],
    }
)


def network(width: int, reads, weights) -> CompactNetwork:
    """Linear in the inputs at ``reads``."""
    found = CompactNetwork([width, 1], [(1, 0)], reads=reads)
    parameters = dict(found.named_parameters())
    (weight,) = (each for each in parameters.values() if each.dim() == 2)
    (bias,) = (each for each in parameters.values() if each.dim() == 1)
    with torch.no_grad():
        weight.copy_(torch.tensor([weights]))
        bias.zero_()
    return found


def made(y) -> SearchResult:
    """A front of two: the smaller reads a, the larger a and whether the city is Rome."""
    with pytest.warns(UserWarning, match="Left out"):
        inputs = Inputs.fit(TABLE)
    names = inputs.encoded_names
    rome, width = names.index("city=Rome"), len(names)
    front = [
        Candidate(network(width, reads, weights), score, 0.1, 0.1, 0.0, None)
        for reads, weights, score in (([0], [1.0], 0.5), ([0, rome], [1.0, -0.5], 0.9))
    ]
    settings = {"task": "regression", "judged_rows": ROWS}
    preprocessing = Preprocessing(inputs, Target.fit(y))
    return SearchResult((*front,), None, preprocessing, History(), settings)


@pytest.fixture(scope="module")
def target() -> np.ndarray:
    """What the larger network says, in units of its own."""
    return 100 + TABLE["a"] - TABLE["a"].mean() - (TABLE["city"] == "Rome") * 1.0


@pytest.fixture(scope="module")
def result(target) -> SearchResult:
    return made(pd.Series(target, name="price"))


def test_columns_are_ranked_by_what_is_lost_without_them(result, target):
    found = result.importance(TABLE, target, "best")
    assert list(found.index) == ["a", "city", "b", "day"]
    assert found["worth"]["a"] > 5 * found["worth"]["city"] > 0
    assert (found["worth"][["b", "day"]] == 0).all()
    assert found["standard_error"]["a"] > 0
    sizes = [candidate.parameters for candidate in result.front]
    assert found["parameters"][["a", "city"]].tolist() == sizes
    assert found["parameters"][["b", "day"]].isna().all()
    assert result.importance(TABLE, target, "best").equals(found)  # of the same seed
    assert "worth" not in result.settings
    kept = dataclasses.replace(result, settings={**result.settings})
    kept.importance(TABLE, target, "best", keep=True)
    assert kept.settings["worth"] == found["worth"].to_dict()


def test_contributions_of_a_linear_network_by_hand(result):
    row = TABLE.iloc[7]
    found = result.explain(row, "best")
    assert {*found.index} == {"a", "city"}
    inputs, scale = result.inputs, result.target.scale[0]
    by_a = (row["a"] - inputs.mean[0]) / inputs.scale[0] * scale
    assert found["price"]["a"] == pytest.approx(by_a, rel=1e-4)
    place = inputs.encoded_names.index("city=Rome")
    is_rome = row["city"] == "Rome"
    by_city = -0.5 * (is_rome - inputs.mean[place]) / inputs.scale[place] * scale
    assert found["price"]["city"] == pytest.approx(by_city, rel=1e-4)
    assert found["value"]["city"] == row["city"]
    assert found["price"].abs().is_monotonic_decreasing
    pd.testing.assert_frame_equal(result.explain(dict(row), "best"), found)
    pd.testing.assert_frame_equal(result.explain(TABLE.iloc[7:8], "best"), found)


def test_of_two_classes_the_probability_of_the_second():
    result = made(np.where(TABLE["a"] > 10, "yes", "no"))
    row = TABLE.iloc[0]
    found = result.explain(row, 0)
    (chance,) = result.predict_proba(TABLE[:1], 0)[:, 1]
    assert list(found) == ["value", "yes"]
    assert found["yes"]["a"] == pytest.approx(chance - 0.5, abs=1e-6)


def test_responses_along_a_column(result):
    curve = result.response("a", "best", points=5)
    mean, scale = result.inputs.mean[0], result.inputs.scale[0]
    np.testing.assert_allclose(curve["value"], mean + scale * np.linspace(-2, 2, 5))
    np.testing.assert_allclose(np.diff(curve["price"]), result.target.scale[0], rtol=1e-4)
    cities = result.response("city", "best", X=TABLE)
    assert cities["value"].tolist() == ["Bern", "Oslo", "Rome"]
    expected = [result.predict(TABLE.assign(city=city), "best").mean() for city in cities["value"]]
    np.testing.assert_allclose(cities["price"], expected, rtol=1e-5)
    ends = TABLE["a"].quantile([0.01, 0.99])
    np.testing.assert_allclose(result.response("a", X=TABLE)["value"].iloc[[0, -1]], ends)
    days = result.response("day", points=3)
    assert days["value"].is_monotonic_increasing
    assert days["price"].nunique() == 1  # nobody reads it


def test_what_cannot_be_is_said(result, target):
    with pytest.raises(ValueError, match=r"a column among .*Got 'id'"):
        result.response("id")
    with pytest.raises(ValueError, match="at least two points"):
        result.response("a", points=1)
    with pytest.raises(ValueError, match="at least two repeats"):
        result.importance(TABLE, target, repeats=1)
    with pytest.raises(ValueError, match=r"Expected one row\. Got 3"):
        result.explain(TABLE[:3])
    with pytest.raises(ValueError, match="This is one of a network"):
        chain_result().response("a")


class TestInputRelevance:
    def test_columns_that_nothing_depends_on_have_none(self):
        """One column acts linearly, one squared, one is noise, and a text decides half."""
        draw = np.random.default_rng(1)
        table = pd.DataFrame(
            {
                "line": draw.normal(size=400),
                "noise": draw.normal(size=400),
                "square": draw.normal(size=400),
                "city": draw.choice(["Bern", "Oslo"], 400),
            }
        )
        y = table["line"] + table["square"] ** 2 + 2 * (table["city"] == "Oslo")
        inputs = Inputs.fit(table)
        target = Target.fit(y)
        net = network(len(inputs.encoded_names), [0], [1.0])
        result = SearchResult(
            (Candidate(net, 0.5, 0.1, 0.1, 0.0, None),),
            None,
            Preprocessing(inputs, target),
            History(),
            {"task": "regression"},
        )
        found = result.input_relevance(table, y)["relevance"]
        assert found.iloc[0] == 1
        assert found.index[-1] == "noise"
        assert found["noise"] < 0.2 < 0.3 < found.drop("noise").min()
        assert "relevance" not in result.settings
        pd.testing.assert_series_equal(
            found, result.input_relevance(table, y, keep=True)["relevance"]
        )
        assert result.settings["relevance"] == found.to_dict()
