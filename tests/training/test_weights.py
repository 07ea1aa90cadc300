"""Rows that count more or less, inputs that drop out, rates that warm up."""

import pytest
import torch
from torch import nn

from torchsparcs import Population, SpectralNetwork, TrainConfig, evaluate, train
from torchsparcs.training.config import SCHEDULES

DOUBLE = torch.float64
ROWS = 40
X = torch.rand(ROWS, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)) * 2 - 1
TARGETS = {
    "regression": X.abs().sum(dim=1),
    "binary": (X.prod(dim=1) > 0).long(),
    "multiclass": (X.abs() > 0.5).sum(dim=1),
}
Y = TARGETS["regression"]
FEW = torch.arange(ROWS) % 4  # counts 0 to 3


def network(outputs=1, seed=0) -> SpectralNetwork:
    net = SpectralNetwork([2, 8, outputs], dtype=DOUBLE)
    net.reset_parameters(torch.Generator().manual_seed(seed))
    return net


def config(**options) -> TrainConfig:
    return TrainConfig(**{"epochs": 6, "batch_size": 1000, "lr": 1e-2, **options})


def quiet(module, data=(X, Y), recipe=None, **options):
    return train(module, data, recipe or config(), progress=False, **options)


def assert_same_weights(first: nn.Module, second: nn.Module):
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def differ(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return not all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in pairs)


class TestWeights:
    @pytest.mark.parametrize("task", TARGETS)
    @pytest.mark.parametrize("scale", [1.0, 7.5])
    def test_count_how_often_a_row_is_there(self, task, scale):
        outputs, y = 3 if task == "multiclass" else 1, TARGETS[task]
        weighted, repeated, plain = (network(outputs) for _ in range(3))
        rows = torch.arange(ROWS).repeat_interleave(FEW)
        mine = quiet(weighted, (X, y), config(task=task), weights=scale * FEW)
        other = quiet(repeated, (X[rows], y[rows]), config(task=task))
        quiet(plain, (X, y), config(task=task))
        assert_same_weights(weighted, repeated)
        assert mine.train_loss == pytest.approx(other.train_loss)
        assert differ(weighted, plain)

    def test_of_zero_take_a_row_away(self):
        weighted, without, spoiled = network(), network(), Y.clone()
        spoiled[::2] = 1e6
        quiet(weighted, (X, spoiled), weights=torch.arange(ROWS) % 2)
        quiet(without, (X[1::2], Y[1::2]))
        assert_same_weights(weighted, without)

    def test_of_one_are_as_good_as_none(self):
        weighted, plain = network(), network()
        recipe = config(batch_size=12)
        quiet(weighted, recipe=recipe, weights=torch.full((ROWS,), 3.0))
        quiet(plain, recipe=recipe)
        assert_same_weights(weighted, plain)

    @pytest.mark.parametrize("task", TARGETS)
    @pytest.mark.parametrize("batch_size", [12, 1000])
    def test_of_each_member_are_its_own(self, task, batch_size):
        outputs, data = 3 if task == "multiclass" else 1, (X, TARGETS[task])
        recipe = config(task=task, batch_size=batch_size)
        own = torch.stack([FEW, FEW.flip(0), torch.ones(ROWS)])
        whole = Population([2, 8, outputs], seeds=[4, 4, 4], dtype=DOUBLE)
        history = quiet(whole, data, recipe, weights=own)
        for index, weights in enumerate(own):
            alone = network(outputs, seed=4)
            expected = quiet(alone, data, recipe, weights=weights)
            assert_same_weights(whole.member(index), alone)
            assert history.member(index).train_loss == pytest.approx(expected.train_loss)
        assert differ(whole.member(0), whole.member(1))

    def test_may_be_shared_by_the_members(self):
        whole, alone = Population([2, 8, 1], seeds=[0, 1], dtype=DOUBLE), network(seed=1)
        quiet(whole, weights=FEW)
        quiet(alone, weights=FEW)
        assert_same_weights(whole.member(1), alone)

    @pytest.mark.parametrize("other", [FEW.flip(0), None, FEW.square()])
    def test_belong_to_the_checkpoint(self, tmp_path, other):
        path = tmp_path / "state"
        quiet(network(), weights=FEW, checkpoint=path)
        with pytest.raises(ValueError, match="the data of the checkpoint"):
            quiet(network(), weights=other, checkpoint=path, resume=True)
        quiet(network(), weights=FEW, checkpoint=path, resume=True)

    def test_bad_ones(self):
        ones = torch.ones(ROWS)
        for bad in (ones[1:], ones[None], torch.ones(3, ROWS), torch.ones(())):
            with pytest.raises(ValueError, match=r"weights of shape \(40,\)\. Got"):
                quiet(network(), weights=bad)
        whole = Population([2, 8, 1], seeds=[0, 1], dtype=DOUBLE)
        with pytest.raises(ValueError, match=r"\(40,\) or \(2, 40\)\. Got \(3, 40\)"):
            quiet(whole, weights=torch.ones(3, ROWS))
        for bad in (-ones, 0 * ones, ones * torch.nan, ones * torch.inf):
            with pytest.raises(ValueError, match="finite weights >= 0, not all of them zero"):
                quiet(network(), weights=bad)
        with pytest.raises(ValueError, match="not all of them zero"):
            quiet(whole, weights=torch.stack([ones, 0 * ones]))
        with pytest.raises(ValueError, match="a task by its name where rows have weights"):
            quiet(network(), recipe=config(task=nn.functional.mse_loss), weights=ones)
        with pytest.raises(ValueError, match=r"data in memory.*Got list"):
            quiet(network(), [(X, Y)], weights=ones)


class TestInputDropout:
    def test_changes_the_training_and_repeats_itself(self):
        first, second, other, plain = (network() for _ in range(4))
        quiet(first, recipe=config(input_dropout=0.5))
        quiet(second, recipe=config(input_dropout=0.5))
        quiet(other, recipe=config(input_dropout=0.5, seed=1))
        quiet(plain)
        assert not differ(first, second)
        assert differ(first, other)
        assert differ(first, plain)

    def test_of_everything_leaves_the_bias_alone_to_learn(self):
        linear = nn.Linear(2, 1, dtype=DOUBLE)
        before = linear.weight.clone(), linear.bias.clone()
        quiet(linear, recipe=config(input_dropout=1.0))
        assert torch.equal(linear.weight, before[0])
        assert not torch.equal(linear.bias, before[1])

    def test_is_for_training_only(self):
        net = network()
        recipe = config(input_dropout=0.9)
        history = quiet(net, recipe=recipe, validation=(X, Y))
        assert history.validation_loss[-1] == pytest.approx(
            evaluate(net, (X, Y), "regression").loss
        )

    @pytest.mark.parametrize("share", [1.01, -0.1, float("nan")])
    def test_is_a_share(self, share):
        with pytest.raises(ValueError, match="Expected input_dropout to be"):
            TrainConfig(input_dropout=share)


class TestWarmCosine:
    def test_rises_over_the_first_tenth_and_falls_to_zero(self):
        rate = SCHEDULES["warm_cosine"]
        rates = [rate(step / 1000) for step in range(1001)]
        peak = rates.index(max(rates))
        assert rates[0] == pytest.approx(0.05)
        assert 90 <= peak <= 100
        assert rates[peak] > 0.95
        assert rates[:peak] == sorted(rates[:peak])
        assert rates[peak:] == sorted(rates[peak:], reverse=True)
        assert rates[-1] == pytest.approx(0, abs=1e-12)

    def test_makes_the_first_step_small(self):
        """Adam's first step is the learning rate, whatever the gradient."""
        steps = {}
        for schedule in ("warm_cosine", "cosine"):
            torch.manual_seed(0)
            linear = nn.Linear(2, 1, dtype=DOUBLE)
            before = linear.weight.clone()
            quiet(linear, recipe=config(epochs=1, schedule=schedule))
            steps[schedule] = (linear.weight - before).abs().max().item()
        assert steps["cosine"] == pytest.approx(1e-2, rel=1e-4)
        assert steps["warm_cosine"] == pytest.approx(0.05e-2, rel=1e-4)
