"""Spectral networks that start from the weights of what they replace."""

import math

import pytest
import torch
from models import DOUBLE, Mlp, MlpBlock, Vit, gap, perceptrons
from torch import nn

from torchsparcs import extract, spectralize


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "sigmoid", torch.cos])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("n_in", "n_out", "hidden"),
    [(6, 3, [4]), (6, 3, [40, 4, 7]), (2, 9, [4, 5]), (1, 1, [3]), (4, 4, [30])],
)
def test_a_linear_is_the_same_perceptron(n_in, n_out, hidden, bias, activation):
    linear, x = nn.Linear(n_in, n_out, bias=bias, dtype=DOUBLE), torch.randn(9, n_in).double()
    network = spectralize(
        linear, target="", hidden=hidden, activation=activation, keep_weights=True
    )
    assert network.recruited == [0] * len(hidden)
    assert gap(network, linear, x) < 1e-13
    assert gap(extract(network), linear, x) < 1e-13
    assert extract(network).widths == (n_in, n_out)


def test_it_still_reads_the_input_in_all_directions():
    network = spectralize(nn.Linear(50, 3), target="", hidden=[40], keep_weights=True)
    assert torch.linalg.matrix_rank(network.transfers[0]) == 40
    network(torch.randn(20, 50)).square().sum().backward()
    assert network.hidden_eigenvalues[0].grad.abs().min() > 0


def test_a_linear_of_zeros():
    linear = nn.Linear(4, 3)
    for parameter in linear.parameters():
        nn.init.zeros_(parameter)
    network = spectralize(linear, target="", hidden=[2], keep_weights=True)
    assert not network(torch.randn(5, 4)).any()


def test_the_least_width_is_the_rank():
    linear = nn.Linear(20, 10, dtype=DOUBLE)
    with pytest.raises(ValueError, match=r"at least 10, .* of 'fc'\. Got \[30, 9\]"):
        spectralize(nn.ModuleDict({"fc": linear}), target="fc", hidden=[30, 9], keep_weights=True)
    with pytest.raises(ValueError, match="at least 11"):
        spectralize(linear, target="", hidden=[10], activation="sigmoid", keep_weights=True)
    linear.weight.data = torch.randn(10, 2).double() @ torch.randn(2, 20).double()
    network = spectralize(linear, target="", hidden=[3], keep_weights=True)
    assert gap(network, linear, torch.randn(9, 20).double()) < 1e-12


@pytest.mark.parametrize(
    "act",
    [nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.LeakyReLU(0.2), nn.Hardswish()],
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("spare", [0, 3])
@pytest.mark.parametrize("widths", [(5, 7, 3), (4, 6, 5, 3), (2, 3, 5, 4, 3)])
def test_a_stack_is_the_same_network(widths, spare, bias, act):
    stack, x = perceptrons(*widths, act=act, bias=bias), torch.randn(9, widths[0]).double()
    hidden = [width + bias + spare for width in widths[1:-1]]
    network = spectralize(stack, target="", hidden=hidden, keep_weights=True)
    assert gap(network, stack, x) < 1e-13
    plain = extract(network)
    assert gap(plain, stack, x) < 1e-12
    assert plain.parameter_count == sum(p.numel() for p in stack.parameters())
    # all neurons of the stack; the constant of the last hidden layer is none of them
    constants = [bias] * (len(hidden) - 1) + [0]
    expected = [n + c for n, c in zip(widths[1:-1], constants, strict=True)]
    assert network.recruited == expected
    network(x).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_worked_out_by_hand():
    """y = 3 relu(2x + 1) + 5: λ = (−1, 0), φ₀ = −(2, 1) and −(0, 1), φ₁ = −(3/2, 5)."""
    stack = perceptrons(1, 1, 1)
    for linear, (weight, bias) in ((stack[0], (2.0, 1.0)), (stack[2], (3.0, 5.0))):
        nn.init.constant_(linear.weight, weight)
        nn.init.constant_(linear.bias, bias)
    network = spectralize(stack, target="", hidden=[2], keep_weights=True)
    assert network.hidden_eigenvalues[0].tolist() == [-1, 0]
    assert network.transfers[0].tolist() == [[-2, -1], [0, -1]]
    assert network.transfers[1].tolist() == [[-1.5, -5]]
    assert network(torch.tensor([[2.0], [-2.0]]).double()).flatten().tolist() == [20, 5]


@pytest.mark.parametrize("mlp", [Mlp, MlpBlock, lambda: Mlp(act=nn.ReLU)])
def test_inside_a_transformer(mlp):
    model, x = Vit(mlp), torch.randn(2, 5, 8)
    spectral = spectralize(model, target="blocks.*.mlp", hidden=[13], keep_weights=True)
    spectral = spectralize(spectral, target="head", hidden=[9], keep_weights=True)
    assert gap(spectral, model, x) < 1e-5


@pytest.mark.parametrize(
    ("stack", "hidden", "options", "message"),
    [
        (perceptrons(3, 4, 2, act=nn.Tanh()), [9], {}, r"f\(h\) − f\(−h\) = κh.*Got tanh"),
        (perceptrons(3, 4, 2, act=nn.ELU()), [9], {}, "Got ELU"),
        (perceptrons(3, 4, 2), [4], {}, r"at least \[5\].*one constant.*Got \[4\]"),
        (
            perceptrons(3, 4, 2, bias=False),
            [3],
            {},
            r"at least \[4\], all neurons of '', to .*Got \[3\]",
        ),
        (perceptrons(3, 4, 2), [9, 9], {}, r"at least \[5\].*Got \[9, 9\]"),
        (perceptrons(3, 4, 4, 2), [9], {}, r"at least \[5, 5\].*Got \[9\]"),
        (perceptrons(3, 4, 2), [9], {"activation": "gelu"}, "no other activation.*Got gelu"),
    ],
)
def test_what_has_no_exact_start_is_refused(stack, hidden, options, message):
    with pytest.raises(ValueError, match=message):
        spectralize(stack, target="", hidden=hidden, keep_weights=True, **options)


def test_weights_that_are_not_finite_are_refused():
    linear = nn.Linear(3, 2)
    nn.init.constant_(linear.weight, math.nan)
    with pytest.raises(ValueError, match="finite weights to keep"):
        spectralize(linear, target="", hidden=[5], keep_weights=True)
