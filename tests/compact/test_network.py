"""Compact networks as modules among others."""

import pytest
import torch
from networks import randomised
from torch import nn

from torchsparcs import CompactChain, CompactNetwork, SpectralCNN, SpectralNetwork, extract


@pytest.mark.parametrize(
    ("network", "x"),
    [
        (extract(randomised(SpectralNetwork([5, 4, 3, 2]), 0)), torch.ones(3, 5)),
        (CompactNetwork([5, 3, 2], [(1, 0), (2, 1)], reads=[1, 3]), torch.ones(3, 5)),
        (CompactNetwork([5, 3, 2], [(1, 0), (2, 1)], kept={"2_1": [0, 5]}), torch.ones(3, 5)),
        (extract(randomised(SpectralCNN([2, 3, 4, 2]), 0)), torch.ones(3, 2, 6, 6)),
    ],
)
def test_torch_fx_traces_it(network, x):
    traced = torch.fx.symbolic_trace(network)
    assert torch.equal(traced(x), network(x))


class TestInputs:
    def chains(self) -> list[nn.Module]:
        spectral = SpectralCNN([3, 4, 2])
        compact = extract(spectral)
        assert isinstance(compact, CompactChain)
        return [spectral, compact]

    def test_whole_numbers_are_no_images(self):
        for chain in self.chains():
            with pytest.raises(ValueError, match=r"floating-point input. Got torch.uint8"):
                chain(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))

    def test_channels_come_before_the_places(self):
        for chain in self.chains():
            with pytest.raises(ValueError, match=r"dimension -3, the channels, is 3. Got.*8, 8, 3"):
                chain(torch.zeros(1, 8, 8, 3))
