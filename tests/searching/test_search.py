"""From a table to an honest front: what is simple stays small, nothing judges what it has seen."""

import dataclasses
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

from torchsparcs import SearchConfig, SearchResult, search
from torchsparcs.cutting.ladder import Rung
from torchsparcs.fitting import fit_rows
from torchsparcs.judging.candidates import ROUNDING
from torchsparcs.judging.folds import FOLDS, folds_of
from torchsparcs.parallel.executor import Executor
from torchsparcs.searching import finishing
from torchsparcs.searching.strategies import STRATEGIES
from torchsparcs.searching.table_search import TableSearch
from torchsparcs.training.loop import NonFiniteLossError

QUICK = SearchConfig(epochs=1, path=2, ways=("asleep",), shrink=0.5, lr=0.03)
X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
Y = np.abs(X[:, 0])


def found(x=X, y=Y, steps=20, **options) -> SearchResult:
    defaults = {"widths": (12, 6), "penalty_weights": (1e-3,), "validation": 2, "device": "cpu"}
    config = dataclasses.replace(QUICK, steps=steps)
    options = {**defaults, "config": config, **options}
    return search(x, y, **options, progress=False)


@pytest.fixture(scope="module")
def kink() -> SearchResult:
    return found(steps=100, penalty_weights=(1e-3, 1e-4), validation=4)


@pytest.fixture(scope="module")
def xor() -> SearchResult:
    labels = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    return found(X, labels, steps=100, penalty_weights="auto")


@pytest.fixture
def everything(monkeypatch):
    """Every candidate is kept, whatever its score."""
    monkeypatch.setattr(
        sys.modules["torchsparcs.searching.search"], "on_the_front", lambda found, *_: found
    )


def numbers(result: SearchResult) -> list:
    return [(c.architecture, c.score, c.standard_error, c.loss, c.member) for c in result.front]


def is_same(first: SearchResult, second: SearchResult) -> bool:
    pairs = zip(first.front, second.front, strict=True)
    states = [(a.network.state_dict(), b.network.state_dict()) for a, b in pairs]
    return all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in states
    )


class TestTheFront:
    @pytest.mark.parametrize("name", ["kink", "xor"])
    def test_rises_with_size_and_is_never_below_the_linear_model(self, name, request):
        result = request.getfixturevalue(name)
        front, linear = result.front, result.linear
        assert len(front) > 1
        for smaller, larger in pairwise(front):
            assert smaller.parameters < larger.parameters
            assert smaller.score < larger.score
        for candidate in (*front, linear):
            assert candidate.parameters == sum(p.numel() for p in candidate.network.parameters())
            assert 0 < candidate.macs <= candidate.parameters
        assert len(linear.widths) == 2
        least = linear.score - ROUNDING
        assert any(c.parameters <= linear.parameters and c.score >= least for c in front)

    def test_of_a_kink_has_few_columns_and_neurons(self, kink):
        """|x| = 2 max(x, 0) − x; the doctest of search finds just that."""
        small = kink.smallest()
        assert small.network.reads is not None
        assert 0 in small.network.reads
        assert small.parameters <= 14
        assert kink.best().score > 0.95 > 0.1 > kink.linear.score
        assert np.abs(kink.predict(X) - Y).mean() < 0.05

    def test_of_a_product_of_signs_needs_hidden_neurons(self, xor):
        assert xor.settings["task"] == "binary"
        assert len(xor.smallest().widths) > 2
        assert xor.best().score > 0.85 > 0.7 > xor.linear.score
        assert set(xor.predict(X)) == {"same", "other"}

    def test_of_noise_is_no_better_than_nothing(self):
        """Twenty columns of noise fit sixty rows a little; rows held out are not fooled."""
        draw = np.random.default_rng(1)
        x, y = draw.normal(size=(60, 20)), draw.normal(size=60)
        result = found(x, y, penalty_weights=(1e-4,))
        assert result.best().score < 0.2
        assert result.score(x, y, result.linear) > max(0.1, result.linear.score + 0.3)

    def test_holds_nothing_larger_than_allowed(self):
        result = found(max_parameters=5)
        assert result.best().parameters <= 5
        assert found(max_parameters=2).best().parameters == 2
        wide = np.random.default_rng(0).normal(size=(60, 80))
        assert found(wide, wide[:, 0], max_parameters=3).best().parameters <= 3

    def test_remembers_how_it_was_found(self, kink, xor):
        settings = kink.settings
        assert settings["penalty_weights"] == [1e-3, 1e-4]
        assert {c.penalty_weight for c in kink.front} <= {None, 0.0, 1e-3, 1e-4}
        assert kink.linear.penalty_weight is None
        assert (settings["rows"], settings["judged_rows"], settings["fits"]) == (200, 200, 5)
        assert settings["widths"] == [3, 12, 6, 1]
        assert settings["config"] == dataclasses.asdict(dataclasses.replace(QUICK, steps=100))
        larger, smaller = xor.settings["penalty_weights"]
        assert smaller == pytest.approx(larger / 25)
        assert all(c.member is None for c in kink.front if not c.penalty_weight)
        for candidate in kink.front:
            if candidate.penalty_weight:
                assert candidate.member == {1e-3: 4, 1e-4: 9}[candidate.penalty_weight]
                assert kink.history_of(candidate).recruited[-1] != [0, 0]


class TestTables:
    def test_a_frame_with_text(self):
        draw = np.random.default_rng(0)
        frame = pd.DataFrame({"x": draw.normal(size=150), "city": draw.choice(list("abc"), 150)})
        y = frame["x"].where(frame["city"] == "b", 2.0)
        result = found(frame, y, steps=50)
        assert result.preprocessing.inputs.encoded_names == ("x", "city=a", "city=b", "city=c")
        assert result.best().score > 0.8
        assert result.predict(frame.iloc[:7], "best").shape == (7,)

    def test_several_outputs(self):
        result = found(X, np.stack([X[:, 0], 100 * np.abs(X[:, 1])], axis=1), steps=40)
        assert result.settings["task"] == "regression"
        assert result.best().score > 0.9
        assert result.predict(X).shape == (200, 2)
        assert result.predict(X)[:, 1].max() > 50

    def test_classes_told_by_the_target_or_asked_for(self):
        three = np.digitize(X[:, 0], [-0.3, 0.3])
        assert found(X, three, steps=5, task="regression").settings["task"] == "regression"
        result = found(X, np.array(list("abc"))[three])
        assert result.settings["task"] == "multiclass"
        assert result.score(X, np.array(list("abc"))[three]) > 0.8
        assert set(result.predict(X)) == set("abc")


class TestWeights:
    def test_a_row_of_weight_zero_is_not_there(self):
        spoiled, weight = Y.copy(), np.ones(200)
        spoiled[::4], weight[::4] = 50.0, 0.0
        kept = weight > 0
        weighted, without = found(y=spoiled, sample_weight=weight), found(X[kept], Y[kept])
        assert weighted.preprocessing == without.preprocessing
        assert numbers(weighted) == numbers(without)
        assert is_same(weighted, without)
        labels = np.where(Y > 0.5, "high", "low").astype(object)
        labels[::4] = "never"
        classes = found(y=labels, sample_weight=weight).preprocessing.target.classes
        assert classes == ("high", "low")

    def test_rows_count_as_much_as_they_weigh(self):
        """Half of the rows say +x and half say −x; the heavier ones are believed."""
        sign = np.where(np.arange(200) % 2, 1.0, -1.0)
        result = found(y=sign * X[:, 0], sample_weight=np.where(sign > 0, 10.0, 1.0))
        assert np.corrcoef(result.predict(X), X[:, 0])[0, 1] > 0.8


class TestValidation:
    pair = (np.random.default_rng(5).uniform(-1, 1, (50, 3)),)

    def test_given_rows_judge_and_are_never_fitted(self, everything, monkeypatch):
        """Where all networks go on, whatever is said of them, they are the same ones."""
        monkeypatch.setattr(Rung, "loss", property(lambda rung: 0.0))
        monkeypatch.setattr(fit_rows.FitRows, "loss", lambda self, group: 0.0)
        monkeypatch.setattr(finishing, "_score", lambda found: 0)
        for most in ("CONTENDERS", "KEPT"):
            monkeypatch.setattr(finishing, most, 1_000)
        x = self.pair[0]
        plain = found(validation=(x, np.abs(x[:, 0])))
        corrupt = found(validation=(x, 1000 * np.sin(99 * x[:, 1])))
        assert is_same(plain, corrupt)
        assert plain.preprocessing == corrupt.preprocessing
        assert numbers(plain) != numbers(corrupt)
        assert (plain.settings["judged_rows"], plain.settings["fits"]) == (50, 1)
        for candidate in plain.front:
            score = plain.score(x, np.abs(x[:, 0]), candidate)
            assert candidate.score == pytest.approx(score, rel=1e-4, abs=1e-4)

    @pytest.mark.parametrize(
        ("validation", "fits", "judged"),
        [(2, 3, 200), (0.25, 2, 50), ("auto", FOLDS + 1, 200), ("2x2", 5, 200)],
    )
    def test_parts_of_the_rows(self, validation, fits, judged):
        settings = found(validation=validation, steps=5).settings
        assert (settings["fits"], settings["judged_rows"]) == (fits, judged)

    def test_the_largest_seed_deals_twice(self):
        """The seed after the last one is the first."""
        target = torch.arange(20.0)
        twice = folds_of("2x2", target, False, 2**64 - 1)
        for deal, seed in enumerate((2**64 - 1, 0)):
            once = folds_of(2, target, False, seed)
            assert torch.equal(twice.fitted[2 * deal : 2 * deal + 2, :20], once.fitted[:2])

    def test_a_splitter_of_scikit_learn_keeps_groups_and_time_apart(self):
        groups = np.repeat(np.arange(40), 5)
        result = found(validation=GroupKFold(4), groups=groups, steps=5)
        assert (result.settings["fits"], result.settings["judged_rows"]) == (5, 200)
        result = found(validation=TimeSeriesSplit(3), steps=5)
        assert (result.settings["fits"], result.settings["judged_rows"]) == (4, 150)
        own = SimpleNamespace(split=lambda X, y, groups: [(np.arange(200), np.arange(5))])
        with pytest.raises(ValueError, match="no row judges what it is fitted to"):
            found(validation=own)
        with pytest.raises(ValueError, match="a splitter as the validation where groups"):
            found(groups=groups)
        with pytest.raises(ValueError, match=r"a group for each of 200 rows\. Got \(9,\)"):
            found(validation=GroupKFold(4), groups=groups[:9])

    def test_copies_of_a_row_in_one_group_do_not_judge_each_other(self):
        """Random labels, every row three times: what is known by heart scores nothing."""
        draw = np.random.default_rng(0)
        x, y = draw.normal(size=(60, 8)).repeat(3, axis=0), draw.integers(2, size=60).repeat(3)
        apart = found(x, y, steps=60, validation=GroupKFold(3), groups=np.arange(60).repeat(3))
        together = found(x, y, steps=60, validation=3)
        assert apart.best().score < 0.7 < together.best().score


class TestDivergence:
    def test_a_fine_tuning_that_diverges_loses_nothing_that_was_found(self, monkeypatch):
        train, tuned = Executor.train, []

        def bursting(self, name, *rest, **options):
            if name.startswith("tuning"):
                tuned.append(name)
                if len(tuned) == 2:
                    raise NonFiniteLossError("burst")
            return train(self, name, *rest, **options)

        monkeypatch.setattr(finishing.Finishing, "run", lambda self, rungs, linear, largest: [])
        monkeypatch.setattr(Executor, "train", bursting)
        result = found()
        assert tuned == ["tuning 1", "tuning 2"]
        assert {attempt.cut for attempt in result.attempts} == {0, 1}


class TestRepeating:
    def test_three_equal_calls_give_one_result(self):
        """Neurons whose signs can be changed in several ways: a solver must not choose by luck."""
        draw = np.random.default_rng(3)
        x = draw.normal(size=(80, 4))
        y = np.abs(x[:, 0]) + np.abs(x[:, 1])
        first, *others = (found(x, y, steps=60) for _ in range(3))
        for other in others:
            assert is_same(first, other)
            assert numbers(first) == numbers(other)

    def test_the_seed_decides_everything(self):
        first, second, other = (found(steps=20, seed=seed) for seed in (0, 0, 1))
        assert is_same(first, second)
        assert numbers(first) == numbers(second)
        assert numbers(first) != numbers(other)

    def test_threads_and_random_numbers_are_left_alone(self, monkeypatch):
        threads, state = torch.get_num_threads(), torch.get_rng_state()
        during = []
        monkeypatch.setattr(
            TableSearch,
            "_pilot_weights",
            lambda self: during.append(torch.get_num_threads()) or 1 / 0,
        )
        torch.set_num_threads(2)
        try:
            found(steps=5)
            with pytest.raises(ZeroDivisionError):
                found(penalty_weights="auto")
            assert during == [1]
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(threads)
        assert torch.equal(state, torch.get_rng_state())


class TestStrategies:
    config = dataclasses.replace(QUICK, steps=20, ways=tuple(STRATEGIES))

    def test_what_all_of_them_find_competes(self):
        result = found(config=self.config)
        trained = {attempt.member for attempt in result.attempts if attempt.cut == 0} - {None}
        assert sorted(trained) == [2, 5]  # two ways, one penalty, three fits
        assert [len(losses) for losses in result.history.train_loss] == [6] * result.history.epochs
        ends = [result.history.member(n).snapshots[-1][1]["hidden_eigenvalues.0"] for n in (2, 5)]
        assert not torch.equal(*ends)

    @pytest.mark.parametrize("diverging", [1, 2])
    def test_one_that_diverges_is_left_out_and_all_are_an_error(self, diverging, monkeypatch):
        train = Executor.train

        def bursting(self, name, *rest, **options):
            if name.removeprefix("training ") in tuple(STRATEGIES)[:diverging]:
                raise NonFiniteLossError("burst")
            return train(self, name, *rest, **options)

        monkeypatch.setattr(Executor, "train", bursting)
        if diverging == 2:
            with pytest.raises(NonFiniteLossError, match="burst"):
                found(config=self.config)
        else:
            assert len(found(config=self.config).history.train_loss[0]) == 3


def test_bad_input():
    for options, message in [
        ({"config": 5}, r"a SearchConfig\. Got int"),
        ({"y": Y[:9]}, r"as many rows in X as in y\. Got 200 and 9"),
        ({"max_parameters": 0}, "Expected max_parameters"),
        ({"max_parameters": 1}, r"max_parameters of at least 2.*Got 1"),
        ({"penalty_weights": ()}, r"'auto' or positive numbers\. Got \(\)"),
        ({"penalty_weights": 0.1}, r"'auto' or positive numbers\. Got 0\.1"),
        ({"penalty_weights": (1.0, -1.0)}, "'auto' or positive numbers"),
        ({"validation": (X,)}, r"a pair \(X, y\), or a splitter.*Got 1"),
        ({"validation": (X, Y[:3])}, r"for validation\. Got 200 and 3"),
        ({"validation": 0.9}, "a share of the rows up to 0.5"),
        ({"widths": (0,)}, "Expected"),
        ({"sample_weight": -Y}, "sample weights that are finite, not negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            found(**options)
    for options in (
        {"steps": 0},
        {"shrink": 1.0},
        {"ways": ("sleepy",)},
        {"ways": ()},
        {"ways": ("asleep",) * 2},
    ):
        with pytest.raises(ValueError, match=f"Expected {next(iter(options))}"):
            SearchConfig(**options)


class TestTheLinearModel:
    def test_is_the_least_squares_fit_where_that_is_better(self):
        """Nearly the same column twice: gradient descent does not get there."""
        draw = np.random.default_rng(0)
        a = draw.normal(size=200)
        x = np.column_stack([a, a + 1e-3 * draw.normal(size=200)])
        result = found(x, 1000 * (x[:, 0] - x[:, 1]))
        assert result.linear.score > 0.999
        assert result.best().score >= result.linear.score


class TestAtTheDoor:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seed": "a"}, "seed to be an integer"),
            ({"seed": 10**30}, "a seed of at most 64 bits"),
            ({"device": "foo"}, "Expected a device like"),
            ({"widths": 32}, "Expected widths of hidden layers"),
            ({"activation": torch.tanh}, "activation by its name"),
            ({"max_parameters": 1}, "at least 2"),
            ({"max_parameters": 2.5}, "max_parameters to be an integer"),
            ({"engine": None}, r"an engine among auto, local, processes, ray\. Got None"),
        ],
    )
    def test_what_cannot_be_is_refused_before_the_work(self, monkeypatch, options, message):
        monkeypatch.setattr(Executor, "train", None)
        with pytest.raises(ValueError, match=message):
            found(**options)

    def test_numbers_of_numpy_are_numbers(self):
        result = found(
            penalty_weights=np.array([1e-3]),
            validation=np.int64(2),
            max_parameters=np.int64(40),
            seed=np.int64(1),
        )
        assert result.pick(np.int64(0)) is result.front[0]
        assert result.best().parameters <= 40
        assert result.settings["max_parameters"] == 40

    def test_many_validation_rows_do_not_thin_out_the_batches(self):
        x = np.random.default_rng(5).uniform(-1, 1, (20_000, 3))
        few, many = (found(validation=(x[:n], np.abs(x[:n, 0]))) for n in (50, 20_000))
        assert few.settings["rows"] == many.settings["rows"] == len(X)
        assert few.history.epochs == many.history.epochs


def test_of_many_columns_several_go_at_once(monkeypatch):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 400))
    result = found(x, x[:, 7] + 0.5 * x[:, 70], steps=60)
    small = result.smallest()
    assert {7, 70} <= set(small.network.reads)
    assert result.best().score > 0.95


def test_the_network_that_made_the_data_is_found():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 6, generator=generator)
    y = torch.relu(x @ torch.randn(6, 5, generator=generator))
    y = y @ torch.randn(5, 3, generator=generator)
    config = SearchConfig(ways=("asleep",))
    result = search(x, y, widths=(20,), config=config, device="cpu", progress=False)
    assert result.best().widths == (6, 5, 3)
    assert result.best().score > 0.9999


def test_a_search_goes_on_below_a_tenth_of_the_columns():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 60))
    result = found(x, 2 * x[:, 7])
    assert result.smallest().network.reads == (7,)
    assert result.smallest().parameters == 2
