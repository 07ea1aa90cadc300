"""The sentences of a report."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from reports import chain_result, small_result

from torchsparcs import CompactNetwork
from torchsparcs.report import facts_of
from torchsparcs.report.verdict import beside_one_answer, typical_error, verdict
from torchsparcs.report.wording import columns_words, judged_by, ratio_words
from torchsparcs.tables.target import Target


def caveat(result):
    return (
        f"It was picked out of {len(result.attempts)} networks by validation, where it has "
        f"{100 * result.smallest().score:.2f} %; the scores on this page are corrected for that "
        "choice, unless they say otherwise."
    )


def read_words(result, candidate):
    reads = candidate.network.reads
    return (
        "all columns" if reads is None else f"{len(result.inputs.columns_read(reads))} of 3 columns"
    )


def valued(candidate, score, **changes):
    """The same as if it were worth ``score``, judged and expected."""
    return dataclasses.replace(candidate, score=score, expected=score, **changes)


def test_the_words():
    binary, regression = small_result("binary"), small_result("regression")
    facts = facts_of(binary)
    one, linear, best = binary.smallest(), binary.linear, binary.best()
    assert facts["headline"] == (
        f"A network of {one.parameters} parameters on {read_words(binary, one)} should get "
        f"{100 * one.expected:.1f} % of new rows right."
    )
    linear_words = f"{100 * linear.expected:.2f} %"
    assert linear.parameters < one.parameters
    assert facts["verdict"].endswith(
        f"The linear model on all columns has {linear.parameters} parameters and reaches "
        f"{linear_words}. {caveat(binary)}"
    )
    assert facts["verdict"].startswith("It reads ")
    assert "the choice was repeated on 100 random halves of the rows" in facts["legend"]
    attempt = binary.attempts[0]._replace(
        member=None, cut=0, neurons=9, parameters=10 * one.parameters, score=0.5, standard_error=0.1
    )
    larger = attempt._replace(parameters=2 * attempt.parameters, score=0.59)  # within its error
    worse = attempt._replace(parameters=2, score=0.4)
    plain = dataclasses.replace(binary, attempts=(*binary.attempts, attempt, larger, worse))
    assert (
        f"This network has 10 times fewer parameters than a plain MLP picked in the same way "
        f"({attempt.parameters}; 50.00 % in cross-validation, this one {100 * one.score:.2f} % "
        "there)." in facts_of(plain)["verdict"]
    )
    taught = dataclasses.replace(plain, settings={**plain.settings, "taught_by_boosting": True})
    assert "in the same way, pupils of the teacher among them (" in facts_of(taught)["verdict"]
    assert "plain" not in str(facts_of(plain)["comparison"])  # of corrected scores
    same = attempt._replace(parameters=one.parameters, score=one.score)
    itself = facts_of(dataclasses.replace(binary, attempts=(same,)))["verdict"]
    assert "It is itself a plain MLP, drawn and fitted: it did not grow." in itself
    assert "picked in the same way" not in itself
    assert best.standard_error < 3 / 150
    lowest = 100 * (best.score - 3 / 150)
    assert facts["tolerance_words"] == f"3 rows below the best, {lowest:.2f} % in cross-validation"
    many = dataclasses.replace(binary, settings={**binary.settings, "judged_rows": 15_000})
    lowest = 100 * (best.score - best.standard_error)
    assert facts_of(many)["tolerance_words"] == (
        f"one standard error below the best, {lowest:.2f} % in cross-validation"
    )
    lowest = regression.best().score - 0.001  # its error is smaller than that
    assert facts_of(regression)["tolerance_words"] == (
        f"0.0010 below the best, {lowest:.4f} in cross-validation"
    )
    assert facts["judged_by"] == "the 150 rows in turn (2-fold cross-validation)"
    assert facts["data"] == "150 rows, 3 columns, 2 classes of y"


def test_errors_of_numbers_are_told_in_the_unit_of_the_target():
    """√(1 − R²) standard deviations, as they are where R² is that of the answers."""
    two = small_result("regression")
    assert typical_error(two, 0.5) is None  # of two outputs
    assert typical_error(small_result("binary"), 0.5) is None
    y = torch.tensor([1.0, 4.0, 7.0, 300.0], dtype=torch.float64)
    said = torch.tensor([2.0, 2.0, 9.0, 260.0], dtype=torch.float64)
    r2 = 1 - ((y - said).square().sum() / (y - y.mean()).square().sum()).item()
    target = Target.fit(y.numpy(), "regression")
    told = {**two.settings, "constant_score": 0.0}
    front = tuple(valued(found, r2) for found in two.front[:1])
    preprocessing = dataclasses.replace(two.preprocessing, target=target)
    one = dataclasses.replace(two, front=front, preprocessing=preprocessing, settings=told)
    error = (y - said).square().mean().sqrt().item()
    assert typical_error(one, r2) == pytest.approx(error)
    linear = typical_error(one, one.linear.told)
    assert (
        f"Its typical error of y (root mean square) is {error:.2f}; the linear model has "
        f"{linear:.2f}, one answer for all rows {y.std(correction=0):.1f}."
    ) in verdict(one, one.smallest())


def test_three_linear_models_are_told_apart():
    small = small_result("binary")
    some = valued(small.front[0], 0.7, network=CompactNetwork([3, 1], [(1, 0)], reads=(0,)))
    all_read = small.linear
    two = CompactNetwork([3, 1], [(1, 0)], reads=(0, 2))
    best = valued(some, 0.9, network=two)
    three = dataclasses.replace(small, front=(some, best), linear=all_read)
    facts = facts_of(three)
    assert facts["headline"].startswith("A linear model of 3 parameters on 2 of 3 columns ")
    assert facts["verdict"].endswith(
        "This network has 1.3 times fewer parameters than the linear model on all columns (4; "
        f"{100 * all_read.expected:.2f} %). {caveat(three)}"
    )
    assert [found["rules"] for found in facts["candidates"]] == [[], ["smallest", "best"],
                                                                 ["linear"]]  # fmt: skip
    top = valued(all_read, 0.9, standard_error=1)
    only = dataclasses.replace(three, front=(top,), linear=top)
    assert facts_of(only)["verdict"].endswith("It is the linear model: nothing larger was worth "
                                              f"its parameters. {caveat(only)}")  # fmt: skip


def test_constant_columns_are_counted_where_all_others_are_read():
    small = small_result("binary")
    assert columns_words(small, small.linear) == "on all columns"
    first, *others = small.inputs.columns
    made = SimpleNamespace(
        inputs=SimpleNamespace(
            columns=[dataclasses.replace(first, categories=(), kind="constant"), *others]
        )
    )
    assert columns_words(made, small.linear) == "on 2 of 3 columns"


def test_what_of_the_data_is_on_the_page():
    assert facts_of(small_result("binary"))["held"] == (
        "It holds summaries of the data, not its rows."
    )
    assert facts_of(small_result("regression"))["held"] == (
        "Of the data it holds summaries, not its rows, and of the target 150 values, to draw "
        "predicted against true."
    )


def test_the_words_of_a_network_whose_scores_are_not_corrected():
    result = chain_result()
    small, best = result.smallest(), result.best()
    facts = facts_of(result)
    assert facts["headline"] == (
        f"A linear convolutional network of {small.parameters} parameters gets 85.0 % of held-out "
        "rows right."
    )
    assert facts["verdict"] == (
        f"This network has {ratio_words(best.parameters, small.parameters)} times fewer parameters "
        f"than the best network ({best.parameters:,}; 90.00 %). It was picked by the same rows "
        "that gave its score: test it on others."
    )
    assert facts["data"] == "54 rows, 1 × 6 × 6 inputs, 3 classes of y"
    assert facts["judged_by"] == "60 held-out rows"
    whole = facts_of(dataclasses.replace(result, front=(best,)))
    assert whole["headline"].startswith(
        f"A convolutional network of {best.parameters:,} parameters gets"
    )
    assert whole["verdict"].startswith("It was picked by the same rows")
    assert "corrected" not in facts["legend"]


def test_another_score_and_a_rare_class():
    """Few rows of a class: what one answer reaches, what is found of it, and which score it is."""
    small = small_result("binary")
    counts = torch.tensor([[140, 2], [6, 2]])
    told = {"scoring": "log_loss", "scoring_is_auto": True, "constant_score": -0.21}
    front = [
        dataclasses.replace(found, score=score, expected=score, standard_error=0.02, answers=counts)
        for found, score in zip(small.front, (-0.2, -0.15), strict=False)
    ]
    result = dataclasses.replace(
        small, front=tuple(front[:2]), linear=front[0], settings={**small.settings, **told}
    )
    facts = facts_of(result)
    assert facts["measure"] == "log loss"
    assert facts["headline"].endswith("should have log loss 0.1500 on new rows.")
    assert (
        "One class is rare, and accuracy would hide it: networks are compared by log loss, of "
        "which less is better. It finds 2 of 8 rows of yes." in facts["verdict"]
    )
    assert "log loss 0.2000" in facts["verdict"]
    assert (
        facts["tolerance_words"] == "one standard error above the best, 0.1700 in cross-validation"
    )
    assert facts["candidates"][-1]["answers"]["note"] == ""  # accuracy is not the score
    assert facts["style"] == {"times": -1, "decimals": 4, "unit": ""}
    assert dict(facts["about"][0]["facts"])["judged by"] == "log loss, by default"


def test_what_is_no_better_than_one_answer_is_told_so():
    small = small_result("binary")
    settings = {**small.settings, "constant_score": 0.9}
    one = valued(small.front[0], 0.92, standard_error=0.03)
    result = dataclasses.replace(small, front=(one,), linear=None, settings=settings)
    words = (
        "It is not better than one answer for all rows (90.00 %) by more than a standard error; "
        "--scoring log_loss or roc_auc asks which rows are likelier than others."
    )
    assert beside_one_answer(result, one) == words
    assert words in facts_of(result)["verdict"]
    better = dataclasses.replace(result, front=(valued(one, 0.94),))
    assert "one answer for all" not in facts_of(better)["verdict"]


def test_who_judged():
    known = {"judged_rows": 90, "fits": 4}
    assert judged_by({**known, "group": "who"}) == (
        "the 90 rows in turn (3-fold cross-validation, whole groups of who)"
    )
    assert judged_by({**known, "time": "day"}) == "90 rows that are later in day, in 3 steps"
