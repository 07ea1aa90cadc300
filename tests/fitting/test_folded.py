"""Rows are judged by fits that did not see them, and the judgement is the plain computation."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import RepeatedKFold
from torch import nn

from torchsparcs.fitting.folded import FoldedData, counted_rows
from torchsparcs.judging.default_scoring import scoring_for
from torchsparcs.judging.folds import (
    FOLDS,
    Folds,
    LaterRows,
    folds_of,
    held_out,
    split_folds,
)
from torchsparcs.judging.judgement import Judgement
from torchsparcs.spectral.population import HasMembers
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

CLASSES = torch.arange(60) % 3


def check(folds: Folds, rows: int):
    """What holds for every kind of folds."""
    assert folds.fitted.shape == (folds.fits, rows)
    judged = folds.judged
    assert torch.equal(judged, (folds.judge >= 0).nonzero().squeeze(1))
    assert not folds.fitted[folds.judge[judged], judged].any()
    # what a fit does not see is what it judges
    for index, fitted in enumerate(folds.fitted):
        assert torch.equal(~fitted, folds.judge == index)


class TestFolds:
    @settings(max_examples=40, deadline=None)
    @given(rows=st.integers(2, 80), data=st.data(), seed=st.integers(0, 99))
    def test_every_row_is_judged_once_by_a_fit_that_did_not_see_it(self, rows, data, seed):
        count = data.draw(st.integers(2, rows))
        folds = folds_of(count, torch.zeros(rows), False, seed)
        check(folds, rows)
        assert folds.fits == count + 1
        assert len(folds.judged) == rows
        assert folds.fitted[-1].all()
        sizes = (~folds.fitted[:-1]).sum(dim=1)
        assert sizes.max() - sizes.min() <= 1

    @pytest.mark.parametrize(
        ("share", "held_out"), [(0.5, 30), (0.4, 24), (0.3, 18), (0.2, 12), (0.01, 1)]
    )
    def test_a_share_is_held_out_once(self, share, held_out):
        folds = folds_of(share, torch.zeros(60), False, 0)
        check(folds, 60)
        assert folds.fits == 2
        assert len(folds.judged) == held_out
        assert folds.fitted[-1].all()

    def test_auto_takes_folds_for_few_rows_and_a_fifth_of_many(self):
        for rows, fits, judged in ((2, 3, 2), (9999, FOLDS + 1, 9999), (10_000, 2, 2000)):
            folds = folds_of("auto", torch.zeros(rows), False, 0)
            check(folds, rows)
            assert (folds.fits, len(folds.judged)) == (fits, judged)

    @pytest.mark.parametrize("validation", [4, 0.25])
    def test_classes_are_spread_evenly(self, validation):
        """Of each of three classes of 20 rows, every fold has five."""
        folds = folds_of(validation, CLASSES, True, 0)
        for fold in range(folds.fits - 1):
            assert torch.bincount(CLASSES[folds.judge == fold]).tolist() == [5, 5, 5]

    def test_the_seed_decides(self):
        first, second, other = (folds_of(4, CLASSES, True, seed) for seed in (0, 0, 1))
        assert torch.equal(first.judge, second.judge)
        assert not torch.equal(first.judge, other.judge)
        state = torch.get_rng_state()
        folds_of(4, CLASSES, True, 2)
        assert torch.equal(state, torch.get_rng_state())

    def test_given_rows_are_judged_and_never_fitted(self):
        folds = held_out(torch.arange(8) >= 5)
        check(folds, 8)
        assert folds.fits == 1
        assert folds.judged.tolist() == [5, 6, 7]

    @pytest.mark.parametrize("bad", [1, 0, 11, True, 0.0, 0.6, -0.2, "four", None, float("nan")])
    def test_bad_ones(self, bad):
        with pytest.raises(
            ValueError, match=r"folds from 2 to 10, .*, a splitter, or a pair \(X, y\)\. Got"
        ):
            folds_of(bad, torch.zeros(10), False, 0)


class TestStrata:
    @pytest.mark.parametrize("validation", [4, 0.25])
    def test_numbers_are_spread_evenly(self, validation):
        """Of each tenth of 80 numbers every fold has two; by chance that is never so."""
        target = torch.randn(80, generator=torch.Generator().manual_seed(0)).exp()
        folds = folds_of(validation, target, False, 0)
        tenth = target.argsort().argsort() // 8
        for fold in range(folds.fits - 1):
            assert torch.bincount(tenth[folds.judge == fold]).tolist() == [2] * 10
        assert not torch.equal(folds.judge, folds_of(validation, target, False, 1).judge)

    def test_several_numbers_have_no_order(self):
        check(folds_of(3, torch.randn(30, 2), False, 0), 30)


class TestLaterRows:
    def test_what_judges_is_later_than_all_it_judges(self):
        time = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 3))
        folds = split_folds(LaterRows(4), np.zeros((60, 1)), np.zeros(60), time)
        assert folds.fits == 5
        assert len(folds.judged) == 48  # the first four days judge nobody
        for fit in range(4):
            judged = time[(folds.judge == fit).numpy()]
            assert len(judged) == 12
            assert time[folds.fitted[fit].numpy()].max() < judged.min()

    def test_too_few(self):
        with pytest.raises(ValueError, match=r"more different times than folds\. Got 3 and 4"):
            split_folds(LaterRows(4), np.zeros((9, 1)), np.zeros(9), np.arange(9) % 3)


class Constant(nn.Module, HasMembers):
    """Members that each say one thing of every row; ``outputs`` (members, k)."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs = nn.Parameter(torch.tensor(outputs, dtype=torch.float64))
        self.members = len(outputs)

    def forward(self, input):
        return self.outputs[:, None].expand(-1, len(input), -1)


def folded(target, task, validation=3, weights=None) -> FoldedData:
    rows = len(target)
    inputs = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0))
    weights = torch.ones(rows) if weights is None else weights
    folds = folds_of(validation, target, task != "regression", 0)
    aim = Target.of_outputs(task, 1 if task == "regression" else 3)
    scoring = scoring_for("auto", aim, target, weights, folds.judged)
    return FoldedData(inputs, target, weights, folds, task, scoring)


def own_outputs(found: FoldedData, group: list) -> np.ndarray:
    """What the members of one group say of each judged row."""
    return np.array(group)[found.folds.judge[found.folds.judged]]


WEIGHTS = torch.tensor([0.5, 1.0, 3.0]).repeat(20)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("validation", [3, 0.5])
class TestJudging:
    def test_regression(self, weights, validation):
        target = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        found = folded(target, "regression", validation, weights)
        groups = [[[0.1 * member + group] for member in range(found.fits)] for group in (0, 1)]
        judgements = found.judge(Constant([*groups[0], *groups[1]]))
        rows = found.folds.judged
        y, w = target[rows].numpy(), found.weights[rows].double().numpy()
        for group, judgement in zip(groups, judgements, strict=True):
            said = own_outputs(found, group)[:, 0]
            own = r2_score(y, np.full_like(said, group[-1][0]), sample_weight=w)
            assert judgement.own == pytest.approx(own)
            assert judgement.loss == pytest.approx(np.average((y - said) ** 2, weights=w))
            assert judgement.score == pytest.approx(r2_score(y, said, sample_weight=w))
            spread = np.average((y - np.average(y, weights=w)) ** 2, weights=w)
            scores = 1 - (y - said) ** 2 / spread
            share = w / w.sum()
            error = np.sqrt((share**2 * (scores - share @ scores) ** 2).sum())
            assert judgement.standard_error == pytest.approx(error)
            assert judgement.parts.numpy() == pytest.approx(share * scores, rel=1e-5)
        assert judgements[0].score > judgements[1].score

    def test_what_is_said_beyond_the_bounds_counts_as_their_end(self, weights, validation):
        target = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        found = folded(target, "regression", validation, weights)
        bounded = dataclasses.replace(found, bounded=lambda output: output.clamp(-1, 1))
        (far,) = bounded.judge(Constant([[-9.0]] * found.fits))
        (end,) = found.judge(Constant([[-1.0]] * found.fits))
        assert (far.score, far.loss, far.own) == (end.score, end.loss, end.own)

    def test_classes(self, weights, validation):
        found = folded(CLASSES, "multiclass", validation, weights)
        logits = [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]
        group = logits[: found.fits]
        (judgement,) = found.judge(Constant(group))
        rows = found.folds.judged
        y, w = CLASSES[rows].numpy(), found.weights[rows].double().numpy()
        said = own_outputs(found, group)
        delivered = np.full(len(y), np.argmax(group[-1]))
        assert judgement.own == pytest.approx(accuracy_score(y, delivered, sample_weight=w))
        shares = np.exp(said) / np.exp(said).sum(axis=1, keepdims=True)
        accuracy = accuracy_score(y, said.argmax(axis=1), sample_weight=w)
        assert judgement.score == pytest.approx(accuracy)
        assert judgement.loss == pytest.approx(log_loss(y, shares, sample_weight=w))
        hits, share = said.argmax(axis=1) == y, w / w.sum()
        error = np.sqrt((share**2 * (hits - accuracy) ** 2).sum())
        if weights is None:  # as for any share of n rows
            assert error == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / len(y)))
        count = 1 / (share**2).sum()
        p = (accuracy * count + 2) / (count + 4)  # by Agresti and Coull
        least = np.sqrt(p * (1 - p) / (count + 4))
        assert judgement.standard_error == pytest.approx(max(error, least))

    def test_a_score_without_a_mistake_is_in_doubt_as_well(self, weights, validation):
        found = folded(CLASSES, "multiclass", validation, weights)
        output = 9.0 * nn.functional.one_hot(CLASSES[found.folds.judged])
        (judgement,) = found.judge_outputs(output.expand(found.fits, -1, -1))
        assert judgement.score == pytest.approx(1.0)
        assert 0.01 < judgement.standard_error < 0.06


@pytest.mark.parametrize(
    ("own", "expected"), [(0.9, True), (0.81, True), (0.79, False), (np.nan, False)]
)
def test_a_network_bears_its_score_out_or_not(own, expected):
    assert Judgement(0.1, 0.83, 0.03, None, own, torch.zeros(1)).is_borne_out is expected


def test_neighbours_share_a_part_where_rows_are_many(monkeypatch):
    monkeypatch.setattr("torchsparcs.judging.scoring.MOST_PARTS", 7)
    found = folded(CLASSES, "multiclass", 3, WEIGHTS)
    (judgement,) = found.judge(Constant([[1.0, 0.0, 0.0]] * 4))
    hits = (CLASSES == 0) * WEIGHTS / WEIGHTS.sum()
    parts = [hits[place * 60 // 7 + (place * 60 % 7 > 0) :] for place in range(7)]
    sums = [(a.sum() - b.sum()).item() for a, b in zip(parts, [*parts[1:], hits[:0]], strict=True)]
    assert judgement.parts.tolist() == pytest.approx(sums)
    assert judgement.parts.sum().item() == pytest.approx(judgement.score)


def test_rows_that_depend_on_each_other_are_one_part():
    """Five copies of each row tell no more than one of them: the error is that of twelve rows."""
    found = folded(CLASSES.repeat_interleave(5)[:60], "multiclass", 3)
    output = torch.randn(12, 3, generator=torch.Generator().manual_seed(5)).repeat_interleave(5, 0)
    outputs = output.expand(found.fits, -1, -1)
    (alone,) = found.judge_outputs(outputs)
    together = dataclasses.replace(found, clusters=torch.arange(60) // 5)
    (judgement,) = together.judge_outputs(outputs)
    assert judgement.score == pytest.approx(alone.score)
    assert len(judgement.parts) == 12
    p = judgement.score
    assert judgement.standard_error == pytest.approx(np.sqrt(p * (1 - p) / 12))
    assert alone.standard_error < 0.6 * judgement.standard_error


def test_what_each_member_is_fitted_to():
    found = folded(CLASSES, "multiclass", 3, WEIGHTS)
    weights = found.member_weights(2)
    assert weights.shape == (2 * 4, 60)
    assert torch.equal(weights[:4], weights[4:])
    assert torch.equal(weights[3], WEIGHTS)
    for fit in range(3):
        assert torch.equal(weights[fit], torch.where(found.folds.judge == fit, 0, WEIGHTS))
    few = found.some_inputs(0, 7)
    seen = found.inputs[found.folds.fitted[0]].double()
    assert 5 <= len(few) <= 7
    assert all((seen == row).all(dim=1).any() for row in few)
    assert torch.equal(found.some_inputs(3, 1000), found.inputs.double())


def test_without_the_fit_that_judges_nothing():
    whole = folded(CLASSES, "multiclass", 3)
    for count, fits in ((None, 3), (1, 1), (2, 2)):
        some = whole.judging_fits(count)
        check(some.folds, 60)
        assert some.fits == fits
        assert torch.equal(some.folds.fitted, whole.folds.fitted[:fits])
        assert torch.equal(some.folds.judged, (whole.folds.judge < fits).nonzero().squeeze(1))


class TestFromATable:
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = np.array(["a", "b", "c"] * 4)
    preprocessing = Preprocessing(Inputs.fit(X), Target.fit(y))

    def test_rows_of_weight_zero_are_left_out(self):
        weight = np.arange(12) % 4
        frame = pd.DataFrame(self.X, columns=["u", "v"], index=range(100, 112))
        for table in (self.X, frame):
            X, y, counts, groups = counted_rows(table, self.y, weight, np.arange(12))
            assert np.array_equal(groups, np.arange(12)[weight > 0])
            assert np.array_equal(X, self.X[weight > 0])
            assert np.array_equal(y, self.y[weight > 0])
            assert np.array_equal(counts, weight[weight > 0])
        X, y, counts, _ = counted_rows(self.X, self.y, None)
        assert X is self.X
        assert counts is None
        with pytest.raises(ValueError, match=r"as many rows in X as in y\. Got 12 and 5"):
            counted_rows(self.X, self.y[:5], None)

    def test_as_the_preprocessing_sees_them(self):
        weight = np.arange(1.0, 13.0)
        found = FoldedData.of(self.preprocessing, self.X, self.y, weight, validation=4, seed=7)
        assert torch.equal(found.inputs, self.preprocessing.inputs.transform(self.X))
        assert found.targets.tolist() == [0, 1, 2] * 4
        assert found.weights.tolist() == weight.tolist()
        assert torch.equal(found.folds.judge, folds_of(4, found.targets, True, 7).judge)
        assert found.task == "multiclass"

    def test_given_rows_come_last_and_judge(self):
        pair = (self.X[:3] + 1, self.y[3:6])
        found = FoldedData.of(
            self.preprocessing, self.X, self.y, np.full(12, 2.0), validation=pair, seed=0
        )
        assert torch.equal(found.inputs[12:], self.preprocessing.inputs.transform(pair[0]))
        assert found.targets[12:].tolist() == [0, 1, 2]
        assert found.weights.tolist() == [2.0] * 12 + [1.0] * 3
        assert found.folds.judged.tolist() == [12, 13, 14]
        for bad, message in [
            ((self.X,), r"a pair \(X, y\), or a splitter.*Got 1"),
            ((self.X, self.y, self.y), r"a pair \(X, y\), or a splitter.*Got 3"),
            ((self.X, self.y[:3]), r"in y for validation\. Got 12 and 3"),
        ]:
            with pytest.raises(ValueError, match=message):
                FoldedData.of(self.preprocessing, self.X, self.y, None, validation=bad, seed=0)

    @pytest.mark.parametrize(
        "validation", ["3x4", RepeatedKFold(n_splits=3, n_repeats=4, random_state=0)], ids=type
    )
    def test_rows_that_judge_several_times_count_once(self, validation):
        """Copies of rows, which nobody is fitted to; twelve rows say no more than they know."""
        found = FoldedData.of(
            self.preprocessing, self.X, self.y, None, validation=validation, seed=0
        )
        folds, judge = found.folds, found.folds.judge
        assert (folds.fits, found.rows, found.judged_rows) == (13, 12, 12)
        assert torch.bincount(folds.source).tolist() == [4] * 12
        assert torch.equal(found.inputs, found.inputs[folds.source])
        assert torch.equal(folds.fitted.any(dim=0), torch.arange(48) < 12)
        assert not folds.fitted[judge, folds.source].any()  # nobody judges what it has seen
        once = FoldedData.of(self.preprocessing, self.X, self.y, None, validation=3, seed=0)
        said = torch.eye(3)[(found.targets + (folds.source < 3)) % 3]  # three rows are mistaken
        (told,) = found.judge_outputs(said.expand(13, 48, 3))
        (known,) = once.judge_outputs(said[:12].expand(4, 12, 3))
        assert told.score == pytest.approx(0.75)
        assert told.standard_error == pytest.approx(known.standard_error)
        assert told.temperature == pytest.approx(known.temperature)
        assert torch.equal(told.answers, known.answers)
        with pytest.raises(ValueError, match="every row judges once where a scorer"):
            FoldedData.of(
                self.preprocessing,
                self.X,
                self.y,
                None,
                validation=validation,
                seed=0,
                scoring="f1_macro",
            )
