"""Linears with an activation between them are found in any module."""

import pytest
import torch
from models import Block, Functional, Mlp, MlpBlock, Vgg, perceptrons
from torch import nn
from torch.nn import functional as F

from torchsparcs import SpectralNetwork, spectralize
from torchsparcs.spectralizing.stacks import LINEAR, stack_names


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (nn.ReLU(inplace=True), "relu"),
        (nn.GELU(), "gelu"),
        (nn.SiLU(inplace=True), "silu"),
        (nn.Tanh(), "tanh"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.LeakyReLU(0.0), "relu"),
    ],
)
def test_the_activation_is_found_by_what_it_does(act, name):
    network = spectralize(perceptrons(3, 4, 2, act=act), target="", hidden=[5])
    assert network.named_activation == name


@pytest.mark.parametrize(
    "act", [nn.GELU(approximate="tanh"), nn.LeakyReLU(0.1, inplace=True), nn.ReLU6(), nn.Mish()]
)
def test_one_without_a_name_is_copied(act):
    network = spectralize(perceptrons(3, 4, 2, act=act), target="", hidden=[5])
    assert type(network.activation) is type(act)
    assert network.activation is not act
    assert not getattr(network.activation, "inplace", False)
    x = torch.linspace(-9, 9, 50)
    assert torch.equal(network.activation(x), act(x.clone()))


def test_it_can_be_chosen():
    model = nn.Sequential(nn.Linear(3, 2), perceptrons(3, 4, 2))
    chosen = spectralize(model, target=["0", "1"], hidden=[5], activation="tanh")
    assert [network.activation_name for network in chosen] == ["tanh", "tanh"]
    assert spectralize(model, target="0", hidden=[5])[0].activation_name == "relu"
    slopes = spectralize(model, target=["0", "1"], hidden=[5], activation=nn.PReLU())
    assert slopes[0].activation is not slopes[1].activation
    with pytest.raises(ValueError, match="Got 'swish'"):
        spectralize(model, target="0", hidden=[5], activation="swish")


@pytest.mark.parametrize("function", [F.relu, F.gelu, F.silu, torch.tanh])
def test_a_function_that_is_no_child_is_found(function):
    module = Functional(function)
    nn.init.zeros_(module.c_proj.weight)  # the weights that are there would not tell
    chain = spectralize(module, target="", hidden=[9])
    assert [key for key, _ in chain.named_children()] == ["c_fc", "drop"]
    network = chain.c_fc
    assert (network.widths, network.activation) == ((5, 9, 3), function)


def test_what_comes_before_and_after_stays():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.Flatten(),
        nn.Linear(8, 7),
        nn.ReLU(),
        nn.Linear(7, 3),
        nn.Dropout(0.3),
        nn.Identity(),
        nn.LogSoftmax(-1),
    )
    spectral = spectralize(model, target="", hidden=[9, 9])
    kinds = {key: type(part) for key, part in spectral.named_children()}
    assert kinds == {
        "0": nn.Conv2d,
        "1": nn.Flatten,
        "2": SpectralNetwork,
        "5": nn.Dropout,
        "7": nn.LogSoftmax,
    }
    assert spectral[0] is not model[0]
    assert torch.equal(spectral[0].weight, model[0].weight)
    assert spectral(torch.randn(5, 1, 4, 4)).exp().sum().item() == pytest.approx(5)


def test_a_child_may_be_none():
    class Plain(Mlp):
        def __init__(self):
            super().__init__()
            self.norm = None

        def forward(self, x):
            return self.fc2(self.act(self.fc1(x)))

    assert stack_names(Plain(), LINEAR) == ["", "fc1", "fc2"]
    assert isinstance(spectralize(Plain(), target="", hidden=[5]), SpectralNetwork)


def test_a_kept_part_that_is_shared_stays_shared():
    norm = nn.LayerNorm(3)
    model = nn.ModuleList([norm, nn.Sequential(norm, nn.Linear(3, 2))])
    spectral = spectralize(model, target="1", hidden=[4])
    assert spectral[1][0] is spectral[0]
    assert spectral[0] is not norm


def test_active_dropout_between_the_linears_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match=r"'classifier': Dropout\(p=0\.5.*Dropout\(p=0\.5"):
        spectral = spectralize(Vgg(), target="classifier", hidden=[9, 9])
    assert isinstance(spectral.classifier, SpectralNetwork)


def test_dropout_inside_a_forward_is_told_of_as_well():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(3, 6), nn.Linear(6, 2)

        def forward(self, x):
            hidden = nn.functional.dropout(self.fc1(x).relu(), 0.5, self.training)
            return self.fc2(hidden)

    with pytest.warns(UserWarning, match="what the forward of Functional does in training"):
        spectralize(Functional(), target="", hidden=[8])


def test_a_part_with_a_number_p_is_not_taken_for_dropout():
    class Shift(nn.Module):
        p = 0

        def forward(self, x):
            return x + 1

    model = nn.Sequential(Shift(), nn.Linear(3, 2)).double()
    spectral = spectralize(model, target="", hidden=[4], keep_weights=True)
    x = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(spectral(x), model(x))


def test_names_of_what_could_be_replaced():
    names = ["mlp", "mlp.fc1", "mlp.fc2"]
    assert stack_names(Block(Mlp()), LINEAR) == names
    assert stack_names(Block(MlpBlock()), LINEAR) == ["mlp", "mlp.0", "mlp.3"]
    assert stack_names(nn.Linear(2, 2), LINEAR) == [""]
