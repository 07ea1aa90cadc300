"""Linears inside any module become spectral networks, and nothing else changes."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

from torchsparcs import CompactNetwork, SpectralNetwork, extract, parameter_groups
from torchsparcs.spectralizing.spectralize import spectralize
from torchsparcs.spectralizing.stacks import LINEAR, stack_names

DOUBLE = torch.float64


class ResNet(nn.Module):
    """As torchvision writes it: features and ``fc``."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(F.relu(self.bn1(self.conv1(x))).mean(dim=(2, 3)))


class Vgg(nn.Module):
    """As torchvision writes it: a classifier of three Linears, with dropout."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(inplace=True))
        act = nn.ReLU(inplace=True)
        self.classifier = nn.Sequential(
            nn.Linear(8, 7),
            act,
            nn.Dropout(p),
            nn.Linear(7, 6),
            act,
            nn.Dropout(p),
            nn.Linear(6, 5),
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class MlpBlock(nn.Sequential):
    """As in torchvision's vision transformer, a Sequential with a history."""

    _version = 2

    def __init__(self, width: int = 8, dropout: float = 0.0):
        super().__init__(
            nn.Linear(width, 12),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(12, width),
            nn.Dropout(dropout),
        )


class Mlp(nn.Module):
    """As timm writes it."""

    def __init__(self, width: int = 8, drop: float = 0.0, act=nn.GELU):
        super().__init__()
        self.fc1 = nn.Linear(width, 12)
        self.act = act()
        self.drop1 = nn.Dropout(drop)
        self.norm = nn.Identity()
        self.fc2 = nn.Linear(12, width)
        self.drop2 = nn.Dropout(drop)

    def forward(self, x):
        return self.drop2(self.fc2(self.norm(self.drop1(self.act(self.fc1(x))))))


class Block(nn.Module):
    def __init__(self, mlp: nn.Module):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = mlp

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, mlp=Mlp, blocks: int = 3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(mlp()) for _ in range(blocks))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


class Bert(nn.Module):
    """As Hugging Face writes it: a Linear here, a Linear there, and an embedding used twice."""

    class Part(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.dense = nn.Linear(n_in, n_out)

    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(11, 8)
        self.layer = nn.ModuleList()
        for _ in range(2):
            layer = nn.Module()
            layer.intermediate, layer.output = self.Part(8, 12), self.Part(12, 8)
            self.layer.append(layer)
        self.lm_head = nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.embeddings.weight

    def forward(self, ids):
        x = self.embeddings(ids)
        for layer in self.layer:
            x = x + layer.output.dense(F.gelu(layer.intermediate.dense(x)))
        return self.lm_head(x)


class Functional(nn.Module):
    """An MLP whose activation is no child."""

    def __init__(self, function, width: int = 5):
        super().__init__()
        self.function = function
        self.c_fc, self.c_proj, self.drop = nn.Linear(width, 7), nn.Linear(7, 3), nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.c_proj(self.function(self.c_fc(x))))


def perceptrons(*widths: int, act=None, bias: bool = True, dtype=DOUBLE) -> nn.Sequential:
    act = nn.ReLU() if act is None else act
    linears = [nn.Linear(*pair, bias=bias, dtype=dtype) for pair in itertools.pairwise(widths)]
    return nn.Sequential(*[part for linear in linears for part in (linear, act)][:-1])


def gap(one: nn.Module, other: nn.Module, x: torch.Tensor) -> float:
    one, other = copy.deepcopy(one).eval(), copy.deepcopy(other).eval()
    with torch.no_grad():
        return (one(x) - other(x)).abs().max().item()


class TestWhereItStands:
    @pytest.mark.parametrize(
        ("model", "target", "shape", "widths"),
        [
            (ResNet(), "fc", (2, 3, 4, 4), (6, 20, 4)),
            (Vgg(p=0.0), "classifier.6", (2, 3, 4, 4), (6, 20, 5)),
            (Vgg(p=0.0), "classifier", (2, 3, 4, 4), (8, 20, 5)),
            (Vit(Mlp), "blocks.1.mlp", (2, 5, 8), (8, 20, 8)),
            (Vit(MlpBlock), "blocks.1.mlp", (2, 5, 8), (8, 20, 8)),
            (Vit(), "head", (2, 5, 8), (8, 20, 4)),
            (
                nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 3)),
                "2",
                (2, 3, 4, 4),
                (8, 20, 3),
            ),
            (nn.Linear(3, 2), "", (6, 3), (3, 20, 2)),
            (nn.ModuleDict({"a": nn.Linear(3, 2)}), "a", None, (3, 20, 2)),
        ],
    )
    def test_it_is_replaced_and_the_rest_is_a_copy(self, model, target, shape, widths):
        before = copy.deepcopy(model.state_dict())
        spectral = spectralize(model, target=target, hidden=[20])
        network = spectral.get_submodule(target)
        assert isinstance(network, SpectralNetwork)
        assert (network.widths, network.bias) == (widths, True)
        old, new = dict(model.named_parameters()), dict(spectral.named_parameters())
        kept = [name for name in old if target and not name.startswith(f"{target}.")]
        assert kept == [name for name in new if target and not name.startswith(f"{target}.")]
        for name in kept:
            assert torch.equal(new[name], old[name])
            assert new[name].data_ptr() != old[name].data_ptr()
        assert list(model.state_dict()) == list(before)
        assert all(map(torch.equal, model.state_dict().values(), before.values()))
        if shape is not None:
            x = torch.randn(shape)
            assert spectral.eval()(x).shape == copy.deepcopy(model).eval()(x).shape
            assert gap(extract(spectral), spectral, x) < 1e-5

    def test_in_a_model_of_hugging_face(self):
        model = Bert()
        spectral = spectralize(model, target="layer.*.output.dense", hidden=[6])
        assert all(isinstance(layer.output.dense, SpectralNetwork) for layer in spectral.layer)
        assert all(isinstance(layer.intermediate.dense, nn.Linear) for layer in spectral.layer)
        assert spectral.lm_head.weight is spectral.embeddings.weight
        assert spectral(torch.arange(10).reshape(2, 5)).shape == (2, 5, 11)

    def test_a_pattern_takes_all_that_it_fits(self):
        spectral = spectralize(Vit(), target="blocks.*.mlp", hidden=[16])
        assert [type(block.mlp) for block in spectral.blocks] == [SpectralNetwork] * 3
        both = spectralize(Vit(), target=["blocks.[01].mlp", "blocks.0.mlp", "head"], hidden=[16])
        kinds = [type(part) for part in (*(block.mlp for block in both.blocks), both.head)]
        assert kinds == [SpectralNetwork, SpectralNetwork, Mlp, SpectralNetwork]

    def test_a_pattern_that_fits_a_stack_and_what_is_inside_means_the_stack(self):
        blocks = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)) for _ in range(2)]
        spectral = spectralize(nn.ModuleDict({"blocks": nn.ModuleList(blocks)}), target="blocks.*")
        assert [block.widths for block in spectral["blocks"]] == [(3, 4, 3)] * 2

    def test_extract_comes_back(self):
        model, x = Vit(), torch.randn(2, 5, 8)
        spectral = spectralize(model, target=["blocks.*.mlp", "head"], hidden=[16])
        compact = extract(spectral)
        assert isinstance(compact.head, CompactNetwork)
        assert compact.head.widths == (8, 4)
        assert gap(compact, spectral, x) < 1e-6

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("dtype", [torch.float32, DOUBLE, torch.bfloat16])
    def test_precision_and_mode_are_kept(self, dtype, training):
        model = Vit(lambda: Mlp(drop=0.1)).to(dtype).train(training)
        with pytest.warns(UserWarning, match=r"'blocks\.0\.mlp': Dropout\(p=0\.1"):
            spectral = spectralize(model, target=["blocks.0.mlp", "head"], hidden=[6])
        assert {p.dtype for p in spectral.parameters()} == {dtype}
        assert {part.training for part in spectral.modules()} == {training}
        assert spectral(torch.randn(2, 5, 8, dtype=dtype)).dtype == dtype

    def test_on_meta(self):
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(3, 2)).to("meta")
        assert spectralize(model, target="1", hidden=[4])[1].output_eigenvalues.is_meta
        with pytest.raises(ValueError, match=r"weights to keep at '1'\. Got none on meta"):
            spectralize(model, target="1", hidden=[4], keep_weights=True)
        with pytest.raises(ValueError, match="Mlp on meta, of which the forward cannot be tried"):
            spectralize(Mlp().to("meta"), target="", hidden=[4])

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_on_a_gpu(self):
        model, x = Vit().cuda(), torch.randn(2, 5, 8, device="cuda")
        spectral = spectralize(model, target=["blocks.*.mlp"], hidden=[13], keep_weights=True)
        assert {p.device.type for p in spectral.parameters()} == {"cuda"}
        assert gap(spectral, model, x) < 1e-4

    def test_without_bias(self):
        assert not spectralize(nn.Linear(3, 2, bias=False), target="", hidden=[4]).bias
        stack = perceptrons(3, 4, 2, bias=False)
        assert not spectralize(stack, target="", hidden=[4]).bias
        stack[2] = nn.Linear(4, 2, dtype=DOUBLE)
        assert spectralize(stack, target="", hidden=[4]).bias

    def test_what_was_frozen_is_trainable(self):
        model = ResNet().requires_grad_(False)
        spectral = spectralize(model, target="fc", hidden=[4])
        trained = [name for name, p in spectral.named_parameters() if p.requires_grad]
        assert trained == [name for name in dict(spectral.named_parameters()) if "fc" in name]

    def test_references_that_are_no_children_are_replaced_too(self):
        model = ResNet()
        model.layers = (model.conv1, model.fc)
        spectral = spectralize(model, target="fc", hidden=[4])
        assert spectral.layers[1] is spectral.fc


class TestAsAModule:
    def test_it_trains(self):
        model = spectralize(ResNet(), target="fc", hidden=[20])
        groups = parameter_groups(model, lr=1e-3)
        assert [group["name"] for group in groups][-1] == "rest"
        assert sum(p.numel() for g in groups for p in g["params"]) == sum(
            p.numel() for p in model.parameters()
        )
        F.cross_entropy(model(torch.randn(8, 3, 4, 4)), torch.arange(8) % 4).backward()
        assert all(p.grad is not None for p in model.parameters())
        torch.optim.SGD(groups, lr=0.1).step()
        assert model.fc.recruited == [20]

    def test_state_dict_and_deepcopy(self):
        model = spectralize(Vit(), target="blocks.*.mlp", hidden=[9])
        twin = spectralize(Vit(), target="blocks.*.mlp", hidden=[9])
        x = torch.randn(2, 5, 8)
        twin.load_state_dict(model.state_dict(), strict=True)
        assert torch.equal(twin(x), model(x))
        assert torch.equal(copy.deepcopy(model)(x), model(x))

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    @pytest.mark.parametrize("target", ["layers.0.linear1", "layers.1.linear2", "layers.*.linear?"])
    @pytest.mark.parametrize("activation", ["relu", "gelu"])
    def test_torch_s_own_encoder_leaves_its_fast_path(self, target, activation):
        """It reads linear1.weight in evaluation, and packs padded sequences before."""
        layer = nn.TransformerEncoderLayer(8, 2, 12, activation=activation, batch_first=True)
        model = nn.TransformerEncoder(layer, 2)
        model.eval()
        spectral = spectralize(model, target=target, hidden=[13], keep_weights=True)
        x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        real = ~padding[..., None]
        for inputs in ((x,), (x, None, padding)):
            with torch.no_grad():
                expected, outputs = model(*inputs), spectral(*inputs)
                compact = extract(spectral)(*inputs)
            torch.testing.assert_close(outputs * real, expected * real, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(compact * real, expected * real, rtol=1e-4, atol=1e-5)
        assert model.use_nested_tensor
        spectral.train()(x).sum().backward()


class TestStacks:
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
    def test_the_activation_is_found_by_what_it_does(self, act, name):
        network = spectralize(perceptrons(3, 4, 2, act=act), target="", hidden=[5])
        assert network.named_activation == name

    @pytest.mark.parametrize(
        "act", [nn.GELU(approximate="tanh"), nn.LeakyReLU(0.1, inplace=True), nn.ReLU6(), nn.Mish()]
    )
    def test_one_without_a_name_is_copied(self, act):
        network = spectralize(perceptrons(3, 4, 2, act=act), target="", hidden=[5])
        assert type(network.activation) is type(act)
        assert network.activation is not act
        assert not getattr(network.activation, "inplace", False)
        x = torch.linspace(-9, 9, 50)
        assert torch.equal(network.activation(x), act(x.clone()))

    def test_it_can_be_chosen(self):
        model = nn.Sequential(nn.Linear(3, 2), perceptrons(3, 4, 2))
        chosen = spectralize(model, target=["0", "1"], hidden=[5], activation="tanh")
        assert [network.activation_name for network in chosen] == ["tanh", "tanh"]
        assert spectralize(model, target="0", hidden=[5])[0].activation_name == "relu"
        slopes = spectralize(model, target=["0", "1"], hidden=[5], activation=nn.PReLU())
        assert slopes[0].activation is not slopes[1].activation
        with pytest.raises(ValueError, match="Got 'swish'"):
            spectralize(model, target="0", hidden=[5], activation="swish")

    @pytest.mark.parametrize("function", [F.relu, F.gelu, F.silu, torch.tanh])
    def test_a_function_that_is_no_child_is_found(self, function):
        module = Functional(function)
        nn.init.zeros_(module.c_proj.weight)  # the weights that are there would not tell
        chain = spectralize(module, target="", hidden=[9])
        assert [key for key, _ in chain.named_children()] == ["c_fc", "drop"]
        network = chain.c_fc
        assert (network.widths, network.activation) == ((5, 9, 3), function)

    def test_what_comes_before_and_after_stays(self):
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

    def test_a_child_may_be_none(self):
        class Plain(Mlp):
            def __init__(self):
                super().__init__()
                self.norm = None

            def forward(self, x):
                return self.fc2(self.act(self.fc1(x)))

        assert stack_names(Plain(), LINEAR) == ["", "fc1", "fc2"]
        assert isinstance(spectralize(Plain(), target="", hidden=[5]), SpectralNetwork)

    def test_a_kept_part_that_is_shared_stays_shared(self):
        norm = nn.LayerNorm(3)
        model = nn.ModuleList([norm, nn.Sequential(norm, nn.Linear(3, 2))])
        spectral = spectralize(model, target="1", hidden=[4])
        assert spectral[1][0] is spectral[0]
        assert spectral[0] is not norm

    def test_active_dropout_between_the_linears_is_left_out_with_a_warning(self):
        with pytest.warns(UserWarning, match=r"'classifier': Dropout\(p=0\.5.*Dropout\(p=0\.5"):
            spectral = spectralize(Vgg(), target="classifier", hidden=[9, 9])
        assert isinstance(spectral.classifier, SpectralNetwork)

    def test_dropout_inside_a_forward_is_told_of_as_well(self):
        class Functional(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc1, self.fc2 = nn.Linear(3, 6), nn.Linear(6, 2)

            def forward(self, x):
                hidden = nn.functional.dropout(self.fc1(x).relu(), 0.5, self.training)
                return self.fc2(hidden)

        with pytest.warns(UserWarning, match="what the forward of Functional does in training"):
            spectralize(Functional(), target="", hidden=[8])

    def test_a_part_with_a_number_p_is_not_taken_for_dropout(self):
        class Shift(nn.Module):
            p = 0

            def forward(self, x):
                return x + 1

        model = nn.Sequential(Shift(), nn.Linear(3, 2)).double()
        spectral = spectralize(model, target="", hidden=[4], keep_weights=True)
        x = torch.randn(5, 3, dtype=torch.float64)
        torch.testing.assert_close(spectral(x), model(x))

    def test_names_of_what_could_be_replaced(self):
        names = ["mlp", "mlp.fc1", "mlp.fc2"]
        assert stack_names(Block(Mlp()), LINEAR) == names
        assert stack_names(Block(MlpBlock()), LINEAR) == ["mlp", "mlp.0", "mlp.3"]
        assert stack_names(nn.Linear(2, 2), LINEAR) == [""]


class TestKeptWeights:
    @pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "sigmoid", torch.cos])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize(
        ("n_in", "n_out", "hidden"),
        [(6, 3, [4]), (6, 3, [40, 4, 7]), (2, 9, [4, 5]), (1, 1, [3]), (4, 4, [30])],
    )
    def test_a_linear_is_the_same_perceptron(self, n_in, n_out, hidden, bias, activation):
        linear, x = nn.Linear(n_in, n_out, bias=bias, dtype=DOUBLE), torch.randn(9, n_in).double()
        network = spectralize(
            linear, target="", hidden=hidden, activation=activation, keep_weights=True
        )
        assert network.recruited == [0] * len(hidden)
        assert gap(network, linear, x) < 1e-13
        assert gap(extract(network), linear, x) < 1e-13
        assert extract(network).widths == (n_in, n_out)

    def test_it_still_reads_the_input_in_all_directions(self):
        network = spectralize(nn.Linear(50, 3), target="", hidden=[40], keep_weights=True)
        assert torch.linalg.matrix_rank(network.transfers[0]) == 40
        network(torch.randn(20, 50)).square().sum().backward()
        assert network.hidden_eigenvalues[0].grad.abs().min() > 0

    def test_a_linear_of_zeros(self):
        linear = nn.Linear(4, 3)
        for parameter in linear.parameters():
            nn.init.zeros_(parameter)
        network = spectralize(linear, target="", hidden=[2], keep_weights=True)
        assert not network(torch.randn(5, 4)).any()

    def test_the_least_width_is_the_rank(self):
        linear = nn.Linear(20, 10, dtype=DOUBLE)
        with pytest.raises(ValueError, match=r"at least 10, .* of 'fc'\. Got \[30, 9\]"):
            spectralize(
                nn.ModuleDict({"fc": linear}), target="fc", hidden=[30, 9], keep_weights=True
            )
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
    def test_a_stack_is_the_same_network(self, widths, spare, bias, act):
        stack, x = perceptrons(*widths, act=act, bias=bias), torch.randn(9, widths[0]).double()
        hidden = [width + bias + spare for width in widths[1:-1]]
        network = spectralize(stack, target="", hidden=hidden, keep_weights=True)
        assert gap(network, stack, x) < 1e-13
        assert gap(extract(network), stack, x) < 1e-12
        # all neurons of the stack; the constant of the last hidden layer is none of them
        constants = [bias] * (len(hidden) - 1) + [0]
        expected = [n + c for n, c in zip(widths[1:-1], constants, strict=True)]
        assert network.recruited == expected
        network(x).square().sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in network.parameters())

    def test_worked_out_by_hand(self):
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
    def test_inside_a_transformer(self, mlp):
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
    def test_what_has_no_exact_start_is_refused(self, stack, hidden, options, message):
        with pytest.raises(ValueError, match=message):
            spectralize(stack, target="", hidden=hidden, keep_weights=True, **options)

    def test_weights_that_are_not_finite_are_refused(self):
        linear = nn.Linear(3, 2)
        nn.init.constant_(linear.weight, math.nan)
        with pytest.raises(ValueError, match="finite weights to keep"):
            spectralize(linear, target="", hidden=[5], keep_weights=True)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.act, self.down = nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8)

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * x)


class Scaled(Mlp):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(8))


class Pooled(Mlp):
    def forward(self, x):
        return super().forward(x.flatten(1))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def shared() -> nn.Module:
    model = Vit()
    model.again = model.blocks[1].mlp
    return model


def repeated() -> nn.Module:
    linear = nn.Linear(3, 3)
    return nn.Sequential(linear, nn.ReLU(), linear)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 2))
    model[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


def pruned() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 2))
    prune.l1_unstructured(model[0], "weight", amount=1)
    return model


def without_hooks(model: nn.Module) -> nn.Module:
    model[0]._forward_pre_hooks.clear()
    return model


class TestRefusals:
    @pytest.mark.parametrize(
        ("model", "target", "message"),
        [
            (Vit(blocks=4), "headd", r"Got 'headd'\. There are 'blocks\.0\.mlp', .*, \.\.\.\."),
            (ResNet(), "blocks.*.mlp", r"Got 'blocks\.\*\.mlp'\. There are 'fc'\."),
            (nn.ReLU(), "fc", "There are none"),
            (nn.Linear(2, 2), "fc", "There are ''"),
            (ResNet(), 3, "a name or several. Got 3"),
            (ResNet(), [], "at least one target"),
            (Vit(), ["blocks.0.mlp", "blocks.0.mlp.fc1"], "'blocks.0.mlp.fc1', which is inside"),
            (Vit(), ["", "head"], "'head', which is inside ''"),
            (ResNet(), "conv1", r"'conv1' to be a Linear, .* Got a Conv2d\."),
            (ResNet(), "", "Got a ResNet that cannot be tried on an input of"),
            (
                nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)),
                "",
                "between the Linears of .*Got none",
            ),
            (
                nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)),
                "",
                "Got a BatchNorm1d at .1.: name its Linears one by one",
            ),
            (nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1), nn.Linear(4, 2)), "", "Softmax"),
            (nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.Linear(4, 2)), "", "PReLU"),
            (nn.Sequential(nn.Linear(3, 4), nn.GLU(), nn.Linear(2, 2)), "", "GLU"),
            (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Tanh(), nn.Linear(4, 2)), "", "Tanh"),
            (
                nn.Sequential(*perceptrons(3, 4, 2), nn.Tanh(), nn.Linear(2, 2)),
                "",
                "Tanh between .2. and .4.",
            ),
            (Vit(Gated), "blocks.*.mlp", "Gated whose forward is not its children .* one by one"),
            (Block(Mlp()), "", r"Got a Block of LayerNorm, LayerNorm, .*, Mlp\."),
            (Scaled(), "", "Scaled with parameters of its own besides"),
            (Pooled(), "", r"Pooled that cannot be tried on an input of \(2, 3, 8\) \("),
            (Functional(torch.sin), "", "whose forward is not its children"),
            (nn.Sequential(nn.LazyLinear(3)), "0", "known widths at '0'. Got a LazyLinear: run"),
            (nn.Sequential(Doubled(3, 3)), "0", "plain Linear at '0'. Got a Doubled"),
            (nn.Sequential(Doubled(3, 3), nn.ReLU(), nn.Linear(3, 3)), "", "Got a Doubled"),
            (parametrizations.weight_norm(nn.Linear(3, 2)), "", "Got a ParametrizedLinear"),
            (hooked(), "0", "Linear without hooks at '0'"),
            (pruned(), "0", "pruning of torch are hooks"),
            (without_hooks(pruned()), "0", "makes its weight from bias, weight_orig"),
            (nn.Linear(3, 2, dtype=torch.complex64), "", "real weights at ''"),
            (
                nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2).double()),
                "",
                "in one precision",
            ),
            (Vit(), "blocks.0.attn.out_proj", "outside nn.MultiheadAttention"),
            (shared(), "again", r"one place\. Got 'again', shared by 'blocks\.1\.mlp', 'again'"),
            (shared(), "blocks.1.mlp.fc1", "shared by 'blocks.1.mlp.fc1', 'again.fc1'"),
            (repeated(), "", "shared by '0', '2'"),
            (Bert(), "lm_head", "one tensor is 'embeddings.weight', 'lm_head.weight'"),
        ],
    )
    def test_what_cannot_be_replaced_says_why(self, model, target, message):
        with pytest.raises(ValueError, match=message):
            spectralize(model, target=target, hidden=[5])

    @pytest.mark.parametrize(
        ("hidden", "message"),
        [
            ([], r"Expected hidden to be widths, at least one\. Got \[\]"),
            (20, "Got 20"),
            ("20", "Got '20'"),
            ([0], "positive integers"),
            ([2.5], "positive integers"),
        ],
    )
    def test_bad_widths_are_refused(self, hidden, message):
        with pytest.raises(ValueError, match=message):
            spectralize(nn.Linear(3, 2), target="", hidden=hidden)
