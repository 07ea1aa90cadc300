"""The benchmark of the parts of a search: what it leaves out, adds, measures and writes."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import ablation

from torchsparcs.searching import finishing

pytestmark = pytest.mark.usefixtures("brief_searches")


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    x = pd.DataFrame(draw.normal(size=(150, 2)), columns=["a", "b"])
    (tmp_path / "tables.json").write_text(json.dumps({"price": {"task": "regression"}}))
    target = np.exp(1.5 * np.abs(x["a"]) + 0.1 * x["b"])
    x.assign(target=target).to_csv(tmp_path / "price.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("part", ["whole", "fits", "connections", "knots", "logarithm"])
def test_a_part_is_measured(folder, part):
    found = ablation.measured(folder, f"price {part}")
    assert len(found["scores"]) == len(ablation.BUDGETS)
    assert found["scores"][-1] <= 1


def test_what_it_leaves_out_comes_back():
    drawn, cut = finishing.SHAPES, finishing.Finishing._cut
    with ablation.without(ablation.PARTS["plain"]):
        assert finishing.SHAPES == ()
    with ablation.without(ablation.PARTS["connections"]):
        assert finishing.Finishing._cut(None, []) == []
    assert (drawn, cut) == (finishing.SHAPES, finishing.Finishing._cut)


def test_columns_that_are_added():
    x = np.column_stack([np.arange(9.0), np.arange(9) % 2])  # quartiles 2, 4, 6; two values
    assert ablation.knots(x)(x[5:6]).tolist() == [[5, 1, 3, 1, 0]]
    assert ablation.steps(x)(x[5:6]).tolist() == [[5, 1, 1, 1, 0]]
    assert ablation.ranks(x)(x)[4] == pytest.approx([0, 0])
    assert ablation.tails(x)(np.array([2.0, -4.0])) == pytest.approx([2, -3 - np.log(2)])
    forth, back = ablation.logarithm(x[:, 0])
    assert back(forth(x[:, 0])) == pytest.approx(x[:, 0])


def test_what_parts_bring_by_hand():
    def unit(score, seconds):
        return {"scores": [None, *[score] * 4], "seconds": seconds}

    units = {"a whole": unit(0.5, 4), "b whole": unit(0.7, 4), "a boosting": unit(0.4, 2)}
    units |= {"b boosting": unit(0.8, 2), "a knots": unit(0.6, 8), "b knots": {}}
    cells = dict(ablation.compared(units))
    assert cells["boosting"][1:] == ["2", "–", *["-0.000 ± 0.100"] * 4, "2.00"]
    assert cells["knots"][1:] == ["1", "–", *["+0.100 ± nan"] * 4, "2.00"]
    parts, more = (ablation.table_of_parts({"units": units}, is_more) for is_more in (False, True))
    assert "gradient boosting as a teacher" in parts
    assert "hinges" in more
    assert "hinges" not in parts
