"""The benchmarks of teachers: what they measure, when they end and what they write."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import teacher_clocks_page
import teachers
import teachers_page

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("brief_searches")


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    x = pd.DataFrame(draw.normal(size=(150, 3)), columns=["a", "b", "c"])
    (tmp_path / "tables.json").write_text(json.dumps({"bend": {"task": "regression"}}))
    x.assign(target=np.abs(x["a"]) + x["b"]).to_csv(tmp_path / "bend.csv", index=False)
    return tmp_path


def unit(plain, taught, teacher=0.9, linear=0.5):
    """One split as it is recorded."""
    ways = {"plain": plain, "taught": taught}
    each = {way: {"test": score, "agreement": 0.9} for way, score in ways.items()}
    return {
        "linear": linear,
        "teacher": {"test": teacher},
        "teacher_less_linear": [teacher - linear, 0.01],
        "teacher_less_plain": [teacher - plain, 0.01],
        "budgets": {"4096": {**each, "gain": [taught - plain, 0.02]}},
        "microseconds": {"teacher": [100, 1000], "onnx": [2, 50], "python": [10, 100]},
        "seconds": {"teacher": 1.0, **ways},
        "commit": "abc",
    }


def test_a_split_is_measured(folder, monkeypatch):
    monkeypatch.setattr(teachers, "SECONDS", 0.01)
    monkeypatch.setattr(teachers, "tuned", lambda split: (0.5, {"max_iter": 10}))
    name, found = teachers.measured(folder, "bend 0")
    assert name == "bend 0"
    split = teachers.prepared(teachers.load(folder, "bend"), 0, 5000)
    boosting = HistGradientBoostingRegressor(max_iter=10, random_state=0).fit(split.x, split.y)
    assert found["teacher"]["test"] == pytest.approx(boosting.score(split.x_test, split.y_test))
    assert {*found["budgets"]} >= {"1024", "4096", "16384"}  # bytes
    for size, budget in found["budgets"].items():
        less = budget["taught"]["test"] - budget["plain"]["test"]
        assert budget["gain"][0] == pytest.approx(less)
        assert 4 * budget["taught"]["parameters"] <= int(size)
        assert 4 * budget["plain"]["parameters"] <= int(size)
    assert [len(times) for times in found["microseconds"].values()] == [2, 2, 2]
    teachers_page.summary({name: {**found, "commit": None}})


def test_it_ends_where_time_ends(folder):
    begun = time.monotonic()
    assert [*teachers.in_time(folder, ["bend 0"], 1, begun)] == []


def test_the_summary():
    units = {"one 0": unit(0.7, 0.8), "one 1": unit(0.7, 0.9), "two 0": unit(0.7, 0.69)}
    found = teachers_page.summary(units)
    one = found["tables"]["one"]["budgets"]["4096"]
    assert one["gain"] == pytest.approx([0.15, 0.02 / 2**0.5])
    assert one["share"] == pytest.approx({"plain": 0.5, "taught": 0.875})
    whole = found["overall"]["4096"]
    assert whole["share"]["taught"] == pytest.approx((0.875 * 0.475) ** 0.5)
    assert (whole["above"], whole["below"]) == (1, 0)
    assert whole["gain"][0] == pytest.approx(0.07)
    assert found["least_times_faster"]["onnx"] == [50, 20]
    level = teachers_page.summary({"one 0": unit(0.7, 0.8, teacher=0.5)})
    assert level["tables"]["one"]["budgets"]["4096"]["share"]["taught"] is None


def test_a_size_that_a_table_has_not_is_left_out():
    units = {"one 0": unit(0.7, 0.8), "two 0": unit(0.7, 0.75)}
    units["one 0"]["budgets"]["256"] = units["one 0"]["budgets"]["4096"]
    overall = teachers_page.summary(units)["overall"]
    assert [*overall] == ["256", "4096"]
    assert [overall[size]["tables"] for size in overall] == [1, 2]
    said = teachers_page.section({"hardware": "h", "date": "d", "wanted": [], "units": units})
    assert "| 256 bytes: without, with | 4 kB: without, with |" in said
    assert "| two | 1 | 0.500 | 0.900 | – | 0.700, 0.750 | – |" in said


def test_units_of_another_code_are_made_again(folder, tmp_path, monkeypatch):
    """And a page of units that do not know theirs says so."""
    asked = []

    def in_time(_, units, *rest):
        asked.append(units)
        yield from ((name, unit(0.7, 0.8)) for name in units)

    monkeypatch.setattr(teachers, "in_time", in_time)
    arguments = ["--tables", str(folder), "--out", str(tmp_path), "--splits", "1", "--resume"]
    monkeypatch.setattr(sys, "argv", ["teachers.py", *arguments])
    teachers.main()
    teachers.main()
    monkeypatch.setattr(teachers, "code", lambda: "another")
    teachers.main()
    assert asked == [["bend 0"], [], ["bend 0"]]
    recorded = json.loads((tmp_path / "teachers.json").read_text())["cpu"]
    assert recorded["units"]["bend 0"]["code"] == "another"
    assert teachers_page.EARLIER not in teachers_page.section(recorded)
    recorded["units"]["bend 0"].pop("code")
    assert teachers_page.EARLIER in teachers_page.section(recorded)


def test_the_page_is_that_of_the_record():
    path = ROOT / "docs" / "results" / "teachers.json"
    text = (ROOT / "docs" / "results.md").read_text()
    recorded = json.loads(path.read_text())["cpu"]
    assert teachers_page.section(recorded) in text, "run benchmarks/teachers.py --page"
    missing = {"hardware": "h", "date": "d", "wanted": ["one 0", "two 1"]}
    said = teachers_page.section({**missing, "units": {"one 0": unit(0.7, 0.8)}})
    assert "Not run (table, split): two 1." in said


def test_the_page_has_the_clocks_of_the_record():
    path = ROOT / "docs" / "results" / "teacher_clocks.json"
    text = (ROOT / "docs" / "results.md").read_text()
    recorded = json.loads(path.read_text())["cpu"]
    for words in teacher_clocks_page.SENTENCES.values():
        assert words(recorded) in text, "run benchmarks/teacher_clocks_page.py"
    forms = (*teacher_clocks_page.TEACHERS, *teacher_clocks_page.NETWORKS)
    one = {form: [100.0, 2000.0] for form in forms} | {"network, C": [5.0, 200.0]}
    made = {"tables": {"one": {"parameters": 7, "microseconds": one}}}
    assert "| as C | LightGBM's, as Python | 20.0 (1 of 1) | 10.0 (0 of 1) |" in (
        teacher_clocks_page.times_faster(made)
    )
