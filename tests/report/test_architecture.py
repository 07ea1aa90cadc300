"""Compact networks as layers and bands, worked out by hand."""

import pytest
import torch

from torchsparcs import CompactNetwork
from torchsparcs.report.architecture import architecture


def test_a_network_worked_out_by_hand():
    # 3 inputs, of which 0 and 2 are read, two neurons, one output, a skip from the inputs
    network = CompactNetwork([3, 2, 1], [(1, 0), (2, 0), (2, 1)], reads=(0, 2))
    with torch.no_grad():
        network.block(1, 0).weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        network.block(2, 0).weight.copy_(torch.tensor([[0.0, 2.0]]))
        network.block(2, 1).weight.copy_(torch.tensor([[0.5, -6.0]]))
    drawn = architecture(network)
    inputs, hidden, outputs = drawn["layers"]
    assert (inputs["width"], inputs["alive"], inputs["index"]) == (3, 2, [0, 2])
    assert inputs["size"] == [3, pytest.approx(21**0.5, abs=1e-3)]  # √9; √(16 + 1 + 4)
    assert inputs["fan_out"] == [1, 3]
    assert hidden["size"] == [2.5, 6]  # 5 · 0.5 and 1 · 6
    assert (hidden["fan_in"], hidden["fan_out"]) == ([2, 1], [1, 1])
    assert outputs["fan_in"] == [3]
    norms = {(source, target): norm for source, target, norm, _ in drawn["bands"]}
    assert norms[0, 2] == 2
    assert norms[0, 1] == pytest.approx(26**0.5, abs=1e-3)


def test_wide_layers_are_grouped():
    drawn = architecture(CompactNetwork([4, 1000, 2], [(1, 0), (2, 1)]))
    hidden = drawn["layers"][1]
    assert (hidden["alive"], hidden["per"], len(hidden["size"])) == (1000, 14, 72)
    assert hidden["size"] == sorted(hidden["size"], reverse=True)
    assert set(hidden["fan_in"]) == {4}
