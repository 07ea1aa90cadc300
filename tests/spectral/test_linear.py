"""SpectralLinear is the network without hidden layers."""

import pytest
import torch
from torch import nn

from torchsparcs import SpectralLinear, SpectralNetwork


def test_gradcheck_of_spectral_linear():
    layer = SpectralLinear(3, 2, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
    assert torch.autograd.gradgradcheck(layer, (x,))


def test_is_the_two_layer_network():
    layer = SpectralLinear(3, 2, bias=False)
    network = SpectralNetwork([3, 2], bias=False, train_input_eigenvalues=True)
    network.transfers[0].data = layer.transfer.data
    nn.init.normal_(layer.input_eigenvalues)
    network.input_eigenvalues.data = layer.input_eigenvalues.data
    x = torch.randn(4, 3)
    torch.testing.assert_close(layer(x), network(x))
    torch.testing.assert_close(layer(x), x @ layer.weight.T)


def test_eigenvalues_alone_can_be_trained():
    layer = SpectralLinear(3, 2, train="eigenvalues")
    before = layer.transfer.clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.randn(8, 3)).square().sum().backward()
    optimizer.step()
    assert torch.equal(layer.transfer, before)
    assert not torch.equal(layer.output_eigenvalues, torch.ones(2))


def test_bad_input():
    with pytest.raises(ValueError, match=r"train to be one of all, eigenvalues\. Got 'none'"):
        SpectralLinear(3, 2, train="none")
    with pytest.raises(ValueError, match="positive integers"):
        SpectralLinear(3, 0)
