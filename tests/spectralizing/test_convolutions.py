"""Convolutions inside any module become chains, and nothing else changes."""

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchsparcs import (
    CompactChain,
    CompactNetwork,
    Pooled,
    SpectralChain,
    SpectralNetwork,
    TrainConfig,
    extract,
    spectralize,
    train,
)
from torchsparcs.spectral.layer_kinds import arguments_of
from torchsparcs.spectralizing.stacks import CONVOLUTIONAL, stack_names


def conv(n_in, n_out, **options):
    return nn.Conv2d(n_in, n_out, 3, padding=1, **options)


class Small(nn.Module):
    """As many write it: features that end in an activation, and a classifier."""

    def __init__(self, features=None):
        super().__init__()
        plain = nn.Sequential(
            conv(3, 6), nn.ReLU(inplace=True), conv(6, 8, stride=2), nn.ReLU(inplace=True)
        )
        self.features = features or plain
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(nn.Linear(32, 9), nn.ReLU(), nn.Linear(9, 4))

    def forward(self, x):
        return self.classifier(self.pool(self.features(x)).flatten(1))


def block(n_in, n_out, **options):
    """As torchvision's, a Sequential in itself."""
    return nn.Sequential(conv(n_in, n_out, bias=False, **options), nn.BatchNorm2d(n_out), nn.ReLU())


def alive(model: nn.Module) -> nn.Module:
    """With eigenvalues that are not zero."""
    with torch.no_grad():
        for part in model.modules():
            for values in getattr(part, "hidden_eigenvalues", ()):
                values.normal_()
    return model


X = torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0))


class TestWhereTheyStand:
    def test_features_become_a_chain_and_the_rest_is_a_copy(self):
        model = Small()
        before = copy.deepcopy(model.state_dict())
        spectral = spectralize(model, target="features")
        assert [type(part) for part in spectral.features] == [SpectralChain, nn.ReLU]
        network = spectral.features[0]
        assert network.channels == (3, 6, 8)
        assert network.activation_name == "relu"
        assert [one.stride for one in network.maps] == [(1, 1), (2, 2)]
        assert all(map(torch.equal, model.state_dict().values(), before.values()))
        assert torch.equal(spectral.classifier[0].weight, model.classifier[0].weight)
        assert spectral(X).shape == model(X).shape
        assert spectral.features(X).shape == model.features(X).shape
        assert spectral.features(X).min() == 0

    def test_it_starts_as_a_linear_map_that_keeps_the_size_of_signals(self):
        torch.manual_seed(0)
        stack = nn.Sequential(
            conv(3, 32), nn.ReLU(), conv(32, 40, groups=4), nn.ReLU(), conv(40, 3)
        )
        network = spectralize(stack, target="").double()
        x, y = torch.randn(2, 2, 3, 8, 8).double()
        assert network.recruited == [0, 0]
        torch.testing.assert_close(network(2 * x - 3 * y), 2 * network(x) - 3 * network(y))
        assert 0.5 < network(x).std() < 1.5

    def test_strides_padding_dilation_and_groups_stay(self):
        stack = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding="same", padding_mode="circular"),
            nn.Tanh(),
            nn.Conv2d(6, 12, (3, 1), stride=2, dilation=2, groups=3),
            nn.Tanh(),
            nn.ConvTranspose2d(12, 4, 4, stride=2, padding=1, output_padding=1, groups=2),
        )
        network = spectralize(stack, target="")
        assert network.activation_name == "tanh"
        plain = [one for one in stack if not isinstance(one, nn.Tanh)]
        for mine, its in zip(network.maps, plain, strict=True):
            assert type(mine) is type(its)
            assert arguments_of(mine) == {**arguments_of(its), "bias": False}
        assert network(X).shape == stack(X).shape

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_a_mean_and_linears_at_the_end_belong_to_it(self, n):
        make = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[n - 1]
        mean = (nn.AdaptiveAvgPool1d(1), nn.AdaptiveAvgPool2d((1, 1)), nn.AdaptiveAvgPool3d(1))
        head = [mean[n - 1], nn.Flatten(), nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 2)]
        stack = nn.Sequential(make(3, 6, 3), nn.GELU(), *head, nn.LogSoftmax(-1))
        spectral = spectralize(stack, target="")
        network = spectral[0]
        assert network.channels == (3, 6, 5, 2)
        assert [type(one) for one in network.maps] == [make, Pooled, nn.Linear]
        assert network.maps[1].positions == n
        assert type(spectral[1]) is nn.LogSoftmax
        assert spectral(torch.randn(2, 3, *[5] * n)).exp().sum().item() == pytest.approx(2)

    def test_blocks_inside_are_unfolded_and_normalised_in_the_chain(self):
        features = nn.Sequential(block(3, 6), block(6, 8, stride=2))
        spectral = spectralize(Small(features), target="features")
        kinds = [(name, type(part)) for name, part in spectral.features.named_children()]
        last = [("1_1", nn.BatchNorm2d), ("1_2", nn.ReLU)]
        assert kinds == [("0_0", SpectralChain), *last]
        assert spectral.features[0].bias
        assert spectral.features[0].normalise
        assert not spectralize(Small(), target="features").features[0].normalise
        assert spectral(X).shape == (2, 4)

    def test_dropout_is_left_out_with_a_warning(self):
        stack = nn.Sequential(conv(3, 4), nn.ReLU(), nn.Dropout2d(0.2), conv(4, 2), nn.Dropout(0.1))
        with pytest.warns(UserWarning, match=r"'': Dropout2d\(p=0\.2, inplace=False\)\.$"):
            spectral = spectralize(stack, target="")
        assert [type(part) for part in spectral] == [SpectralChain, nn.Dropout]

    def test_what_comes_before_stays(self):
        stack = nn.Sequential(nn.BatchNorm2d(3), conv(3, 4), nn.ReLU(), conv(4, 2), nn.MaxPool2d(2))
        spectral = spectralize(stack, target="")
        kinds = [type(part) for part in spectral]
        assert kinds == [nn.BatchNorm2d, SpectralChain, nn.MaxPool2d]
        assert spectral[0] is not stack[0]

    def test_other_channels(self):
        spectral = spectralize(Small(), target="features", hidden=[20], activation="silu")
        assert spectral.features[0].channels == (3, 20, 8)
        assert spectral.features[0].activation_name == "silu"
        assert spectral(X).shape == (2, 4)

    @pytest.mark.parametrize("training", [True, False])
    def test_precision_mode_and_a_missing_bias_are_kept(self, training):
        stack = nn.Sequential(conv(3, 4, bias=False), nn.ReLU(), conv(4, 2, bias=False))
        network = spectralize(stack.double().requires_grad_(False).train(training), target="")
        assert network.biases is None
        assert {p.dtype for p in network.parameters()} == {torch.float64}
        assert all(p.requires_grad for p in network.parameters())
        assert network.training == training

    def test_on_meta(self):
        assert spectralize(Small().to("meta"), target="features").features[0].maps[0].weight.is_meta

    @pytest.mark.parametrize(
        ("before", "after", "names"),
        [
            (["conv_0"], [], ["conv_0", "conv_0_1"]),
            ([], ["conv_0"], ["conv_0", "conv_0_1"]),
            (["conv_0", "conv_0_1"], [], ["conv_0", "conv_0_1", "conv_0_2"]),
        ],
    )
    def test_children_of_one_name_are_numbered(self, before, after, names):
        convolutions = nn.Sequential(conv(3, 4), nn.ReLU(), conv(4, 2))
        first, last = ({name: nn.Sigmoid() for name in some} for some in (before, after))
        stack = nn.Sequential(OrderedDict(first | {"conv": convolutions} | last))
        spectral = spectralize(stack, target="")
        kinds = [nn.Sigmoid] * len(before) + [SpectralChain] + [nn.Sigmoid] * len(after)
        assert [name for name, _ in spectral.named_children()] == names
        assert [type(part) for part in spectral] == kinds

    def test_names(self):
        model = nn.ModuleDict({"a": Small().features, "b": Small().features, "c": conv(3, 3)})
        assert stack_names(model, CONVOLUTIONAL) == ["a", "b"]
        spectral = spectralize(model, target=["a", "b"])
        assert [type(spectral[key][0]) for key in "ab"] == [SpectralChain] * 2
        with pytest.raises(ValueError, match=r"Got 'd'\. There are 'a', 'b'\."):
            spectralize(model, target="d")

    def test_a_pattern_finds_linears_only(self):
        model = nn.ModuleDict({"features": Small().features, "head": nn.Linear(32, 4)})
        before = model["features"].state_dict()
        spectral = spectralize(model, target="*", hidden=[50])
        assert spectral["head"].widths == (32, 50, 4)
        assert all(map(torch.equal, spectral["features"].state_dict().values(), before.values()))
        both = spectralize(model, target=["*", "features"], hidden=[50])
        assert both["features"][0].channels == (3, 50, 8)
        assert isinstance(both["head"], SpectralNetwork)

    def test_of_convolutions_with_a_head_a_pattern_finds_the_head(self):
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)]
        model = nn.ModuleDict({"net": nn.Sequential(conv(3, 4), nn.ReLU(), *head)})
        spectral = spectralize(model, target="n?t")["net"]
        assert torch.equal(spectral[0].weight, model["net"][0].weight)
        assert type(spectral[-1]) is SpectralNetwork
        assert type(spectralize(model, target=["n?t", "net"])["net"]) is SpectralChain

    def test_linears_after_a_plain_flatten_are_what_is_replaced(self):
        convolutions = [conv(3, 4), nn.ReLU(), conv(4, 2), nn.ReLU(), nn.Flatten()]
        stack = nn.Sequential(*convolutions, nn.Linear(162, 5), nn.ReLU(), nn.Linear(5, 3))
        spectral = spectralize(stack, target="")
        kinds = [type(part) for part in spectral]
        assert kinds[-1] is SpectralNetwork
        assert kinds.count(nn.Conv2d) == 2
        assert spectral[-1].widths == (162, 5, 3)  # those of the stack


class TestThereAndBack:
    def test_extract_undoes_it(self):
        model = Small()
        spectral = alive(spectralize(model, target=["features", "classifier"]).double().eval())
        compact = extract(spectral)
        assert isinstance(compact.features[0], CompactChain)
        assert isinstance(compact.classifier, CompactNetwork)
        assert not compact.features[0].training
        torch.testing.assert_close(compact(X.double()), spectral(X.double()))

    def test_it_trains_inside_the_model(self):
        torch.manual_seed(0)
        y = torch.arange(64) % 2
        x = torch.randn(64, 3, 9, 9) + y.view(-1, 1, 1, 1)
        model = spectralize(Small(), target="features")
        config = TrainConfig(task="multiclass", epochs=3, batch_size=16, lr=1e-2, penalty_weight=0)
        before = F.cross_entropy(model(x), y).item()
        train(model, (x, y), config, progress=False)
        assert F.cross_entropy(model(x), y).item() < before / 2
        assert model.features[0].recruited == [6]
        torch.testing.assert_close(extract(model)(x), model(x), rtol=1e-3, atol=1e-3)


def repeated() -> nn.Module:
    one = conv(3, 3)
    return nn.Sequential(one, nn.ReLU(), one)


def hooked() -> nn.Module:
    stack = nn.Sequential(block(3, 4), conv(4, 2))
    stack[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    return stack


def between(*parts: nn.Module) -> nn.Module:
    return nn.ModuleDict({"net": nn.Sequential(conv(3, 4), *parts, conv(4, 2))})


class TestRefusals:
    @pytest.mark.parametrize(
        ("model", "target", "message"),
        [
            (
                between(nn.ReLU(), nn.MaxPool2d(2)),
                "net",
                r"convolutions of 'net'\. Got a MaxPool2d at 'net\.2': use a stride .* or name Seq",
            ),
            (between(nn.GroupNorm(2, 4), nn.ReLU()), "net", r"GroupNorm at 'net\.1': name Sequent"),
            (between(nn.PReLU()), "net", "a PReLU at"),
            (between(), "net", "Got none between '0' and '1'"),
            (between(nn.ReLU(), nn.Tanh()), "net", "Got ReLU, Tanh between '0' and '3'"),
            (
                between(nn.ReLU(), conv(4, 4), nn.Tanh()),
                "net",
                "Got ReLU between .0. and .2., Tanh between .2. and .4.",
            ),
            (between(nn.ReLU(), nn.Conv2d(5, 4, 3), nn.ReLU()), "net", "It takes 5 on -3"),
            (Small(), "features.0", r"two convolutions or more with one\. Got a Conv2d\."),
            (nn.Sequential(conv(3, 4), nn.ReLU()), "", "Got a Sequential of Conv2d, ReLU"),
            (nn.Sequential(nn.LazyConv2d(3, 3), nn.ReLU(), conv(3, 3)), "", "Got a LazyConv2d: ru"),
            (Small(), "feat*", r"by their names, .* Got 'feat\*', which fits 'features'\."),
            (repeated(), "", "shared by '0', '2'"),
            (hooked(), "", "Sequential without hooks"),
            (nn.Sequential(conv(3, 4), nn.ReLU(), conv(4, 2).double()), "", "in one precision"),
        ],
    )
    def test_what_cannot_be_replaced_says_why(self, model, target, message):
        with pytest.raises(ValueError, match=message):
            spectralize(model, target=target)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"hidden": [4, 4]}, r"channels between the layers of 'features', like \[6\]\. Got"),
            ({"hidden": [0]}, "positive integers"),
            ({"keep_weights": True}, "convolutions start afresh.*Got 'features'"),
            ({"activation": "swish"}, "Got 'swish'"),
        ],
    )
    def test_bad_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            spectralize(Small(), target="features", **options)

    def test_channels_that_groups_cannot_have(self):
        stack = nn.Sequential(conv(4, 8), nn.ReLU(), conv(8, 8, groups=8))
        message = r"layers of '' can have\. Got \[4, 12, 8\]: .*divisible by groups"
        with pytest.raises(ValueError, match=message):
            spectralize(stack, target="", hidden=[12])

    def test_a_single_linear_needs_widths(self):
        with pytest.raises(
            ValueError, match=r"hidden widths for a single Linear\. Got none for ''"
        ):
            spectralize(nn.Linear(3, 2), target="")
