"""Rewritings of plain layers keep their function."""

import pytest
import torch
from chains import built
from torch import nn

from torchsparcs import CompactChain
from torchsparcs.compact.stages import direct_stages, exactly_reduced, merged_stage


def test_exact_reduction_only_makes_it_smaller():
    chain, x = built("images", silent=0.5)
    stages = direct_stages(chain)
    smaller = exactly_reduced(stages)
    assert sum(s.parameters for s in smaller) < sum(s.parameters for s in stages)
    network = CompactChain.from_stages(smaller, activation="relu", dtype=torch.float64)
    torch.testing.assert_close(network(x), chain(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (2, 2)])
def test_linear_layers_merge_into_one_kernel(strides):
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


def test_what_passes_an_activation_does_not_merge():
    network = CompactChain([nn.Conv1d(2, 4, 3, padding=1), nn.Conv1d(4, 2, 3, padding=1)], [1, 0])
    assert merged_stage(*network.stages()) is None
