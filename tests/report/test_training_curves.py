"""Eigenvalues and losses by epoch, thinned and grouped."""

import torch

from torchsparcs import History
from torchsparcs.report.architecture import MOST_NEURONS
from torchsparcs.report.curves import training_curves


def test_eigenvalues_at_every_stop():
    values = [torch.tensor([0.0, 0, 0]), torch.tensor([0.0, -2, 0])]
    ten = [torch.zeros(2), torch.tensor([1.0, 3])]
    snapshots = [
        (epoch, {"hidden_eigenvalues.10": late, "hidden_eigenvalues.2": early})
        for epoch, early, late in zip((0, 5), values, ten, strict=True)
    ]
    grown = training_curves(History(train_loss=[1.0] * 5, snapshots=snapshots))
    first, second = grown["layers"]  # layer 2 before layer 10
    assert grown["stops"] == [0, 5]
    assert (first["width"], first["index"], first["values"]) == (3, [1], [[0], [-2]])
    assert (first["recruited"], second["recruited"]) == ([0, 1], [0, 2])
    assert [sum(counts) for counts in second["histogram"]["counts"]] == [0, 2]


def test_many_recruits_are_grouped_by_rank():
    width = 2 * MOST_NEURONS
    values = torch.arange(1.0, width + 1)
    snapshots = [(0, {"hidden_eigenvalues.0": values})]
    (layer,) = training_curves(History(train_loss=[1.0], snapshots=snapshots))["layers"]
    assert layer["per"] == 4
    assert layer["values"][0][:2] == [width - 1.5, width - 5.5]  # means of four, from the top
    assert layer["recruited"] == [width]


def test_long_histories_are_thinned():
    history = History(train_loss=[1 / (n + 1) for n in range(1000)])
    grown = training_curves(history)
    assert len(grown["epochs"]) == len(grown["loss"]) == 200
    assert (grown["epochs"][0], grown["epochs"][-1]) == (1, 1000)
