"""What a report shows, from a search and from its folder."""

import dataclasses
import json

import pytest
import torch
from reports import X, Y, chain_result, searched_dense_result, small_result, unjudged_result

from torchsparcs import History, SpectralNetwork, load_result
from torchsparcs.export.predicting import predict_cost
from torchsparcs.report import facts_of
from torchsparcs.report.facts import LINEAR, shown_of
from torchsparcs.report.flash import NAMES
from torchsparcs.searching.refit import refit


def test_the_answer(result):
    facts = facts_of(result)
    picked = result.smallest()
    assert f"{picked.parameters:,} parameter" in facts["headline"]
    assert facts["candidates"][facts["picked"]]["parameters"] == picked.parameters
    assert facts["tolerance"] == result.best().score - result.tolerance
    assert "smallest" in facts["candidates"][facts["picked"]]["rules"]
    assert json.loads(json.dumps(facts)) is not None


def test_the_comparison(result):
    rows = facts_of(result)["comparison"]
    percent = result.settings["task"] != "regression"

    def numbers(found):
        score = getattr(found, "expected", found.score)
        words = (f"{100 * score:.2f} % ± {100 * found.standard_error:.2f}" if percent
                 else f"{score:.4f} ± {found.standard_error:.4f}")  # fmt: skip
        return found.parameters, found.macs, words

    expected = {"picked": result.smallest(), "best score": result.best()}
    if result.smallest() is result.best():
        expected = {"picked, best score": result.best()}
    expected["linear model"] = result.linear
    uncut = [found for found in result.attempts if found.cut == 0 and found.neurons]
    expected["largest trained, in validation"] = max(uncut, key=lambda found: found.parameters)
    found = {row["name"]: (row["parameters"], row["macs"], row["score"]) for row in rows}
    constant = result.scoring.words(result.scoring.constant)
    assert found.pop("one answer for all rows") == (result.target.outputs, 0, constant)
    assert found == {name: numbers(found) for name, found in expected.items()}
    assert rows[0]["architecture"] == result.smallest().architecture
    largest = expected["largest trained, in validation"]
    assert rows[-1]["architecture"] == f"{largest.neurons} hidden neurons"


def test_the_largest_was_trained_and_is_no_linear_model():
    small = small_result("regression")
    good = [each._replace(score=0.99999) for each in small.attempts if not each.neurons]
    better = dataclasses.replace(small, attempts=(*good, *small.attempts))
    assert facts_of(better)["comparison"] == facts_of(small)["comparison"]
    cut = tuple(each for each in small.attempts if each.cut or not each.neurons)
    row = facts_of(dataclasses.replace(small, attempts=cut))["comparison"][-1]
    size = SpectralNetwork(small.settings["widths"]).size
    assert (row["name"], row["score"]) == ("network allowed", "")
    assert (row["parameters"], row["macs"]) == (size.parameters, size.macs)


def test_they_come_by_size(result):
    sizes = [found["parameters"] for found in facts_of(result)["candidates"]]
    assert sizes == sorted(sizes)


def test_only_the_linear_model_was_kept_linear(result):
    for found in (*result.front, result.linear):
        assert (found.penalty_weight is None) == (found.member is None) == (found is result.linear)
    kept = {found["member"]: found["kept_linear"] for found in facts_of(result)["candidates"]}
    assert kept == {member: member == LINEAR for member in kept}
    search = dict(facts_of(result)["about"][1]["facts"])
    assert search["penalty weights"] == "0.001, 0.0001"


def test_a_refitted_front_tells_of_the_refit(tmp_path):
    small = small_result("regression")
    old = {**small.settings, "hardware": "a machine of before", "seconds": 1e9}
    fresh = refit(dataclasses.replace(small, settings=old), X, Y["regression"], steps=3,
                  validation=2, progress=False, device="cpu")  # fmt: skip
    facts = facts_of(fresh)
    assert fresh.attempts == ()
    assert facts["is_refitted"]
    assert facts["comparison"][-1]["name"] == "network allowed"
    assert facts["comparison"][-1]["score"] == ""
    assert (
        " The networks were found by an earlier search and refitted to these rows. It was picked "
        f"by validation, where it has R² {fresh.smallest().score:.4f}; the scores on this page "
        "are corrected for that choice"
    ) in facts["verdict"]
    made_with = dict(facts["about"][-1]["facts"])
    assert made_with["hardware"] != "a machine of before"
    assert made_with["wall time"] in [f"{n} s" for n in range(60)]
    assert ["refitted", "from an earlier search, 3 steps"] in facts["about"][1]["facts"]
    assert not facts_of(small)["is_refitted"]


def test_scores_that_are_none():
    result = unjudged_result()
    facts = facts_of(result)
    (linear,) = (found for found in facts["candidates"] if found["pick"] == "linear")
    assert (linear["score_words"], linear["score_with_error"]) == ("–", "–")
    assert "R² –" in facts["verdict"]
    asked = {**result.settings, "pick": "linear"}
    named = facts_of(dataclasses.replace(result, settings=asked))
    assert named["headline"] == "A linear model of 8 parameters on all columns has no score."


def test_rules_are_marked(result):
    facts = facts_of(result)
    marked = {rule: c for c in facts["candidates"] for rule in c["rules"]}
    assert marked["best"]["score"] == result.best().score
    assert marked["smallest"]["score"] == result.smallest().score
    assert marked["linear"]["score"] == result.linear.score
    best, scoring = result.best(), result.scoring
    assert marked["best"]["score_words"] == scoring.words(best.expected)
    assert marked["best"]["judged_words"] == scoring.words(best.score)
    assert len(facts["candidates"]) in (len(result.front), len(result.front) + 1)


def test_how_networks_were_trained_in_older_folders():
    small = small_result("binary")

    def words(**changes):
        settings = {n: v for n, v in small.settings.items() if n != "config"} | changes
        told = facts_of(dataclasses.replace(small, settings=settings))["about"][1]["facts"]
        return dict(told)["trained"]

    ways = {"ways": ["asleep", "awake"]}
    assert words(config=ways) == "all neurons asleep at first, their eigenvalues zero; awake"
    assert words(config=ways, way="awake") == "awake"  # one of them was chosen then
    assert words() == "not recorded"


def test_what_an_older_folder_lacks(older, tmp_path):
    facts = facts_of(older)
    assert facts["attempts"] == []
    assert not facts["is_corrected"]
    assert "of held-out rows" in facts["headline"]
    assert all(found["answers"] is None for found in facts["candidates"])
    assert facts["comparison"][-1]["score"] == ""
    made_with = dict(facts["about"][-1]["facts"])
    assert made_with["torch"] == torch.__version__
    assert older.report(tmp_path / "page.html").stat().st_size > 10_000


def test_without_a_history():
    bare = dataclasses.replace(small_result("binary"), history=History())
    assert facts_of(bare)["members"] == {}


@pytest.mark.parametrize("make", [chain_result, searched_dense_result])
def test_a_network_has_no_table(make, tmp_path):
    result = make()
    facts = facts_of(result)
    assert (facts["is_table"], facts["columns"], facts["inputs"]) == (False, None, [])
    assert facts["unit"] == ("channel" if make is chain_result else "neuron")
    assert [row["name"] for row in facts["comparison"]] == [
        *["picked", "best score", "largest trained, in validation"]
    ]
    assert [found["rules"] for found in facts["candidates"]][-2:] == [["smallest"], ["best"]]
    assert not any(found["kept_linear"] for found in facts["candidates"])
    assert {found["member"] for found in facts["candidates"]} == {0}
    assert {attempt[0] for attempt in facts["attempts"]} == {0}
    hidden = len(result.settings["widths"]) - 2
    assert (list(facts["members"]), len(facts["members"]["0"]["layers"])) == (["0"], hidden)
    result.save(tmp_path / "run")
    assert json.dumps(facts_of(load_result(tmp_path / "run"))) == json.dumps(facts)
    bare = dataclasses.replace(result, attempts=(), history=History())
    row = facts_of(bare)["comparison"][-1]
    size = sum(p.numel() for p in result.trained.parameters())
    assert (row["name"], row["parameters"]) == ("network allowed", size)
    assert (row["macs"] is None) == (make is chain_result)
    assert facts_of(bare)["members"] == {}


def test_the_flash_of_each_network_is_told():
    small = small_result("binary")
    for found, shown in zip(facts_of(small)["candidates"], shown_of(small), strict=True):
        for chip, name in NAMES.items():
            bytes_ = predict_cost(small.deployed(shown), chip).flash
            assert f"{bytes_:,} bytes on {name}" in found["flash"]
    assert facts_of(chain_result())["candidates"][0]["flash"] == ""
