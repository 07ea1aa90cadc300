"""Confusion matrices and pairs, from what a candidate answered."""

import dataclasses

import numpy as np
import torch
from reports import (
    Y,
    small_result,
)

from torchsparcs.report import facts_of
from torchsparcs.report.answers import answers_of


def test_a_note_where_rows_count_by_their_weights():
    small = small_result("binary")
    best, target = small.best(), small.preprocessing.target
    assert answers_of(best, target)["note"] == ""
    other = dataclasses.replace(best, score=best.score - 0.01)
    assert answers_of(other, target)["note"] == (
        "Rows are counted once each here; the score counts them by their weights."
    )


def test_pairs_are_in_their_own_units():
    answers = facts_of(small_result("regression"))["candidates"][-1]["answers"]
    u, v = answers["outputs"]
    assert (u["name"], v["name"]) == ("u", "v")
    assert np.allclose(sorted(u["true"]), sorted(Y["regression"]["u"]), atol=1e-2)
    assert np.allclose(sorted(v["true"]), sorted(Y["regression"]["v"]), atol=1e-2)


def test_many_classes_become_the_worst_and_the_rest():
    small = small_result("multiclass")
    labels = tuple(f"c{i:02d}" for i in range(30))
    counts = torch.eye(30, dtype=torch.int64) * 10
    counts[3, 7], counts[28, 29] = 5, 4  # the second pair is among the worst as well
    target = dataclasses.replace(small.preprocessing.target, classes=labels)
    preprocessing = dataclasses.replace(small.preprocessing, target=target)
    best = dataclasses.replace(small.best(), answers=counts)
    linear = dataclasses.replace(small.linear, answers=None)
    changed = dataclasses.replace(small, front=(best,), linear=linear, preprocessing=preprocessing)
    (answers,) = (c["answers"] for c in facts_of(changed)["candidates"] if "best" in c["rules"])
    assert len(answers["labels"]) == 20
    assert {"c03", "c07", "c28", "c29", "11 others"} <= set(answers["labels"])
    assert np.sum(answers["counts"]) == 309
    assert "other 11" in answers["note"]
    assert "0 are mistakes" in answers["note"]
