"""The paper's recipe, eigenvalues trained alone, and a penalty for each layer."""

import pytest
import torch

from torchsparcs import Population, SpectralNetwork, TrainConfig, eigenvalue_penalty, train


def bent(rows: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(rows, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return x, x.square().mean(dim=1)


def test_the_paper_s_recipe_is_adam_with_the_penalty_in_the_loss():
    """Step by step in a plain loop, as the authors' code does it."""
    (x, y), weight = bent(50), 1e-3
    torch.manual_seed(0)
    ours, theirs = SpectralNetwork([2, 5, 1]), SpectralNetwork([2, 5, 1])
    theirs.load_state_dict(ours.state_dict())
    config = TrainConfig.paper(penalty_weight=weight, epochs=20, batch_size=50)
    train(ours, (x, y), config, progress=False)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-3)
    for _ in range(20):
        optimizer.zero_grad()
        loss = (theirs(x).squeeze(-1) - y).square().mean()
        (loss + weight * theirs.hidden_eigenvalues[0].norm(p=2)).backward()
        optimizer.step()
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)
    assert TrainConfig.paper(lr=0.1, penalty="l1").lr == 0.1


@pytest.mark.parametrize("proximal", [True, False])
def test_eigenvalues_alone_learn(proximal):
    network = SpectralNetwork([2, 30, 1])
    before = [transfer.detach().clone() for transfer in network.transfers]
    config = TrainConfig(epochs=60, batch_size=50, train_transfers=False, proximal=proximal)
    history = train(network, bent(), config, progress=False)
    for transfer, old in zip(network.transfers, before, strict=True):
        assert torch.equal(transfer, old)
        assert transfer.requires_grad
        assert transfer.grad is None
    assert network.recruited[0] > 0
    assert history.train_loss[-1] < 0.1 * history.train_loss[0]


def test_eigenvalues_of_a_population_alone():
    population = Population([2, 30, 1], seeds=[0, 1])
    before = population.transfers[0].detach().clone()
    train(population, bent(), TrainConfig(epochs=5, train_transfers=False), progress=False)
    assert torch.equal(population.transfers[0], before)


def test_a_layer_with_a_larger_penalty_recruits_less():
    outcomes = []
    for scales in (None, (1e3, 1.0)):
        torch.manual_seed(0)
        network = SpectralNetwork([2, 20, 20, 1])
        config = TrainConfig(epochs=40, batch_size=50, layer_penalty_scales=scales)
        train(network, bent(), config, progress=False)
        outcomes.append(network.recruited)
    assert min(outcomes[0]) > 0
    assert outcomes[1][1] > 0 == outcomes[1][0]


def test_scales_are_checked():
    with pytest.raises(ValueError, match="Expected layer_penalty_scales to be finite"):
        TrainConfig(layer_penalty_scales=(1.0, -1.0))
    config = TrainConfig(epochs=1, layer_penalty_scales=(1.0, 1.0))
    with pytest.raises(ValueError, match=r"a factor for each of 1 penalised layers\. Got 2"):
        train(SpectralNetwork([2, 5, 1]), bent(), config, progress=False)


def test_thresholds_are_checked():
    with pytest.raises(ValueError, match="Expected a threshold >= 0"):
        SpectralNetwork([2, 5, 1]).count_recruited(-0.1)
    assert eigenvalue_penalty(SpectralNetwork([2, 5, 1])) == 0
