"""Cutting with data: exact rewritings stay exact, spare parts go, the loss is kept."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import nn

from torchsparcs import CompactNetwork, RefineConfig, SpectralNetwork, TrainConfig, extract, train
from torchsparcs.cutting.ladder import last_within
from torchsparcs.cutting.neurons import eliminated, without_block
from torchsparcs.cutting.refinement import _Refining, refine
from torchsparcs.cutting.signs import reoriented
from torchsparcs.training.tasks import evaluate

DOUBLE = torch.float64


def compact(widths, connections, **options) -> CompactNetwork:
    torch.manual_seed(0)
    return CompactNetwork(widths, connections, dtype=DOUBLE, **options)


def rebuilt(direct) -> CompactNetwork:
    return CompactNetwork.from_direct(direct, maximal=None, dtype=DOUBLE)


X = torch.randn(500, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
SKIPPED = [(1, 0), (2, 0), (2, 1)]


class TestReorienting:
    @pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "tanh"])
    @pytest.mark.parametrize(
        ("widths", "connections"),
        [([4, 6, 3], SKIPPED), ([4, 3, 3, 2], [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2)])],
    )
    def test_never_changes_the_function(self, activation, widths, connections):
        network = compact(widths, connections, activation=activation)
        last = len(widths) - 1
        turned = rebuilt(reoriented(network.to_direct(), X, last, 0))
        torch.testing.assert_close(turned(X), network(X), rtol=1e-12, atol=1e-12)

    def test_finds_the_signs_that_need_no_skip(self):
        network = compact([4, 6, 3], SKIPPED)
        nn.init.zeros_(network.block(2, 0).weight)
        direct = network.to_direct()
        flip = torch.tensor([1.0, 0, 1, 1, 0, 0], dtype=DOUBLE)
        weights = direct.weights.clone()
        # relu(h) = h + relu(−h) for three neurons: their linear part becomes a skip connection
        weights[6:, :4] += (weights[6:, 4:] * flip) @ weights[:6, :4]
        bias = direct.bias.clone()
        bias[6:] += (weights[6:, 4:] * flip) @ bias[:6]
        weights[:6] *= (1 - 2 * flip)[:, None]
        bias[:6] *= 1 - 2 * flip
        disguised = type(direct)(weights, bias, direct.layers, "relu")
        torch.testing.assert_close(rebuilt(disguised)(X), network(X))
        assert disguised.weights[6:, :4].abs().max() > 0.1
        plain = reoriented(disguised, X, 2, 0)
        assert plain.weights[6:, :4].abs().max() < 1e-12


class TestElimination:
    def test_a_duplicate_costs_nothing(self):
        network = compact([4, 6, 3], SKIPPED)
        with torch.no_grad():
            network.block(1, 0).weight[5] = 2 * network.block(1, 0).weight[2]
            network.block(1, 0).bias[5] = 2 * network.block(1, 0).bias[2]
        smaller = rebuilt(eliminated(network.to_direct(), X, 1))
        assert smaller.widths == (4, 5, 3)
        torch.testing.assert_close(smaller(X), network(X), rtol=1e-4, atol=1e-4)

    def test_a_neuron_that_is_linear_on_the_data_moves_into_the_skip(self):
        network = compact([4, 6, 3], SKIPPED)
        with torch.no_grad():
            network.block(1, 0).bias[3] = 100.0  # never at its kink
        smaller = rebuilt(eliminated(network.to_direct(), X, 1))
        torch.testing.assert_close(smaller(X), network(X), rtol=1e-3, atol=1e-3)

    def test_works_through_two_hidden_layers(self):
        connections = [(t, s) for t in range(1, 4) for s in range(t)]
        network = compact([4, 6, 6, 3], connections)
        with torch.no_grad():
            for source in (0, 1):
                network.block(2, source).weight[4] = network.block(2, source).weight[1]
            network.block(2, 0).bias[4] = network.block(2, 0).bias[1]
        smaller = rebuilt(eliminated(network.to_direct(), X, 1))
        assert smaller.widths == (4, 6, 5, 3)
        torch.testing.assert_close(smaller(X), network(X), rtol=1e-4, atol=1e-4)

    def test_very_wide_inputs_keep_their_weights(self, monkeypatch):
        monkeypatch.setattr("torchsparcs.cutting.neurons.WIDEST_REFIT", 3)
        network = compact([4, 6, 3], SKIPPED)
        smaller = rebuilt(eliminated(network.to_direct(), X, 2))
        assert torch.equal(smaller.block(2, 0).weight, network.block(2, 0).weight)


def test_a_block_that_others_can_carry_is_cut_for_free():
    network = compact([4, 4, 3], SKIPPED, activation="identity")
    without = rebuilt(without_block(network.to_direct(), X, 2, 0))
    assert without.connections == ((1, 0), (2, 1))
    torch.testing.assert_close(without(X), network(X), rtol=1e-4, atol=1e-4)


def disguised_teacher() -> tuple[CompactNetwork, torch.Tensor]:
    """y = V relu(W x), 5 neurons: written with 9 in two layers and a skip that it does not need."""
    generator = torch.Generator().manual_seed(3)
    w = torch.randn(5, 5, generator=generator, dtype=DOUBLE)
    v = torch.randn(3, 5, generator=generator, dtype=DOUBLE)
    network = compact([5, 4, 5, 3], [(t, s) for t in range(1, 4) for s in range(t)])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.block(1, 0).weight.copy_(torch.stack([w[0], w[0], -w[1], w[2]]))
        network.block(2, 0).weight.copy_(torch.stack([w[3], w[4], w[3], -w[4], w[1]]))
        network.block(2, 1).weight.copy_(1e-4 * torch.randn(5, 4, generator=generator))
        network.block(3, 1).weight.copy_(
            torch.stack([v[:, 0] / 2, v[:, 0] / 2, v[:, 1], v[:, 2]], dim=1)
        )
        network.block(3, 0).weight.copy_(torch.outer(v[:, 1], w[1]))
        network.block(3, 2).weight.copy_(
            torch.stack([v[:, 3] / 3, v[:, 4], 2 * v[:, 3] / 3, 0 * v[:, 4], 0 * v[:, 1]], dim=1)
        )
    x = torch.randn(3000, 5, generator=generator, dtype=DOUBLE)
    return network, torch.cat([x, torch.relu(x @ w.T) @ v.T], dim=1)


def test_the_teacher_is_found_behind_its_disguise():
    network, rows = disguised_teacher()
    training, validation = ((part[:, :5], part[:, 5:]) for part in (rows[:2000], rows[2000:]))
    assert evaluate(network, validation, "regression").score > 0.9999
    found = refine(
        network, training, validation, "regression", RefineConfig(batch_size=100, epochs=3)
    )
    assert found.architecture == "5 → 5 → 3"
    assert evaluate(found, validation, "regression").score > 0.9999


def test_from_training_to_the_smallest_network():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4000, 3, generator=generator) * 2 - 1
    y = torch.relu(x[:, 0] - x[:, 1]) - 2 * torch.relu(x[:, 2])
    training, validation = (x[:3000], y[:3000]), (x[3000:], y[3000:])
    network = SpectralNetwork([3, 30, 30, 1])
    network.reset_parameters(generator)
    config = TrainConfig(epochs=25, lr=1e-2, batch_size=200)
    train(network, training, config, progress=False)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    exact = extract(network)
    small = extract(network, data=training, validation=validation, task="regression")
    assert small.widths in [(3, 2, 1), (3, 3, 1)]
    assert small.size.parameters < exact.size.parameters
    assert evaluate(small, validation, "regression").score > 0.999
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.1])
def test_the_loss_stays_within_the_tolerance(tolerance):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 4, generator=generator, dtype=DOUBLE)
    network = compact([4, 20, 3], SKIPPED)
    y = (network(x) + 0.5 * torch.randn(2000, 3, generator=generator)).argmax(dim=1)
    training, validation = (x[:1000], y[:1000]), (x[1000:], y[1000:])
    config = RefineConfig(tolerance=tolerance, epochs=2)
    small = refine(network, training, validation, "multiclass", config)
    loss = evaluate(network, validation, "multiclass").loss
    assert evaluate(small, validation, "multiclass").loss <= loss + 1.1 * tolerance * 1.1
    assert small.size.parameters <= network.size.parameters


def test_a_loader_and_a_custom_loss_are_taken():
    network, rows = disguised_teacher()
    loader = [(part[:, :5], part[:, 5:]) for part in rows.split(500)]
    found = refine(network, loader, loader, nn.functional.mse_loss, RefineConfig(rows=700))
    assert found.size.parameters < network.size.parameters


def test_a_few_are_passed_over():
    class Rung(NamedTuple):
        parameters: int
        loss: float

    def last(*losses: float) -> int:
        rungs = [Rung(place, loss) for place, loss in enumerate(losses)]
        return last_within(rungs, 0.1, lambda text: None).parameters

    assert last(1.0, 1.05, 1.2, 1.2) == 1
    assert last(1.0, 1.2, 1.3, 1.1, 1.05) == 4
    assert last(1.0, 1.2, 1.2, 1.2, 0.5) == 0  # three in a row are too many
    assert last(1.0, 0.5, 0.7, 0.59) == 3
    assert last(math.nan, 1.0) == 1


@pytest.mark.parametrize("task", [nn.functional.mse_loss, nn.MSELoss()])
def test_all_pairs_of_rows_are_not_compared(task):
    x = torch.randn(30, 3)
    network = SpectralNetwork([3, 4, 1])
    with pytest.raises(ValueError, match=r"one shape\. Got \(2, 1\) and \(2,\).*all pairs"):
        train(network, (x, x.sum(1)), TrainConfig(task=task, epochs=1), progress=False)


def test_a_loss_is_one_number_and_an_output_one_tensor():
    x, network = torch.randn(30, 3), SpectralNetwork([3, 4, 1])
    each = TrainConfig(task=lambda output, target: (output - target) ** 2, epochs=1)
    with pytest.raises(ValueError, match=r"one number\. Got one of shape \(2, 1\)"):
        train(network, (x, x[:, :1]), each, progress=False)

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network(x), x

    with pytest.raises(ValueError, match=r"one tensor, or a loss.*Got a tuple from Two"):
        train(Two(), (x, x[:, :1]), TrainConfig(epochs=1), progress=False)
    with pytest.raises(
        ValueError, match=r"batches \(inputs, targets\).*'Tensor', 'Tensor', 'Tensor'"
    ):
        train(network, [(x, x, x)], TrainConfig(epochs=1), progress=False)


def test_data_come_together():
    network, x = SpectralNetwork([3, 4, 1]), torch.randn(50, 3)
    with pytest.raises(ValueError, match=r"all together, or none.*Got only data"):
        extract(network, data=(x, x.sum(1)))
    with pytest.raises(ValueError, match=r"all together, or none.*Got only config"):
        extract(network, config=RefineConfig())
    good = {"data": (x, x.sum(1)), "validation": (x, x.sum(1)), "task": "regression"}
    with pytest.raises(ValueError, match=r"a RefineConfig\. Got TrainConfig"):
        extract(network, **good, config=TrainConfig())
    with pytest.raises(ValueError, match=r"finite inputs\. Got 3 values.*validation data"):
        extract(network, **{**good, "validation": (x[:1] * torch.nan, x[:1].sum(1))})
    with pytest.raises(ValueError, match=r"last dimension is 3\. Got shape \(2, 2\)"):
        extract(network, **{**good, "data": (x[:, :2], x.sum(1))})


@pytest.mark.parametrize(
    "options", [{"tolerance": -1.0}, {"rows": 0}, {"epochs": 0}, {"slack": float("nan")}]
)
def test_bad_configs(options):
    with pytest.raises(ValueError, match=f"Expected {next(iter(options))} to be"):
        RefineConfig(**options)


def test_the_head_of_a_model_is_cut_on_its_features():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3000, 6, generator=generator) * 2 - 1
    body = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)).requires_grad_(False)
    y = torch.relu(body(x)[:, 0] - body(x)[:, 1])
    model = nn.Sequential(body, SpectralNetwork([3, 30, 1]))
    training, validation = (x[:2000], y[:2000]), (x[2000:], y[2000:])
    train(model, training, TrainConfig(epochs=10, lr=1e-2, batch_size=100), progress=False)
    small = extract(model, data=training, validation=validation, task="regression")
    assert isinstance(small[1], CompactNetwork)
    assert small[1].size.parameters < extract(model)[1].size.parameters
    before, after = (evaluate(m, validation, "regression").score for m in (model, small))
    assert after > before - 2e-3


def test_inputs_with_more_dimensions_and_loaders_of_them():
    x = torch.rand(300, 4, 3) * 2 - 1
    y = x.sum(dim=-1)
    network = SpectralNetwork([3, 5, 1])
    loader = [(x, y)]
    for source in ((x, y), loader):
        small = extract(network, data=source, validation=source, task="regression", progress=False)
        assert small.widths == (3, 1)
    with pytest.raises(ValueError, match=r"at least one batch\. Got none"):
        extract(network, data=[], validation=loader, task="regression")


def test_a_head_may_be_called_by_keyword_and_squeezed():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = SpectralNetwork([3, 5, 1])

        def forward(self, x):
            return self.head(input=x).squeeze(-1)

    x = torch.rand(300, 3)
    data = (x, x.sum(dim=-1))
    model = Model()
    loss = nn.functional.mse_loss
    small = extract(model, data=data, validation=data, task="regression", progress=False)
    assert small.head.widths == (3, 1)
    assert loss(small(x), data[1]) <= loss(model(x), data[1]) + 1e-6


def test_a_cut_never_makes_the_network_larger():
    """Other signs would spare the skip 4 → 3, but cost layer 2 a block from the inputs."""
    network = compact([4, 6, 5, 3], [(1, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
        incoming, outgoing = network.block(1, 0).weight[:3], network.block(3, 1).weight[:, :3]
        network.block(3, 0).weight.copy_(-outgoing @ incoming)
    direct = network.to_direct()
    turned = without_block(reoriented(direct, X, 3, 0), X, 3, 0)
    torch.testing.assert_close(rebuilt(turned)(X), network(X))
    assert rebuilt(turned).size.parameters > network.size.parameters
    y = network(X).detach()
    config = RefineConfig(tolerance=1e-7, epochs=1)
    refining = _Refining(network, (X, y), (X, y), "regression", config, show=lambda text: None)
    assert refining._without_block(direct, 3, 0) is direct


def test_a_diverging_fine_tuning_is_thrown_away():
    network, rows = disguised_teacher()
    data = (rows[:, :5], rows[:, 5:])
    found = refine(network, data, data, "regression", RefineConfig(lr=1e30, epochs=1))
    assert evaluate(found, data, "regression").score > 0.99


def test_looking_draws_no_random_numbers():
    network = SpectralNetwork([3, 8, 2])
    state = torch.get_rng_state()
    extract(network)
    assert torch.equal(state, torch.get_rng_state())
