"""Several inputs, named outputs, targets of several places, losses of one's own, dicts."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from torchsparcs import RefineConfig, SpectralNetwork, TrainConfig, evaluate, extract, train
from torchsparcs.training.nests import mapped, rows_in, rows_of, tensors_in
from torchsparcs.training.tasks import TASKS

Both = namedtuple("Both", "mean spread")


class TwoEyes(nn.Module):
    """Two inputs, of which one may be left out; named outputs, the loss among them if asked."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 16), nn.Linear(2, 16)
        self.out, self.other = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, a, b, labels=None):
        hidden = F.relu(self.left(a) + self.right(b))
        answer = {"mean": self.out(hidden), "hidden": (self.other(hidden),)}
        if labels is not None:
            answer["loss"] = F.mse_loss(answer["mean"].squeeze(1), labels)
        return answer


def loss(output, target):
    return F.mse_loss(output["mean"].squeeze(1), target)


@pytest.fixture
def three() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(160, 3, generator=generator), torch.randn(160, 2, generator=generator)
    return a, b, a[:, 0] + b[:, 1].abs()


def as_loaders(a, b, y) -> dict:
    """The same rows in every form that batches of 40 can have."""
    rows = range(0, 160, 40)
    named = [{"a": a[i : i + 40], "b": b[i : i + 40], "labels": y[i : i + 40]} for i in rows]
    lists = DataLoader([((u, v), w) for u, v, w in zip(a, b, y, strict=True)], batch_size=40)
    return {
        "tuple": (((a, b), y), loss),
        "dict": (({"b": b, "a": a.numpy()}, y), loss),
        "loader": (lists, loss),
        "batches of dicts": (named, lambda output, batch: output["loss"]),
    }


@pytest.mark.parametrize("form", ["tuple", "dict", "loader", "batches of dicts"])
def test_models_of_several_are_trained_judged_and_cut(three, form):
    torch.manual_seed(0)
    model, (data, task) = TwoEyes(), as_loaders(*three)[form]
    before = evaluate(model, data, task)
    assert before.loss == pytest.approx(loss(model(*three[:2]), three[2]).item(), rel=1e-5)
    assert before.score == -before.loss
    train(model, data, TrainConfig(task=task, epochs=30, batch_size=40, lr=0.02), progress=False)
    after = evaluate(model, data, task).loss
    assert after < 0.2 * before.loss
    config = RefineConfig(epochs=2, batch_size=40)
    given = {"data": data, "validation": data, "task": task, "config": config}
    small = extract(model, **given, max_parameters=100, progress=False)
    assert sum(p.numel() for p in small.parameters()) <= 100
    assert small.left.out_features == small.right.out_features == small.other.in_features < 16
    assert evaluate(small, data, task).loss < 0.5 * before.loss
    assert extract(model, **given, progress=False).out.in_features <= 16  # by the loss


def test_a_tuple_and_a_dict_train_alike(three):
    outcomes = []
    for form in ("tuple", "dict"):
        torch.manual_seed(0)
        model, (data, task) = TwoEyes(), as_loaders(*three)[form]
        train(model, data, TrainConfig(task=task, epochs=2, batch_size=32), progress=False)
        outcomes.append(model.out.weight)
    assert torch.equal(*outcomes)


def test_a_head_behind_several_inputs_is_cut(three):
    class Headed(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = SpectralNetwork([5, 20, 1])

        def forward(self, a, b):
            return self.head(torch.cat([a, b], dim=1))

    a, b, y = three
    model, data = Headed(), ((a, b), y)
    train(model, data, TrainConfig(epochs=20, batch_size=40, lr=0.01), progress=False)
    given = {"data": data, "validation": data, "task": "regression", "progress": False}
    small = extract(model, **given, config=RefineConfig(tolerance=0.05, epochs=2))
    assert evaluate(small, data, "regression").score > 0.8


class TestPlaces:
    """Targets (rows, places) beside outputs (rows, places, classes)."""

    def test_by_hand(self):
        torch.manual_seed(0)
        output, target = torch.randn(4, 5, 3), torch.randint(3, (4, 5))
        losses = TASKS["multiclass"].losses(output, target)
        assert losses.shape == (4,)
        expected = F.cross_entropy(output.flatten(0, 1), target.flatten())
        assert losses.mean().item() == pytest.approx(expected.item(), rel=1e-6)
        hits = TASKS["multiclass"].scores(output, target)
        assert hits[1] == (output[1].argmax(-1) == target[1]).float().mean()

    def test_a_model_of_words_is_trained_and_cut_by_name(self):
        torch.manual_seed(0)
        words = torch.randint(6, (200, 7))
        words[:, 1:] = (words[:, :1] + torch.arange(1, 7)) % 6
        data = (words[:, :-1], words[:, 1:])
        model = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 6))
        config = TrainConfig(task="multiclass", epochs=20, batch_size=50, lr=0.02)
        train(model, data, config, progress=False)
        given = {"data": data, "validation": data, "task": "multiclass", "progress": False}
        small = extract(model, **given, config=RefineConfig(batch_size=50), max_parameters=250)
        assert evaluate(small, data, "multiclass").score > 0.95

    def test_other_shapes_are_refused(self):
        data = torch.randn(8, 5, 3), torch.randint(3, (8, 4))
        with pytest.raises(ValueError, match=r"one for each row, or for each place.*Got rows of"):
            train(nn.Linear(3, 3), data, TrainConfig(task="multiclass"), progress=False)


def test_nests():
    @dataclass
    class Answer:
        logits: torch.Tensor
        words: str = "left alone"

    nest = {"a": torch.arange(4.0), "b": [Both(torch.ones(4, 2), None), Answer(torch.zeros(4))]}
    assert [one.shape for one in tensors_in(nest)] == [(4,), (4, 2), (4,)]
    assert rows_of(nest) == 4
    part = rows_in(nest, slice(1, 3))
    assert part["a"].tolist() == [1, 2]
    assert isinstance(part["b"][0], Both)
    assert part["b"][0].mean.shape == (2, 2)
    assert part["b"][1].words == "left alone"
    assert nest["a"].shape == (4,)
    assert mapped(torch.neg, (torch.ones(1),)) == (torch.tensor([-1.0]),)


@pytest.mark.parametrize(
    ("data", "task", "message"),
    [
        (((torch.ones(4, 3), torch.ones(3, 2)), torch.ones(4)), loss, r"as many inputs as targets"),
        (
            ((torch.ones(4, 3), torch.ones(4, 2)), torch.ones(4)),
            "regression",
            "a loss.*of your own",
        ),
        (((torch.ones(4, 3), "b"), torch.ones(4)), loss, "a tuple of several or a dict"),
        ({"a": torch.ones(4, 3)}, loss, "a tuple of several or a dict of named ones, or an iter"),
        (((torch.ones(4, 3), torch.full((4, 2), torch.nan)), torch.ones(4)), loss, "finite inputs"),
    ],
)
def test_refusals(data, task, message):
    with pytest.raises(ValueError, match=message):
        train(TwoEyes(), data, TrainConfig(task=task, epochs=1), progress=False)
