"""The paper's pruning: eigenvalues set to zero, the smallest first, while the loss allows it."""

import pytest
import torch
from torch import nn

from torchsparcs import Population, SpectralNetwork, evaluate, prune_eigenvalues
from torchsparcs.cutting.eigenvalues import eigenvalue_curve, eigenvalue_gap, keep_eigenvalues


class TestEigenvaluePruning:
    network = SpectralNetwork([2, 3, 2, 1])
    with torch.no_grad():
        network.hidden_eigenvalues[0].copy_(torch.tensor([1.0, -5.0, 0.5]))
        network.hidden_eigenvalues[1].copy_(torch.tensor([-2.0, 0.1]))

    def test_the_largest_are_kept(self):
        kept = keep_eigenvalues(self.network, 2)
        assert kept.hidden_eigenvalues[0].tolist() == [0, -5, 0]
        assert kept.hidden_eigenvalues[1].tolist() == [-2, 0]
        assert self.network.recruited == [3, 2]

    def test_the_fewest_are_found_between_the_points_of_the_curve(self):
        wide = SpectralNetwork([1, 100, 1])
        wide.hidden_eigenvalues[0].data.uniform_(1, 2)
        curve, enough = eigenvalue_curve(
            wide, lambda net: 1.0 + (net.recruited[0] < 73), tolerance=0.05, points=5
        )
        assert enough == 73
        assert (curve[0], curve[72], curve[73], curve[100]) == (2.0, 2.0, 1.0, 1.0)
        assert list(curve) == sorted(curve)

    def test_a_network_without_hidden_layers_stays(self):
        network, x = SpectralNetwork([2, 1]), torch.randn(9, 2)
        pruned = prune_eigenvalues(network, (x, x[:, :1]), "regression")
        torch.testing.assert_close(pruned(x), network(x))

    def test_a_network_without_recruits(self):
        curve, enough = eigenvalue_curve(
            SpectralNetwork([1, 5, 1]), lambda net: 2.0, tolerance=0.05
        )
        assert (curve, enough) == ({0: 2.0}, 0)


class TestPruneEigenvalues:
    def network_and_data(self):
        """Two eigenvalues that matter, one that hardly does; the targets are off by 0.1."""
        torch.manual_seed(0)
        network = SpectralNetwork([2, 4, 1])
        network.hidden_eigenvalues[0].data.copy_(torch.tensor([1.0, 1e-5, -2.0, 0.0]))
        x = torch.rand(100, 2) * 2 - 1
        return network, (x, network(x).detach() + 0.1)

    def test_the_loss_may_rise_by_the_tolerance_and_no_more(self):
        network, data = self.network_and_data()
        pruned = prune_eigenvalues(network, data, "regression")
        assert pruned.hidden_eigenvalues[0].tolist() == [1.0, 0.0, -2.0, 0.0]
        whole = evaluate(network, data, "regression").loss
        assert evaluate(pruned, data, "regression").loss <= 1.05 * whole
        assert network.recruited == [3]
        assert prune_eigenvalues(network, data, "regression", tolerance=1e9).recruited == [0]

    def test_the_eigenvalue_goes_from_the_skip_connection_as_well(self):
        """W₃₁ = (L₃φ₂ − φ₂L₂)φ₁: not what cutting the neuron out in direct space leaves."""
        network, data = self.network_and_data()
        pruned = prune_eigenvalues(network, data, "regression", tolerance=1e9)
        first, last = network.transfers
        torch.testing.assert_close(pruned.weight_block(2, 0), last @ first)
        assert not torch.allclose(network.weight_block(2, 0), last @ first)

    def test_networks_inside_a_model_are_pruned_as_one(self):
        network, (x, y) = self.network_and_data()
        model = nn.Sequential(nn.Identity(), network)
        assert prune_eigenvalues(model, (x, y), "regression")[1].recruited == [2]

    def test_what_it_does_not_take(self):
        network, data = self.network_and_data()
        with pytest.raises(ValueError, match=r"Expected a tolerance >= 0\. Got -1"):
            prune_eigenvalues(network, data, "regression", tolerance=-1)
        with pytest.raises(ValueError, match=r"Got a population: prune population\.member"):
            prune_eigenvalues(Population([2, 4, 1], seeds=[0]), data, "regression")


class TestGap:
    def test_it_parts_two_clusters(self):
        values = torch.cat([torch.linspace(1e-6, 0.004, 50), torch.linspace(-0.9, -0.5, 9)])
        gap = eigenvalue_gap(values)
        assert 0.004 < gap < 0.5
        network = SpectralNetwork([2, 59, 1])
        network.hidden_eigenvalues[0].data.copy_(values)
        assert [int(count) for count in network.count_recruited(gap)] == [9]
        assert [int(count) for count in network.count_recruited()] == [59]

    @pytest.mark.parametrize("values", [[], [0.0, 0.0], [0.3], [0.1, 0.2, 0.4], [1.0, 1.0]])
    def test_without_two_clusters_there_is_none(self, values):
        assert eigenvalue_gap(torch.tensor(values)) == 0.0

    def test_exact_zeros_are_the_lower_cluster(self):
        assert 0 < eigenvalue_gap(torch.tensor([0.0, 0.0, 0.5, 0.6])) < 0.5
