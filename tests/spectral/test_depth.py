"""Thirty layers: signals and gradients keep their size, and the network can be trained."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from torchsparcs import Population, SpectralNetwork, TrainConfig, train
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.spectral.network import deep_gain

SHAPES = {  # of thirty transfers each
    "equal": [64, *[100] * 29, 10],
    "narrow ends": [20, *[200] * 29, 20],
    "wide and narrow": [*[10, 500] * 15, 10],
    "wide input": [784, *[20] * 29, 10],
    "tapered": [*range(320, 10, -10), 10][:31],
}
DTYPES = (torch.float32, torch.bfloat16)


def drawn(widths, seed=0, **options) -> SpectralNetwork:
    network = SpectralNetwork(widths, **options)
    network.reset_parameters(torch.Generator().manual_seed(seed))
    return network


def with_eigenvalues(network: SpectralNetwork, state: str) -> SpectralNetwork:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for eigenvalues in network.hidden_eigenvalues:
            if state == "awake":
                eigenvalues.fill_(-1.0)
            elif state == "random":
                eigenvalues.uniform_(-1, 1, generator=generator)
    return network


def rms(tensor: torch.Tensor) -> float:
    return tensor.detach().double().square().mean().sqrt().item()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_and_gradients_of_thirty_layers_are_of_order_one(shape, dtype, bias):
    """At the start; Xavier alone gives 1e-9 and 1e-11 where wide and narrow layers alternate."""
    widths = SHAPES[shape]
    network = drawn(widths, bias=bias).to(dtype)
    assert len(network.transfers) == 30
    generator = torch.Generator().manual_seed(2)
    output = network(torch.randn(64, widths[0], generator=generator).to(dtype))
    assert 0.1 < rms(output) < 10
    output.backward(torch.randn(output.shape, generator=generator).to(dtype) / 8)
    for transfer in network.transfers:
        assert 1e-3 < rms(transfer.grad) < 10
    assert 1e-2 < rms(network.output_eigenvalues.grad) < 100
    assert 1e-2 < rms(network.hidden_eigenvalues[-1].grad) < 10
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("state", ["awake", "random"])
@pytest.mark.parametrize("shape", ["equal", "wide and narrow"])
def test_recruited_layers_keep_it_so(shape, state, dtype, activation):
    widths = SHAPES[shape]
    network = with_eigenvalues(drawn(widths, activation=activation), state).to(dtype)
    output = network(torch.randn(64, widths[0]).to(dtype))
    assert 1e-3 < rms(output) < 100
    output.float().square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())
    for transfer in network.transfers:
        assert 1e-6 < rms(transfer.grad) < 1e3
    if state == "random":
        for eigenvalues in network.hidden_eigenvalues:
            assert 1e-6 < rms(eigenvalues.grad) < 1e3


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_hundred_layers_are_finite_too(dtype):
    network = drawn([64, *[100, 50] * 50, 10]).to(dtype)
    output = network(torch.randn(64, 64).to(dtype))
    output.float().square().mean().backward()
    assert 1e-2 < rms(output) < 100
    for transfer in network.transfers:
        assert 1e-5 < rms(transfer.grad) < 1e3


def test_mean_squares_are_those_of_the_formula():
    """√(N₀ / N_B) forwards, √(N_B / N₀) backwards, whatever lies between."""
    widths = [32, *[40, 640] * 14, 40, 8]
    forward, backward = [], []
    for seed in range(20):
        network = drawn(widths, seed, bias=False)
        x = torch.randn(16, 32, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        output = network(x)
        output.backward(torch.randn(16, 8, generator=torch.Generator().manual_seed(seed)))
        forward.append(rms(output) ** 2)
        backward.append(rms(x.grad) ** 2)
    assert torch.tensor(forward).mean().item() == pytest.approx(math.sqrt(32 / 8), rel=0.5)
    assert torch.tensor(backward).mean().item() == pytest.approx(math.sqrt(8 / 32), rel=0.5)
    assert math.prod(deep_gain(m, n) for n, m in pairwise(widths)) > 1e4


@pytest.mark.parametrize(
    "widths", [[5, 3], [30, 7, 2], [3, 128, 32, 1], [3, 50, 200, 10, 4], [9, *[9] * 30, 9]]
)
def test_few_layers_and_equal_ones_are_drawn_as_by_xavier(widths):
    """Bit for bit: what was recorded can be computed again."""
    bias = len(widths) < 10
    mine, its = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    network = SpectralNetwork(widths, bias=bias)
    network.reset_parameters(mine)
    population = Population(widths, seeds=[0, 3], bias=bias)
    for transfer, many in zip(network.transfers, population.transfers, strict=True):
        expected = nn.init.xavier_uniform_(torch.empty_like(transfer), generator=its)
        assert torch.equal(transfer, expected)
        assert torch.equal(many[1], expected)


@pytest.mark.parametrize(("activation", "share"), [("relu", 1.0), ("gelu", 0.5), ("tanh", 0.0)])
def test_the_first_force_acts_on_the_last_hidden_layer_alone(activation, share):
    """∂y/∂λ_j = −(1 − f′(0)) φ_{B−1,j} u_j there, and zero on all layers before it."""
    network = drawn([4, 6, 5, 7, 5, 3], activation=activation, dtype=torch.float64)
    x = torch.randn(4, dtype=torch.float64)
    z = torch.cat([x, x.new_ones(1)])
    for transfer in list(network.transfers)[:-1]:
        u = transfer @ z
        z = -u
    for place in range(3):
        *before, last = torch.autograd.grad(network(x)[place], list(network.hidden_eigenvalues))
        torch.testing.assert_close(last, -share * network.transfers[-1][place] * u)
        assert all(force.abs().max() < 1e-15 for force in before)
    # once the last layer is awake the one before it feels something, and so on back to the first
    with torch.no_grad():
        network.hidden_eigenvalues[-1].uniform_(-1, 1)
    *before, nearer, _ = torch.autograd.grad(network(x)[0], list(network.hidden_eigenvalues))
    assert nearer.abs().max() > 1e-3
    assert all(force.abs().max() < 1e-15 for force in before)


@pytest.mark.parametrize("widths", [[4, *[20] * 29, 1], [10, *[200, 10] * 14, 200, 1]])
def test_thirty_layers_learn_what_a_linear_model_cannot(widths):
    """|x₀|: no line explains any of it. Xavier alone stays there in the second network."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, widths[0], generator=generator)
    y = (x[:, 0].abs() - 0.8) / 0.6
    network = drawn(widths, 1)
    history = train(network, (x, y), TrainConfig(epochs=20, batch_size=128), progress=False)
    assert history.train_loss[-1] < 0.5 < 0.9 < history.train_loss[0]
    assert all(history.recruited[-1])


def test_thirty_layers_of_bfloat16_train():
    x = torch.randn(512, 4)
    y = (x[:, 0].abs() - 0.8) / 0.6
    network = drawn([4, *[20] * 29, 1]).to(torch.bfloat16)
    history = train(network, (x, y), TrainConfig(epochs=16, batch_size=128), progress=False)
    assert history.train_loss[-1] < 0.1
    assert all(torch.isfinite(p).all() for p in network.parameters())


def test_every_activation_is_finite_through_thirty_layers():
    for activation in ACTIVATIONS:
        network = with_eigenvalues(drawn(SHAPES["wide and narrow"], activation=activation), "awake")
        assert torch.isfinite(network(torch.randn(8, 10))).all()
