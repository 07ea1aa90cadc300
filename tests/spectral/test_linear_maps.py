"""Which maps a chain takes, and what is read off them."""

import copy

import pytest
import torch
from chains import CHAINS, Mixed, conv, linear
from torch import nn

from torchsparcs import Pooled, SpectralChain
from torchsparcs.spectral.linear_maps import channel_weights, patches, plain_layer


def test_what_is_not_linear_is_refused():
    class Squared(Mixed):
        def forward(self, x):
            return super().forward(x) ** 2

    with pytest.raises(ValueError, match="Map 1, a Squared, is not"):
        SpectralChain([nn.Conv1d(2, 4, 3, bias=False), Squared(), Pooled(6, 5, 1)])


def test_a_constant_is_refused():
    class Shifted(Mixed):
        def forward(self, x):
            return super().forward(x) + 1

    with pytest.raises(ValueError, match="is not"):
        SpectralChain([nn.Conv1d(2, 4, 3, bias=False), Shifted(), Pooled(6, 5, 1)])


def test_a_bias_is_refused():
    with pytest.raises(ValueError, match="without a bias"):
        SpectralChain([nn.Linear(3, 4), linear(4, 2)])


def test_maps_that_do_not_fit():
    with pytest.raises(ValueError, match=r"8 channels on axis -3\. It takes 9 on -3"):
        SpectralChain([conv(3, 8), conv(9, 8)])
    with pytest.raises(ValueError, match="It takes 8 on -1"):
        SpectralChain([conv(3, 8), linear(8, 2)])


def test_an_embedding_comes_first():
    with pytest.raises(ValueError, match="come first"):
        SpectralChain([linear(3, 4), nn.Embedding(4, 3)])


def test_undeclared_channels():
    with pytest.raises(ValueError, match="channel_axis"):
        SpectralChain([nn.AvgPool2d(2), conv(3, 4)])


def test_a_particular_map_is_tried_on_the_example():
    class Sixteen(Mixed):
        def forward(self, x):
            return super().forward(x.unflatten(-1, (4, 4)).flatten(-2))

    maps = [nn.Conv1d(2, 4, 3, padding=1, bias=False), Sixteen(), Pooled(6, 5, 1)]
    with pytest.raises(ValueError, match="example="):
        SpectralChain(maps)
    chain = SpectralChain(maps, example=torch.zeros(1, 2, 16))
    assert chain(torch.zeros(1, 2, 16)).shape == (1, 5)


def test_checking_leaves_random_numbers_alone():
    maps = CHAINS["series"][0]()
    torch.manual_seed(3)
    SpectralChain(maps)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), drawn)


@pytest.mark.parametrize(
    "one",
    [
        conv(4, 6, stride=2),
        conv(4, 6, dilation=2, padding_mode="circular"),
        nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, bias=False),
        Pooled(4, 6),
    ],
    ids=["stride", "circular", "transposed", "pooled"],
)
def test_patches_are_what_a_map_sees(one):
    x = torch.randn(2, 4, 7, 7, dtype=torch.float64)
    one = copy.deepcopy(one).double()
    weight = channel_weights(one)
    found = torch.einsum("nip,oip->no", patches(one, x), weight.reshape(6, 4, -1))
    expected = one(x)
    if expected.dim() == 4:
        expected = expected.movedim(1, -1).flatten(0, -2)
    torch.testing.assert_close(found, expected)


def test_a_plain_layer_does_what_the_map_did():
    one, x = conv(4, 6, stride=2, groups=2).double(), torch.randn(2, 4, 7, 7).double()
    layer = plain_layer(one, channel_weights(one), torch.arange(6.0).double())
    assert layer.groups == 1
    torch.testing.assert_close(layer(x), one(x) + torch.arange(6.0).view(-1, 1, 1))
