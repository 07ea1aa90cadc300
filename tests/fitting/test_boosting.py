"""Gradient boosting as a teacher: where it leads, and that it never answers what it has seen."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.model_selection import GroupKFold

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.fitting import boosting
from torchsparcs.fitting.fit_rows import FitRows
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.fitting.lesson import Lesson
from torchsparcs.parallel.executor import Executor
from torchsparcs.tables.made_rows import made_inputs
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.training.deadline import Deadline

ROWS = 240
DRAW = np.random.default_rng(0)
X = DRAW.uniform(-1, 1, (ROWS, 3))
STAIRS = np.floor(4 * X[:, 0]) % 2
TARGETS = {
    "numbers": STAIRS + 0.01 * DRAW.normal(size=ROWS),
    "two numbers": np.stack([STAIRS, X[:, 1]], axis=1),
    "two classes": np.where(STAIRS > 0, "up", "down"),
    "three classes": np.array(["a", "b", "c"])[np.floor(1.5 * (X[:, 0] + 1)).astype(int)],
    "a rare class": np.where(np.arange(ROWS) < 3, "rare", np.where(STAIRS > 0, "up", "down")),
}


def rows_of(y, **options):
    preprocessing = Preprocessing(Inputs.fit(X), Target.fit(y))
    folded = FoldedData.of(preprocessing, X, y, None, validation=3, seed=0, **options)
    return FitRows.of(folded, 0), preprocessing.target.outputs


def nothing(rows, outputs):
    """A network for each fit that always says the same."""
    weights = torch.full((outputs, rows.inputs.shape[1]), 1e-9, dtype=torch.float64)
    bias = torch.full((outputs,), 0.01, dtype=torch.float64)
    return [DirectSpace(weights, bias, torch.zeros(0, dtype=torch.long), "relu")] * rows.fits


@pytest.mark.parametrize("kind", TARGETS)
def test_it_leads_where_networks_know_nothing_and_answers_everything(kind):
    rows, outputs = rows_of(TARGETS[kind])
    assert boosting.leads(rows, nothing(rows, outputs), outputs, 0)
    lesson = Lesson(*boosting.lesson(rows, outputs, 0, Executor()))
    assert lesson.said.shape == (4, ROWS, outputs)
    made = len(lesson.inputs)
    assert made == 20 * ROWS
    assert lesson.answers.shape == (4, made, outputs)
    known = rows.targets.reshape(ROWS, -1)
    if rows.task == "regression":
        assert (lesson.said[-1] - known).square().mean() < 0.3 * known.var()
        return
    assert lesson.said.min() >= 0
    assert lesson.said.max() <= 1
    said = lesson.said[-1].argmax(dim=1) if outputs > 1 else lesson.said[-1, :, 0] > 0.5
    assert (said == rows.targets.reshape(-1)).float().mean() > 0.9


def test_it_does_not_lead_where_there_is_nothing_to_know():
    """Nor of quantiles, nor where it would take too long."""
    noise = np.random.default_rng(1).normal(size=ROWS)
    rows, outputs = rows_of(noise)
    assert not boosting.leads(rows, nothing(rows, outputs), outputs, 0)
    rows, outputs = rows_of(TARGETS["numbers"], scoring="pinball_0.9")
    assert not boosting.leads(rows, nothing(rows, outputs), outputs, 0)


@pytest.mark.parametrize(
    ("limit", "value"), [("MOST_ENTRIES", 3 * ROWS - 1), ("FEWEST", 161), ("FEWEST_JUDGES", 81)]
)
def test_tables_that_are_too_large_or_too_small_are_not_asked(monkeypatch, limit, value):
    rows, outputs = rows_of(TARGETS["numbers"])
    assert boosting.leads(rows, nothing(rows, outputs), outputs, 0)
    monkeypatch.setattr(boosting, limit, value)
    assert not boosting.leads(rows, nothing(rows, outputs), outputs, 0)


@pytest.mark.parametrize(("gain", "leads"), [(0.2, True), (0.02, False), (-0.2, False)])
def test_it_has_to_be_better_by_more_than_the_error(monkeypatch, gain, leads):
    """Of 80 rows that judge, with a deviation of one: an error of 0.11."""
    rows, outputs = rows_of(TARGETS["numbers"])
    known = boosting._losses
    apart = torch.from_numpy(np.resize([-1.0, 1.0], 80)).float()

    def losses(*arguments):
        return torch.zeros_like(known(*arguments)) + apart - gain

    monkeypatch.setattr(boosting, "_losses", losses)
    monkeypatch.setattr(boosting, "row_losses", lambda *_: torch.zeros(1, 80))
    assert boosting.leads(rows, nothing(rows, outputs), outputs, 0) == leads


def test_rows_of_one_cluster_are_in_one_part():
    rows, outputs = rows_of(TARGETS["numbers"])
    clusters = torch.arange(ROWS) // 4
    rows = replace(rows, clusters=clusters)
    part = torch.from_numpy(boosting._parts(rows, 0))
    assert (part.view(-1, 4) == part.view(-1, 4)[:, :1]).all()
    assert part.bincount().min() > ROWS / 5
    lesson = Lesson(*boosting.lesson(rows, outputs, 0, Executor()))
    assert lesson.said[-1].std() > 0


def test_folded_rows_tell_their_clusters():
    y, places = TARGETS["numbers"], np.arange(ROWS) // 4
    preprocessing = Preprocessing(Inputs.fit(X), Target.fit(y))
    folded = FoldedData.of(preprocessing, X, y, None, places, validation=GroupKFold(3), seed=0)
    rows = FitRows.of(folded, 0)
    assert (rows.clusters.numpy() == places).all()


def test_where_there_is_no_time_there_is_no_lesson():
    rows, outputs = rows_of(TARGETS["numbers"])
    executor = Executor()
    executor.deadline = Deadline()
    executor.deadline.stop()
    assert boosting.lesson(rows, outputs, 0, executor) is None


def test_nothing_of_a_label_is_in_what_is_said_of_its_row():
    """Of labels that are noise, what is said is noise as well; so it is of rows that judge."""
    noise = np.random.default_rng(2).normal(size=ROWS)
    rows, outputs = rows_of(noise)
    lesson = Lesson(*boosting.lesson(rows, outputs, 0, Executor()))
    for said in lesson.said:
        assert abs(np.corrcoef(said[:, 0], noise)[0, 1]) < 0.2
    taught = rows.taught(lesson)
    judged = (rows.weights[0] == 0).nonzero().squeeze(1)
    of_judged = torch.isin(lesson.parents, judged).any(dim=1)
    assert (taught.made.weights[0] > 0).tolist() == (~of_judged).tolist()


def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    rows, outputs = rows_of(STAIRS)
    known = boosting.Known.of(rows, outputs, 0)
    weights = np.where(np.arange(ROWS) < 150, 2.0, 0.0)
    some = known._replace(inputs=known.inputs[:150], targets=known.targets[:150])
    said = known.boosted(weights, known.inputs)
    assert said.tolist() == some.boosted(weights[:150], known.inputs).tolist()


class TestMadeInputs:
    def test_what_comes_from_one_column_comes_from_one_row(self):
        draw = np.random.default_rng(0)
        kinds = draw.integers(0, 3, 200)
        ones = np.eye(3)[kinds]
        inputs = np.hstack([draw.normal(size=(200, 1)), ones, draw.integers(0, 4, (200, 1)) / 3])
        rows, base, partner = made_inputs(inputs, (0, 1, 1, 1, 2), np.zeros(200, int), 500, 0)
        assert (rows[:, 1:4].sum(axis=1) == 1).all()
        pair = np.stack([inputs[base], inputs[partner]])
        low, high = pair.min(axis=0), pair.max(axis=0)
        assert ((rows >= low - 1e-9) & (rows <= high + 1e-9)).all()
        assert {*rows[:, 4]} <= {*inputs[:, 4]}  # a number that many rows have
        assert not {*rows[:, 0]} <= {*inputs[:, 0]}
