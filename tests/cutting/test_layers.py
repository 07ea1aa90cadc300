"""Chains lose channels, positions and layers, and their function little."""

import math
import sys

import pytest
import torch
from chains import conv
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from torchsparcs import (
    CompactChain,
    Pooled,
    RefineConfig,
    SpectralChain,
    SpectralCNN,
    TrainConfig,
    evaluate,
    extract,
    train,
)
from torchsparcs.cutting.channels import in_principal_axes, measured
from torchsparcs.cutting.layers import (
    chain_cuts,
    in_batches,
    merged_and_trimmed,
    with_a_layer_less,
    with_fewer_channels,
)
from torchsparcs.training.tasks import Evaluation


@pytest.fixture(scope="module")
def trained():
    """A small CNN that tells upright stripes from lying ones; data and validation."""
    torch.manual_seed(0)
    y, phase = torch.randint(2, (800,)), 2 * math.pi * torch.rand(800, 1, 1)
    along_rows = torch.sin(torch.arange(8.0) + phase).expand(-1, 8, -1)
    x = torch.where(y.view(-1, 1, 1) == 1, along_rows, along_rows.mT) + torch.randn(800, 8, 8) / 2
    x = x.unsqueeze(1)
    network = SpectralCNN([1, 8, 8, 2])
    config = TrainConfig(task="multiclass", epochs=6, batch_size=64, lr=5e-3, penalty_weight=1e-4)
    train(network, (x[:600], y[:600]), config, progress=False)
    return network, (x[:600], y[:600]), (x[600:], y[600:])


def test_principal_axes_change_nothing(trained):
    network, data, _ = trained
    compact = extract(network)
    turned = in_principal_axes(compact, in_batches(data), F.cross_entropy)
    torch.testing.assert_close(turned(data[0]), compact(data[0]), rtol=1e-3, atol=1e-3)


def test_duplicates_cost_nothing():
    torch.manual_seed(0)
    layers = [nn.Conv1d(2, 6, 3, padding=1), nn.Conv1d(6, 4, 3, padding=1), Pooled(4, 3, 1)]
    network = CompactChain(layers, [6, 4, 0]).double()
    with torch.no_grad():
        for parameter in (network.layers[0].weight, network.layers[0].bias):
            parameter[3:] = 2 * parameter[:3]
    x, y = torch.randn(300, 2, 10).double(), torch.randint(3, (300,))
    size = network.parameter_count - 3 * (2 * 3 + 1 + 4 * 3)
    cut = with_fewer_channels(network, (x, y), F.cross_entropy, size)
    assert cut.channels == (2, 3, 4, 3)
    gap = (cut(x) - network(x)).abs().max() / network(x).std()
    assert gap < 1e-2


def test_a_linear_layer_goes():
    """A 1x1 convolution without an activation can be had by the one after it."""
    torch.manual_seed(0)
    layers = [nn.Conv1d(2, 5, 3, padding=1), nn.Conv1d(5, 5, 1), nn.Conv1d(5, 4, 3, padding=1)]
    network = CompactChain([*layers, Pooled(4, 3, 1, bias=True)], [5, 0, 4, 0]).double()
    x, y = torch.randn(300, 2, 10).double(), torch.randint(3, (300,))
    shorter = with_a_layer_less(network, (x, y), F.cross_entropy)["narrow"]
    assert len(shorter.layers) == 3
    gap = (shorter(x) - network(x)).abs().max() / network(x).std()
    assert gap < 0.1


def test_a_layer_that_goes_may_leave_its_reach():
    """Two linear layers on a ring see five places; one does as well with a kernel of five."""
    torch.manual_seed(0)
    options = {"padding": 1, "padding_mode": "circular"}
    layers = [nn.Conv1d(1, 6, 3, **options), nn.Conv1d(6, 1, 3, **options)]
    network = CompactChain(layers, [0, 0]).double()
    x = torch.randn(300, 1, 12).double()
    data = x, network(x).detach() + torch.randn_like(x)
    ways = with_a_layer_less(network, data, F.mse_loss)
    narrow, wide = ways["narrow"], ways["wide"]
    assert [one.layers[0].kernel_size for one in (narrow, wide)] == [(3,), (5,)]
    torch.testing.assert_close(wide(x), network(x), rtol=1e-3, atol=1e-3)
    assert (narrow(x) - network(x)).abs().max() > 0.1
    few = CompactChain([nn.Conv1d(4, 1, 3, **options), nn.Conv1d(1, 4, 3, **options)], [0, 0])
    rows = torch.randn(50, 4, 12), torch.randn(50, 4, 12)
    ways = with_a_layer_less(few, rows, F.mse_loss)
    kernels = [one.layers[0].kernel_size for one in ways.values()]
    assert kernels == [(3,)]  # one of five places would take more parameters than both have


def test_of_channels_without_places():
    torch.manual_seed(0)
    maps = [nn.Conv1d(1, 4, 3, bias=False), Pooled(4, 6, 1), nn.Linear(6, 2, bias=False)]
    chain, x, y = SpectralChain(maps), torch.randn(60, 1, 6), torch.randint(2, (60,))
    nn.init.normal_(chain.hidden_eigenvalues[1])
    small = with_fewer_channels(extract(chain), (x, y), "multiclass", 30)
    assert small.parameter_count <= 30
    cut = extract(
        chain,
        data=DataLoader(TensorDataset(x, y), batch_size=25),
        validation=(x, y),
        task="multiclass",
        config=RefineConfig(tolerance=10.0, epochs=1, batch_size=30),
        progress=False,
    )
    assert cut.parameter_count < extract(chain).parameter_count


def test_a_channel_means_what_it_means_as_a_whole():
    """To second order: how the loss of each row changes as the channel is led to its mean."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3, bias=False), Pooled(4, 2, bias=True)]
    network = CompactChain(layers, [2, 4, 0]).double()
    x = (torch.randn(90, 1, 1, 1) + torch.randn(90, 1, 9, 9) / 3).double()  # places are alike
    y = torch.randint(2, (90,))
    _, reader, last = measured(network, in_batches((x, y)), F.cross_entropy)
    read = network.activated(0, network.layers[0](x)).detach()
    gates = torch.ones(90, 3, dtype=torch.float64, requires_grad=True)
    mean = read.mean(dim=(0, 2, 3)).view(1, 3, 1, 1)
    led = mean + gates[:, :, None, None] * (read - mean)
    losses = F.cross_entropy(layers[2](layers[1](led).relu()), y, reduction="sum")
    (slopes,) = torch.autograd.grad(losses, gates)
    second = torch.einsum("ipiq->ipq", reader.covariance)
    weight = layers[1].weight.detach().flatten(2)
    apart = torch.einsum("oip,ipq,oiq,o->i", weight, second, weight, reader.fisher)
    torch.testing.assert_close(reader.together * apart, slopes.square().mean(dim=0))
    assert reader.together.max() > 5  # 25 places that add up under the pooling
    assert (last.together < 2.1).all()  # one place, two classes


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({2: 1.0, 1: 2.0}, [2, 1]),  # worse before it is fine-tuned: that will tell
        ({2: 1.0, 1: 0.5}, [1]),  # better at once
        ({2: 1.0, 1: 5.0}, [2]),  # no better than a constant
        ({2: 6.0, 1: 2.0}, [2, 1]),  # better than what knows nothing says nothing
    ],
)
def test_when_a_layer_goes(monkeypatch, losses, expected):
    module = sys.modules["torchsparcs.cutting.layers"]
    made = {n: CompactChain([conv(1, 1) for _ in range(n)], [0] * n) for n in (1, 2)}
    monkeypatch.setattr(module, "merged_and_trimmed", lambda one, *_: one)
    monkeypatch.setattr(module, "with_fewer_channels", lambda one, *_: one)
    monkeypatch.setattr(module, "constant_loss", lambda *_: 4.0)
    monkeypatch.setattr(
        module,
        "with_a_layer_less",
        lambda one, *_: {"narrow": made[1]} if len(one.layers) == 2 else {},
    )
    monkeypatch.setattr(
        module, "evaluate", lambda one, *_: Evaluation(losses[len(one.layers)], 0.0)
    )
    cuts = chain_cuts(made[2], (None, None), F.mse_loss, 100)
    assert [len(one.layers) for one in cuts.values()] == expected


def test_kernels_get_smaller_where_channels_are_not_enough():
    torch.manual_seed(0)
    network = CompactChain([nn.Conv2d(1, 1, 5, padding=2), Pooled(1, 2, bias=True)], [1, 0])
    x = torch.randn(40, 1, 8, 8)
    cuts = chain_cuts(network, (x, network(x).detach()), F.mse_loss, 20).values()
    kernels = [one.layers[0].kernel_size for one in cuts if len(one.layers) == 2]
    assert kernels == [(5, 5), (3, 3)]


def test_outer_positions_without_weight_go():
    torch.manual_seed(0)
    network = CompactChain([nn.Conv1d(2, 3, 7, padding=3), Pooled(3, 2, 1)], [3, 0]).double()
    with torch.no_grad():
        network.layers[0].weight[..., [0, 1, 5, 6]] = 0
    x = torch.randn(200, 2, 10).double()
    small = merged_and_trimmed(network, (x, network(x).detach()), F.mse_loss)
    assert small.layers[0].kernel_size == (3,)
    torch.testing.assert_close(small(x), network(x))


def test_the_size_asked_for(trained):
    network, data, _ = trained
    compact = extract(network)
    for share in (0.7, 0.3, 0.1):
        size = int(share * compact.parameter_count)
        cuts = chain_cuts(compact, data, F.cross_entropy, size).values()
        assert all(cut.parameter_count <= size for cut in cuts)


def test_extract_with_data_keeps_the_score(trained):
    network, data, validation = trained
    config = RefineConfig(tolerance=0.02, epochs=3, batch_size=64, lr=3e-3)
    small = extract(
        network,
        data=data,
        validation=validation,
        task="multiclass",
        config=config,
        progress=False,
    )
    before = evaluate(network, validation, "multiclass")
    after = evaluate(small, validation, "multiclass")
    assert before.score > 0.9
    assert before.score - after.score < 0.03
    assert small.parameter_count < extract(network).parameter_count / 4
    assert after.loss < before.loss + 0.02 * math.log(2) * 1.2
