"""The model before its cuts teaches what is left of it."""

import copy
import pickle

import pytest
import torch
from models import Vit, gap
from torch import nn
from torch.nn import functional as F

from torchsparcs import RefineConfig, TrainConfig, extract, train
from torchsparcs.blocks.finding import blocks_of
from torchsparcs.cutting.model_ladder import model_rungs
from torchsparcs.cutting.teacher import Answer, Teacher
from torchsparcs.cutting.units import BlockCuts


def teacher(model: nn.Module, task="regression", share=1.0, places=(), scale=1.0) -> Teacher:
    return Teacher(model, task, share, places, scale)


class TestLoss:
    def test_classes_by_hand(self):
        own, said = torch.randn(4, 5, 3), torch.randn(4, 5, 3)
        target = torch.randint(3, (4, 5))
        p, q = said.softmax(-1), own.softmax(-1)
        divergence = (p * (p / q).log()).sum(-1).mean()
        got = teacher(nn.Identity(), "multiclass").loss(Answer(own, said, []), target)
        assert got.item() == pytest.approx(divergence.item(), rel=1e-5)
        half = teacher(nn.Identity(), "multiclass", 0.5).loss(Answer(own, said, []), target)
        targets = F.cross_entropy(own.flatten(0, 1), target.flatten())
        assert half.item() == pytest.approx(((divergence + targets) / 2).item(), rel=1e-5)

    def test_labels_are_divergences_too(self):
        said = torch.randn(6, 2)
        labels = teacher(nn.Identity(), "binary")
        assert labels.loss(Answer(said, said, []), said.sigmoid()).item() == pytest.approx(0)
        assert labels.loss(Answer(said + 1, said, []), said.sigmoid()) > 0.01

    def test_numbers_and_blocks_are_squares_by_variance(self):
        own, said = torch.zeros(50, 1), torch.randn(50, 1)
        error = (said.square().mean() / said.var()).item()
        got = teacher(nn.Identity(), scale=3.0).loss(Answer(own, said, []), said)
        assert got.item() == pytest.approx(3 * error, rel=1e-5)
        blocks = [(own, 10 * said), (said, said)]
        both = teacher(nn.Identity(), scale=3.0).loss(Answer(said, said, blocks), said)
        assert both.item() == pytest.approx(3 * error / 2, rel=1e-5)

    def test_of_a_loss_of_ones_own_all_answers_count(self):
        said = {"a": torch.randn(9, 2), "ids": torch.arange(9), "loss": torch.tensor(1.0)}
        own = {**said, "a": torch.zeros(9, 2)}
        free = teacher(nn.Identity(), lambda output, target: output["a"].sum())
        error = said["a"].square().mean() / said["a"].var()
        assert free.loss(Answer(own, said, []), None).item() == pytest.approx(error.item())

    def test_a_batch_of_one_number_and_ones_that_do_not_vary(self):
        own = torch.tensor([[3.0]], requires_grad=True)
        loss = teacher(nn.Identity()).loss(Answer(own, torch.tensor([[2.0]]), []), own.detach())
        assert loss.item() == pytest.approx(1 / 4)
        level, silent = torch.full((5, 2), 2.0), torch.zeros(5, 2)
        blocks = [(level + 1, level), (own.expand(5, 2), silent)]
        loss = teacher(nn.Identity()).loss(Answer(level + 1, level, blocks), level)
        assert loss.item() == pytest.approx(1 / 4 + (1 / 4 + 0) / 2)
        loss.backward()
        assert own.grad is not None
        assert own.grad.isfinite().all()


def test_where_losses_are_below_zero_the_teacher_is_listened_to_as_well():
    torch.manual_seed(0)
    whole, x = nn.Sequential(nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 1)), torch.randn(200, 3)

    def likelihood(output, target):  # of a normal distribution that is narrow
        return 50 * (output - target).square().mean() - 100

    given = {"data": (x, whole(x).detach()), "validation": (x, whole(x).detach())}
    config = RefineConfig(epochs=20, batch_size=50, tolerance=1e-2)
    small = extract(whole, **given, task=likelihood, config=config, progress=False)
    assert small[0].out_features < 20
    own, said = torch.zeros(4, 1), torch.ones(4, 1).cumsum(0)
    assert teacher(whole, likelihood, scale=-2.0).loss(Answer(own, said, []), said) > 0


def test_a_last_batch_of_one_row_does_not_end_the_fine_tuning():
    torch.manual_seed(0)
    pupil, x = nn.Linear(3, 1), torch.randn(9, 3)
    taught, config = teacher(nn.Linear(3, 1), share=0.5).taught(
        pupil, TrainConfig(epochs=2, batch_size=4)
    )
    train(taught, (x, x[:, :1]), config, progress=False)
    assert all(parameter.isfinite().all() for parameter in pupil.parameters())


def test_a_pupil_learns_what_its_teacher_says_and_not_wrong_targets():
    torch.manual_seed(0)
    whole, x = Vit(blocks=1).train(), torch.randn(150, 5, 8)
    before, state = whole(x).detach(), copy.deepcopy(whole.state_dict())
    wrong = (x, torch.randn(150, 4))
    distances = {}
    for share in (0.0, 1.0):
        pupil = copy.deepcopy(whole)
        nn.init.normal_(pupil.blocks[0].mlp.fc2.weight, std=0.5)
        start = gap(pupil, whole, x)
        taught, config = teacher(whole, share=share, places=["blocks.0.mlp.fc2"]).taught(
            pupil, TrainConfig(epochs=12, batch_size=25, lr=0.01)
        )
        assert {*taught.parameters()} == {*pupil.parameters()}
        train(taught, wrong, config, progress=False)
        distances[share] = gap(pupil, whole, x)
    assert distances[1.0] < 0.3 * start
    assert distances[1.0] < 0.5 * distances[0.0]
    assert torch.equal(whole(x), before)
    assert whole.training
    assert all(torch.equal(state[name], now) for name, now in whole.state_dict().items())


def test_where_blocks_meet_the_units_of_the_next_are_no_lesson():
    chain = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 2))
    x = torch.randn(100, 4)
    cuts = BlockCuts(blocks_of(chain, x[:2])[0], x[:2])
    assert cuts.stays == ["4"]
    tuning = TrainConfig(task="regression", epochs=1, batch_size=50)
    data = (x, chain(x).detach())
    rungs = model_rungs(chain, data, data, tuning, cuts=cuts, teaching=0.5)
    assert next(rungs).parameters > next(rungs).parameters


def test_extract_leaves_nothing_of_the_teacher():
    torch.manual_seed(0)
    x = torch.randn(80, 5, 8)
    data = (x, x[:, :, 0].mean(dim=1, keepdim=True).expand(-1, 4))
    given = {"data": data, "validation": data, "task": "regression", "max_parameters": 900}
    results = []
    for share in (0.0, 0.5):
        config = RefineConfig(epochs=1, batch_size=20, lr=1e-2, teaching=share)
        torch.manual_seed(0)
        small = extract(Vit(blocks=2), **given, config=config, progress=False)
        assert type(small) is Vit
        assert not small.blocks[0].mlp.fc2._forward_hooks
        pickle.dumps(small)
        results.append(small(x))
    assert not torch.equal(*results)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_from_zero_to_one(share):
    with pytest.raises(ValueError, match="Expected teaching to be"):
        RefineConfig(teaching=share)
