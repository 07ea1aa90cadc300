"""Path strengths: against loops over the blocks of A, at several depths."""

import itertools

import pytest
import torch
from networks import randomised

from torchsparcs import Population, SpectralNetwork, path_norm, path_strengths


def network(*widths: int, **options) -> SpectralNetwork:
    return randomised(SpectralNetwork(widths, dtype=torch.float64, **options), seed=0)


def test_the_tensor_of_the_paper():
    net = network(2, 4, 3, train_input_eigenvalues=True)
    gamma = path_strengths(net)
    out, back = net.weight_block(2, 1), net.weight_block(1, 0)
    assert gamma.shape == (3, 4, 3)
    for i, j, k in itertools.product(range(3), range(4), range(3)):
        assert gamma[i, j, k] == out[i, j] * back[j, k]


@pytest.mark.parametrize("through", [None, (1, 2, 3), (2,), (1, 3), ()])
def test_any_depth_and_any_layers(through):
    net = network(2, 3, 4, 2, 3)
    stops = [0, *((1, 2, 3) if through is None else through), 4]
    blocks = [net.weight_block(b, a) for a, b in itertools.pairwise(stops)]
    gamma = path_strengths(net, through)
    sizes = [block.shape[0] for block in reversed(blocks)] + [3]
    assert list(gamma.shape) == sizes
    for path in itertools.product(*map(range, sizes)):
        stations = path[::-1]
        expected = 1.0
        for block, (a, b) in zip(blocks, itertools.pairwise(stations), strict=True):
            expected = expected * block[b, a]
        torch.testing.assert_close(gamma[path], expected)
    torch.testing.assert_close(path_norm(net, through), gamma.norm())


def test_all_paths_together_are_what_a_linear_network_computes():
    net = network(3, 4, 5, 2, activation="identity", bias=False)
    x = torch.randn(6, 3, dtype=torch.float64)
    layers = (1, 2)
    subsets = [s for n in range(3) for s in itertools.combinations(layers, n)]
    gammas = [path_strengths(net, subset) for subset in subsets]
    total = sum(g.reshape(2, -1, 3).sum(dim=1) for g in gammas)
    torch.testing.assert_close(x @ total.mT, net(x))


def test_members_of_a_population_lead():
    population = Population([2, 5, 4, 1], seeds=range(3))
    for values in population.hidden_eigenvalues:
        torch.nn.init.normal_(values)
    gamma, norm = path_strengths(population), path_norm(population)
    assert gamma.shape == (3, 1, 4, 5, 3)
    for index in range(3):
        member = population.member(index)
        torch.testing.assert_close(gamma[index], path_strengths(member))
        torch.testing.assert_close(norm[index], path_norm(member))


def test_a_perceptron_sends_nothing_through_its_hidden_layers():
    net = SpectralNetwork([3, 10, 10, 2])
    assert path_norm(net) == path_norm(net, (1,)) == path_norm(net, (2,)) == 0
    assert path_norm(net, ()) > 0


@pytest.mark.parametrize("through", [(0,), (3,), (2, 1), (1, 1)])
def test_layers_that_are_not_hidden_or_not_in_order(through):
    with pytest.raises(ValueError, match="Expected hidden layers between 1 and 2, ascending"):
        path_strengths(network(2, 3, 4, 1), through)


def test_too_many_paths_name_the_way_out():
    net = SpectralNetwork([100, 300, 300, 100])
    with pytest.raises(ValueError, match="path_norm"):
        path_strengths(net)
    assert path_norm(net) == 0


def test_other_modules_are_refused():
    with pytest.raises(ValueError, match="SpectralNetwork or a Population"):
        path_norm(torch.nn.Linear(2, 2))
