"""Sources are taken away at the price that least squares say, the cheapest first."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import randomised
from torch import Tensor

from torchsparcs import CompactNetwork, SpectralNetwork
from torchsparcs.compact.direct import (
    DirectSpace,
    direct_space,
    is_read,
    parameter_count,
    simplified,
    with_bias,
)
from torchsparcs.cutting.neurons import Elimination, cut_to, eliminated

DOUBLE = torch.float64
X = torch.randn(300, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
ALL = [(t, s) for t in range(1, 4) for s in range(t)]
SKIPPED = [(1, 0), (2, 0), (2, 1)]


def compact(widths, connections, **options) -> CompactNetwork:
    torch.manual_seed(0)
    return CompactNetwork(widths, connections, dtype=DOUBLE, **options)


def rebuilt(direct: DirectSpace) -> CompactNetwork:
    return CompactNetwork.from_direct(direct, maximal=None, dtype=DOUBLE)


def sources_of(direct: DirectSpace, x: Tensor) -> Tensor:
    """Inputs, a constant and hidden neurons, one after the other, (rows, S)."""
    sources = torch.cat([x, torch.ones_like(x[:, :1]), x.new_zeros(len(x), direct.hidden)], dim=1)
    for neuron, weights in enumerate(with_bias(direct)[: direct.hidden]):
        sources[:, direct.inputs + 1 + neuron] = direct.evaluate(sources @ weights)
    return sources


def refitted(direct: DirectSpace, x: Tensor, rows: list[int], gone: list[int]) -> Tensor:
    """The weights with bias after ``rows`` were fitted anew without the sources ``gone``."""
    sources, weights = sources_of(direct, x), with_bias(direct).clone()
    for row in rows:
        heard = [q for q in range(weights.shape[1]) if weights[row, q] != 0 and q not in gone]
        fit = torch.linalg.lstsq(sources[:, heard], sources @ weights[row]).solution
        weights[row] = 0
        weights[row, heard] = fit
    return weights


class TestRefitting:
    # sources of 4 → 5 → 4 → 3: inputs 0 to 3, constant 4, layer 1 from 5, layer 2 from 10
    direct = compact([4, 5, 4, 3], ALL, activation="tanh").to_direct()

    @pytest.mark.parametrize("source", [0, 3, 5, 9, 10, 13])
    def test_without_one_source_every_listener_is_a_least_squares_fit(self, source):
        elimination = Elimination(self.direct, X)
        elimination.remove(torch.tensor([source]))
        expected = refitted(self.direct, X, list(range(12)), [source])
        if source >= 5:
            expected[source - 5] = 0
        torch.testing.assert_close(elimination.weights, expected, rtol=1e-3, atol=1e-4)
        assert elimination.result().hidden == 9 - (source >= 5)

    def test_without_several_in_turn_too(self):
        elimination = Elimination(self.direct, X)
        for source in (2, 11, 0):
            elimination.remove(torch.tensor([source]))
        expected = refitted(self.direct, X, list(range(12)), [2, 11, 0])
        expected[11 - 5] = 0
        torch.testing.assert_close(elimination.weights, expected, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize(
        ("layer", "rows", "block", "later"),
        [
            (1, [5, 6, 7, 8], [0, 1, 2, 3], 9),
            (2, [9, 10, 11], [5, 6, 7, 8, 9], 12),
            (2, [9, 10, 11], [1], 12),
        ],
    )
    def test_a_block_goes_from_its_own_layer_alone(self, layer, rows, block, later):
        elimination = Elimination(self.direct, X)
        elimination.remove_block(layer, torch.tensor(block))
        expected = refitted(self.direct, X, rows, block)
        torch.testing.assert_close(elimination.weights, expected, rtol=1e-3, atol=1e-4)
        assert (elimination.weights[rows][:, block] == 0).all()
        elimination.remove(
            torch.tensor([later])
        )  # what is left of the inverse is the inverse of what is left
        again = refitted(self.direct, X, rows, [*block, later])
        torch.testing.assert_close(elimination.weights[rows], again[rows], rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize(
        ("widths", "connections"),
        [([4, 3], [(1, 0)]), ([4, 6, 3], SKIPPED), ([4, 6, 3], [(1, 0), (2, 1)])],
    )
    def test_the_cost_is_the_squared_error_of_the_refitted_output(self, widths, connections):
        direct = compact(widths, connections, activation="tanh").to_direct()
        costs, sources = Elimination(direct, X).costs(), sources_of(direct, X)
        outputs = list(range(direct.hidden, direct.hidden + 3))
        # hidden neurons reach the outputs alone; inputs do where nothing is hidden
        for source in range(5 if direct.hidden else 0, len(costs)):
            change = refitted(direct, X, outputs, [source]) - with_bias(direct)
            error = (sources @ change[outputs].T).square().sum(dim=1).mean()
            assert costs[source].item() == pytest.approx(error.item(), rel=1e-4)

    def test_the_cost_of_an_input_weighs_a_neuron_by_what_the_output_feels(self):
        """y = 3 · 2h, h = x₀ + x₁, x standardised and uncorrelated: each input costs 36."""
        network = compact([2, 1, 1], [(1, 0), (2, 1)], activation="identity", biased=[])
        with torch.no_grad():
            network.block(1, 0).weight.fill_(2.0)
            network.block(2, 1).weight.fill_(3.0)
        x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=DOUBLE)
        costs = Elimination(network.to_direct(), x).costs()
        assert costs.tolist() == pytest.approx([36.0, 36.0, 0.0, 72.0], rel=1e-5)


class TestCounting:
    @settings(max_examples=40, deadline=None)
    @given(widths=st.lists(st.integers(1, 5), min_size=2, max_size=5), seed=st.integers(0, 10_000))
    def test_savings_and_parameters_are_those_of_the_result(self, widths, seed):
        network = randomised(SpectralNetwork(widths, dtype=DOUBLE), seed)
        direct, x = direct_space(network), torch.randn(50, widths[0], dtype=DOUBLE)
        elimination = Elimination(direct, x)
        generator = torch.Generator().manual_seed(seed)
        while elimination.parameters:
            size, savings = parameter_count(elimination.result()), elimination.savings()
            assert elimination.parameters == size
            heard = (elimination.weights != 0).any(dim=0).nonzero().squeeze(1)
            source = int(heard[torch.randint(len(heard), (), generator=generator)])
            elimination.remove(torch.tensor([source]))
            assert size - parameter_count(elimination.result()) == savings[source]

    def test_a_column_that_one_neuron_hears_counts_for_its_whole_block(self):
        """The outputs hear a of (a, b), layer 2 hears b: both blocks are two columns wide."""
        network = compact([2, 2, 1, 1], [(1, 0), (2, 1), (3, 1), (3, 2)])
        with torch.no_grad():
            network.block(2, 1).weight[:, 0] = 0
            network.block(3, 1).weight[:, 1] = 0
        direct = network.to_direct()
        elimination = Elimination(direct, X[:, :2])
        assert elimination.parameters == parameter_count(direct) == 6 + 3 + 4
        assert parameter_count(cut_to(direct, X[:, :2], 12)) <= 12


class TestOrder:
    def test_a_duplicate_costs_nothing_and_goes_first(self):
        network = compact([4, 6, 3], SKIPPED)
        with torch.no_grad():
            network.block(1, 0).weight[5] = 2 * network.block(1, 0).weight[2]
            network.block(1, 0).bias[5] = 2 * network.block(1, 0).bias[2]
        direct = network.to_direct()
        costs = Elimination(direct, X).costs()[5:]
        assert set(costs.argsort()[:2].tolist()) == {2, 5}
        assert costs[[2, 5]].max() < 1e-4 * costs[[0, 1, 3, 4]].min()
        for smaller in (eliminated(direct, X, 1), cut_to(direct, X, parameter_count(direct) - 1)):
            assert rebuilt(smaller).widths == (4, 5, 3)
            torch.testing.assert_close(rebuilt(smaller)(X), network(X), rtol=1e-4, atol=1e-4)

    def test_useless_inputs_go_first(self):
        network = compact([4, 6, 3], SKIPPED)
        with torch.no_grad():
            for block in (network.block(1, 0), network.block(2, 0)):
                block.weight[:, [1, 3]] *= 1e-4
        direct = network.to_direct()
        small = cut_to(direct, X, parameter_count(direct) - 2 * (6 + 3))
        assert is_read(small).tolist() == [True, False, True, False]
        torch.testing.assert_close(rebuilt(small)(X), network(X), rtol=1e-2, atol=1e-2)

    def test_a_skip_that_carries_nothing_goes_as_a_block(self):
        network = compact([4, 5, 4, 3], ALL, activation="tanh")
        with torch.no_grad():
            network.block(3, 0).weight.mul_(1e-5)
        direct = network.to_direct()
        rate, layer, sources = Elimination(direct, X).cheapest_block()
        assert (layer, sources.tolist()) == (2, [0, 1, 2, 3])
        assert rate < 1e-8
        small = rebuilt(cut_to(direct, X, parameter_count(direct) - 1))
        assert small.connections == ((1, 0), (2, 0), (2, 1), (3, 1), (3, 2))
        torch.testing.assert_close(small(X), network(X), rtol=1e-3, atol=1e-3)

    def test_a_skip_that_other_signs_make_needless_goes_as_a_block(self):
        """v max(h, 0) = v h + v max(−h, 0): with the signs of some neurons changed, a skip."""
        network = compact([4, 5, 3], [(1, 0), (2, 1)])
        flipped = compact([4, 5, 3], SKIPPED)
        incoming, outgoing = network.block(1, 0), network.block(2, 1)
        sign = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0], dtype=DOUBLE)
        gone = sign < 0
        with torch.no_grad():
            flipped.block(1, 0).weight.copy_(sign[:, None] * incoming.weight)
            flipped.block(1, 0).bias.copy_(sign * incoming.bias)
            flipped.block(2, 1).weight.copy_(outgoing.weight)
            linear = outgoing.weight[:, gone] @ incoming.weight[gone]
            flipped.block(2, 0).weight.copy_(linear)
            constant = outgoing.weight[:, gone] @ incoming.bias[gone]
            flipped.block(2, 0).bias.copy_(outgoing.bias + constant)
        torch.testing.assert_close(flipped(X), network(X))
        direct = flipped.to_direct()
        small = rebuilt(cut_to(direct, X, parameter_count(direct) - 1))
        assert small.connections == ((1, 0), (2, 1))
        assert small.widths == (4, 5, 3)
        torch.testing.assert_close(small(X), network(X), rtol=1e-4, atol=1e-4)


class TestBudget:
    @settings(max_examples=120, deadline=None)
    @given(
        widths=st.lists(st.integers(1, 6), min_size=2, max_size=5),
        dead=st.sampled_from([0.0, 0.3, 0.6]),
        share=st.floats(0.0, 1.1),
        seed=st.integers(0, 10_000),
    )
    def test_is_kept_for_any_network(self, widths, dead, share, seed):
        direct = direct_space(randomised(SpectralNetwork(widths, dtype=DOUBLE), seed, dead))
        x = torch.randn(60, widths[0], dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))
        exact = parameter_count(simplified(direct))
        budget = max(2 * widths[-1], round(share * exact))
        small = cut_to(direct, x, budget)
        assert parameter_count(small) <= min(budget, exact)
        assert is_read(small).any() or not is_read(simplified(direct)).any()
        assert torch.isfinite(small.weights).all()
        if budget >= exact:
            assert torch.equal(small.weights, simplified(direct).weights)

    def test_one_input_is_left_where_a_chain_is_too_long(self):
        """x → h → y has no skip; two parameters are enough for the line through its outputs."""
        direct = compact([1, 1, 1], [(1, 0), (2, 1)], activation="tanh").to_direct()
        x = X[:, :1]
        small = cut_to(direct, x, 2)
        line = torch.cat([x, torch.ones_like(x)], dim=1)
        fit = torch.linalg.lstsq(line, rebuilt(direct)(x).detach()).solution
        assert parameter_count(small) == 2
        torch.testing.assert_close(torch.stack([small.weights[0, 0], small.bias[0]]), fit[:, 0])

    def test_too_small_a_one_leaves_as_little_as_there_can_be(self):
        direct = compact([4, 6, 3], SKIPPED).to_direct()
        small = rebuilt(cut_to(direct, X, 1))
        assert (small.widths, small.inputs_read) == ((4, 3), 1)

    def test_signs_change_once_a_block_is_gone(self):
        """One hidden layer written as two, its neurons the wrong way round: 49 numbers of 71.

        max(h, 0) = h + max(−h, 0), and the skip connection has the sum of the h. Neurons of the
        second layer may turn when they no longer hear the first.
        """
        direct = compact([4, 3, 2, 4], ALL).to_direct()
        weights, bias, hidden, outputs = direct.weights, direct.bias, slice(5), slice(5, None)
        weights[3:5, 4:7] *= 1e-4  # what the second layer hears of the first
        weights[outputs, :4] = -weights[outputs, 4:] @ weights[hidden, :4]
        bias[outputs] = -weights[outputs, 4:] @ bias[hidden]
        small = cut_to(direct, X, 55)
        assert (parameter_count(direct), parameter_count(small)) == (71, 49)
        assert not small.weights[outputs, :4].any()
        torch.testing.assert_close(rebuilt(small)(X), rebuilt(direct)(X), rtol=1e-2, atol=1e-2)
