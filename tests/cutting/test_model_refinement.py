"""Several networks inside a model, cut together."""

import copy
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchsparcs import (
    CompactChain,
    CompactNetwork,
    RefineConfig,
    SpectralChain,
    SpectralNetwork,
    TrainConfig,
    evaluate,
    extract,
    train,
)
from torchsparcs.cutting.layers import with_fewer_channels
from torchsparcs.cutting.model_ladder import model_rungs
from torchsparcs.cutting.models import cut_model, measured, size_of
from torchsparcs.training.loop import NonFiniteLossError

CONFIG = RefineConfig(tolerance=0.02, epochs=3, batch_size=64)


class Residual(nn.Module):
    """Two blocks beside an identity, the second heard ``loudly`` or not, and a head."""

    def __init__(self, loudness: float = 1.0):
        super().__init__()
        self.first, self.second = (SpectralNetwork([4, 12, 4]) for _ in range(2))
        self.head = nn.Linear(4, 1)
        self.loudness = loudness

    def forward(self, x):
        x = x + self.first(x)
        return self.head(x + self.loudness * self.second(x))


def rows(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words of three places, (count, 3, 4), and what one neuron of each block can make of them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, 4, generator=generator)
    return x, x[..., :1] + x[..., 1:2].abs() + F.relu(x[..., 2:3] - 1)


def squared_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model, data = Residual(), rows(400, 0)
    config = TrainConfig(epochs=30, batch_size=64, lr=1e-2, penalty_weight=0.0)
    train(model, data, config, progress=False)
    return model


def waves(count, seed):
    """Slow ones and fast ones, (count, 1, 8), and which they are."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (count,), generator=draw)
    phase = 6.28 * torch.rand(count, 1, generator=draw)
    return torch.sin((0.5 + 2 * y[:, None]) * torch.arange(8.0) + phase).unsqueeze(1), y


class Squared(nn.Module):
    """The mean square over places, (rows, channels, places) to (rows, channels)."""

    def forward(self, x):
        return x.square().mean(dim=2)


class TestExtract:
    def test_cuts_all_of_them_and_keeps_the_loss(self, trained):
        before = copy.deepcopy(trained.state_dict())
        data, validation, test = rows(400, 0), rows(200, 1), rows(200, 2)
        whole = extract(trained)
        small = extract(
            trained,
            data=data,
            validation=validation,
            task="regression",
            config=CONFIG,
            progress=False,
        )
        assert isinstance(small.first, CompactNetwork)
        sizes = [size_of(model) for model in (whole, small)]
        assert sizes[1] < sizes[0] / 2
        scores = [evaluate(model, test, "regression").score for model in (whole, small)]
        assert scores[1] > scores[0] - 0.03
        assert small.training == trained.training
        assert all(torch.equal(value, before[name]) for name, value in trained.state_dict().items())

    def test_something_may_come_after_the_only_one(self):
        torch.manual_seed(0)
        model = nn.Sequential(SpectralNetwork([4, 6, 3]), nn.Tanh())
        for values in model[0].hidden_eigenvalues:
            nn.init.normal_(values)
        x = torch.randn(100, 4)
        data = x, model(x).detach() + torch.randn(100, 3) / 10
        given = {"data": data, "validation": data, "task": squared_error}
        small = extract(model, **given, config=RefineConfig(tolerance=0.2), progress=False)
        assert small[0].size.parameters < extract(model)[0].size.parameters
        assert evaluate(small, data, squared_error).loss < 0.1

    def test_also_where_it_writes_into_the_output(self, monkeypatch):
        called = []
        module = sys.modules["torchsparcs.cutting.extraction"]
        monkeypatch.setattr(
            module, "refine_model", lambda *a, **_: called.append(a) or nn.Identity()
        )
        data = torch.randn(50, 4), torch.randn(50, 3)
        for activation in (nn.ReLU(), nn.ReLU(inplace=True)):
            model = nn.Sequential(SpectralNetwork([4, 6, 3]), activation)
            extract(model, data=data, validation=data, task="regression", progress=False)
        assert len(called) == 2

    def test_batches_of_a_loader(self, trained):
        data = [rows(40, seed) for seed in range(4)]
        small = extract(
            trained,
            data=data,
            validation=rows(100, 9),
            task=squared_error,
            config=RefineConfig(tolerance=0.1, epochs=1),
            progress=False,
        )
        assert size_of(small) < size_of(extract(trained))
        with pytest.raises(ValueError, match=r"at least one batch\. Got none"):
            extract(trained, data=[], validation=data, task=squared_error, progress=False)

    def test_what_is_frozen_stays(self, trained):
        model = copy.deepcopy(trained)
        model.head.requires_grad_(False)
        data = rows(200, 0)
        options = {"config": CONFIG, "progress": False}
        small = extract(model, data=data, validation=data, task="regression", **options)
        assert torch.equal(small.head.weight, model.head.weight)
        free = extract(trained, data=data, validation=data, task="regression", **options)
        assert not torch.equal(free.head.weight, trained.head.weight)
        model.first.requires_grad_(False)
        small = extract(model, data=data, validation=data, task="regression", **options)
        x = data[0]
        torch.testing.assert_close(small.first(x), model.first(x))
        assert not any(p.requires_grad for p in small.first.parameters())
        assert small.second.size.parameters < extract(model).second.size.parameters

    def test_all_of_it_frozen(self, trained):
        model, data = copy.deepcopy(trained).requires_grad_(False), rows(50, 0)
        with pytest.raises(ValueError, match="Expected a spectral network that is not frozen"):
            extract(model, data=data, validation=data, task="regression", progress=False)

    def test_convolutions_and_what_reads_them(self):
        """Two classes that one channel and one neuron tell apart."""
        torch.manual_seed(0)
        model = nn.Sequential(
            SpectralChain([nn.Conv1d(*ends, 3, bias=False) for ends in ((1, 4), (4, 4))]),
            nn.ReLU(),
            nn.Flatten(),
            SpectralNetwork([16, 6, 2]),
        )
        data, validation = waves(300, 0), waves(100, 1)
        config = TrainConfig(task="multiclass", epochs=20, batch_size=50)
        train(model, data, config, progress=False)
        options = {"task": "multiclass", "config": RefineConfig(epochs=5, batch_size=50)}
        small = extract(model, data=data, validation=validation, progress=False, **options)
        assert isinstance(small[0], CompactChain)
        assert size_of(small) < 0.2 * size_of(extract(model))
        assert small[0].channels[1] < 8
        assert evaluate(small, waves(200, 2), "multiclass").score > 0.95

    def test_a_network_that_is_not_used(self, trained):
        model = copy.deepcopy(trained)
        model.third = SpectralNetwork([4, 3, 4])
        data = rows(50, 0)
        with pytest.raises(ValueError, match=r"uses all its networks\. 'third' is not used"):
            extract(model, data=data, validation=data, task="regression", progress=False)


class TestWithoutGradients:
    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_extracts_and_can_be_trained_on(self, trained, mode):
        with mode():
            cut = extract(
                trained,
                data=rows(50, 0),
                validation=rows(50, 1),
                task="regression",
                config=RefineConfig(epochs=1, tolerance=0.5),
                progress=False,
            )
        cut(rows(5, 0)[0]).sum().backward()
        assert all(p.grad is not None for p in cut.parameters())


class TestMeasuring:
    def test_a_chain_is_priced_as_it_would_be_alone(self):
        """The gradients at its outputs tell it all that the loss does."""
        torch.manual_seed(0)
        chain = CompactChain([nn.Conv1d(1, 6, 3), nn.Conv1d(6, 2, 3)], [4, 0]).double()
        model, (x, y) = nn.Sequential(chain, Squared()), waves(70, 0)
        seen = measured(model, [(x.double(), y)], "multiclass")["0"]
        ((_, gradient),) = seen.parts

        def through_the_rest(output, target):
            return F.cross_entropy(model[1](output), target)

        alone = with_fewer_channels(chain, (x.double(), y), through_the_rest, 30)
        small = cut_model(model, [(x.double(), y)], "multiclass", 30)[0]
        assert gradient.shape == (70, 2, 4)
        assert small.parameter_count <= 30
        torch.testing.assert_close(small(x.double()), alone(x.double()))

    def test_by_hand(self):
        """Of y = c · network(x) with a squared error, F is the mean of (2 c e)² over rows."""
        torch.manual_seed(0)
        network = extract(SpectralNetwork([3, 1]))
        model = nn.Sequential(network, nn.Linear(1, 1, bias=False)).double()
        x, y = torch.randn(50, 3, dtype=torch.float64), torch.randn(50, 1, dtype=torch.float64)
        seen = measured(model, [(x, y)], squared_error)["0"]
        error = model(x) - y
        felt = (2 * model[1].weight.item() * error).square().mean(dim=0)
        torch.testing.assert_close(seen.fisher, felt.detach())
        assert seen.inputs.shape == (50, 3)

    def test_of_a_regression_residuals_do_not_matter(self):
        """They vanish in a good fit: F is the mean of (2 c ε)² with noise ε of variance 1."""
        torch.manual_seed(0)
        model = nn.Sequential(extract(SpectralNetwork([3, 1])), nn.Linear(1, 1, bias=False))
        x = torch.randn(4000, 3)
        seen = [
            measured(model, [(x, model(x).detach() + off)], "regression")["0"].fisher
            for off in (0.0, 5.0)
        ]
        assert torch.equal(*seen)
        assert seen[0].item() == pytest.approx(4 * model[1].weight.item() ** 2, rel=0.1)

    def test_places_of_a_row_add_up(self, trained):
        whole, (x, y) = extract(trained).double(), rows(60, 0)
        x, y = x.double(), y.double()
        by_row = measured(whole, [(x, y)], squared_error)["second"]
        flat = x.flatten(0, 1), y.flatten(0, 1)
        one_by_one = measured(whole, [flat], squared_error)["second"]
        # a mean over three places has a third of the gradients, of which each row has three
        torch.testing.assert_close(by_row.fisher, one_by_one.fisher / 3)

    def test_a_chain_that_is_called_twice(self):
        """At two sizes, and counted for each row of the model."""

        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.chain = CompactChain([nn.Conv1d(1, 6, 3), nn.Conv1d(6, 2, 3)], [6, 0])

            def forward(self, x):
                return self.chain(x).mean(dim=2) + self.chain(x[..., 1:]).mean(dim=2)

        model, (x, y) = Twice().double(), waves(70, 0)
        twice = measured(model, [(x.double(), y)], "multiclass")["chain"].cutting
        (long, slope), (short, other) = measured(model, [(x.double(), y)], "multiclass")[
            "chain"
        ].parts
        assert long.shape[-1] == short.shape[-1] + 1
        by_hand = sum(part.square().sum(dim=(0, 2)) for part in (slope, other)) / 70
        torch.testing.assert_close(twice.readers[-1].fisher, by_hand)
        assert cut_model(model, [(x.double(), y)], "multiclass", 20).chain.parameter_count <= 20

    def test_what_is_hardly_heard_goes_first(self):
        torch.manual_seed(0)
        model = Residual(loudness=1e-3)
        for network in (model.first, model.second):
            nn.init.normal_(network.hidden_eigenvalues[0])
        whole = extract(model)
        small = cut_model(whole, [rows(200, 0)], "regression", int(0.6 * size_of(whole)))
        assert small.first.size.parameters > 0.9 * whole.first.size.parameters
        assert small.second.size.parameters < 0.3 * whole.second.size.parameters

    def test_an_exact_fit_counts_all_alike(self):
        torch.manual_seed(0)
        chain = SpectralChain([nn.Conv1d(1, 4, 3, bias=False), nn.Conv1d(4, 4, 3, bias=False)])
        whole = extract(nn.Sequential(chain, nn.Flatten(), SpectralNetwork([16, 2])))
        parts = [(x, whole(x).detach()) for x in waves(60, 0)[0].split(25)]
        seen = measured(whole, parts, squared_error)
        assert torch.equal(seen["2"].fisher, torch.ones(2).double())
        assert [gradient.unique().tolist() for _, gradient in seen["0"].parts] == [[1.0]] * 3

    @pytest.mark.parametrize("inplace", [True, False])
    def test_however_it_is_called(self, inplace):
        """Twice, by keyword, on single vectors, and with something that writes into its output."""

        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.block = extract(SpectralNetwork([3, 3]))

            def forward(self, x):
                first = F.relu(self.block(input=x), inplace=inplace)
                return first + torch.stack([self.block(row) for row in x])

        x, y = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
        model = Odd()
        seen = measured(model, [(x, y)], F.mse_loss)["block"]
        assert torch.equal(seen.inputs[:20].sort(dim=0).values, x.double().sort(dim=0).values)
        assert len(seen.inputs) == 40
        linear = model.block(x)
        gradient = 2 * (linear.relu() + linear - y) / 3
        felt = (gradient * (linear > 0)).square() + gradient.square()
        torch.testing.assert_close(seen.fisher, felt.double().mean(dim=0), rtol=1e-4, atol=0)

    def test_what_bursts_in_training_goes_on_as_it_was_cut(self, trained, monkeypatch):
        def bursting(*_, **__):
            raise NonFiniteLossError("burst")

        monkeypatch.setattr(sys.modules["torchsparcs.cutting.model_ladder"], "train", bursting)
        found = model_rungs(extract(trained), rows(50, 0), rows(50, 1), TrainConfig())
        assert [rung.passed_over for rung in found] == [()] * 8

    def test_each_is_smaller_than_the_one_before(self, trained):
        tuning = TrainConfig(task="regression", epochs=1, batch_size=64)
        data = rows(200, 0)
        sizes = [
            rung.parameters for rung in model_rungs(extract(trained), data, rows(50, 1), tuning)
        ]
        assert len(sizes) > 5
        assert sizes[-1] < sizes[-2]  # as small as it gets
        assert all(small <= 0.7 * large for large, small in pairwise(sizes[:-1]))
