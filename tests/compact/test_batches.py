"""Fits by minibatches: down, where they are free to go, and the same again."""

import pytest
import torch

from torchsparcs.compact.batches import BATCH, trained
from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.fitting import row_losses
from torchsparcs.fitting.drawing import LINEAR, Shape, drawn
from torchsparcs.training.deadline import Deadline

ROWS, STEPS = 3 * BATCH + 7, 300
NOTHING = DirectSpace(
    torch.zeros(1, 3, dtype=torch.float64),
    torch.zeros(1, dtype=torch.float64),
    torch.zeros(0, dtype=torch.long),
    "relu",
)


@pytest.fixture
def rows():
    torch.manual_seed(0)
    x = torch.randn(ROWS, 3)
    return x, (x[:, :1] * x[:, 1:2]).tanh()


def networks(*widths):
    return [drawn(NOTHING, Shape(2), width, 0) for width in widths]


def losses(directs, rows):
    return row_losses(directs, rows, "regression").mean(dim=1)


def test_networks_of_several_widths_go_down(rows):
    begun, weights = networks(4, 9), torch.ones(2, ROWS)
    done = trained(begun, rows, weights, "regression", steps=STEPS, seed=0)
    assert (losses(done, rows) < 0.3 * rows[1].var()).all()
    again = trained(begun, rows, weights, "regression", steps=STEPS, seed=0)
    assert all(torch.equal(one.weights, two.weights) for one, two in zip(done, again, strict=True))


def test_what_is_zero_stays_so(rows):
    (network,) = networks(6)
    network.weights[2, :] = 0
    network.bias[2] = 0
    (done,) = trained([network], rows, torch.ones(1, ROWS), "regression", steps=20, seed=0)
    assert not done.weights[2].any()
    assert not done.bias[2]
    assert ((done.weights != 0) == (network.weights != 0)).all()


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_rows_without_weight_say_nothing(rows, task):
    """And each network has targets of its own."""
    x, known = rows[0], (rows[0][:, :1] > 0).float()
    wrong = torch.where(torch.arange(ROWS)[:, None] % 2 == 0, known, 1 - known)
    weights = torch.ones(2, ROWS)
    weights[:, 1::2] = 0
    targets = torch.stack([wrong, 1 - wrong])
    lines = [drawn(NOTHING, LINEAR, 0, seed) for seed in (0, 1)]
    done = trained(lines, (x, targets), weights, task, steps=STEPS, seed=0)
    said = [
        x.double() @ one.weights[0] + one.bias[0] > 0.5 * (task == "regression") for one in done
    ]
    assert (said[0] == known[:, 0].bool()).float().mean() > 0.95
    assert (said[1] != known[:, 0].bool()).float().mean() > 0.95


def test_classes_are_learnt_by_their_probabilities(rows):
    like = DirectSpace(
        torch.zeros(3, 3, dtype=torch.float64), NOTHING.bias.expand(3), NOTHING.layers, "relu"
    )
    classes = rows[0].argmax(dim=1)
    chances = torch.nn.functional.one_hot(classes, 3).float()[None]
    line = drawn(like, LINEAR, 0, 0)
    (done,) = trained(
        [line], (rows[0], chances), torch.ones(1, ROWS), "multiclass", steps=STEPS, seed=0
    )
    said = (rows[0].double() @ done.weights.T + done.bias).argmax(dim=1)
    assert (said == classes).float().mean() > 0.95


def test_a_deadline_ends_it_where_it_is(rows):
    over = Deadline()
    over.stop()
    (begun,) = networks(4)
    options = {"steps": STEPS, "seed": 0, "deadline": over}
    (done,) = trained([begun], rows, torch.ones(1, ROWS), "regression", **options)
    assert done.weights == pytest.approx(begun.weights, abs=1e-6)
