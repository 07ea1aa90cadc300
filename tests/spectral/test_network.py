"""What SpectralNetwork promises: start, gradients, door checks, repr."""

import pytest
import torch
from networks import randomised
from torch import nn

from torchsparcs import SpectralLinear, SpectralNetwork, extract
from torchsparcs.spectral.activations import ACTIVATIONS


def test_it_starts_as_a_perceptron():
    network = SpectralNetwork([4, 9, 9, 3])
    assert network.recruited == [0, 0]
    assert torch.equal(network.output_eigenvalues, torch.ones(3))
    x, y = torch.randn(2, 7, 4)
    # affine: f(x) + f(y) = f(x + y) + f(0)
    torch.testing.assert_close(network(x) + network(y), network(x + y) + network(0 * x))


def test_its_ends_are_called_as_those_of_a_linear():
    network = SpectralNetwork([4, 9, 9, 3])
    small = extract(network)
    for module in (network, small, SpectralLinear(4, 3), nn.Linear(4, 3)):
        assert (module.in_features, module.out_features) == (4, 3)


def test_the_linear_path_wakes_the_hidden_layer():
    network = SpectralNetwork([4, 9, 3])
    network(torch.randn(16, 4)).square().sum().backward()
    assert (network.hidden_eigenvalues[0].grad != 0).all()


@pytest.mark.parametrize("update", ["feedforward", "iterated"])
@pytest.mark.parametrize("train_input", [True, False])
def test_gradcheck_and_gradgradcheck(update, train_input):
    network = SpectralNetwork(
        [2, 3, 2, 2],
        activation="tanh",
        update=update,
        train_input_eigenvalues=train_input,
        dtype=torch.float64,
    )
    randomised(network, 0)
    names = [name for name, _ in network.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in network.parameters()]
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def call(x, *values):
        return torch.func.functional_call(network, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values))
    assert torch.autograd.gradgradcheck(call, (x, *values))


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3, 4), (0, 4), (5, 1, 2, 4)])
@pytest.mark.parametrize("update", ["feedforward", "iterated"])
def test_any_leading_dimensions(shape, update):
    network = randomised(SpectralNetwork([4, 5, 3, 2], update=update), 0)
    x = torch.randn(shape)
    flat = network(x.reshape(-1, 4))
    torch.testing.assert_close(network(x), flat.reshape(*shape[:-1], 2))


def test_input_eigenvalues_are_parameters_only_when_trained():
    fixed, trained = (
        SpectralNetwork([3, 4, 2], train_input_eigenvalues=trained) for trained in (False, True)
    )
    assert "input_eigenvalues" not in dict(fixed.named_parameters())
    assert torch.equal(fixed.eigenvalues[0], torch.zeros(4))
    assert isinstance(trained.eigenvalues[0], nn.Parameter)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_by_name_and_as_callables(name):
    named = randomised(SpectralNetwork([3, 4, 4, 2], activation=name), 1)
    called = randomised(SpectralNetwork([3, 4, 4, 2], activation=ACTIVATIONS[name]), 1)
    x = torch.randn(5, 3)
    assert torch.equal(named(x), called(x))


def test_a_module_as_activation_is_trained_too():
    network = randomised(SpectralNetwork([3, 4, 2], activation=nn.PReLU()), 0)
    network(torch.randn(5, 3)).sum().backward()
    assert network.activation.weight.grad is not None


def test_the_same_generator_gives_the_same_start():
    first, second = SpectralNetwork([3, 4, 2]), SpectralNetwork([3, 4, 2])
    for network in (first, second):
        network.reset_parameters(torch.Generator().manual_seed(7))
    assert all(map(torch.equal, first.parameters(), second.parameters()))


def test_repr_tells_widths_and_recruits():
    network = SpectralNetwork([3, 4, 4, 2], bias=False, update="iterated", activation="tanh")
    network.hidden_eigenvalues[1].data[:3] = 1
    expected = "SpectralNetwork(3 → 4 → 4 → 2, tanh, no bias, iterated, recruited 0 of 4, 3 of 4)"
    assert repr(network) == expected
    assert "recruited" not in repr(SpectralNetwork([3, 2]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": [3]}, r"at least two widths.*Got \[3\]"),
        ({"widths": []}, "at least two widths"),
        ({"widths": [3, 0, 2]}, r"positive integers\. Got \[3, 0, 2\]"),
        ({"widths": [3, -1, 2]}, "positive integers"),
        ({"widths": [3, 2.5, 2]}, "positive integers"),
        ({"widths": [3, True, 2]}, "positive integers"),
        ({"widths": 7}, "a sequence of integers. Got 7"),
        ({"widths": "342"}, "a sequence of integers"),
        ({"widths": [3, 2], "activation": "swish"}, r"relu, tanh, gelu.*Got 'swish'"),
        ({"widths": [3, 2], "activation": 3}, "not a class. Got 3"),
        ({"widths": [3, 2], "activation": nn.ReLU}, "not a class"),
        ({"widths": [3, 2], "update": "loop"}, r"feedforward, iterated\. Got 'loop'"),
    ],
)
def test_bad_arguments_are_refused_at_the_door(arguments, message):
    with pytest.raises(ValueError, match=message):
        SpectralNetwork(**arguments)


def test_a_wrong_input_names_both_sizes():
    for x in (torch.zeros(5, 4), torch.zeros(())):
        with pytest.raises(ValueError, match=r"last dimension is 3\. Got shape \("):
            SpectralNetwork([3, 4, 2])(x)
