"""Channels at mean 0 and variance 1, alone and in a chain."""

import pytest
import torch
from chains import built, linear
from torch import nn

from torchsparcs import SpectralCNN, TrainConfig, parameter_groups, train
from torchsparcs.spectral.linear_maps import along
from torchsparcs.spectral.norm import ChannelNorm


@pytest.mark.parametrize("training", [True, False])
def test_it_is_that_of_torch(training):
    torch.manual_seed(0)
    x = (3 * torch.randn(5, 4, 6, 6, dtype=torch.float64) + 1).requires_grad_()
    ours = ChannelNorm(4, -3, affine=True).double()
    theirs = nn.BatchNorm2d(4).double()
    for one, other in ((ours.gain, theirs.weight), (ours.shift, theirs.bias)):
        nn.init.normal_(one)
        other.data.copy_(one.data)
    for norm in (ours, theirs):
        norm(x + 1)
        norm.train(training)
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, theirs.running_var)
    weight = torch.randn_like(x)
    gradients = [torch.autograd.grad((norm(x) * weight).sum(), x)[0] for norm in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    ours.eval()
    folded = along(ours.factor, -3) * x + along(ours.offset, -3)
    torch.testing.assert_close(ours(x), folded)


def test_it_keeps_what_it_gives_and_nothing_else_of_that_size():
    kept = []
    x = torch.randn(8, 4, 6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        out = ChannelNorm(4, -2)(x)
    assert [t.data_ptr() for t in kept if t.numel() > 4] == [out.data_ptr()]


def test_one_number_of_a_channel_is_normalised_by_what_was_seen():
    chain, x = built("matrices", normalise=True)
    expected = chain(x[:1])
    torch.testing.assert_close(chain.train()(x[:1]), expected)
    data = torch.randn(5, 4), torch.randn(5, 2)  # the last of three batches is a single row
    train(chain.float(), data, TrainConfig(epochs=1, batch_size=2), progress=False)


def test_it_is_not_decayed():
    chain = nn.Sequential(SpectralCNN([1, 4, 3]), ChannelNorm(3, -1, affine=True))
    groups = {group["name"]: group for group in parameter_groups(chain, 1e-2)}
    assert [p.numel() for p in groups["norms"]["params"]] == [3, 3]
    assert groups["norms"]["weight_decay"] == 0
    norm, free = ChannelNorm(3, -1, affine=True), linear(3, 2)
    data = torch.zeros(8, 3), torch.zeros(8, 2)
    config = TrainConfig(epochs=2, weight_decay=1.0, lr=0.1)
    before = free.weight.detach().clone()
    train(nn.Sequential(norm, free), data, config, progress=False)
    assert torch.equal(norm.gain, torch.ones(3))
    assert (free.weight.abs() < before.abs()).all()


def test_a_fresh_start_forgets_what_was_seen():
    chain, _ = built("images", normalise=True)
    chain.reset_parameters()
    assert not any(norm.mean.any() for norm in chain.norms)
    assert all((norm.variance == 1).all() for norm in chain.norms)
