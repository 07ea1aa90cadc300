"""The fast forms against the dense reference, and the closed forms against each other."""

import math
from itertools import pairwise

import dense
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import randomised
from widths import widths_strategy

from torchsparcs import SpectralNetwork
from torchsparcs.spectral import equations as spectral

DOUBLE = torch.float64


@settings(max_examples=80, deadline=None)
@given(
    widths=widths_strategy,
    bias=st.booleans(),
    train_input=st.booleans(),
    update=st.sampled_from(["feedforward", "iterated"]),
    activation=st.sampled_from(["relu", "tanh", "sigmoid"]),
    batch=st.integers(1, 40),
    seed=st.integers(0, 10_000),
)
def test_forward_equals_the_dense_reference(
    widths, bias, train_input, update, activation, batch, seed
):
    network = SpectralNetwork(
        widths,
        activation=activation,
        bias=bias,
        train_input_eigenvalues=train_input,
        update=update,
        dtype=DOUBLE,
    )
    randomised(network, seed)
    x = torch.randn(batch, widths[0], dtype=DOUBLE)
    torch.testing.assert_close(network(x), dense.forward(network, x), rtol=1e-10, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(widths=widths_strategy, bias=st.booleans(), silent=st.booleans(), data=st.data())
def test_every_choice_of_anchors_gives_the_same_result(widths, bias, silent, data):
    network = randomised(
        SpectralNetwork(widths, bias=bias, train_input_eigenvalues=not silent, dtype=DOUBLE), 1
    )
    hidden = range(1, len(widths) - 1)
    anchors = data.draw(st.sets(st.sampled_from(list(hidden)))) if hidden else set()
    x = torch.randn(5, widths[0], dtype=DOUBLE)
    result = spectral.feedforward(
        x,
        list(network.transfers),
        network.eigenvalues,
        network.activation,
        anchors=tuple(anchors),
        bias=bias,
        input_is_silent=silent,
    )
    torch.testing.assert_close(result, dense.forward(network, x), rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(widths=widths_strategy, bias=st.booleans(), seed=st.integers(0, 1000))
def test_matrices_equal_the_dense_reference(widths, bias, seed):
    network = SpectralNetwork(widths, bias=bias, train_input_eigenvalues=True, dtype=DOUBLE)
    randomised(network, seed)
    close = {"rtol": 1e-10, "atol": 1e-10}
    phi, inverse = network.eigenvector_matrix(), network.inverse_eigenvector_matrix()
    torch.testing.assert_close(phi, dense.eigenvector_matrix(network), **close)
    torch.testing.assert_close(inverse, torch.linalg.inv(phi), **close)
    torch.testing.assert_close(dense.inverse_by_binomial(phi, len(widths)), inverse)
    torch.testing.assert_close(network.adjacency(), dense.adjacency(network), **close)


@settings(max_examples=20, deadline=None)
@given(widths=widths_strategy, seed=st.integers(0, 1000))
def test_the_eigenvalues_of_the_adjacency_are_the_parameters(widths, seed):
    network = randomised(SpectralNetwork(widths, train_input_eigenvalues=True, dtype=DOUBLE), seed)
    # A is triangular in exact arithmetic, so its spectrum is its diagonal
    a = network.adjacency()
    assert torch.equal(a, a.tril())
    torch.testing.assert_close(a.diagonal(), torch.cat(network.eigenvalues))
    # and A Φ = Φ Λ: the columns of Φ are the eigenvectors
    phi = network.eigenvector_matrix()
    torch.testing.assert_close(a @ phi, phi * torch.cat(network.eigenvalues))


def test_weight_blocks_are_the_blocks_of_the_adjacency():
    network = randomised(SpectralNetwork([3, 5, 4, 2], dtype=DOUBLE), 0)
    widths, a = dense.sizes(network), dense.adjacency(network)
    for target in range(1, 4):
        for source in range(target):
            row, column = sum(widths[:target]), sum(widths[:source])
            block = a[row : row + widths[target], column : column + widths[source]]
            torch.testing.assert_close(network.weight_block(target, source), block)


def test_weight_block_refuses_layers_that_are_not_there():
    network = SpectralNetwork([3, 5, 2])
    for target, source in [(0, 0), (1, 1), (1, 2), (3, 0), (1, -1)]:
        with pytest.raises(ValueError, match=f"Got target {target} and source {source}"):
            network.weight_block(target, source)


def test_parameters_with_a_member_axis_are_independent_networks():
    members = [randomised(SpectralNetwork([3, 5, 4, 2], dtype=DOUBLE), seed) for seed in range(4)]
    x = torch.randn(6, 3, dtype=DOUBLE)
    transfers = [torch.stack(t) for t in zip(*(m.transfers for m in members), strict=True)]
    eigenvalues = [torch.stack(e) for e in zip(*(m.eigenvalues for m in members), strict=True)]
    expected = torch.stack([member(x) for member in members])
    for anchors in [(), (1,), (1, 2)]:
        result = spectral.feedforward(
            x, transfers, eigenvalues, torch.relu, anchors=anchors, bias=True, input_is_silent=True
        )
        torch.testing.assert_close(result, expected)


def test_counts_cross_between_two_and_three_layers():
    # two layers of 100: 100² + 200 against 100²; three layers: 2·100² + 300 against 3·100²
    assert spectral.spectral_parameter_count([100, 100]) == 10_200
    assert spectral.direct_parameter_count([100, 100]) == 10_000
    assert spectral.spectral_parameter_count([100] * 3) == 20_300
    assert spectral.direct_parameter_count([100] * 3) == 30_000
    assert spectral.direct_parameter_count([100] * 12) == math.comb(12, 2) * 10_000


def test_the_sign_of_the_three_layer_inverse():
    """For B = 2 the general formula gives 3I − 3Φ + Φ²; the paper prints other signs."""
    network = randomised(SpectralNetwork([2, 3, 2], dtype=DOUBLE), 3)
    phi = network.eigenvector_matrix()
    eye = torch.eye(phi.shape[0], dtype=DOUBLE)
    torch.testing.assert_close(phi @ phi - 3 * phi + 3 * eye, torch.linalg.inv(phi))


def test_a_network_worked_out_by_hand():
    """2-2-1, no bias, f = relu, φ₀ = [[1, 2], [3, −1]], φ₁ = [[2, 1]], L = (0,0), (½, −1), (1).

    W₁₀ = φ₀ L₀ − L₁ φ₀           = [[−½, −1], [3, −1]]
    W₂₁ = φ₁ L₁ − L₂ φ₁           = [[2·½ − 2, 1·(−1) − 1]]          = [[−1, −2]]
    W₂₀ = −W₂₁ φ₀                 = [[1·1 + 2·3, 1·2 + 2·(−1)]]      = [[7, 0]]
    x = (1, −2):  a₁ = relu(−½ + 2, 3 + 2) = (3/2, 5);  y = −3/2 − 10 + 7 = −9/2
    """
    network = SpectralNetwork([2, 2, 1], bias=False, dtype=DOUBLE)
    network.transfers[0].data = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=DOUBLE)
    network.transfers[1].data = torch.tensor([[2.0, 1.0]], dtype=DOUBLE)
    network.hidden_eigenvalues[0].data = torch.tensor([0.5, -1.0], dtype=DOUBLE)
    assert network.weight_block(1, 0).tolist() == [[-0.5, -1.0], [3.0, -1.0]]
    assert network.weight_block(2, 1).tolist() == [[-1.0, -2.0]]
    assert network.weight_block(2, 0).tolist() == [[7.0, 0.0]]
    assert network(torch.tensor([1.0, -2.0], dtype=DOUBLE)).item() == -4.5


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("anchors", [(1, 2), (2,), ()])
def test_few_rows_are_the_same_bit_for_bit(bias, anchors):
    """The transfer of a silent input need not be negated."""
    torch.manual_seed(0)
    sizes = [9 + bias, 6, 5, 4]
    transfers = [torch.randn(m, n, requires_grad=True) for n, m in pairwise(sizes)]
    eigenvalues = [torch.randn(n, requires_grad=True) for n in sizes]
    x, found = torch.randn(3, 9), []
    for has_few_rows in (False, True):
        output = spectral.feedforward(
            x,
            transfers,
            eigenvalues,
            torch.relu,
            anchors=anchors,
            bias=bias,
            input_is_silent=True,
            has_few_rows=has_few_rows,
        )
        used = [*transfers, *eigenvalues[1:]]
        found.append([output, *torch.autograd.grad(output.square().sum(), used)])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
