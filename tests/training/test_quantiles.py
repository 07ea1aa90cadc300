"""Quantiles are trained for: the loss is the pinball loss but for its corner."""

import pytest
import torch
from sklearn.metrics import mean_pinball_loss

from torchsparcs import SpectralNetwork, TrainConfig, train
from torchsparcs.training.quantiles import ROUNDED, pinball, quantile_level
from torchsparcs.training.tasks import resolve_task


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_loss_is_scikit_learns(level):
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(2, 400, 1, generator=generator, dtype=torch.float64)
    exact = 2 * mean_pinball_loss(target, output, alpha=level)
    loss = resolve_task(f"quantile {level}").loss(output, target[:, 0])
    assert exact < loss.item() < exact + 2 * ROUNDED
    far = torch.tensor([3.0, -3.0], dtype=torch.float64)
    assert pinball(far, level).tolist() == pytest.approx([6 * level, 6 * (1 - level)])


def test_a_network_learns_the_quantile():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1000, 1, generator=generator)
    y = x[:, 0] + torch.rand(1000, generator=generator).square()
    network = SpectralNetwork([1, 1])
    config = TrainConfig(task="quantile 0.8", epochs=60, batch_size=100, lr=0.05)
    train(network, (x, y), config, progress=False)
    with torch.no_grad():
        assert (y < network(x)[:, 0]).float().mean().item() == pytest.approx(0.8, abs=0.04)


def test_names():
    assert quantile_level("quantile 0.25") == 0.25
    assert quantile_level("regression") is None
    for bad in ("quantile", "quantile x", "quantile 0", "quantile 1.5", "quantile nan"):
        with pytest.raises(ValueError, match=r"a quantile between 0 and 1, as in 'quantile 0\.9'"):
            TrainConfig(task=bad)
