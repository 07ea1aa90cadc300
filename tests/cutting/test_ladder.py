"""The ladder: ways to be smaller are fine-tuned and judged, and the best one goes on."""

import sys

import pytest
import torch
from torch import nn

from torchsparcs import CompactChain, TrainConfig
from torchsparcs.cutting.model_ladder import model_rungs
from torchsparcs.training.tasks import Evaluation


@pytest.mark.parametrize(("error", "layers"), [(0.0, 1), (0.3, 2)])
def test_a_layer_goes_where_after_fine_tuning_nobody_misses_it(monkeypatch, error, layers):
    """Two ways to cut, one of them shorter and off by ``error``; nothing is trained."""
    x = torch.randn(50, 1, 6, generator=torch.Generator().manual_seed(0))

    def same(count: int, off: float = 0.0) -> CompactChain:
        """The identity in so many layers, and a constant error."""
        convolutions = [nn.Conv1d(1, 1, 1) for _ in range(count)]
        for one in convolutions:
            nn.init.ones_(one.weight)
            nn.init.zeros_(one.bias)
        nn.init.constant_(convolutions[-1].bias, off)
        return CompactChain(convolutions, [0] * count)

    module = sys.modules["torchsparcs.cutting.model_ladder"]
    cuts = {"channels": same(2), "narrow": same(1, error)}
    monkeypatch.setattr(module, "chain_cuts", lambda *_: cuts)
    monkeypatch.setattr(module, "train", lambda *_, **__: None)
    found = model_rungs(same(3), (x, x), (x, x), TrainConfig())
    assert len(next(found).network.layers) == 3
    assert len(next(found).network.layers) == layers


@pytest.mark.parametrize(
    ("cost", "decays"),
    [
        (lambda decay, layers: decay - layers, [1.0, 0.5, 0.5, 0.25]),  # it is better, and stays
        (lambda decay, layers: -decay - layers, [1.0, 0.5, 1.0, 0.5]),  # it is not
        (lambda decay, layers: decay + 9 * layers, [1.0, 1.0]),  # the score does not fall
    ],
)
def test_where_the_score_falls_half_of_the_decay_is_tried(monkeypatch, cost, decays):
    """The last bias is what a network costs, set by the decay and the number of layers."""
    tried = []

    def bias_set(network, data, config, **_):
        tried.append(config.weight_decay)
        with torch.no_grad():
            network.layers[-1].bias.fill_(cost(config.weight_decay, len(network.layers)))

    module = sys.modules["torchsparcs.cutting.model_ladder"]
    monkeypatch.setattr(module, "train", bias_set)
    monkeypatch.setattr(
        module, "chain_cuts", lambda one, *_: {"": CompactChain(one.layers[1:], one.active[1:])}
    )
    monkeypatch.setattr(
        module, "evaluate", lambda one, *_, **__: Evaluation(0.0, -one.layers[-1].bias.item())
    )
    whole = CompactChain([nn.Conv1d(1, 1, 1) for _ in range(4)], [0] * 4)
    nn.init.constant_(whole.layers[-1].bias, cost(1.0, 4))
    x = torch.randn(8, 1, 3)
    found = model_rungs(whole, (x, x), (x, x), TrainConfig(weight_decay=1.0))
    assert [len(next(found).network.layers) for _ in range(3)] == [4, 3, 2]
    assert tried == decays
