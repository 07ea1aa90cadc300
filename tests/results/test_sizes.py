"""Fronts against other sizes than parameters: what is drawn, kept within a limit and told."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch
from shell import sparcs

from torchsparcs import (
    CompactNetwork,
    SearchConfig,
    SearchResult,
    load_result,
    quantize,
    refit,
    search,
    to_c,
)
from torchsparcs.command import options
from torchsparcs.command.console import open_console, print_front
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.predicting import predict_cost
from torchsparcs.files.byte_counts import bytes_of
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.whole_numbers import WholeNumbers
from torchsparcs.judging.candidates import on_the_front
from torchsparcs.report.facts import facts_of
from torchsparcs.results.sizes import SIZES, Sizing
from torchsparcs.searching.table_search import TableSearch
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

QUICK = SearchConfig(steps=30, longest=30, epochs=1, ways=("asleep",))


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).uniform(-1, 1, (200, 4)).astype(np.float32)
    return x, abs(x[:, 0]) + x[:, 1] ** 2


def found(**options) -> SearchResult:
    x, y = data()
    options = {"penalty_weights": [1e-3], "validation": 2, **options}
    return search(x, y, widths=(8,), config=QUICK, engine="local", progress=False, **options)


@pytest.fixture(scope="module")
def result() -> SearchResult:
    return found(size="bytes", chip="avr", max_bytes="1.5kB")


def test_the_front_is_drawn_against_bytes(result):
    sizes = [each.bytes for each in result.front]
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 1500
    scores = [each.score for each in result.front]
    assert scores == sorted(scores)
    for each in result.front:
        assert each.bytes == predict_cost(result.deployed(each), "avr").flash
    assert all(attempt.bytes > 0 for attempt in result.attempts)
    words = repr(result)
    assert f"{sizes[0]:,} to {sizes[-1]:,} bytes" in words


def test_it_is_saved_shown_and_refitted(result, tmp_path):
    result.save(tmp_path / "run")
    again = load_result(tmp_path / "run")
    assert [each.bytes for each in again.front] == [each.bytes for each in result.front]
    assert again.size is SIZES["bytes"]
    assert (tmp_path / "run" / "front.csv").read_text().startswith("parameters,macs,bytes,")
    facts = json.loads(json.dumps(facts_of(again)))
    assert (facts["size"], facts["chip"], facts["budget"]) == ("bytes", "avr", 1500)
    assert [row["size"] for row in facts["candidates"]] == sorted(
        row["bytes"] for row in facts["candidates"]
    )
    about = {name: text for part in facts["about"] for name, text in part["facts"]}
    assert about["size"].startswith("bytes; bytes are those of avr")
    assert about["budget"] == "1,500 bytes"
    after = refit(again, *data(), steps=5, progress=False)
    assert all(each.bytes <= 1500 for each in after.front)


@pytest.fixture(scope="module")
def small() -> SearchResult:
    return found(size="bytes", chip="cortex-m0", int8=True, max_bytes="1kB")


def test_the_front_says_what_int8_costs(small, tmp_path):
    """Networks that float would not let in, judged in int8 by the rows that judge them in float."""
    assert predict_cost(small.deployed(0), "cortex-m0").flash > 1000
    x = data()[0]
    for each in small.front:
        in_int8 = predict_cost(quantize(small.deployed(each), x), "cortex-m0").flash
        assert each.bytes == pytest.approx(in_int8, abs=8)
        assert each.int8_score != each.score
        assert abs(each.int8_score - each.score) < 0.02
        assert each.told_in_int8 == pytest.approx(each.told + each.int8_score - each.score)
    small.save(tmp_path / "run")
    again = load_result(tmp_path / "run")
    assert [c.int8_score for c in again.front] == [c.int8_score for c in small.front]
    assert ",bytes,int8_score," in (tmp_path / "run" / "front.csv").read_text()
    facts = facts_of(again)
    assert (facts["is_int8"], facts["bytes_name"]) == (True, "bytes, cortex-m0 in int8")
    assert facts["candidates"][0]["int8_words"] == again.scoring.words(again.front[0].told_in_int8)
    console = open_console()
    with console.capture() as shown:
        print_front(console, again, "best", tmp_path / "run")
    head, constant = (
        next(line for line in shown.get().splitlines() if name in line)
        for name in ("rule", "constant")
    )
    assert "in int8" in head
    assert constant.index("constant") == head.index("rule")
    assert f"parameters, {again.best().bytes:,} bytes on cortex-m0 in int8" in shown.get()
    after = refit(again, *data(), steps=5, progress=False)
    assert all(each.int8_score is not None for each in after.front)


def test_a_header_says_whose_scores_it_has(small, tmp_path):
    deployed, best = small.deployed("best"), small.best()
    to_c(quantize(deployed, data()[0]), tmp_path / "bytes.h")
    to_c(deployed, tmp_path / "floats.h")
    in_int8 = f", {small.scoring.words(best.int8_score)} in int8."
    whose = "A score that does not say int8 is that of the network in float."
    for name, is_int8 in (("bytes.h", True), ("floats.h", False)):
        text = (tmp_path / name).read_text()
        assert in_int8 in text
        assert (whose in text) is is_int8


def test_float_is_judged_as_it_answers(small, tmp_path):
    """Beside int8, on rows far out, where predictions of numbers end."""
    x, y = data()
    far = pd.DataFrame(9 * x, columns=small.inputs.names)
    small.save(tmp_path / "run")
    far.assign(**{small.target.names[0]: y}).to_csv(tmp_path / "rows.csv", index=False)
    options = ("--format", "c", "--pick", "best", "--int8", "--data", tmp_path / "rows.csv")
    outcome = sparcs("export", tmp_path / "run", *options)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"{small.score(far, y, 'best'):.4f} in float; on those" in outcome.out


def test_int8_is_judged_by_the_folds():
    """As int8 of each fold by hand, and by rows that come back from what is standardised."""
    draw = np.random.default_rng(0)
    x = pd.DataFrame({"a": draw.normal(3, 2, 90), "t": draw.choice([*"uvw"], 90)})
    x.loc[::7, "a"] = None
    y = np.where(x["a"].fillna(9) > 3, "yes", "no")
    preprocessing = Preprocessing(Inputs.fit(x), Target.fit(y))
    folded = FoldedData.of(preprocessing, x, y, None, validation=3, seed=0)
    whole = WholeNumbers.of(preprocessing, folded)
    encoded = preprocessing.inputs.encode(x)
    np.testing.assert_allclose(whole.encoded, encoded, atol=1e-5)
    assert np.isnan(encoded).any()
    torch.manual_seed(0)
    inputs = len(preprocessing.inputs.encoded_names)
    fits = [CompactNetwork([inputs, 4, 1], [(1, 0), (2, 1)]) for _ in range(folded.fits)]
    right = 0
    for fit, network in enumerate(fits[:-1]):
        seen = folded.folds.fitted[fit].numpy()
        mine = folded.folds.judge.numpy() == fit
        one = quantize(DeployedNetwork(network, preprocessing), x[seen])
        right += ((one.outputs(x[mine])[:, 0] > 0) == (y[mine] == "yes")).sum()
    score = whole.score([network.to_direct() for network in fits], 1.0)
    assert score == pytest.approx(right / 90)


def test_a_hopeless_limit_is_refused_before_the_search(monkeypatch):
    monkeypatch.setattr(TableSearch, "run", lambda *_: pytest.fail("it was searched"))
    least = r"max_bytes of at least [\d,]+, which a network of one weight takes on {}\. Got {}\."
    with pytest.raises(ValueError, match=least.format("avr", 300) + " Less may do with int8=True"):
        found(chip="avr", max_bytes=300)
    with pytest.raises(ValueError, match=least.format("cortex-m0", 30) + "$"):
        found(chip="cortex-m0", max_bytes=30, int8=True)


@pytest.mark.parametrize(("int8", "least"), [(False, 87), (True, 67)])
def test_one_weight_is_as_small_in_any_order_of_columns(int8, least):
    """What tells of a missing number is the smallest thing to read; nothing is drawn for it."""
    draw = np.random.default_rng(0)
    x = pd.DataFrame({"a": draw.normal(size=60), "t": draw.choice([*"uvw"], 60)})
    x["b"] = draw.normal(size=60)
    x.loc[::7, "a"] = None
    y = draw.choice(["yes", "no"], 60)
    before = torch.get_rng_state()
    for names in (["a", "t", "b"], ["b", "t", "a"]):
        preprocessing = Preprocessing(Inputs.fit(x[names]), Target.fit(y))
        folded = FoldedData.of(preprocessing, x[names], y, None, validation=2, seed=0)
        within = Sizing.of("bytes", "cortex-m4", preprocessing, {"bytes": least}, int8)
        within.on_rows(folded).check_reach()
        beyond = Sizing.of("bytes", "cortex-m4", preprocessing, {"bytes": least - 1}, int8)
        with pytest.raises(ValueError, match=f"of at least {least}, .* Got {least - 1}"):
            beyond.on_rows(folded).check_reach()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"int8": True, "activation": "tanh"}, r"ReLUs for int8\. Got tanh"),
        ({"int8": "no"}, r"Expected int8 to be True or False\. Got 'no'"),
    ],
)
def test_bad_int8_is_refused_before_a_teacher_is_asked(options, words):
    with pytest.raises(ValueError, match=words):
        found(teacher=lambda X: pytest.fail("it was asked"), **options)


def test_sizes_order_a_front(result):
    """One that has more parameters and fewer bytes is the smaller one by bytes."""
    first = dataclasses.replace(result.front[0], score=0.5, bytes=900)
    last = dataclasses.replace(result.front[-1], score=0.6, bytes=800)
    assert last.parameters > first.parameters
    assert on_the_front([first, last]) == [first, last]
    assert on_the_front([first, last], size="bytes") == [last]
    with pytest.raises(ValueError, match=r"max_bytes of at least 800, .* Got 700"):
        on_the_front([first, last], {"bytes": 700}, "bytes")


def test_the_command_line_knows_the_sizes():
    assert (*SIZES,) == options.SIZES


@pytest.mark.parametrize("text", ["2 potatoes", "-1", "", True, "1e3"])
def test_what_is_no_number_of_bytes(text):
    with pytest.raises(ValueError, match="Expected bytes, such as 256"):
        bytes_of(text)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match=r"a size among parameters, macs, bytes\. Got 'grams'"):
        found(size="grams")
    with pytest.raises(ValueError, match=r"a chip among .*Got 'z80'"):
        found(chip="z80")
