"""Blocks with an eigenvalue for each hidden unit, in anybody's model."""

import copy

import pytest
import torch
from anybodys import Gated, Gpt, Residuals, settled
from models import Bert, Functional, Vit
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from torchsparcs import TrainConfig, attach_penalty, extract, parameter_groups, spectralize, train
from torchsparcs.blocks.spectral import SpectralBlock, spectral_blocks
from torchsparcs.training.nests import called, tensors_in

TOKENS, IDS = torch.randn(4, 5, 8), torch.arange(12).view(4, 3) % 9
MODELS = {
    "vit": (Vit(blocks=2), TOKENS, 2),
    "bert": (Bert(), IDS, 2),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), TOKENS, 1),
    "gpt": (Gpt(), {"ids": IDS}, 1),
    "gated": (Gated(), TOKENS, 1),
    "gated in one": (Gated(is_one=True), TOKENS, 1),
    "convolutions": (settled(Residuals()), torch.randn(4, 1, 4, 4), 3),
}


def answer(model: nn.Module, example) -> torch.Tensor:
    with torch.no_grad():
        return next(tensors_in(called(model.eval(), example)))


@pytest.mark.parametrize("name", MODELS)
def test_starts_as_it_was_and_silent_units_go(name):
    model, example, count = MODELS[name]
    spectral = spectralize(model, target="*", example=example)
    blocks = spectral_blocks(spectral)
    assert len(blocks) == count
    assert torch.allclose(answer(spectral, example), answer(model, example), atol=1e-6)
    for block in blocks:
        with torch.no_grad():
            block.hidden_eigenvalues[0][::2] = 0
            block.hidden_eigenvalues[0][1::2].mul_(1.5)
            block.output_eigenvalues.mul_(0.9)
    spectral = copy.deepcopy(spectral)
    plain = extract(spectral)
    expected = answer(spectral, example)
    assert not torch.allclose(expected, answer(model, example), atol=1e-3)
    assert torch.allclose(answer(plain, example), expected, atol=1e-5)
    assert {*plain.state_dict()} == {*model.state_dict()}
    for block in spectral_blocks(spectral):
        for reader in block.block.readers:
            weight = plain.get_submodule(reader).weight
            assert block.block.units // 2 in weight.shape


def test_a_silent_unit_hears_that_it_is_missed():
    """Of a gate and its value the value is scaled: at zero there is a slope."""
    for is_one in (False, True):
        spectral = spectralize(Gated(is_one), target="*", example=TOKENS)
        (block,) = spectral_blocks(spectral)
        nn.init.zeros_(block.hidden_eigenvalues[0])
        spectral(TOKENS).square().sum().backward()
        assert block.hidden_eigenvalues[0].grad.all()


def test_a_penalty_silences_what_nobody_needs():
    torch.manual_seed(0)
    x = torch.randn(200, 5)
    y = torch.relu(x[:, :3])
    spectral = spectralize(Functional(nn.functional.gelu), target="*", example=x)
    assert "recruited 7" in repr(spectral_blocks(spectral)[0])
    config = TrainConfig(
        epochs=25, lr=1e-2, batch_size=50, penalty_weight=3e-2, eigenvalue_lr_scale=5
    )
    history = train(spectral, (x, y), config, progress=False)
    left = history.recruited[-1][0]
    assert 0 < left < 7
    assert extract(spectral).c_fc.out_features == left


def test_in_a_loop_of_ones_own_inside_another_model():
    torch.manual_seed(0)
    model = nn.ModuleDict({"body": spectralize(Gated(), target="*", example=TOKENS)})
    optimizer = torch.optim.AdamW(parameter_groups(model, lr=1e-2))
    assert [group["name"] for group in optimizer.param_groups] == [
        "hidden_eigenvalues",
        "output_eigenvalues",
        "rest",
    ]
    attach_penalty(model, optimizer, 1e9)
    model["body"](TOKENS).square().mean().backward()
    optimizer.step()
    assert extract(model)["body"].down_proj.in_features == 1


@pytest.mark.parametrize("name", MODELS)
def test_each_tensor_has_one_name_so_that_trainers_can_save_it(name):
    model, example, _ = MODELS[name]
    spectral = spectralize(model, target="*", example=example)
    tied = {*model.state_dict()} - {*dict(model.named_parameters())}
    again = spectralize(model, target="*", example=example)
    names = {*spectral.state_dict()} - {*dict(spectral.named_parameters())}
    assert names == tied  # what the model ties itself, and buffers
    for block in spectral_blocks(spectral):
        nn.init.normal_(block.hidden_eigenvalues[0])
    again.load_state_dict(spectral.state_dict())
    assert torch.equal(answer(again, example), answer(spectral, example))
    twin = copy.deepcopy(spectral)
    assert torch.equal(answer(twin.double().float(), example), answer(spectral, example))
    for block in spectral_blocks(twin):
        nn.init.zeros_(block.hidden_eigenvalues[0])
    assert not torch.equal(answer(twin, example), answer(spectral, example))


def test_with_data_it_is_cut_further():
    torch.manual_seed(0)
    x = torch.randn(100, 5)
    spectral = spectralize(Functional(torch.tanh), target="*", example=x)
    pair = x, torch.tanh(x[:, :3])
    cut = extract(
        spectral, data=pair, validation=pair, task="regression", max_parameters=30, progress=False
    )
    assert not spectral_blocks(cut)
    assert sum(p.numel() for p in cut.parameters()) <= 30


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (Functional(torch.sigmoid), {}, r"silent where nothing is written.*f\(0\) = 0"),
        (Functional(torch.tanh), {"hidden": [3]}, "neither hidden nor activation"),
        (Functional(torch.tanh), {"target": "drop"}, r"Got 'drop'. There are 'c_proj'\."),
    ],
)
def test_refusals(model, options, message):
    with pytest.raises(ValueError, match=message):
        spectralize(model, **{"target": "*", "example": torch.randn(2, 5), **options})


def test_layers_that_make_their_weights_are_left_alone():
    model = Functional(torch.tanh)
    weight_norm(model.c_fc)
    with pytest.raises(ValueError, match=r"weights of their own. Got 'c_fc'"):
        spectralize(model, target="*", example=torch.randn(2, 5))
    twice = spectralize(Functional(torch.tanh), target="*", example=torch.randn(2, 5))
    with pytest.raises(ValueError, match="eigenvalues that it has already"):
        spectralize(twice, target="*", example=torch.randn(2, 5))
    assert isinstance(spectral_blocks(twice)[0], SpectralBlock)
