"""Single connections: those that the loss does not feel go first."""

import pytest
import torch

from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.cutting import connections
from torchsparcs.cutting.connections import cut_connections

X = torch.randn(400, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def network(outputs: int = 1) -> DirectSpace:
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(3 + outputs, 7, generator=generator, dtype=torch.float64)
    weights[:3, 4:] = 0
    bias = torch.randn(3 + outputs, generator=generator, dtype=torch.float64)
    return DirectSpace(weights, bias, torch.tensor([1, 1, 1]), "relu")


def outputs(direct: DirectSpace) -> torch.Tensor:
    hidden = direct.hidden
    activity = (X @ direct.weights[:hidden, :4].T + direct.bias[:hidden]).relu()
    heard = torch.cat([X, activity], dim=1)
    return heard @ direct.weights[hidden:].T + direct.bias[hidden:]


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("many", [1000, 10])
def test_as_many_are_left_as_asked_for(task, many, monkeypatch):
    monkeypatch.setattr(connections, "MANY_NUMBERS", many)
    direct = network(3 if task == "multiclass" else 1)
    for numbers in (18, 12, 8):
        cut = cut_connections(direct, X, numbers, task, 1e-4)
        assert connection_count(cut) <= numbers
        assert cut.inputs == 4


def test_what_nobody_feels_costs_nothing():
    direct = network()
    direct.weights[0, 1] = direct.weights[3, 2] = 1e-7
    cut = cut_connections(direct, X, connection_count(direct) - 2, "regression", 0.0)
    assert torch.allclose(outputs(cut), outputs(direct), atol=1e-5)


def test_the_others_take_over():
    """One of two equal columns goes, and the other does the work of both."""
    x = X.clone()
    x[:, 1] = x[:, 0] + 1e-3 * x[:, 1]
    line = DirectSpace(
        torch.tensor([[1.0, 1.0, 2.0, 0.0]], dtype=torch.float64),
        torch.ones(1, dtype=torch.float64),
        torch.empty(0, dtype=torch.long),
        "relu",
    )
    cut = cut_connections(line, x, 3, "regression", 0.0)
    assert sorted(cut.weights[0].round(decimals=2).tolist()) == [0.0, 0.0, 2.0, 2.0]


def test_a_neuron_that_nobody_hears_goes_with_all_it_hears():
    direct = network()
    direct.weights[3, 4:] = torch.tensor([5.0, 1e-6, 5.0])
    cut = cut_connections(direct, X, connection_count(direct) - 1, "regression", 0.0)
    assert cut.hidden == 2
    assert connection_count(cut) == connection_count(direct) - 6


def test_outputs_keep_their_biases():
    cut = cut_connections(network(), X, 1, "regression", 0.0)
    assert cut.bias[-1] != 0


def test_many_that_nobody_feels(monkeypatch):
    """Neurons that no row excites have no curvature: they go, all at once if need be."""
    monkeypatch.setattr(connections, "MANY_NUMBERS", 10)
    direct = network()
    direct.bias[:3] = -100
    cut = cut_connections(direct, X, 9, "regression", 0.0)
    assert connection_count(cut) <= 9
