"""Tables that break things: a right answer, or an error that says what is wrong and where."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from torchsparcs import (
    SearchConfig,
    SearchResult,
    SparcsClassifier,
    SparcsRegressor,
    SpectralNetwork,
    TrainConfig,
    search,
    train,
)
from torchsparcs.compact.direct import DirectSpace, is_read
from torchsparcs.cutting.neurons import Elimination, cut_to
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.standardization import moments, weights_of
from torchsparcs.training.loop import NonFiniteLossError

QUICK = SearchConfig(steps=60, epochs=1, longest=80, path=2, ways=("asleep",), shrink=0.25, lr=0.03)
KINDS = (np.float32, np.float64)
X = np.random.default_rng(0).normal(size=(120, 4)).clip(-3, 3)
X = X.astype(np.float32).astype(np.float64)  # the same numbers in both kinds
KINK = np.abs(X[:, 0])
LINE = X[:, 0] - 0.5 * X[:, 1]
SIDES = np.where(LINE > 0, "up", "down")
ESTIMATOR = {"steps": 60, "penalty_weights": [1e-3], "widths": (12,), "random_state": 0}


def found(x=X, y=KINK, **options) -> SearchResult:
    defaults = {"penalty_weights": (1e-3,), "widths": (12,), "validation": 2, "device": "cpu"}
    return search(x, y, **{**defaults, "config": QUICK, **options}, progress=False)


def numbers(result: SearchResult) -> list:
    return [(c.architecture, c.score, c.standard_error, c.loss) for c in result.front]


def explained(result: SearchResult, x, y) -> float:
    """R² of the best, computed where no square overflows."""
    unit = np.abs(y).max()
    said, true = result.predict(x, "best") / unit, np.asarray(y, np.float64) / unit
    assert np.isfinite(said).all()
    return 1 - np.mean((said - true) ** 2) / np.var(true)


@pytest.fixture(scope="module")
def plain() -> SearchResult:
    return found()


class TestScales:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("exponent", [100, -100])
    def test_a_power_of_two_changes_nothing(self, plain, kind, exponent):
        """About 1e30 and 1e-30, on inputs and target alike: the same networks, bit for bit."""
        x, y = (np.ldexp(values, exponent).astype(kind) for values in (X, KINK))
        result = found(x, y)
        assert numbers(result) == numbers(plain)
        assert plain.best().score > 0.95
        expected = np.ldexp(plain.predict(X, "best"), exponent)
        np.testing.assert_array_equal(result.predict(x, "best"), expected)

    @pytest.mark.parametrize(
        ("kind", "scale"),
        [
            (np.float32, 1e30),
            (np.float32, 1e38),
            (np.float32, 1e-41),
            (np.float64, 1e30),
            (np.float64, 2e307),
            (np.float64, 1e-310),
        ],
    )
    def test_the_largest_and_the_smallest_numbers(self, kind, scale):
        """Squares overflow in float32, then in float64; the last of each are subnormal."""
        x, y = ((values * scale).astype(kind) for values in (X, KINK))
        assert explained(found(x, y), x, y) > 0.95
        result = found(x, SIDES)
        assert result.best().score > 0.95
        assert np.mean(result.predict(x) == SIDES) > 0.95

    @pytest.mark.parametrize("kind", KINDS)
    def test_mixed_in_one_table(self, kind):
        x = X * [1e30, 1e-30, 1.0, 1e15] + [1e30, 0.0, 1e3, -1e16]
        frame = pd.DataFrame(x.astype(kind), columns=["huge", "tiny", "far", "large"])
        result = found(frame, LINE * 1e12)
        assert result.best().score > 0.999
        assert {0, 1} == set(result.smallest().network.reads)
        outputs = np.stack([LINE * 1e30, KINK * 1e-30], axis=1).astype(kind)
        both = found(X.astype(kind), outputs)
        assert both.best().score > 0.7
        for said, true in zip(both.predict(X, "best").T, outputs.T.astype(np.float64), strict=True):
            assert np.corrcoef(said / said.std(), true / true.std())[0, 1] > 0.8

    def test_through_the_estimators(self):
        x = (X * 1e30).astype(np.float32)
        model = SparcsRegressor(**ESTIMATOR).fit(x, KINK * 1e-30)
        assert np.corrcoef(model.predict(x) * 1e30, KINK)[0, 1] > 0.85
        model = SparcsClassifier(**ESTIMATOR).fit(x, SIDES)
        assert model.score(x, SIDES) > 0.95
        assert np.isfinite(model.predict_proba(x)).all()

    def test_a_span_beyond_all_numbers_is_named(self):
        x = np.column_stack([np.where(X[:, 0] > 0, 1.7e308, -1.7e308), X[:, 1]])
        with pytest.raises(ValueError, match=r"finite floats\. Got .* too large in 'x0': div"):
            found(x, LINE)
        with pytest.raises(ValueError, match=r"finite floats\. Got .* too large in 'y': div"):
            found(X, x[:, 0] * (1 - KINK / 10))

    def test_rows_out_of_all_proportion_are_named_when_they_come(self, plain):
        far = X[:5] * 1e20
        low, high = plain.target.low[0], plain.target.high[0]
        assert {*plain.predict(far)} <= {low, high}
        assert plain.predict(X[:5] * 1.1).std() > 0
        far[3, 0] = 1e300
        words = r"like those that were fitted\. Got 1e\+300 in row 3 of 'x0', where the mean"
        with pytest.raises(ValueError, match=words):
            plain.predict(far, "linear")
        with pytest.raises(ValueError, match=r"Got -1\.7e\+308 in row 0 of 'y'"):
            plain.score(X[:1], [-1.7e308])

    def test_subnormal_columns_have_a_mean_and_a_scale(self):
        steps = np.array([[0.0], [1.0], [2.0], [5.0]])
        for quantum in (5e-324, 1e-320, 1e-310, 1e-300):
            mean, scale, is_constant = moments(steps * quantum)
            assert not is_constant
            assert mean == pytest.approx(2 * quantum, rel=1e-3, abs=0)
            assert scale == pytest.approx(1.8708 * quantum, rel=0.1, abs=0)
        mixed = moments(np.column_stack([steps * 1e-310, steps, steps * 0, steps * 1e300]))
        assert mixed.is_constant.tolist() == [False, False, True, False]
        assert mixed.mean[1:].tolist() == pytest.approx([2, 0, 2e300])

    def test_an_exported_network_tells_of_targets_that_float32_cannot_hold(self):
        result = found(X, KINK * 1e300)
        with pytest.warns(UserWarning, match="float32"):
            result.deployed()


class TestConstants:
    def test_are_left_out_as_if_they_were_not_there(self, plain):
        extra = np.column_stack([np.full(120, 7.0), X[:, :2], np.full(120, 1e30), X[:, 2:]])
        result = found(extra.astype(np.float32), KINK)
        assert result.preprocessing.inputs.encoded_names == ("x1", "x2", "x4", "x5")
        assert numbers(result) == numbers(plain)
        other = extra.copy()
        other[:, [0, 3]] = np.nan  # never looked at again
        np.testing.assert_array_equal(result.predict(other), result.predict(extra))

    def test_what_float64_cannot_tell_apart_is_constant(self):
        x = np.column_stack([X[:, 0], 1e16 + np.arange(120) % 3])
        assert Inputs.fit(x).encoded_names == ("x0",)
        largest = np.iinfo(np.int64).max - np.arange(120) % 2
        assert Inputs.fit(np.column_stack([np.arange(120), largest])).encoded_names == ("x0",)

    def test_alone_are_an_error(self):
        with pytest.raises(ValueError, match=r"a column of X that varies\. Got constant columns"):
            found(np.full((9, 3), 1e30, np.float32), np.arange(9.0))
        with pytest.raises(
            ValueError, match=r"a target that varies\. Got one value throughout 'y'"
        ):
            found(X.astype(np.float32), np.full(120, 3.5, np.float32))
        with pytest.raises(ValueError, match=r"at least two classes\. Got one class, 'a', in 'y'"):
            found(X.astype(np.float32), ["a"] * 120)
        with pytest.raises(ValueError, match=r"at least two classes\. Got one class"):
            SparcsClassifier(**ESTIMATOR).fit(X.astype(np.float32), np.ones(120))

    def test_a_column_or_a_target_that_varies_in_one_row(self):
        spike = (np.arange(120) == 5).astype(float)
        result = found(np.column_stack([X[:, 0], spike]), X[:, 0] + spike)
        largest = len(result.front) - 1  # for one row of many, smaller ones do without
        assert abs(result.predict([[0.0, 1.0]], largest)[0] - 1) < 0.5
        lonely = found(X, 0.5 + spike)  # some fits see one value only
        assert lonely.best().score < 0.5
        assert np.isfinite(lonely.predict(X)).all()
        with pytest.raises(ValueError, match="validation rows whose target varies"):
            found(X, 0.5 + spike, validation=0.1)


class TestTwins:
    @pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-6])
    def test_share_a_column_without_large_weights(self, apart):
        """Correlations of 1 − 1e-24 and 1 − 1e-12, and the same columns twice."""
        noise = np.random.default_rng(1).normal(size=X.shape)
        x = np.concatenate([X, X + apart * noise], axis=1).astype(np.float32)
        result = found(x, LINE)
        assert result.best().score > 0.999
        assert len(result.smallest().network.reads) == 2
        assert result.smallest().score > 0.99
        for candidate in (*result.front, result.linear):
            assert all(p.abs().max() < 10 for p in candidate.network.parameters())
        labels = found(x, SIDES)
        assert labels.best().score > 0.95
        assert all(p.abs().max() < 1e3 for p in labels.best().network.parameters())

    def test_of_an_input_cost_nothing_to_cut(self):
        x = torch.from_numpy(X[:, [0, 1, 0]])
        weights = torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64)
        none = torch.empty(0, dtype=torch.long)
        direct = DirectSpace(weights, torch.zeros(1).double(), none, "relu")
        costs = Elimination(direct, x).costs()
        assert costs[[0, 2]].max() < 1e-6 < 1 < costs[1]
        small = cut_to(direct, x, 2)
        assert is_read(small).sum() == 2
        torch.testing.assert_close(x @ small.weights.T, x @ weights.T, rtol=1e-6, atol=1e-6)

    def test_many_copies_of_the_same_rows(self):
        x, y = np.repeat(X[:20], 6, axis=0), np.repeat(KINK[:20], 6)
        result = found(x, y)
        assert explained(result, x, y) > 0.9
        two = found(np.repeat(X[:2], 60, axis=0), np.repeat(KINK[:2], 60))
        np.testing.assert_allclose(two.predict(X[:2], "best"), KINK[:2], atol=0.05)


class TestFewRows:
    @pytest.mark.parametrize(("rows", "kind"), [*zip([2, 3, 4, 5], KINDS * 2, strict=True)])
    def test_are_enough_for_a_line(self, kind, rows):
        x = np.linspace(-1, 3, rows)[:, None]
        y = 2 * x[:, 0] + 1
        result = found(x.astype(kind), y, task="regression", validation="auto")
        assert result.predict([[0.5], [2.0]], "linear") == pytest.approx([2, 5], abs=0.2)
        if rows > 3:  # fewer leave two points to a fit, and less to judge by
            assert result.best().score > 0.99
            assert result.predict([[0.5], [2.0]]) == pytest.approx([2, 5], abs=0.3)

    @pytest.mark.parametrize(("rows", "kind"), [*zip([2, 3, 4, 5], KINDS * 2, strict=True)])
    def test_of_more_columns_than_rows(self, kind, rows):
        values, labels = found(X[:rows].astype(kind), LINE[:rows]), np.arange(rows) % 2
        assert values.score(X[:rows], LINE[:rows], "linear") > 0.95
        classes = found(X[:rows].astype(kind), labels)
        assert set(classes.predict(X)) <= {0, 1}
        assert np.isfinite(classes.predict_proba(X)).all()
        for result in (values, classes):
            assert all(np.isfinite([c.score, c.standard_error, c.loss]).all() for c in result.front)

    def test_one_row_is_an_error(self):
        for y in ([1.5], ["a"]):
            with pytest.raises(ValueError, match=r"at least two rows\. Got 1 sample"):
                found(X[:1], y)

    def test_one_feature(self):
        x = X[:, :1].astype(np.float32)
        assert explained(found(x, KINK), x, KINK) > 0.95
        middle = np.where(KINK < 0.7, "in", "out")
        result = found(x, middle)
        assert result.best().score > 0.9 > 0.7 > result.linear.score


class TestRareClasses:
    @pytest.mark.parametrize(("count", "kind"), [*zip([1, 2], KINDS, strict=True)])
    def test_in_fewer_rows_than_folds(self, kind, count):
        """Some fits have never seen the third class; they judge its rows, and are wrong there."""
        labels = SIDES.astype(object)
        labels[:count] = "rare"
        result = found(X.astype(kind), labels, validation="auto", scoring="accuracy")
        assert result.preprocessing.target.classes == ("down", "rare", "up")
        assert 0.9 < result.best().score <= 1
        probabilities = result.predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        assert probabilities[count:, 1].mean() < 0.2
        assert np.mean(result.predict(X)[count:] == labels[count:]) > 0.9

    def test_each_in_one_row(self):
        result = found(X[:3], ["a", "b", "c"], validation="auto")
        assert result.score(X[:3], ["a", "b", "c"], "best") == 1
        assert result.best().score < 1  # of a class that was never seen, nothing can be known

    def test_one_of_two_hundred(self):
        draw = np.random.default_rng(3)
        x, y = draw.normal(size=(200, 3)).astype(np.float32), (np.arange(200) == 17).astype(int)
        result = found(x, y, scoring="accuracy")
        assert result.best().score >= 0.99
        assert np.isfinite(result.predict_proba(x)).all()
        x[y == 1] = 4.0
        x[:3], y[:3] = 4.0 + 0.1 * draw.normal(size=(3, 3)), 1
        model = SparcsClassifier(**ESTIMATOR, class_weight="balanced").fit(x, y)
        assert model.predict(x)[y == 1].all()
        assert model.score(x, y) > 0.95


class TestManyFeatures:
    def test_ten_thousand(self):
        """A factor that half of the columns hear: sixty rows are enough to find it."""
        draw = np.random.default_rng(0)
        factor = draw.normal(size=60)
        x = draw.normal(size=(60, 10_000)).astype(np.float32)
        x[:, ::2] += factor[:, None]
        config = dataclasses.replace(QUICK, steps=20, shrink=0.2, path=1)
        options = {"config": config, "widths": (8,), "validation": 2, "penalty_weights": (1e-2,)}
        result = found(x, factor > 0, **options)
        assert result.best().score > 0.9
        assert result.front[0].parameters < 500

    def test_no_matrix_of_all_pairs_is_formed(self):
        x = torch.randn(30, 5000, dtype=torch.float64)
        weights = torch.randn(5, 5004, dtype=torch.float64).tril(5000 - 1)
        direct = DirectSpace(weights, x.new_zeros(5), torch.arange(1, 5), "relu")
        sizes = {tuple(inverse.shape) for inverse in Elimination(direct, x).precisions}
        assert sizes == {(5, 5)}  # the constant and four neurons
        small = cut_to(direct, x, 3000)
        assert 0 < is_read(small).sum() < 3000

    def test_with_fewer_rows_than_columns_nothing_is_copied_from_one_to_another(self):
        x = torch.randn(10, 12, dtype=torch.float64)
        weights, none = torch.randn(2, 12).double(), torch.empty(0, dtype=torch.long)
        direct = DirectSpace(weights, torch.zeros(2).double(), none, "relu")
        elimination = Elimination(direct, x)
        costs = elimination.costs()
        expected = weights.square().sum(dim=0) * x.square().mean(dim=0)
        torch.testing.assert_close(costs[:12], expected)
        elimination.remove(torch.tensor([4]))
        left = [place for place in range(12) if place != 4]
        assert torch.equal(elimination.result().weights[:, left], weights[:, left])
        assert not elimination.result().weights[:, 4].any()

    @pytest.mark.parametrize(("seed", "kind"), [(3, np.float32), (5, np.float64)])
    def test_few_columns_of_many_are_found(self, seed, kind):
        """A refit of the inputs explains all 60 rows, and others worse than their mean does.

        Sizes are halved: from six columns on it may go to two, and one that matters goes as well.
        Five folds: half of the rows are too few for 100 columns, and would not know a good network.
        """
        draw = np.random.default_rng(seed)
        x = draw.normal(size=(1060, 100)).astype(kind)
        y = x[:, :3] @ [2.0, -1.0, 1.0]
        quick = dataclasses.replace(QUICK, steps=200, lr=0.01)
        result = found(x[:60], y[:60], config=quick, validation=5)
        assert result.score(x[60:], y[60:], "best") > 0.8
        assert {0, 1} <= set(result.best().network.reads)
        assert len(result.best().network.reads) <= 6

    def test_the_linear_model_of_few_rows_is_solved_in_their_number(self, monkeypatch):
        sizes = []
        solve = torch.linalg.solve
        monkeypatch.setattr(torch.linalg, "solve", lambda a, b: sizes.append(len(a)) or solve(a, b))
        x = np.random.default_rng(0).normal(size=(30, 200))
        preprocessing = Preprocessing(Inputs.fit(x), Target.fit(x[:, 0]))
        folded = FoldedData.of(preprocessing, x, x[:, 0], None, validation=3, seed=0)
        weights, bias = folded.least_squares(3)
        fitted = folded.inputs.double() @ weights.T + bias
        torch.testing.assert_close(fitted[:, 0], folded.targets.double(), rtol=1e-5, atol=1e-5)
        assert max(sizes) <= 30


class TestNoise:
    def test_alone_is_not_learnt(self):
        draw = np.random.default_rng(4)
        x = draw.normal(size=(200, 10)).astype(np.float32)
        labels = found(x, draw.integers(0, 2, 200))
        assert labels.best().score < 0.5 + 4 * 0.5 / np.sqrt(200)
        assert found(x, draw.normal(size=200)).best().score < 0.15

    def test_of_three_labels_in_ten_leaves_the_line(self):
        draw = np.random.default_rng(5)
        x = draw.normal(size=(1400, 4)).astype(np.float32)
        clean = x[:, 0] - x[:, 1] > 0
        noisy = clean[:400] ^ (draw.random(400) < 0.3)
        result = found(x[:400], noisy)
        assert abs(result.best().score - 0.7) < 0.08
        assert result.score(x[400:], clean[400:]) > 0.9
        assert result.score(x[400:], clean[400:], "linear") > 0.85


class TestMissing:
    @pytest.mark.parametrize("y", [LINE, SIDES])
    def test_infinite_numbers_are_counted_and_their_columns_named(self, y):
        for bad in (np.inf, -np.inf):
            x = X.astype(np.float32)
            x[:, 2], x[3, 1] = bad, np.nan
            with pytest.raises(ValueError, match=r"finite values. Got 120 infinite in 'x2'\. Fill"):
                found(x, y)
            frame = pd.DataFrame(x, columns=["a", "b", "age", "d"])
            with pytest.raises(ValueError, match="Got 120 infinite in 'age'"):
                found(frame, y)
            with pytest.raises(ValueError, match="contains infinity"):
                SparcsRegressor(**ESTIMATOR).fit(frame, LINE)

    def test_that_a_number_is_missing_may_be_all_that_matters(self):
        x = X.astype(np.float32)
        x[KINK > 0.7, 1] = np.nan
        y = np.where(KINK > 0.7, "gone", "there")
        result = found(x, y)
        assert result.inputs.encoded_names == ("x0", "x1", "x1 is missing", "x2", "x3")
        assert result.best().score > 0.99
        assert result.smallest().network.reads == (2,)
        assert (result.predict(x) == y).all()

    def test_rows_without_a_target_are_left_out(self, plain):
        x, y = np.concatenate([X, X[:3]]), np.append(KINK, [np.nan] * 3)
        with pytest.warns(UserWarning, match="missing in 3 of 123 rows: they are left out"):
            result = found(x, y)
        assert numbers(result) == numbers(plain)
        with pytest.raises(ValueError, match=r"finite values\. Got 1 infinite in 'y'"):
            found(X, np.append(KINK[1:], np.inf))
        with pytest.raises(ValueError, match=r"rows with a target\. Got 120 in which"):
            found(X, np.full(120, np.nan))

    def test_an_empty_column_is_constant(self):
        frame = pd.DataFrame({"a": X[:, 0], "note": [None] * 120, "none": np.nan})
        kinds = [column.kind for column in Inputs.fit(frame).columns]
        assert kinds == ["number", "constant", "constant"]


class TestIntegers:
    def test_of_64_bits(self):
        draw = np.random.default_rng(6)
        limits = np.iinfo(np.int64)
        signed = draw.integers(limits.min, limits.max, size=(120, 3))
        signed[0], signed[1] = limits.min, limits.max
        unsigned = draw.integers(0, 2**64 - 1, size=(120, 3), dtype=np.uint64)
        for x in (signed, unsigned, pd.DataFrame({"a": signed[:, 0], "b": unsigned[:, 1]})):
            y = np.asarray(x)[:, 0].astype(np.float64)
            result = found(x, y)
            assert explained(result, x, y) > 0.999
            assert result.smallest().network.reads == (0,)
            assert found(x, y > y.mean()).best().score > 0.9

    def test_as_labels_keep_every_digit(self):
        for pair in ((2**63 - 2, 2**63 - 1), (2**64 - 2, 2**64 - 1)):
            y = np.where(LINE > 0, *(np.array(label) for label in pair[::-1]))
            result = found(X, y)
            assert result.preprocessing.target.classes == pair
            assert np.mean(result.predict(X) == y) > 0.95

    def test_beyond_all_floats_are_infinite(self):
        x = np.array([[10**400 if row % 2 else 0, row] for row in range(9)], dtype=object)
        with pytest.raises(ValueError, match="Got 4 infinite in 'x0'"):
            found(x, np.arange(9.0))
        with pytest.raises(ValueError, match="Got 4 infinite in 'x0'"):
            found(-x, np.arange(9.0))


class TestOutliers:
    def test_that_hide_a_column_are_told(self):
        """One wrong entry, and a column that says everything says nothing."""
        x = X.astype(np.float32)
        x[3, 0] = 1e12
        with pytest.warns(UserWarning, match=r"dwarf all others in 'x0': .* look alike"):
            result = found(x, SIDES)
        assert np.isfinite(result.predict_proba(x)).all()
        kept = np.arange(120) != 3
        assert found(x[kept], SIDES[kept]).best().score > 0.95

    def test_of_heavy_tails(self):
        draw = np.random.default_rng(7)
        x = (draw.standard_cauchy(size=(300, 2)) ** 3).astype(np.float32)
        y = x[:, 0] > 0
        with pytest.warns(UserWarning, match="dwarf all others in 'x1'"):
            result = found(x, y)
        assert np.isfinite(result.predict_proba(x)).all()
        assert found(np.arcsinh(x), y).best().score > max(0.8, result.best().score + 0.1)

    def test_of_the_target_do_no_harm_but_to_the_score(self):
        y = LINE.copy()
        y[7] = 1e6
        result = found(X, y)
        assert np.isfinite(result.predict(X)).all()
        assert result.best().score < 0.5

    def test_ordinary_columns_are_left_in_peace(self):
        draw = np.random.default_rng(8)
        rare = (np.arange(2000) < 3).astype(float)
        Inputs.fit(
            np.column_stack([draw.lognormal(0, 2, 2000), rare, 50 * rare + draw.random(2000)])
        )


class TestWeights:
    @pytest.mark.parametrize("exponent", [1000, -1000])
    def test_only_their_ratios_matter(self, exponent):
        weight = 1.0 + (np.arange(120) % 3)
        plain, scaled = (found(sample_weight=np.ldexp(weight, e)) for e in (0, exponent))
        assert plain.preprocessing == scaled.preprocessing
        assert numbers(plain) == numbers(scaled)
        assert weights_of(weight, 120) is not None
        np.testing.assert_array_equal(weights_of(weight, 120), weight)


class TestTraining:
    """``train`` takes data as they are: they may be too large, and it says so."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_in_either_precision(self, dtype):
        network = SpectralNetwork([4, 16, 1], dtype=dtype)
        target = torch.from_numpy((KINK - KINK.mean()) / KINK.std())
        config = TrainConfig(epochs=150, lr=1e-2)
        history = train(network, (torch.from_numpy(X), target), config, progress=False)
        assert network(torch.from_numpy(X).to(dtype)).dtype == dtype
        assert history.train_loss[-1] < 0.05

    @pytest.mark.parametrize(
        ("dtype", "inputs", "targets"),
        [
            (torch.float32, 1e30, 1.0),
            (torch.float32, 1.0, 1e30),
            (torch.float64, 1e300, 1.0),
            (torch.float64, 1.0, 1e300),
        ],
    )
    def test_a_loss_that_overflows_is_told_at_the_first_step(self, dtype, inputs, targets):
        network = SpectralNetwork([4, 16, 1], dtype=dtype)
        data = (torch.from_numpy(X * inputs), torch.from_numpy(KINK * targets))
        with pytest.raises(NonFiniteLossError, match=r"became inf in epoch 1, step 1.*scaled data"):
            train(network, data, TrainConfig(epochs=2), progress=False)
        assert all(torch.isfinite(p).all() for p in network.parameters())

    def test_numbers_that_the_network_cannot_hold_are_told(self):
        data = (torch.from_numpy(X * 1e300), torch.from_numpy(KINK))
        with pytest.raises(ValueError, match=r"finite inputs\. Got 480 values"):
            train(SpectralNetwork([4, 16, 1]), data, TrainConfig(epochs=2), progress=False)

    @pytest.mark.parametrize("scale", [1e-30, 1e-40])
    def test_tiny_inputs_leave_the_mean(self, scale):
        data = (torch.from_numpy(X * scale), torch.from_numpy(KINK))
        history = train(
            SpectralNetwork([4, 16, 1]), data, TrainConfig(epochs=200, lr=1e-2), progress=False
        )
        assert history.train_loss[-1] == pytest.approx(KINK.var(), rel=0.05)

    def test_the_history_has_the_losses_of_a_float64_network(self):
        data = (torch.from_numpy(X), torch.from_numpy(KINK * 1e30))
        network = SpectralNetwork([4, 16, 1], dtype=torch.float64)
        history = train(network, data, TrainConfig(epochs=2), progress=False)
        assert history.train_loss[0] == pytest.approx(1e60 * np.mean(KINK**2), rel=0.1)
