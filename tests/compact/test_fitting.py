"""Second-order fits: they reach the minimum, each network by itself."""

import pytest
import torch
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from torch.nn import functional as F

from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.compact.fitting import fitted

ROWS = 300


@pytest.fixture
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x, (x[:, 0].abs() + 0.5 * x[:, 1])[:, None]


def network(hidden: int, seed: int, outputs: int = 1, layers: list[int] | None = None):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(hidden + outputs, 3 + hidden, generator=generator, dtype=torch.float64)
    labels = torch.tensor(layers or [1] * hidden, dtype=torch.long)
    for row, layer in enumerate(labels):
        weights[row, 3:] *= labels < layer
    bias = torch.full((hidden + outputs,), 0.1, dtype=torch.float64)
    return DirectSpace(weights / 2, bias, labels, "relu")


def outputs(direct: DirectSpace, x: torch.Tensor) -> torch.Tensor:
    heard = x
    for layer in direct.layers.unique().tolist():
        rows = (direct.layers == layer).nonzero().squeeze(1)
        pre = heard @ direct.weights[rows, : heard.shape[1]].T + direct.bias[rows]
        heard = torch.cat([heard, F.relu(pre)], dim=1)
    return heard @ direct.weights[direct.hidden :].T + direct.bias[direct.hidden :]


def test_a_linear_model_is_that_of_ridge_regression(rows):
    x, y = rows
    (found,) = fitted([network(0, 0)], rows, torch.ones(1, ROWS), [0.1], "regression", turns=60)
    centred, target = x - x.mean(dim=0), y - y.mean()
    gram = 2 * centred.T @ centred / ROWS + 0.1 * torch.eye(3, dtype=torch.float64)
    expected = torch.linalg.solve(gram, 2 * centred.T @ target / ROWS)
    assert torch.allclose(found.weights[0], expected[:, 0], atol=1e-4)


def test_a_neuron_and_a_skip_learn_the_kink(rows):
    found = fitted(
        [network(4, seed) for seed in range(3)],
        rows,
        torch.ones(3, ROWS),
        [1e-6] * 3,
        "regression",
        turns=300,
    )
    errors = [(outputs(each, rows[0]) - rows[1]).square().mean().item() for each in found]
    assert min(errors) < 1e-3 * rows[1].var().item()


def test_each_network_is_fitted_by_itself(rows):
    """Deep and shallow, wide and narrow, on rows of their own: as if it were alone."""
    networks = [network(2, 0), network(5, 1, layers=[1, 1, 2, 2, 2]), network(0, 2)]
    weights = torch.rand(3, ROWS, generator=torch.Generator().manual_seed(1))
    decays = [1e-3, 1e-2, 1e-1]
    together = fitted(networks, rows, weights, decays, "regression", turns=25)
    for index, mine in enumerate(together):
        part = slice(index, index + 1)
        (alone,) = fitted(networks[part], rows, weights[part], decays[part], "regression", turns=25)
        assert torch.allclose(mine.weights, alone.weights, atol=1e-4)


@pytest.mark.parametrize(("task", "width"), [("binary", 1), ("multiclass", 3), ("binary", 2)])
def test_classes(rows, task, width):
    x = rows[0]
    classes = x.argmax(dim=1) if task == "multiclass" else (x[:, 0] > 0).long()
    target = classes if task == "multiclass" else classes.double()[:, None].repeat(1, width)
    (found,) = fitted(
        [network(0, 0, width)], (x, target), torch.ones(1, ROWS), [1e-4], task, turns=100
    )
    output = outputs(found, x)
    said = output.argmax(dim=1) if task == "multiclass" else (output[:, 0] > 0).long()
    assert (said == classes).double().mean() > 0.9


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_a_quantile_is_that_of_linear_programming(rows, level):
    """Noise that is not symmetric: mean, median and quantiles are apart."""
    x, y = rows
    noise = torch.rand(ROWS, 1, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    y = 0.5 * y + noise.exp().square() / 3
    (found,) = fitted(
        [network(0, 0)], (x, y), torch.ones(1, ROWS), [0.0], f"quantile {level}", turns=150
    )
    exact = QuantileRegressor(quantile=level, alpha=0).fit(x, y[:, 0])

    def loss(said):
        return mean_pinball_loss(y[:, 0], said, alpha=level)

    assert loss(outputs(found, x)[:, 0]) == pytest.approx(loss(exact.predict(x)), rel=0.01)
    below = (y < outputs(found, x)).double().mean().item()
    assert below == pytest.approx(level, abs=0.04)


def test_what_is_zero_stays_zero(rows):
    start = network(4, 0)
    start.weights[0, 1] = start.weights[4, 2] = start.bias[1] = 0
    (found,) = fitted([start], rows, torch.ones(1, ROWS), [0.0], "regression", turns=20)
    assert connection_count(found) == connection_count(start)
    assert found.weights[0, 1] == found.weights[4, 2] == found.bias[1] == 0


def test_an_infinite_trial_is_forgotten():
    """A quadratic whose first step lands where there is no number is solved all the same."""
    from torchsparcs.compact.minimising import minimised

    trials = []

    def evaluate(point, which):
        trials.append(point)
        loss, slope = (point - 3).square().sum(dim=1), 2 * (point - 3)
        return (loss * torch.inf, slope * torch.inf) if len(trials) == 2 else (loss, slope)

    found = minimised(evaluate, torch.zeros(1, 2, dtype=torch.float64), 60)
    assert torch.allclose(found, torch.full_like(found, 3), atol=1e-3)
