"""Spectral networks over any linear maps, convolutional ones among them."""

import pytest
import torch
from chains import CHAINS, built
from torch import nn

from torchsparcs import (
    SpectralCNN,
    SpectralNetwork,
    eigenvalue_penalty,
    parameter_groups,
    shrink_eigenvalues_,
)
from torchsparcs.spectral.linear_maps import along


def by_definition(chain, x):
    """u = φz + b, pre = φ(Lz) − L'u, z' = f(pre) − u, map by map; that normalised where asked."""
    scales = [None, *chain.hidden_eigenvalues, chain.output_eigenvalues]
    z = x
    for k, one in enumerate(chain.maps):
        bias = 0 if chain.biases is None else along(chain.biases[k], chain.axes[k + 1])
        u = one(z) + bias
        heard = one(along(scales[k], chain.axes[k]) * z) if k else 0
        pre = heard - along(scales[k + 1], chain.axes[k + 1]) * u
        z = torch.relu(pre) - u
        if chain.normalise and k < len(chain.maps) - 1:
            rows = z.movedim(chain.axes[k + 1], -1)
            norm = chain.norms[k]
            mean, variance = norm.mean - torch.as_tensor(bias).flatten(), norm.variance
            if chain.training:
                flat = rows.flatten(0, -2)
                mean, variance = flat.mean(dim=0), flat.var(dim=0, unbiased=False)
            z = ((rows - mean) / (variance + 1e-5).sqrt()).movedim(-1, chain.axes[k + 1])
    return pre


class TestChain:
    @pytest.mark.parametrize("name", CHAINS)
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("normalise", [True, False])
    @pytest.mark.parametrize("training", [True, False])
    def test_it_is_the_recursion(self, name, bias, normalise, training):
        chain, x = built(name, bias=bias, normalise=normalise)
        expected = by_definition(chain.train(training), x)
        torch.testing.assert_close(chain(x), expected, rtol=1e-9, atol=1e-9)

    def test_matrices_give_the_dense_network(self):
        chain, x = built("matrices", bias=False)
        dense = SpectralNetwork([4, 5, 6, 2], bias=False).double()
        with torch.no_grad():
            for mine, its in zip(dense.transfers, chain.maps, strict=True):
                mine.copy_(its.weight)
            for mine, its in zip(dense.hidden_eigenvalues, chain.hidden_eigenvalues, strict=True):
                mine.copy_(its)
            dense.output_eigenvalues.copy_(chain.output_eigenvalues)
        torch.testing.assert_close(dense(x), chain(x))

    @pytest.mark.parametrize("normalise", [True, False])
    def test_a_fresh_one_is_linear(self, normalise):
        network = SpectralCNN([3, 8, 16, 16, 10], normalise=normalise).double().eval()
        x, y = torch.randn(2, 2, 3, 8, 8, dtype=torch.float64)
        torch.testing.assert_close(network(2 * x - 3 * y), 2 * network(x) - 3 * network(y))
        assert network.recruited == [0, 0, 0]

    @pytest.mark.parametrize("normalise", [True, False])
    def test_gradients(self, normalise):
        chain, x = built("images", normalise=normalise)
        chain.train()
        assert torch.autograd.gradcheck(chain, (x.requires_grad_(),), fast_mode=True)

    @pytest.mark.parametrize("normalise", [True, False])
    def test_it_compiles(self, normalise):
        chain, x = built("images", normalise=normalise)
        chain.train()
        compiled = torch.compile(chain, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), chain(x))

    def test_penalties_groups_and_the_proximal_step_know_it(self):
        model = nn.Sequential(SpectralCNN([1, 4, 6, 3]), nn.LogSoftmax(dim=1))
        groups = {group["name"]: group["params"] for group in parameter_groups(model, 1e-2)}
        assert [p.numel() for p in groups["transfers"]] == [36, 216, 18]
        assert [p.numel() for p in groups["hidden_eigenvalues"]] == [4, 6]
        assert [p.numel() for p in groups["rest"]] == [4, 6, 3]
        nn.init.ones_(model[0].hidden_eigenvalues[1])
        assert eigenvalue_penalty(model).item() == 6
        optimizer = torch.optim.SGD(parameter_groups(model, 0.1, transfer_weight_decay=0))
        shrink_eigenvalues_(model, optimizer, weight=1e9)
        assert model[0].recruited == [0, 0]

    def test_saved_weights_come_back(self):
        chain, x = built("images")
        again, _ = built("images")
        nn.init.zeros_(again.hidden_eigenvalues[0])
        again.load_state_dict(chain.state_dict())
        assert torch.equal(again(x), chain(x))

    def test_it_says_what_it_is(self):
        network = SpectralCNN([3, 8, 16, 10])
        nn.init.ones_(network.hidden_eigenvalues[1])
        assert repr(network) == "SpectralCNN(3 → 8 → 16 → 10, relu, recruited 0 of 8, 16 of 16)"


class TestCNN:
    def test_strides_where_channels_grow(self):
        strides = [one.stride for one in SpectralCNN([3, 8, 16, 16, 32, 10]).maps[:-1]]
        assert strides == [(1, 1), (2, 2), (1, 1), (2, 2)]

    def test_bad_input(self):
        with pytest.raises(ValueError, match="at least one convolution"):
            SpectralCNN([3, 10])
        for strides in ([1], [1, 0], [1, 1.5]):
            with pytest.raises(ValueError, match="2 strides"):
                SpectralCNN([3, 8, 8, 10], strides=strides)
        with pytest.raises(ValueError, match=r"odd kernel_size\. Got 4"):
            SpectralCNN([3, 8, 10], kernel_size=4)

    def test_depth_keeps_signals_and_gradients(self):
        torch.manual_seed(0)
        network = SpectralCNN([3, *[12] * 10, *[24] * 10, 10])
        x = torch.randn(8, 3, 8, 8, requires_grad=True)
        network(x).square().sum().backward()
        sizes = [weight.grad.norm() for weight in network.transfer_parameters]
        assert max(sizes) / min(sizes) < 30
        assert 0.01 < network(x).std().item() < 10
