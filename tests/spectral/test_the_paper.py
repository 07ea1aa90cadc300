"""What docs/differences.md says is tested: the paper's formulas, where they are not quite so."""

from math import comb

import pytest
import torch
from torch import nn

from torchsparcs import SpectralNetwork, path_strengths
from torchsparcs.experiments.peers import DirectNetwork
from torchsparcs.experiments.remarks import first_gradients, network_of


def awake(*widths: int) -> SpectralNetwork:
    network = SpectralNetwork(widths, bias=False, dtype=torch.float64)
    for values in network.hidden_eigenvalues:
        nn.init.normal_(values)
    return network


def test_the_sign_of_the_last_term_of_the_inverse():
    """Section 3 prints − 3I."""
    phi = awake(3, 4, 2).eigenvector_matrix()
    one = torch.eye(len(phi), dtype=phi.dtype)
    inverse = torch.linalg.inv(phi)
    torch.testing.assert_close(phi @ phi - 3 * phi + 3 * one, inverse)
    assert not torch.allclose(phi @ phi - 3 * phi - 3 * one, inverse)


def test_b_plus_one_layers_have_b_plus_one_diagonal_blocks():
    network = awake(3, 4, 2)
    sizes = [len(values) for values in network.eigenvalues]
    blocks = network.adjacency().diagonal().split(sizes)
    assert len(blocks) == len(network.transfers) + 1 == 3
    for block, values in zip(blocks, network.eigenvalues, strict=True):
        torch.testing.assert_close(block, values)


def test_a_network_at_the_start_has_no_inverse():
    """Section 4 has its matrix in GL(N, ℝ)."""
    assert torch.linalg.matrix_rank(SpectralNetwork([3, 4, 2]).adjacency()) == 2
    awakened = awake(3, 4, 2)
    assert torch.linalg.matrix_rank(awakened.adjacency()) == 4 + 2  # those of the input are zero


@pytest.mark.parametrize("hidden", [1, 2, 3, 5])
def test_only_the_last_hidden_layer_has_a_gradient_at_the_start(hidden):
    *others, last = first_gradients([10, *[20] * hidden, 1])
    assert others == [0.0] * (hidden - 1)
    assert last > 0.1


def test_the_others_follow_once_it_has_left_zero():
    network = SpectralNetwork([10, 20, 20, 1])
    nn.init.normal_(network.hidden_eigenvalues[1], std=0.1)
    network(torch.randn(50, 10)).square().mean().backward()
    assert all(values.grad.norm() > 0 for values in network.hidden_eigenvalues)


def test_paths_are_indexed_from_the_output_on():
    """Equation E.1; section 5 has the input first."""
    network = awake(3, 4, 2)
    gamma = path_strengths(network)
    into, out = network.weight_block(1, 0), network.weight_block(2, 1)
    assert gamma.shape == (2, 4, 3)
    torch.testing.assert_close(gamma[1, 2, 0], (out[1, 2] * into[2, 0]).detach())


@pytest.mark.parametrize("n", range(1, 9))
def test_the_identity_of_appendix_d_fails_where_rho_is_n(n):
    """Equation B.23; and B.17, which is proved with it, holds all the same."""
    for rho in range(1, n + 1):
        total = sum((-1) ** k * comb(k, rho) * comb(n, k) for k in range(rho, n + 1))
        assert total == (0 if rho < n else (-1) ** n)
        sought = sum((-1) ** k * comb(k, rho) * comb(n + 1, k + 1) for k in range(rho, n + 1))
        assert sought == (-1) ** rho


def test_which_eigenvalues_have_to_be_zero_for_one_neuron_each():
    """Counted as in the paper: 𝓛₁ the input, 𝓛₂ and 𝓛₃ hidden; it says 𝓛₁ and 𝓛₃."""
    network = awake(3, 4, 5, 2)
    first, second = network.hidden_eigenvalues
    nn.init.zeros_(second)  # 𝓛₃
    for source in (0, 1):  # all of them hear the first, and what it hears: beside figure 6
        assert (network.weight_block(2, source).abs().sum(dim=1) > 0).all()
    nn.init.zeros_(first)  # 𝓛₂
    second.data[1] = 1.0
    into = torch.cat([network.weight_block(2, 0), network.weight_block(2, 1)], dim=1)
    assert (into != 0).any(dim=1).tolist() == [False, True, False, False, False]


@pytest.mark.parametrize("start", ["zero", "equal"])
def test_direct_space_does_not_leave_such_a_start(start):
    torch.manual_seed(0)
    network = network_of(start, [3, 6, 1])
    assert isinstance(network, DirectNetwork)
    optimizer, x = torch.optim.Adam(network.parameters(), lr=1e-2), torch.randn(64, 3)
    for _ in range(20):
        optimizer.zero_grad()
        (network(x) - x.square().sum(dim=1, keepdim=True)).square().mean().backward()
        optimizer.step()
    into = network.blocks["0 to 1"].weight
    assert (into == 0).all() == (start == "zero")
    torch.testing.assert_close(into, into[:1].expand_as(into), rtol=1e-4, atol=1e-5)
