"""Whole models, cut or not, come back from a file into one that is built as they were."""

import copy

import pytest
import torch
from anybodys import Gated, Gpt, Residuals, settled
from models import Vit, gap
from torch import nn

from torchsparcs import CompactNetwork, extract, load, save, spectralize
from torchsparcs.blocks.spectral import spectral_blocks
from torchsparcs.training.nests import called, tensors_in

TOKENS = torch.randn(4, 5, 8)


def halved(model: nn.Module, example) -> nn.Module:
    """``model`` with half of the units of its blocks."""
    spectral = spectralize(model, target="*", example=example)
    for block in spectral_blocks(spectral):
        nn.init.zeros_(block.hidden_eigenvalues[0][::2])
    return extract(spectral)


@pytest.mark.parametrize(
    ("build", "example"),
    [
        (Vit, TOKENS),
        (Gpt, {"ids": torch.arange(12).view(4, 3) % 9}),
        (lambda: Gated(is_one=True), TOKENS),
        (lambda: settled(Residuals()), torch.randn(4, 1, 4, 4)),
    ],
)
def test_layers_are_as_wide_as_they_were_cut(build, example, tmp_path):
    cut = halved(build(), example).eval()
    save(cut, tmp_path / "model")
    fresh = build()
    before = copy.deepcopy(fresh.state_dict())
    back = load(tmp_path / "model", into=fresh)
    assert all(torch.equal(before[name], t) for name, t in fresh.state_dict().items())
    with torch.no_grad():
        one, other = (next(tensors_in(called(each, example))) for each in (cut, back))
    assert torch.equal(one, other)
    assert repr(back) == repr(cut)
    assert not back.training
    back.train()
    next(tensors_in(called(back, example))).sum().backward()


def test_networks_inside_are_what_they_were(tmp_path):
    spectral = spectralize(Vit(blocks=2), target="blocks.*.mlp", hidden=[9])
    nn.init.normal_(spectral.blocks[0].mlp.hidden_eigenvalues[0][:4])
    for model in (spectral, extract(spectral)):
        save(model, tmp_path / "model")
        back = load(tmp_path / "model", into=Vit(blocks=2))
        assert gap(back, model, TOKENS) == 0
        assert repr(back.blocks[0].mlp) == repr(model.blocks[0].mlp)
    assert isinstance(back.blocks[0].mlp, CompactNetwork)


def test_what_does_not_fit_is_refused(tmp_path):
    save(Vit(blocks=2), tmp_path / "model")
    with pytest.raises(ValueError, match=r"whole model: give load one.*into=.*holds 'model'"):
        load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"lacks 'blocks\.1\.attn.*besides nothing"):
        load(tmp_path / "model", into=Vit(blocks=1))
    with pytest.raises(ValueError, match=r"lacks nothing, and has besides 'blocks\.2"):
        load(tmp_path / "model", into=Vit(blocks=3))
    save(extract(spectralize(Vit(), target="head", hidden=[3])), tmp_path / "model")
    with pytest.raises(ValueError, match="a part at 'head'"):
        load(tmp_path / "model", into=Gated())
    save(CompactNetwork([3, 2], [(1, 0)]), tmp_path / "network")
    with pytest.raises(ValueError, match=r"a whole model\. .* holds 'CompactNetwork'"):
        load(tmp_path / "network", into=Gated())
    with pytest.raises(ValueError, match=r"make theirs at .*; extract gives plain layers"):
        save(spectralize(Gated(), target="*", example=TOKENS), tmp_path / "model")
