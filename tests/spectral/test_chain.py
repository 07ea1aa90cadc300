"""Spectral networks over any linear maps, and the plain networks they become."""

import copy
import math
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from torchsparcs import (
    CompactChain,
    Pooled,
    RefineConfig,
    SpectralChain,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    eigenvalue_penalty,
    evaluate,
    extract,
    parameter_groups,
    shrink_eigenvalues_,
    to_onnx,
    train,
)
from torchsparcs.compact.normalised_chain import NormalisedChain
from torchsparcs.compact.stages import direct_stages, exactly_reduced, merged_stage
from torchsparcs.cutting.channels import in_principal_axes, measured
from torchsparcs.cutting.layers import (
    cuts_to,
    in_batches,
    merged_and_trimmed,
    with_a_layer_less,
    with_fewer_channels,
)
from torchsparcs.spectral.linear_maps import along, channel_weights, patches, plain_layer
from torchsparcs.spectral.norm import ChannelNorm
from torchsparcs.training.tasks import Evaluation


def conv(n_in, n_out, size=3, **options):
    return nn.Conv2d(n_in, n_out, size, padding=size // 2, bias=False, **options)


class Mixed(nn.Module):
    """A stranger's linear map: a mean over places, a mixture of channels."""

    in_channels, out_channels, channel_axis = 4, 6, -2

    def __init__(self):
        super().__init__()
        self.mixture = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return self.mixture @ (x - x.mean(dim=-1, keepdim=True))


CHAINS = {
    "images": (
        lambda: [
            conv(3, 8),
            conv(8, 8, stride=2, groups=4),
            conv(8, 12, dilation=2),
            Pooled(12, 5),
        ],
        (2, 3, 12, 12),
    ),
    "series": (
        lambda: [nn.Conv1d(2, 4, 3, bias=False), Mixed(), Pooled(6, 5, 1), linear(5, 3)],
        (3, 2, 9),
    ),
    "transposed": (
        lambda: [
            conv(3, 6),
            nn.ConvTranspose2d(6, 4, 4, stride=2, groups=2, bias=False),
            nn.ConvTranspose2d(4, 2, 3, bias=False),
        ],
        (2, 3, 5, 5),
    ),
    "matrices": (lambda: [linear(4, 5), linear(5, 6), linear(6, 2)], (7, 4)),
    "words": (lambda: [nn.Embedding(11, 4), linear(4, 5), linear(5, 3)], None),
}
EXTRACTED = ("images", "transposed", "matrices")


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


def built(name, *, silent=0.0, **options):
    """A chain with random numbers everywhere, a share of its eigenvalues zero, and an input.

    A normalised one has seen some signals.
    """
    torch.manual_seed(0)
    make, shape = CHAINS[name]
    chain = SpectralChain(make(), **options).double()
    with torch.no_grad():
        for values in (*chain.hidden_eigenvalues, *(chain.biases or ())):
            values.normal_()
        chain.output_eigenvalues.normal_()
        for values in chain.hidden_eigenvalues:
            values[torch.rand(len(values)) < silent] = 0
    x = torch.randint(11, (3, 6)) if shape is None else torch.randn(shape, dtype=torch.float64)
    for _ in range(5 * chain.normalise):
        chain(x if shape is None else 1 + 2 * torch.randn_like(x))
    return chain.eval(), x


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


class TestMaps:
    def test_what_is_not_linear_is_refused(self):
        class Squared(Mixed):
            def forward(self, x):
                return super().forward(x) ** 2

        with pytest.raises(ValueError, match="Map 1, a Squared, is not"):
            SpectralChain([nn.Conv1d(2, 4, 3, bias=False), Squared(), Pooled(6, 5, 1)])

    def test_a_constant_is_refused(self):
        class Shifted(Mixed):
            def forward(self, x):
                return super().forward(x) + 1

        with pytest.raises(ValueError, match="is not"):
            SpectralChain([nn.Conv1d(2, 4, 3, bias=False), Shifted(), Pooled(6, 5, 1)])

    def test_a_bias_is_refused(self):
        with pytest.raises(ValueError, match="without a bias"):
            SpectralChain([nn.Linear(3, 4), linear(4, 2)])

    def test_maps_that_do_not_fit(self):
        with pytest.raises(ValueError, match=r"8 channels on axis -3\. It takes 9 on -3"):
            SpectralChain([conv(3, 8), conv(9, 8)])
        with pytest.raises(ValueError, match="It takes 8 on -1"):
            SpectralChain([conv(3, 8), linear(8, 2)])

    def test_an_embedding_comes_first(self):
        with pytest.raises(ValueError, match="come first"):
            SpectralChain([linear(3, 4), nn.Embedding(4, 3)])

    def test_undeclared_channels(self):
        with pytest.raises(ValueError, match="channel_axis"):
            SpectralChain([nn.AvgPool2d(2), conv(3, 4)])

    def test_a_particular_map_is_tried_on_the_example(self):
        class Sixteen(Mixed):
            def forward(self, x):
                return super().forward(x.unflatten(-1, (4, 4)).flatten(-2))

        maps = [nn.Conv1d(2, 4, 3, padding=1, bias=False), Sixteen(), Pooled(6, 5, 1)]
        with pytest.raises(ValueError, match="example="):
            SpectralChain(maps)
        chain = SpectralChain(maps, example=torch.zeros(1, 2, 16))
        assert chain(torch.zeros(1, 2, 16)).shape == (1, 5)

    def test_checking_leaves_random_numbers_alone(self):
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
    def test_patches_are_what_a_map_sees(self, one):
        x = torch.randn(2, 4, 7, 7, dtype=torch.float64)
        one = copy.deepcopy(one).double()
        weight = channel_weights(one)
        found = torch.einsum("nip,oip->no", patches(one, x), weight.reshape(6, 4, -1))
        expected = one(x)
        if expected.dim() == 4:
            expected = expected.movedim(1, -1).flatten(0, -2)
        torch.testing.assert_close(found, expected)

    def test_a_plain_layer_does_what_the_map_did(self):
        one, x = conv(4, 6, stride=2, groups=2).double(), torch.randn(2, 4, 7, 7).double()
        layer = plain_layer(one, channel_weights(one), torch.arange(6.0).double())
        assert layer.groups == 1
        torch.testing.assert_close(layer(x), one(x) + torch.arange(6.0).view(-1, 1, 1))


class TestNormalisation:
    @pytest.mark.parametrize("training", [True, False])
    def test_it_is_that_of_torch(self, training):
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

    def test_it_keeps_what_it_gives_and_nothing_else_of_that_size(self):
        kept = []
        x = torch.randn(8, 4, 6, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            out = ChannelNorm(4, -2)(x)
        assert [t.data_ptr() for t in kept if t.numel() > 4] == [out.data_ptr()]

    def test_one_number_of_a_channel_is_normalised_by_what_was_seen(self):
        chain, x = built("matrices", normalise=True)
        expected = chain(x[:1])
        torch.testing.assert_close(chain.train()(x[:1]), expected)
        data = torch.randn(5, 4), torch.randn(5, 2)  # the last of three batches is a single row
        train(chain.float(), data, TrainConfig(epochs=1, batch_size=2), progress=False)

    def test_it_is_not_decayed(self):
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

    def test_a_fresh_start_forgets_what_was_seen(self):
        chain, _ = built("images", normalise=True)
        chain.reset_parameters()
        assert not any(norm.mean.any() for norm in chain.norms)
        assert all((norm.variance == 1).all() for norm in chain.norms)

    @pytest.mark.parametrize("name", EXTRACTED)
    def test_a_compact_chain_normalised_and_back(self, name):
        chain, x = built(name, silent=0.5, normalise=True)
        compact = extract(chain)
        normalised = NormalisedChain(compact, x).eval()
        torch.testing.assert_close(normalised(x), compact(x))
        torch.testing.assert_close(normalised.folded()(x), compact(x))
        normalised.train()
        for norm in normalised.norms:  # a training changes all of it
            nn.init.normal_(norm.gain)
            nn.init.normal_(norm.shift)
        normalised(2 * x + 1)
        torch.testing.assert_close(normalised.folded()(x), normalised.eval()(x))


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


class TestExtraction:
    @pytest.mark.parametrize("name", EXTRACTED)
    @pytest.mark.parametrize("activation", ["relu", "sigmoid", torch.tanh])
    @pytest.mark.parametrize("silent", [0.0, 0.6, 1.0])
    @pytest.mark.parametrize("normalise", [True, False])
    def test_it_computes_the_same(self, name, activation, silent, normalise):
        chain, x = built(name, silent=silent, activation=activation, normalise=normalise)
        assert chain.named_activation == activation
        compact = extract(chain)
        assert isinstance(compact, CompactChain)
        torch.testing.assert_close(compact(x), chain(x), rtol=1e-9, atol=1e-9)

    def test_silent_channels_are_linear(self):
        chain = SpectralCNN([3, 8, 16, 16, 10])
        compact = extract(chain)
        assert compact.active == (0, 0, 0, 0)
        assert compact.channels == (3, 8, 16, 10, 10)  # no more than are ever read
        assert repr(compact).startswith("CompactChain(3 → 0 + 8 → 0 + 16 → 0 + 10 → 10: ")

    def test_a_constant(self):
        chain = SpectralCNN([3, 8, 16, 10])
        nn.init.zeros_(chain.output_eigenvalues)
        assert not extract(chain)(torch.randn(2, 3, 6, 6)).any()

    @pytest.mark.parametrize("active", [[2], [5, 0], [-1, 0], [1.0, 0]])
    def test_no_more_channels_are_active_than_there_are(self, active):
        with pytest.raises(ValueError, match=r"active channels of each layer, at most \[4, 2\]"):
            CompactChain([conv(3, 4), conv(4, 2)], active)

    def test_inside_a_model(self):
        model = nn.Sequential(SpectralCNN([1, 4, 3]), nn.LogSoftmax(dim=1)).eval()
        compact = extract(model)
        assert isinstance(compact[0], CompactChain)
        assert not compact[0].training
        x = torch.randn(2, 1, 6, 6)
        torch.testing.assert_close(compact(x), model(x))

    def test_it_leaves_random_numbers_alone(self):
        chain, _ = built("images")
        torch.manual_seed(0)
        before = torch.get_rng_state()
        extract(chain)
        assert torch.equal(torch.get_rng_state(), before)

    def test_a_strangers_map_is_refused(self):
        chain, _ = built("series")
        with pytest.raises(ValueError, match="Got a Mixed at 1"):
            extract(chain)

    def test_it_exports(self, tmp_path):
        pytest.importorskip("onnxruntime")
        chain, x = built("images", silent=0.6)
        to_onnx(extract(chain.float()), tmp_path / "chain.onnx", example=x.float())

    def test_exact_reduction_only_makes_it_smaller(self):
        chain, x = built("images", silent=0.5)
        stages = direct_stages(chain)
        smaller = exactly_reduced(stages)
        assert sum(s.parameters for s in smaller) < sum(s.parameters for s in stages)
        network = CompactChain.from_stages(smaller, activation="relu", dtype=torch.float64)
        torch.testing.assert_close(network(x), chain(x), rtol=1e-9, atol=1e-9)


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


class TestCutting:
    def test_principal_axes_change_nothing(self, trained):
        network, data, _ = trained
        compact = extract(network)
        turned = in_principal_axes(compact, in_batches(data), F.cross_entropy)
        torch.testing.assert_close(turned(data[0]), compact(data[0]), rtol=1e-3, atol=1e-3)

    def test_duplicates_cost_nothing(self):
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

    def test_a_linear_layer_goes(self):
        """A 1x1 convolution without an activation can be had by the one after it."""
        torch.manual_seed(0)
        layers = [nn.Conv1d(2, 5, 3, padding=1), nn.Conv1d(5, 5, 1), nn.Conv1d(5, 4, 3, padding=1)]
        network = CompactChain([*layers, Pooled(4, 3, 1, bias=True)], [5, 0, 4, 0]).double()
        x, y = torch.randn(300, 2, 10).double(), torch.randint(3, (300,))
        shorter, *_ = with_a_layer_less(network, (x, y), F.cross_entropy)
        assert len(shorter.layers) == 3
        gap = (shorter(x) - network(x)).abs().max() / network(x).std()
        assert gap < 0.1

    def test_a_layer_that_goes_may_leave_its_reach(self):
        """Two linear layers on a ring see five places; one does as well with a kernel of five."""
        torch.manual_seed(0)
        options = {"padding": 1, "padding_mode": "circular"}
        layers = [nn.Conv1d(1, 6, 3, **options), nn.Conv1d(6, 1, 3, **options)]
        network = CompactChain(layers, [0, 0]).double()
        x = torch.randn(300, 1, 12).double()
        data = x, network(x).detach() + torch.randn_like(x)
        narrow, wide = with_a_layer_less(network, data, F.mse_loss)
        assert [one.layers[0].kernel_size for one in (narrow, wide)] == [(3,), (5,)]
        torch.testing.assert_close(wide(x), network(x), rtol=1e-3, atol=1e-3)
        assert (narrow(x) - network(x)).abs().max() > 0.1
        few = CompactChain([nn.Conv1d(4, 1, 3, **options), nn.Conv1d(1, 4, 3, **options)], [0, 0])
        kernels = [
            one.layers[0].kernel_size
            for one in with_a_layer_less(
                few, (torch.randn(50, 4, 12), torch.randn(50, 4, 12)), F.mse_loss
            )
        ]
        assert kernels == [(3,)]  # one of five places would take more parameters than both have

    def test_of_channels_without_places(self):
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

    def test_a_channel_means_what_it_means_as_a_whole(self):
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
        apart = torch.einsum("oip,ipq,oiq,o->i", weight, second, weight, reader.importance)
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
    def test_when_a_layer_goes(self, monkeypatch, losses, expected):
        module = sys.modules["torchsparcs.cutting.layers"]
        made = {n: CompactChain([conv(1, 1) for _ in range(n)], [0] * n) for n in (1, 2)}
        monkeypatch.setattr(module, "merged_and_trimmed", lambda one, *_: one)
        monkeypatch.setattr(module, "with_fewer_channels", lambda one, *_: one)
        monkeypatch.setattr(module, "constant_loss", lambda *_: 4.0)
        monkeypatch.setattr(
            module, "with_a_layer_less", lambda one, *_: [made[1]] * (len(one.layers) == 2)
        )
        monkeypatch.setattr(
            module, "evaluate", lambda one, *_: Evaluation(losses[len(one.layers)], 0.0)
        )
        found = cuts_to(made[2], (None, None), F.mse_loss, 100)
        assert [len(one.layers) for one in found] == expected

    def test_kernels_get_smaller_where_channels_are_not_enough(self):
        torch.manual_seed(0)
        network = CompactChain([nn.Conv2d(1, 1, 5, padding=2), Pooled(1, 2, bias=True)], [1, 0])
        x = torch.randn(40, 1, 8, 8)
        found = cuts_to(network, (x, network(x).detach()), F.mse_loss, 20)
        kernels = [one.layers[0].kernel_size for one in found if len(one.layers) == 2]
        assert kernels == [(5, 5), (3, 3)]

    @pytest.mark.parametrize("strides", [(1, 1), (2, 1), (2, 2)])
    def test_linear_layers_merge_into_one_kernel(self, strides):
        torch.manual_seed(0)
        options = {"padding_mode": "circular"}
        layers = [
            nn.Conv2d(3, 4, 3, padding=1, stride=strides[0], **options),
            nn.Conv2d(4, 5, 5, padding=2, stride=strides[1], **options),
        ]
        network = CompactChain(layers, [0, 5]).double()
        x = torch.randn(2, 3, 16, 16).double()
        one = network.with_stages([merged_stage(*network.stages())])
        assert one.layers[0].kernel_size == (3 + 4 * strides[0],) * 2
        torch.testing.assert_close(one.signals(x)[-1], network.signals(x)[-1])

    def test_what_passes_an_activation_does_not_merge(self):
        network = CompactChain(
            [nn.Conv1d(2, 4, 3, padding=1), nn.Conv1d(4, 2, 3, padding=1)], [1, 0]
        )
        assert merged_stage(*network.stages()) is None

    def test_outer_positions_without_weight_go(self):
        torch.manual_seed(0)
        network = CompactChain([nn.Conv1d(2, 3, 7, padding=3), Pooled(3, 2, 1)], [3, 0]).double()
        with torch.no_grad():
            network.layers[0].weight[..., [0, 1, 5, 6]] = 0
        x = torch.randn(200, 2, 10).double()
        small = merged_and_trimmed(network, (x, network(x).detach()), F.mse_loss)
        assert small.layers[0].kernel_size == (3,)
        torch.testing.assert_close(small(x), network(x))

    def test_the_size_asked_for(self, trained):
        network, data, _ = trained
        compact = extract(network)
        for share in (0.7, 0.3, 0.1):
            size = int(share * compact.parameter_count)
            cuts = cuts_to(compact, data, F.cross_entropy, size)
            assert all(cut.parameter_count <= size for cut in cuts)

    def test_extract_with_data_keeps_the_score(self, trained):
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
