"""Compact chains compute what the spectral ones do that they are cut from."""

import pytest
import torch
from chains import EXTRACTED, built, conv
from torch import nn

from torchsparcs import CompactChain, SpectralCNN, extract, to_onnx


@pytest.mark.parametrize("name", EXTRACTED)
@pytest.mark.parametrize("activation", ["relu", "sigmoid", torch.tanh])
@pytest.mark.parametrize("silent", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("normalise", [True, False])
def test_it_computes_the_same(name, activation, silent, normalise):
    chain, x = built(name, silent=silent, activation=activation, normalise=normalise)
    assert chain.named_activation == activation
    compact = extract(chain)
    assert isinstance(compact, CompactChain)
    torch.testing.assert_close(compact(x), chain(x), rtol=1e-9, atol=1e-9)


def test_silent_channels_are_linear():
    chain = SpectralCNN([3, 8, 16, 16, 10])
    compact = extract(chain)
    assert compact.active == (0, 0, 0, 0)
    assert compact.channels == (3, 8, 16, 10, 10)  # no more than are ever read
    assert repr(compact).startswith("CompactChain(3 → 0 + 8 → 0 + 16 → 0 + 10 → 10: ")


def test_a_constant():
    chain = SpectralCNN([3, 8, 16, 10])
    nn.init.zeros_(chain.output_eigenvalues)
    assert not extract(chain)(torch.randn(2, 3, 6, 6)).any()


@pytest.mark.parametrize("active", [[2], [5, 0], [-1, 0], [1.0, 0]])
def test_no_more_channels_are_active_than_there_are(active):
    with pytest.raises(ValueError, match=r"active channels of each layer, at most \[4, 2\]"):
        CompactChain([conv(3, 4), conv(4, 2)], active)


def test_inside_a_model():
    model = nn.Sequential(SpectralCNN([1, 4, 3]), nn.LogSoftmax(dim=1)).eval()
    compact = extract(model)
    assert isinstance(compact[0], CompactChain)
    assert not compact[0].training
    x = torch.randn(2, 1, 6, 6)
    torch.testing.assert_close(compact(x), model(x))


def test_it_leaves_random_numbers_alone():
    chain, _ = built("images")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    extract(chain)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_strangers_map_is_refused():
    chain, _ = built("series")
    with pytest.raises(ValueError, match="Got a Mixed at 1"):
        extract(chain)


def test_it_exports(tmp_path):
    pytest.importorskip("onnxruntime")
    chain, x = built("images", silent=0.6)
    to_onnx(extract(chain.float()), tmp_path / "chain.onnx", example=x.float())
