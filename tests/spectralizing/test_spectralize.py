"""Linears inside any module become spectral networks, and nothing else changes."""

import copy

import pytest
import torch
from models import DOUBLE, Bert, Mlp, MlpBlock, ResNet, Vgg, Vit, gap, perceptrons
from torch import nn
from torch.nn import functional as F

from torchsparcs import CompactNetwork, SpectralNetwork, extract, parameter_groups, spectralize


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

    def test_hidden_widths_of_a_name_that_is_no_target_are_no_slip_of_the_pen(self):
        with pytest.raises(ValueError, match=r"by target, 'head'\. Got some for 'haed'\."):
            spectralize(Vit(), target="head", hidden={"head": [6], "haed": [9]})

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
