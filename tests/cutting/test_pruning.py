"""Rankings and pruning curves: what is cut, what that costs, and that looking changes nothing."""

import copy
from itertools import pairwise

import pytest
import torch
from networks import randomised
from torch import nn

from torchsparcs import SpectralNetwork, TrainConfig, extract, pruning_curve, train
from torchsparcs.compact.direct import direct_space
from torchsparcs.cutting.pruning import PrunedPoint, PruningCurve, by_eigenvalue, by_path
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.training.tasks import evaluate

RANKINGS = ["path", "eigenvalue"]


def data(rows=60, width=3, seed=0):
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    return x, x.abs().sum(dim=1)


def network(widths=(3, 6, 4, 1), dead=0.0, **options) -> SpectralNetwork:
    return randomised(SpectralNetwork(list(widths), **options), 0, dead)


def hand_built(points, hidden=9) -> PruningCurve:
    """(kept, loss, parameters, macs) each."""
    return PruningCurve(
        [PrunedPoint(kept, loss, -loss, *size) for kept, loss, *size in points],
        torch.arange(hidden),
        (hidden,),
    )


class TestTheCurve:
    @pytest.mark.parametrize("rank", RANKINGS)
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("dead", [0.0, 0.5, 1.0])
    def test_runs_from_no_neuron_to_the_whole_network(self, rank, activation, dead):
        net = network(activation=activation, dead=dead)
        curve = pruning_curve(net, data(), "regression", rank=rank)
        kept = [point.kept for point in curve.points]
        assert kept == list(range(len(kept)))
        whole = evaluate(net, data(), "regression")
        assert curve.points[-1].loss == pytest.approx(whole.loss, rel=1e-5)
        assert curve.points[-1].score == pytest.approx(whole.score, rel=1e-4, abs=1e-5)

    def test_nothing_kept_is_the_linear_network(self):
        net = network()
        first = pruning_curve(net, data(), "regression").points[0]
        x, y = data()
        block = net.weight_block(3, 0)
        loss = nn.functional.mse_loss((x @ block[:, :3].T + block[:, 3])[:, 0], y)
        assert first.loss == pytest.approx(loss.item(), rel=1e-5)
        assert (first.parameters, first.macs) == (4, 3)

    def test_the_sizes_are_those_of_the_extracted_networks(self):
        net = network()
        curve = pruning_curve(net, data(), "regression")
        for point in curve.points:
            size = extract(net, keep=curve.masks(point)).size
            assert (point.parameters, point.macs) == (size.parameters, size.macs)
        assert curve.points[-1].parameters > curve.points[0].parameters

    @pytest.mark.parametrize("rank", RANKINGS)
    @pytest.mark.parametrize("activation", ["relu", "sigmoid"])
    def test_the_masks_give_the_loss_of_their_point(self, rank, activation):
        net = network(dead=0.3, activation=activation)
        curve = pruning_curve(net, data(), "regression", rank=rank)
        for point in curve.points:
            masks = curve.masks(point)
            assert [len(mask) for mask in masks] == [6, 4]
            assert sum(int(mask.sum()) for mask in masks) == point.kept
            pruned = evaluate(extract(net, keep=masks), data(), "regression")
            assert pruned.loss == pytest.approx(point.loss, rel=1e-5)

    def test_inside_a_model_the_loss_is_that_of_the_model(self):
        model = nn.Sequential(nn.Linear(3, 3), network(), nn.Tanh())
        before = copy.deepcopy(model.state_dict())
        curve = pruning_curve(model, data(), "regression")
        for point in curve.points:
            cut = extract(model, keep=curve.masks(point))
            assert evaluate(cut, data(), "regression").loss == pytest.approx(point.loss, rel=1e-5)
            assert point.parameters == cut[1].size.parameters
        assert len({point.loss for point in curve.points}) > 3
        assert all(map(torch.equal, model.state_dict().values(), before.values()))
        with pytest.raises(ValueError, match=r"with one inside\. Got none in a Linear"):
            pruning_curve(nn.Linear(3, 1), data(), "regression")

    @pytest.mark.parametrize("training", [True, False])
    def test_looking_changes_nothing(self, training):
        net = network(dead=0.3).train(training)
        before = copy.deepcopy(net.state_dict())
        pruning_curve(net, data(), "regression")
        assert net.training is training
        assert all(map(torch.equal, net.state_dict().values(), before.values()))
        assert all(p.grad is None for p in net.parameters())

    def test_looking_leaves_the_mode_of_an_activation(self):
        net = network(activation=nn.RReLU()).eval()
        pruning_curve(net, data(), "regression")
        assert not net.activation.training

    def test_dead_neurons_are_never_counted(self):
        net = network((3, 8, 1))
        net.hidden_eigenvalues[0].data[[1, 4, 6]] = 0
        net.transfers[1].data[:, 2] = 0
        for rank in RANKINGS:
            curve = pruning_curve(net, data(), "regression", rank=rank)
            assert [point.kept for point in curve.points] == [0, 1, 2, 3, 4]
            alive = curve.masks(curve.points[-1])[0]
            assert alive.nonzero().flatten().tolist() == [0, 3, 5, 7]

    @pytest.mark.parametrize("points", [2, 3, 10, 25])
    def test_the_number_of_points_is_limited(self, points):
        curve = pruning_curve(network((3, 300, 1)), data(), "regression", points=points)
        kept = [point.kept for point in curve.points]
        assert len(kept) <= points
        assert kept[0] == 0
        assert kept[-1] == 300
        assert kept == sorted(set(kept))

    def test_small_sizes_are_looked_at_most_closely(self):
        kept = [
            point.kept
            for point in pruning_curve(network((3, 300, 1)), data(), "regression", points=12).points
        ]
        steps = [after - before for before, after in pairwise(kept)]
        assert steps == sorted(steps)
        assert kept[1] == 1

    @pytest.mark.parametrize("rank", RANKINGS)
    def test_a_network_without_hidden_layer_has_one_point(self, rank):
        net = network((3, 1))
        curve = pruning_curve(net, data(), "regression", rank=rank)
        assert [point.kept for point in curve.points] == [0]
        assert curve.masks(curve.points[0]) == []

    def test_loaders_and_losses_of_ones_own(self):
        x, y = data()
        batches = list(zip(x.split(20), y.split(20), strict=True))

        def loss(output, target):
            return (output[:, 0] - target).abs().max()

        net = network()
        curve = pruning_curve(net, batches, loss)
        assert curve.points[-1].loss == pytest.approx(loss(net(x), y).item(), rel=1e-5)

    def test_bad_input(self):
        with pytest.raises(ValueError, match=r"among eigenvalue, path\. Got 'magnitude'"):
            pruning_curve(network(), data(), "regression", rank="magnitude")
        with pytest.raises(ValueError, match=r"at least two points\. Got 1"):
            pruning_curve(network(), data(), "regression", points=1)
        with pytest.raises(ValueError, match="Got 'guessing'"):
            pruning_curve(network(), data(), "guessing")
        with pytest.raises(ValueError, match="Got update='iterated'"):
            pruning_curve(network(update="iterated"), data(), "regression")


class TestRankings:
    def test_worked_out_by_hand(self):
        """φ₀ = [[3, 4], [1, 0]], φ₁ = [[2, 10]], L₁ = (½, −2), L₂ = 1.

        In: ½·(3, 4) and 2·(1, 0). Out: 2·(½ − 1) and 10·(−2 − 1).
        """
        net = SpectralNetwork([2, 2, 1], bias=False)
        net.transfers[0].data = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
        net.transfers[1].data = torch.tensor([[2.0, 10.0]])
        net.hidden_eigenvalues[0].data = torch.tensor([0.5, -2.0])
        space = direct_space(net)
        assert by_eigenvalue(net, space).tolist() == [0.5, 2.0]
        assert by_path(net, space).tolist() == [2.5 * 1, 2 * 30]

    def test_the_order_is_from_strong_to_weak(self):
        net = network()
        space = direct_space(net)
        for rank, ranking in (("path", by_path), ("eigenvalue", by_eigenvalue)):
            curve = pruning_curve(net, data(), "regression", rank=rank)
            assert curve.order.tolist() == ranking(net, space).argsort(descending=True).tolist()

    def test_only_the_path_sees_what_a_deep_neuron_does(self):
        """1 → 1 → 2 → 1: in layer 2 the neuron with λ = 0 does the work, the one with λ = 0.9
        has a transfer of 10⁻⁴. Cut to two neurons, the path keeps the worker."""
        net = SpectralNetwork([1, 1, 2, 1], bias=False)
        net.transfers[0].data = torch.tensor([[-1.0]])
        net.transfers[1].data = torch.tensor([[2.0], [1e-4]])
        net.transfers[2].data = torch.tensor([[3.0, 1.0]])
        net.hidden_eigenvalues[0].data = torch.tensor([1.0])
        net.hidden_eigenvalues[1].data = torch.tensor([0.0, 0.9])
        x = data(width=1)[0]
        truth = (x, net(x).detach())
        losses = {
            rank: pruning_curve(net, truth, "regression", rank=rank).points[2].loss
            for rank in RANKINGS
        }
        assert losses["path"] < 1e-6
        assert losses["eigenvalue"] > 1.0


class TestChoosing:
    CURVE = hand_built(
        [(0, 9.0, 4, 3), (1, 1.06, 10, 8), (2, 1.04, 16, 13), (3, 1.2, 22, 18), (9, 1.0, 58, 48)]
    )

    @pytest.mark.parametrize(
        ("tolerance", "kept"), [(0.0, 9), (0.05, 2), (0.1, 1), (7.9, 1), (8.1, 0)]
    )
    def test_the_smallest_within_a_tolerance(self, tolerance, kept):
        assert self.CURVE.smallest(tolerance).kept == kept

    def test_the_default_tolerance_is_a_twentieth(self):
        assert self.CURVE.smallest().kept == 2

    def test_a_loss_that_is_not_a_number_keeps_everything(self):
        nan = float("nan")
        assert hand_built([(0, nan, 4, 3), (9, nan, 58, 48)]).smallest().kept == 9

    @pytest.mark.parametrize(
        ("budget", "kept"),
        [
            ({}, 9),
            ({"max_parameters": 58}, 9),
            ({"max_parameters": 57}, 2),
            ({"max_parameters": 16}, 2),
            ({"max_parameters": 15}, 1),
            ({"max_macs": 13}, 2),
            ({"max_macs": 12}, 1),
            ({"max_parameters": 57, "max_macs": 8}, 1),
            ({"max_parameters": 9, "max_macs": 100}, 0),
        ],
    )
    def test_the_best_within_a_budget(self, budget, kept):
        assert self.CURVE.within(**budget).kept == kept

    @pytest.mark.parametrize(
        ("budget", "got"),
        [
            ({"max_parameters": 3}, "3 and None"),
            ({"max_macs": 2}, "None and 2"),
            ({"max_parameters": 50, "max_macs": 2}, "50 and 2"),
        ],
    )
    def test_an_impossible_budget_names_the_least(self, budget, got):
        message = rf"at least 4 parameters and 3 multiply-adds.*Got {got}"
        with pytest.raises(ValueError, match=message):
            self.CURVE.within(**budget)

    def test_the_masks_follow_the_order_through_the_layers(self):
        point = PrunedPoint(3, 1.0, 0.0, 1, 1)
        curve = PruningCurve([point], torch.tensor([4, 0, 2, 1, 3]), (2, 3))
        assert [mask.tolist() for mask in curve.masks(point)] == [
            [True, False],
            [True, False, True],
        ]

    def test_a_trained_network_is_cut_without_loss(self):
        x, y = data(300, 2)
        net = SpectralNetwork([2, 20, 1])
        net.reset_parameters(torch.Generator().manual_seed(0))
        config = TrainConfig(epochs=60, batch_size=50, lr=1e-2, penalty_weight=1e-3)
        train(net, (x, y), config, progress=False)
        validation = data(200, 2, seed=1)
        curve = pruning_curve(net, validation, "regression")
        point = curve.smallest(tolerance=0.1)
        assert 0 < point.kept < net.recruited[0]
        small = extract(net, keep=curve.masks(point))
        whole = evaluate(net, validation, "regression")
        assert small.widths == (2, point.kept, 1)
        assert evaluate(small, validation, "regression").loss <= 1.1 * whole.loss
