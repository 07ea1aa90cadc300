"""Compact networks as layers and bands, worked out by hand."""

import pytest
import torch
from torch import nn

from torchsparcs import CompactChain, CompactNetwork, Pooled
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
    assert sorted(drawn["edges"]) == [  # from a layer and place to another, and its weight
        [0, 0, 1, 0, 3], [0, 1, 1, 0, 4], [0, 1, 1, 1, 1], [0, 1, 2, 0, 2],
        [1, 0, 2, 0, 0.5], [1, 1, 2, 0, -6],
    ]  # fmt: skip
    assert norms[0, 1] == pytest.approx(26**0.5, abs=1e-3)


def test_wide_layers_are_grouped():
    drawn = architecture(CompactNetwork([4, 1000, 2], [(1, 0), (2, 1)]))
    hidden = drawn["layers"][1]
    assert (hidden["alive"], hidden["per"], len(hidden["size"])) == (1000, 14, 72)
    assert hidden["size"] == sorted(hidden["size"], reverse=True)
    assert set(hidden["fan_in"]) == {4}
    assert drawn["edges"] is None


def test_a_chain_worked_out_by_hand():
    # one channel, then two by a kernel of two, of which the first is active, then one output
    chain = CompactChain([nn.Conv1d(1, 2, 2, stride=2), Pooled(2, 1, 1)], [1, 0])
    with torch.no_grad():
        chain.layers[0].weight.copy_(torch.tensor([[[3.0, 4.0]], [[0.0, 1.0]]]))
        chain.layers[1].dense.weight.copy_(torch.tensor([[2.0, 0.0]]))
    drawn = architecture(chain)
    inputs, hidden, outputs = drawn["layers"]
    assert (hidden["size"], hidden["index"], hidden["linear_from"]) == ([10, 0], [0, 1], 1)
    assert (hidden["fan_in"], hidden["fan_out"], inputs["fan_out"]) == ([1, 1], [1, 0], [2])
    assert hidden["map"] == {"kind": "Conv1d", "kernel_size": "2", "stride": "2"}
    assert outputs["map"] == {"kind": "Pooled", "kernel_size": "", "stride": ""}
    assert outputs["linear_from"] is None
    norm = pytest.approx(26**0.5, abs=1e-3)  # of 3, 4 and 1
    assert drawn["bands"] == [[0, 1, norm, 3], [1, 2, 2, 1]]


def test_wide_layers_of_a_chain_are_grouped_by_kind():
    chain = CompactChain([nn.Linear(4, 300), nn.Linear(300, 2)], [100, 0])
    hidden = architecture(chain)["layers"][1]
    assert (hidden["alive"], hidden["per"], hidden["linear_from"]) == (300, 5, 20)
    assert hidden["count"] == [5] * 60
    active, linear = hidden["size"][:20], hidden["size"][20:]
    assert active == sorted(active, reverse=True)
    assert linear == sorted(linear, reverse=True)
