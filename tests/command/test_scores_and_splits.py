"""The score, the weights of classes and the rows that judge, as the command line takes them."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import sparcs

from torchsparcs import load_result
from torchsparcs.command.jobs import costs_in
from torchsparcs.command.splits import split_by

pytestmark = pytest.mark.usefixtures("brief_searches")
QUICK = ("--steps", "20", "--widths", "4", "--penalty-weights", "0.01")


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(150, 2))
    late = np.where(x[:, 0] + 0.5 * draw.normal(size=150) > 1.6, "yes", "no")
    days = pd.date_range("2024-01-01", periods=150).strftime("%d.%m.%Y")
    frame = pd.DataFrame(x, columns=["a", "b"])
    price = 1000 + 100 * x[:, 1] + 20 * draw.normal(size=150)
    frame = frame.assign(who=np.arange(150) // 5, day=days, price=price, late=late)
    path = tmp_path_factory.mktemp("splits") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_rare_classes_in_groups(table, tmp_path):
    """By default by log loss; the groups are no input, and are told."""
    run = tmp_path / "run"
    drop = ("--drop", "day", "--drop", "price")
    found = sparcs(
        *("search", table, "--target", "late", "--group", "who", *drop, "--out", run, *QUICK),
        *("--no-calibration", "--no-boosting", "--sample", "40"),
    )
    assert found.code == 0, found.err
    assert "expected log loss" in found.out
    assert "(3-fold cross-validation, whole groups of who)" in found.out
    assert re.search(r"0\.\d+ +0\.\d+ +constant +one answer for all rows", found.out)
    result = load_result(run)
    assert result.preprocessing.inputs.names == ("a", "b")
    assert result.settings["scoring"] == "log_loss"
    assert result.settings["calibrate"] is False
    assert result.settings["config"]["sample"] == 40
    assert result.settings["config"]["boosting"] is False
    assert result.best().score < 0
    assert "One class is rare, and accuracy would hide it" in (run / "report.html").read_text()
    shown = sparcs("show", run)
    assert shown.code == 0
    assert "expected log loss" in shown.out
    refused = sparcs("predict", run, table, "--interval", "0.9")
    assert (refused.code, "of classes there are probabilities" in refused.err) == (1, True)


def test_later_rows_and_an_interval(table, tmp_path):
    run, splits = tmp_path / "run", ("--time", "day", "--drop", "day", "--drop", "late")
    arguments = ("--target", "price", "--scoring", "mae", "--validation", "2", "--drop", "who")
    found = sparcs("search", table, *arguments, *splits, "--out", run, *QUICK)
    assert found.code == 0, found.err
    assert "expected mean absolute error" in found.out
    assert "on 100 rows that are later in day, in 2 steps" in found.out
    assert load_result(run).preprocessing.inputs.names == ("a", "b")
    said = pd.read_csv(io.StringIO(sparcs("predict", run, table, "--interval", "0.8").out))
    assert [*said.columns] == ["prediction", "lower", "upper"]
    assert (said.lower < said.prediction).all()
    true = pd.read_csv(table).price
    assert true.between(said.lower, said.upper).mean() > 0.7


def test_classes_that_count_for_more(table, tmp_path, monkeypatch):
    monkeypatch.setattr("torchsparcs.judging.scoring.FOREIGN_PARTS", 3)  # it is slow
    run = tmp_path / "run"
    options = ("--class-weight", "yes=9,no=1", "--scoring", "f1_macro", "--validation", "2")
    drop = ("--drop", "day", "--drop", "who", "--drop", "price")
    found = sparcs("search", table, "--target", "late", *options, *drop, "--out", run, *QUICK)
    assert found.code == 0, found.err
    assert "expected weighted f1 macro" in found.out
    assert load_result(run).settings["scoring"] == "f1_macro"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--class-weight", "yes"), 2, "Expected balanced, or weights such as yes=5,no=1"),
        (("--class-weight", "maybe=2"), 1, "classes among 'no', 'yes'. Got 'maybe'"),
        (("--scoring", "acuracy"), 1, "Expected a scoring among auto, accuracy"),
        (("--scoring", "r2"), 1, "Expected a scoring for classes"),
        (("--group", "who", "--time", "day"), 1, "Expected --group or --time. Got both"),
        (
            ("--group", "whom"),
            1,
            "Got 'whom'. Did you mean 'who'?",
        ),
        (("--group", "who", "--validation", "0.2"), 1, "Expected a number of folds where a column"),
        (("--group", "who", "--validation", "31"), 1, "Expected at least 31 groups in 'who'"),
    ],
)
def test_what_cannot_be(table, tmp_path, options, code, message):
    found = sparcs("search", table, "--target", "late", *options, "--out", tmp_path / "run", *QUICK)
    assert (found.code, message in found.err) == (code, True), found.err
    assert not (tmp_path / "run").exists()


def test_times_are_dates_or_numbers():
    days = pd.DataFrame({"iso": ["2024-03-01", "2024-01-02"], "n": [2.5, 1], "text": ["b", "a"]})
    for name in ("iso", "n"):
        _, times = split_by(days, None, name, 2)
        assert times[0] > times[1]
    with pytest.raises(ValueError, match=r"numbers to tell later rows by\. 'text'"):
        split_by(days, None, "text", 2)
    with pytest.raises(ValueError, match=r"a value in every row of 'n'. 1 are missing"):
        split_by(days.assign(n=[1.0, None]), "n", None, 2)


def test_what_measuring_costs(table, tmp_path):
    run, costs = tmp_path / "run", tmp_path / "costs.csv"
    costs.write_text("column,cost\na,1\nb,20\n")
    drop = ("--drop", "day", "--drop", "who", "--drop", "late")
    arguments = ("search", table, "--target", "price", *drop, "--cost", costs, *QUICK)
    found = sparcs(*arguments, "--validation", "0.3", "--out", run, "--pick", "cost:1")
    assert found.code == 0, found.err
    assert "By what it costs to measure the columns" in found.out
    assert "score against the cost of columns" in found.out
    result = load_result(run)
    assert result.settings["costs"] == {"a": 1.0, "b": 20.0}
    assert result.settings["pick"] == "cost:1"
    cheap = pd.read_csv(io.StringIO(sparcs("predict", run, table).out))
    assert np.allclose(cheap.prediction, result.predict(pd.read_csv(table), "cost:1"))
    page = (run / "report.html").read_text()
    assert "By what it costs to measure the columns" in page
    assert "cost up to 1" in page
    refused = sparcs("predict", run, table, "--interval", "90")
    assert (refused.code, "Got 90.0: 90 % is 0.9." in refused.err) == (1, True)


def test_a_pick_by_cost_needs_costs(table):
    for pick, words in (("cost:1", "Expected --cost FILE"), ("cheap", "Expected best or smallest")):
        refused = sparcs("search", table, "--pick", pick)
        assert (refused.code, words in refused.err) == (2, True)
    refused = sparcs("search", table, "--cost", "costs.csv", "--pick", "cost:much")
    assert (refused.code, "Expected a cost from 0 on, as in cost:12.5" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("column,cost\na,much\n", "a number from 0 on. Got 'much' for 'a'"),
        ("column,cost\na,-1\n", "a number from 0 on. Got .* for 'a'"),
        ("column,cost\na,1\na,2\n", "each once. Got 'a' again"),
        ("a,b,c\n1,2,3\n", "Expected two columns .* Got 3: 'a', 'b', 'c'"),
    ],
)
def test_a_table_of_costs_that_cannot_be_is_said(text, words, tmp_path):
    (tmp_path / "costs.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        costs_in(tmp_path / "costs.csv")
