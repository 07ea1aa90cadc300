"""Blocks are found by what a call does, however the model is written."""

import pytest
import torch
from anybodys import Gated, Gpt, Residuals, settled
from models import Bert, Functional, Vgg, Vit
from torch import nn

from torchsparcs.blocks.finding import blocks_of, matching

TOKENS = torch.randn(2, 5, 8)
ENCODER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
MLP, LAYER = "blocks.{}.mlp", "layer.{}"


def told(model: nn.Module, example) -> list[tuple]:
    return [(b.names[0], b.units, b.between) for b in blocks_of(model, example)[0]]


@pytest.mark.parametrize(
    ("model", "example", "expected"),
    [
        (Vit(blocks=2), TOKENS, [("blocks.0.mlp", 12, ()), ("blocks.1.mlp", 12, ())]),
        (Bert(), torch.ones(2, 3).long(), [("layer.0", 12, ()), ("layer.1", 12, ())]),
        (ENCODER, TOKENS, [("", 16, ())]),
        (Gpt(), {"ids": torch.ones(2, 3).long()}, [("", 12, ())]),
        (Gated(), (TOKENS,), [("", 12, ())]),
        (Gated(is_one=True), TOKENS, [("", 12, ())]),
        (Functional(torch.tanh), torch.randn(2, 5), [("", 7, ())]),
        (
            settled(Residuals()),
            torch.randn(2, 1, 4, 4),
            [
                ("first", 6, ("first.bn1",)),
                ("first", 5, ("first.bn2",)),
                ("second.conv", 8, ("second.conv.4", "second.conv.3", "second.conv.1")),
            ],
        ),
        (
            Vgg(),
            torch.randn(2, 3, 4, 4),
            [("", 2, ()), ("classifier", 7, ()), ("classifier", 6, ())],
        ),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, nn.Module) else "",
)
def test_in_models_of_others(model, example, expected):
    assert told(model, example) == expected


def test_both_projections_of_a_gate_write():
    (block,), _ = blocks_of(Gated(), TOKENS)
    assert block.writers == ("gate_proj", "up_proj")
    assert block.readers == ("down_proj",)
    assert block.places == {"gate_proj": 5, "up_proj": 5, "down_proj": 5}


def test_the_model_stays_as_it_is():
    model = settled(Residuals()).train()
    model.fc.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        blocks_of(model, torch.randn(2, 1, 4, 4))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training
    assert model.first.bn1.training
    assert [p.requires_grad for p in model.fc.parameters()] == [False, False]
    assert all(p.requires_grad for p in model.first.parameters())
    assert not any(module._forward_hooks for module in model.modules())


class Normed(nn.Module):
    """Hidden units normalised over each other, scaled, or shown to the world."""

    def __init__(self, between: nn.Module, scale: bool = False, shown: bool = False):
        super().__init__()
        self.up, self.between, self.down = nn.Linear(4, 6), between, nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.ones(6)) if scale else 1.0
        self.shown = shown

    def forward(self, x):
        hidden = self.between(self.up(x)) * self.scale
        return (self.down(hidden), hidden) if self.shown else self.down(hidden)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Normed(nn.LayerNorm(6)), r"'down' reads 'up': units are mixed on the way"),
        (Normed(nn.ReLU(), scale=True), r"'down' reads 'up' through a Normed at '', of which"),
        (Normed(nn.ReLU(), shown=True), r"'down' reads 'up', and 'up' is heard at the end"),
    ],
)
def test_what_is_no_block_says_why(model, reason):
    blocks, reasons = blocks_of(model, torch.randn(3, 4))
    assert not blocks
    with pytest.raises(ValueError, match=reason):
        matching(blocks, reasons, ["down"])


class Between(nn.Module):
    """Six units, and a function of them and of what the reader makes of them."""

    def __init__(self, function, between: nn.Module | None = None):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.function = nn.Linear(4, 6), nn.Linear(6, 4), function
        self.between = between or nn.ReLU()
        self.register_buffer("mask", torch.ones(6))

    def forward(self, x):
        return self.function(self, self.between(self.up(x)))


def glu(n: int, between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 2 * n), between, nn.GLU(), nn.Linear(n, 4))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Between(lambda m, h: m.down(h) * (h.argmax(-1) > 3)[:, None]), "hears them elsewhere too"),
        (Between(lambda m, h: m.down(h / (1 + h.detach().norm()))), "'down' hears other things"),
        (Between(lambda m, h: m.down(h / h.shape[-1])), "'down' hears other things"),
        (Between(lambda m, h: m.down(h * m.mask)), r"or fewer, the model fails \(The size"),
        (glu(3, nn.BatchNorm1d(6)), "through a BatchNorm1d at '1' with 6 channels, not one for"),
        (glu(3, nn.PReLU(6)), "through a PReLU at '1' with 6 channels, not one for each unit"),
    ],
)
def test_what_gradients_do_not_tell(model, reason):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    blocks, reasons = blocks_of(model, x)
    assert not blocks
    with pytest.raises(ValueError, match=reason):
        matching(blocks, reasons, ["*"])
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_an_image_made_flat_and_normalised():
    layers = nn.Conv1d(2, 4, 1), nn.Flatten(), nn.BatchNorm1d(20), nn.Linear(20, 3)
    _, reasons = blocks_of(nn.Sequential(*layers), torch.randn(3, 2, 5))
    assert "BatchNorm1d at '2' with 20 channels" in reasons["3"]


def test_a_normalisation_without_parameters_stands_between():
    model = Between(lambda m, h: m.down(h.relu()), nn.BatchNorm1d(6, affine=False))
    assert told(model, torch.randn(3, 4)) == [("", 6, ("between",))]


def test_a_tensor_in_two_places_is_left_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    assert "one tensor is '0.weight', '2.weight'" in blocks_of(model, torch.randn(3, 4))[1]["2"]


def test_names_and_patterns():
    found = blocks_of(Vit(blocks=3), TOKENS)
    for target in ("blocks.*.mlp", "blocks.*", "*fc2", "*"):
        assert len(matching(*found, [target])) == 3
    assert [b.names[0] for b in matching(*found, ["*.2.mlp", "blocks.0.*"])] == [
        "blocks.2.mlp",
        "blocks.0.mlp",
    ]
    with pytest.raises(ValueError, match=r"Got 'mlp'\. There are 'blocks.0.mlp', 'blocks.1.mlp'"):
        matching(*found, ["mlp"])
