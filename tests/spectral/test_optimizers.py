"""The proximal step beside optimizers of others: steps of equal length, two at once, averages."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from torchsparcs import SpectralNetwork, attach_penalty, extract, parameter_groups

WEIGHT = 0.05


class Lion(torch.optim.Optimizer):
    """As its authors write it: a step is η times the sign of a mean gradient."""

    def __init__(self, params, lr, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                mean = state.setdefault("exp_avg", torch.zeros_like(p))
                p.sub_(group["lr"] * (first * mean + (1 - first) * p.grad).sign())
                mean.lerp_(p.grad, 1 - second)


class ScheduleFree(torch.optim.SGD):
    """An optimizer that keeps the weights it steps apart from those of the model."""

    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["z"] = p.detach().clone()


def kinks(rows: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return x, x[:, :2].abs().sum(dim=1, keepdim=True)


def test_lion_stays_at_zero_where_the_gradient_is_below_the_weight():
    """λ = argmin Σ (λ − target)² / 2 + w |λ| is soft(target, w), zeros exactly."""
    network = SpectralNetwork([2, 4, 1])
    eigenvalues = network.hidden_eigenvalues[0]
    nn.init.zeros_(eigenvalues)
    target = torch.tensor([0.03, -0.04, 0.5, -1.0])
    optimizer = Lion([eigenvalues], lr=2e-3)
    attach_penalty(network, optimizer, WEIGHT)
    for _ in range(900):
        optimizer.zero_grad()
        ((eigenvalues - target).square() / 2).sum().backward()
        optimizer.step()
    assert (eigenvalues == 0).tolist() == [True, True, False, False]
    expected = torch.tensor([0.0, 0.0, 0.5 - WEIGHT, WEIGHT - 1.0])
    assert torch.allclose(eigenvalues, expected, atol=0.03)


def trained(network, optimizers, steps=250, after=lambda: None):
    x, y = kinks()
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(x), (100,), generator=generator)
        for optimizer in optimizers:
            optimizer.zero_grad()
        (network(x[rows]) - y[rows]).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        after()
    return (network(x) - y).square().mean().item()


def test_muon_has_the_transfers_and_adam_the_rest():
    torch.manual_seed(0)
    network = SpectralNetwork([3, 30, 1])
    groups = {group["name"]: group for group in parameter_groups(network, lr=5e-3)}
    transfers = groups.pop("transfers")["params"]
    muon = torch.optim.Muon(transfers, lr=5e-3, weight_decay=0.0)
    adam = torch.optim.AdamW(groups.values())
    attach_penalty(network, adam, 1e-2)
    loss = trained(network, [muon, adam])
    assert loss < 0.02
    assert 2 <= network.recruited[0] < 20


def test_averages_that_keep_zeros():
    torch.manual_seed(0)
    network = SpectralNetwork([3, 30, 1])
    nn.init.normal_(network.hidden_eigenvalues[0])
    optimizer = torch.optim.AdamW(parameter_groups(network, lr=5e-3))
    attach_penalty(network, optimizer, 1e-2)
    usual, keeping = (
        AveragedModel(network, avg_fn=rule)
        for rule in (
            lambda mean, now, _: mean.lerp(now, 0.02),
            lambda mean, now, _: torch.where(now == 0, now, mean.lerp(now, 0.02)),
        )
    )
    means = (usual, keeping)
    trained(network, [optimizer], after=lambda: [one.update_parameters(network) for one in means])
    assert keeping.module.recruited == network.recruited
    assert network.recruited[0] < usual.module.recruited[0]
    x, y = kinks()
    small = extract(keeping.module)
    assert small.widths[1] <= network.recruited[0]
    assert (small(x) - y).square().mean() < 0.03


def test_means_of_other_weights_are_refused():
    network = SpectralNetwork([3, 4, 1])
    optimizer = ScheduleFree(network.parameters(), lr=0.1)
    attach_penalty(network, optimizer, 1e-2)
    with pytest.raises(ValueError, match=r"the weights themselves\. Got ScheduleFree"):
        trained(network, [optimizer], steps=1)
