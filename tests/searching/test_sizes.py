"""Fronts against other sizes than parameters: what is drawn, kept within a limit and told."""

import dataclasses
import json

import numpy as np
import pytest

from torchsparcs import SearchConfig, SearchResult, load_result, refit, search
from torchsparcs.command import options
from torchsparcs.export.predicting import predict_cost
from torchsparcs.files.byte_counts import bytes_of
from torchsparcs.report.facts import facts_of
from torchsparcs.searching.candidates import on_the_front
from torchsparcs.searching.sizes import SIZES

QUICK = SearchConfig(steps=30, longest=30, epochs=1, ways=("asleep",))


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).uniform(-1, 1, (200, 4)).astype(np.float32)
    return x, abs(x[:, 0]) + x[:, 1] ** 2


def found(**options) -> SearchResult:
    x, y = data()
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
