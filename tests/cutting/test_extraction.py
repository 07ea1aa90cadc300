"""Extraction keeps the function exactly and leaves nothing of the network that it does not need."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import randomised
from torch import nn
from widths import widths_strategy

from torchsparcs import CompactNetwork, SpectralNetwork, extract
from torchsparcs.compact.direct import (
    DirectSpace,
    connected_blocks,
    direct_space,
    hoisted,
    parameter_count,
    simplified,
    without_constants,
    without_unused,
)
from torchsparcs.spectral.activations import ACTIVATIONS

DOUBLE = torch.float64
NAMES = list(ACTIVATIONS)


def inputs(rows: int, width: int, dtype=DOUBLE) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(dtype)


@torch.no_grad()
def relative_gap(compact: CompactNetwork, network: nn.Module, x: torch.Tensor) -> float:
    """The largest difference over the largest number that is added up on the way.

    Large terms may cancel in the output itself, and rounding is relative to the terms.
    """
    met = [network(x)]
    hooks = [
        block.register_forward_hook(lambda module, args, output: met.append(output))
        for block in compact.blocks.values()
    ]
    gap = (compact(x) - met[0]).abs().max()
    for hook in hooks:
        hook.remove()
    scale = max(numbers.abs().max() for numbers in met)
    return 0.0 if gap == 0 else (gap / scale).item()


def direct(weights, bias, layers, activation="relu") -> DirectSpace:
    return DirectSpace(
        torch.tensor(weights, dtype=DOUBLE),
        torch.tensor(bias, dtype=DOUBLE),
        torch.tensor(layers, dtype=torch.long),
        activation,
    )


def computed(space: DirectSpace, x: torch.Tensor) -> torch.Tensor:
    """The function of ``space``, one neuron after the other."""
    signals = torch.cat([x, x.new_zeros(len(x), space.hidden)], dim=1)
    for neuron in range(space.hidden):
        pre = signals @ space.weights[neuron] + space.bias[neuron]
        signals[:, space.inputs + neuron] = space.evaluate(pre)
    return signals @ space.weights[space.hidden :].T + space.bias[space.hidden :]


def compacted(space: DirectSpace) -> CompactNetwork:
    return CompactNetwork.from_direct(space, maximal=None, dtype=DOUBLE)


class TestTheFunctionStays:
    @settings(max_examples=150, deadline=None)
    @given(
        widths=widths_strategy,
        activation=st.sampled_from(NAMES),
        bias=st.booleans(),
        train_input=st.booleans(),
        dead=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        seed=st.integers(0, 10_000),
        precision=st.sampled_from([(DOUBLE, 1e-12), (torch.float32, 1e-5)]),
    )
    def test_for_any_network(self, widths, activation, bias, train_input, dead, seed, precision):
        dtype, tolerance = precision
        network = SpectralNetwork(
            widths,
            activation=activation,
            bias=bias,
            train_input_eigenvalues=train_input,
            dtype=dtype,
        )
        compact = extract(randomised(network, seed, dead))
        assert relative_gap(compact, network, inputs(16, widths[0], dtype)) <= tolerance

    @pytest.mark.parametrize("activation", NAMES)
    @pytest.mark.parametrize("dead_layer", [0, 1, 2])
    @pytest.mark.parametrize("train_input", [True, False])
    def test_when_a_whole_layer_is_dead(self, activation, dead_layer, train_input):
        network = SpectralNetwork(
            [3, 5, 4, 6, 2],
            activation=activation,
            train_input_eigenvalues=train_input,
            dtype=DOUBLE,
        )
        randomised(network, 1, dead=0.3)
        nn.init.zeros_(network.hidden_eigenvalues[dead_layer])
        compact = extract(network)
        assert relative_gap(compact, network, inputs(16, 3)) <= 1e-12

    @settings(max_examples=150, deadline=None)
    @given(
        layer_widths=st.lists(st.integers(1, 3), min_size=1, max_size=4),
        activation=st.sampled_from(["tanh", "sigmoid"]),
        density=st.sampled_from([0.1, 0.3, 0.6]),
        seed=st.integers(0, 10_000),
    )
    def test_for_any_sparse_network_in_direct_space(self, layer_widths, activation, density, seed):
        generator = torch.Generator().manual_seed(seed)
        layers = torch.repeat_interleave(
            torch.arange(1, len(layer_widths) + 1), torch.tensor(layer_widths)
        )
        hidden = len(layers)
        shape = (hidden + 2, 2 + hidden)
        weights = torch.randn(shape, generator=generator, dtype=DOUBLE)
        weights *= torch.rand(shape, generator=generator) < density
        weights[:hidden, 2:] *= layers[:, None] > layers[None, :]
        bias = torch.randn(hidden + 2, generator=generator, dtype=DOUBLE)
        bias *= torch.rand(hidden + 2, generator=generator) < 0.5
        space = DirectSpace(weights, bias, layers, activation)

        small, x = simplified(space), inputs(8, 2)
        torch.testing.assert_close(computed(small, x), computed(space, x), rtol=0, atol=1e-12)
        torch.testing.assert_close(compacted(small)(x), computed(space, x), rtol=0, atol=1e-12)
        assert (small.weights[: small.hidden] != 0).any(dim=1).all()
        assert (small.outgoing != 0).any(dim=0).all()

    def test_in_float32_the_compact_network_is_float32(self):
        compact = extract(randomised(SpectralNetwork([3, 5, 2]), 0))
        assert {p.dtype for p in compact.parameters()} == {torch.float32}
        assert compact(torch.zeros(1, 3)).dtype == torch.float32

    @pytest.mark.parametrize("training", [True, False])
    def test_the_mode_is_kept(self, training):
        assert extract(SpectralNetwork([3, 5, 2]).train(training)).training is training


class TestNothingIsLeftOver:
    @pytest.mark.parametrize("activation", NAMES)
    @pytest.mark.parametrize("train_input", [True, False])
    @pytest.mark.parametrize("widths", [[4, 3], [4, 9, 3], [4, 9, 9, 9, 3]])
    def test_a_fresh_network_is_a_perceptron(self, widths, train_input, activation):
        network = SpectralNetwork(
            widths, activation=activation, train_input_eigenvalues=train_input, dtype=DOUBLE
        )
        compact = extract(network)
        assert compact.widths == (4, 3)
        assert compact.connections == ((1, 0),)
        assert relative_gap(compact, network, inputs(8, 4)) <= 1e-12

    @pytest.mark.parametrize("activation", NAMES)
    @pytest.mark.parametrize("recruited", [0, 1, 5, 12])
    def test_recruited_neurons_are_the_ones_that_stay(self, recruited, activation):
        network = randomised(SpectralNetwork([4, 12, 3], activation=activation), 0)
        network.hidden_eigenvalues[0].data[recruited:] = 0
        assert extract(network).widths == ((4, recruited, 3) if recruited else (4, 3))

    @pytest.mark.parametrize("activation", ["sigmoid", torch.cos])
    def test_constant_neurons_are_folded_into_biases(self, activation):
        """No bias, λ = (0, 0, 1): two neurons say f(0) for ever, on the output's account."""
        network = SpectralNetwork([2, 3, 2], activation=activation, bias=False, dtype=DOUBLE)
        network.hidden_eigenvalues[0].data[2] = 0.5
        compact = extract(network)
        assert compact.widths == (2, 1, 2)
        assert compact.biased == (2,)
        f_of_0 = 0.5 if activation == "sigmoid" else 1.0
        folded = network.weight_block(2, 1)[:, :2].sum(dim=1) * f_of_0
        torch.testing.assert_close(compact.block(2, 0).bias, folded)

    def test_a_constant_of_a_constant_is_folded_too(self):
        """b hears only a, and a hears nothing: y = x + 2 σ(3 σ(1) − 1)."""
        space = direct(
            [[0, 0, 0], [0, 3, 0], [1, 0, 2]], bias=[1, -1, 0], layers=[1, 2], activation="sigmoid"
        )
        small = simplified(space)
        assert small.hidden == 0
        inner = torch.sigmoid(torch.tensor(1.0, dtype=DOUBLE))
        assert small.bias.item() == pytest.approx(2 * torch.sigmoid(3 * inner - 1).item())

    def test_folding_is_not_disturbed_by_a_neuron_that_overflows_at_zero(self):
        """f = exp: the live neuron's f(b) is infinite, but at x = 799 it only says e."""
        space = direct(
            [[0, 0, 0], [-1, 0, 0], [0, 1, 1]],
            bias=[0, 800, 0],
            layers=[1, 1],
            activation=torch.exp,
        )
        x = torch.full((1, 1), 799.0, dtype=DOUBLE)
        torch.testing.assert_close(computed(without_constants(space), x), computed(space, x))

    def test_neurons_without_output_are_removed(self):
        """The first by its transfer, the second because its eigenvalue is the output's."""
        network = randomised(SpectralNetwork([4, 6, 3]), 0)
        network.output_eigenvalues.data.fill_(1.0)
        network.transfers[1].data[:, 0] = 0
        network.hidden_eigenvalues[0].data[1] = 1
        compact = extract(network)
        assert compact.widths == (4, 4, 3)
        torch.testing.assert_close(
            compact.block(1, 0).weight, network.weight_block(1, 0)[2:, :4], rtol=1e-5, atol=1e-6
        )

    def test_neurons_heard_only_by_unused_ones_are_removed(self):
        """a → b → nothing, and c → output."""
        space = direct(
            [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 5, 0]],
            bias=[0, 0, 0, 0],
            layers=[1, 1, 2],
        )
        assert without_unused(space).hidden == 1
        assert compacted(simplified(space)).widths == (1, 1, 1)

    def test_a_skip_of_zeros_vanishes(self):
        """Two neurons with the same φ₀ and opposite W₂₁: W₂₀ = −W₂₁ φ₀ = 0."""
        network = SpectralNetwork([2, 2, 1])
        network.transfers[0].data = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
        network.transfers[1].data = torch.tensor([[1.0, -1.0]])
        network.hidden_eigenvalues[0].data.fill_(0.5)
        compact = extract(network)
        assert compact.connections == ((1, 0), (2, 1))
        assert compact.biased == (1,)
        network.transfers[1].data[0, 1] = -2.0
        assert extract(network).connections == ((1, 0), (2, 0), (2, 1))


class TestHoisting:
    def test_a_neuron_that_hears_only_inputs_moves_to_the_first_layer(self):
        space = direct([[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6]], bias=[7, 8, 9], layers=[1, 2])
        moved = hoisted(space)
        assert moved.layers.tolist() == [1, 1]
        compact = compacted(moved)
        assert compact.widths == (2, 2, 1)
        assert compact.connections == ((1, 0), (2, 1))
        x = inputs(5, 2)
        torch.testing.assert_close(compact(x), computed(space, x))

    def test_neurons_are_sorted_with_their_weights(self):
        """x → a → b → d → y and x → c → y, where c comes down from layer 3 to 1, before b."""
        space = direct(
            [
                [1, 2, 3, 0, 0, 0, 0],
                [0, 0, 0, 4, 0, 0, 0],
                [5, 6, 7, 0, 0, 0, 0],
                [0, 0, 0, 0, 8, 0, 0],
                [0, 0, 0, 0, 0, 9, 1],
            ],
            bias=[0.1, 0.2, 0.3, 0.4, 0.5],
            layers=[1, 2, 3, 3],
            activation="tanh",
        )
        moved = hoisted(space)
        assert moved.layers.tolist() == [1, 1, 2, 3]
        assert moved.bias.tolist() == [0.1, 0.3, 0.2, 0.4, 0.5]
        x = inputs(5, 3)
        torch.testing.assert_close(computed(moved, x), computed(space, x))

    def test_it_is_left_out_where_it_would_add_parameters(self):
        """Moved, b would cost each of the two neurons that hear layer 1 one more weight."""
        a, b = [1, 0, 0, 0, 0], [2, 0, 0, 0, 0]
        c, d, output = [1, 1, 0, 0, 0], [1, 3, 0, 0, 0], [0, 1, 1, 1, 1]
        space = direct([a, b, c, d, output], bias=[0] * 5, layers=[1, 2, 2, 2])
        assert parameter_count(space) == 11
        assert hoisted(space).layers.tolist() == [1, 2, 2, 2]

    def test_the_count_is_that_of_the_network(self):
        space = simplified(direct_space(randomised(SpectralNetwork([3, 5, 4, 2]), 0, dead=0.4)))
        assert parameter_count(space) == compacted(space).size.parameters
        assert set(connected_blocks(space)) == set(compacted(space).connections)


class TestInsideALargerModule:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten())
            self.body = randomised(SpectralNetwork([8, 6, 8]), 0, dead=0.5)
            self.again = self.body
            self.heads = nn.ModuleDict(
                {
                    "plain": nn.Linear(8, 2),
                    "nested": nn.ModuleDict({"net": randomised(SpectralNetwork([8, 5, 2]), 1)}),
                }
            )

        def forward(self, images):
            x = self.again(self.body(self.features(images)))
            return self.heads["plain"](x) + self.heads["nested"]["net"](x)

    def test_every_network_is_replaced_and_the_rest_copied(self):
        model = self.Model()
        before = copy.deepcopy(model.state_dict())
        images = torch.randn(3, 1, 4, 4)
        expected = model(images)
        compact = extract(model)
        assert type(compact) is self.Model
        assert isinstance(compact.heads["nested"]["net"], CompactNetwork)
        assert not any(isinstance(part, SpectralNetwork) for part in compact.modules())
        torch.testing.assert_close(compact(images), expected, rtol=1e-5, atol=1e-5)
        assert isinstance(model.body, SpectralNetwork)
        assert all(map(torch.equal, model.state_dict().values(), before.values()))

    def test_a_shared_network_stays_shared(self):
        compact = extract(self.Model())
        assert isinstance(compact.body, CompactNetwork)
        assert compact.again is compact.body

    def test_the_copy_is_independent(self):
        model = self.Model()
        images = torch.randn(3, 1, 4, 4)
        expected = model(images)
        compact = extract(model)
        originals = {p.data_ptr() for p in model.parameters()}
        assert not originals & {p.data_ptr() for p in compact.parameters()}
        for parameter in compact.parameters():
            nn.init.zeros_(parameter)
        assert torch.equal(model(images), expected)

    def test_an_activation_with_parameters_is_copied_too(self):
        network = randomised(SpectralNetwork([3, 5, 2], activation=nn.PReLU()), 0)
        slope = network.activation.weight.item()
        compact = extract(network)
        nn.init.ones_(compact.activation.weight)
        compact.eval()
        assert network.activation.weight.item() == slope != 1
        assert network.activation.training

    def test_a_module_without_a_spectral_network_is_refused(self):
        with pytest.raises(ValueError, match=r"SpectralNetwork inside\. Got Linear"):
            extract(nn.Linear(3, 2))


MEMORY = """
import re, torch
from torchsparcs import SpectralNetwork, extract
network = SpectralNetwork([1024, 2752, 1024])
torch.nn.init.normal_(network.hidden_eigenvalues[0])
extract(SpectralNetwork([3, 4, 2]))
own = lambda: open("/proc/self/status").read()  # a peak of rusage is the parent's to begin with
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", own())[1])
before = peak()
extract(network)
print((peak() - before) / sum(4 * p.numel() for p in network.parameters()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_the_memory_of_a_wide_block_is_some_copies_of_it():
    """About 11 times its own; it once took twice that."""
    said = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, check=True)
    assert 2 < float(said.stdout) < 16


class TestKeep:
    @pytest.mark.parametrize("activation", ["relu", "sigmoid"])
    def test_cuts_out_exactly_the_others(self, activation):
        network = SpectralNetwork([3, 4, 5, 2], activation=activation, dtype=DOUBLE)
        space = direct_space(randomised(network, 0))
        keep = [torch.tensor([1, 0, 1, 1]).bool(), torch.tensor([0, 1, 1, 0, 1]).bool()]
        compact = extract(network, keep=keep)
        assert compact.widths == (3, 3, 3, 2)
        weights = space.weights.clone()
        weights[:, 3:] *= torch.cat(keep)
        x = inputs(6, 3)
        torch.testing.assert_close(compact(x), computed(replace(space, weights=weights), x))
        assert not torch.allclose(compact(x), network(x))

    def test_all_and_none(self):
        network = randomised(SpectralNetwork([3, 4, 2], dtype=DOUBLE), 0)
        x = inputs(6, 3)
        everything = extract(network, keep=[torch.ones(4, dtype=torch.bool)])
        torch.testing.assert_close(everything(x), network(x))
        assert extract(network, keep=[torch.zeros(4, dtype=torch.bool)]).widths == (3, 2)
        assert extract(SpectralNetwork([3, 2]), keep=[]).widths == (3, 2)

    @pytest.mark.parametrize(
        ("lengths", "got"), [((), r"\[\]"), ((4,), r"\[\(\(4,\)"), ((5, 4), r"\[\(\(5,\)")]
    )
    def test_wrong_masks_are_refused(self, lengths, got):
        masks = [torch.ones(n, dtype=torch.bool) for n in lengths]
        message = rf"boolean masks of \[4, 5\], one for each hidden layer\. Got {got}"
        with pytest.raises(ValueError, match=message):
            extract(SpectralNetwork([3, 4, 5, 2]), keep=masks)

    @pytest.mark.parametrize(
        "mask",
        [torch.tensor([0, 1, 3, 2]), torch.ones(4, 1).bool()],
        ids=["indices", "a column"],
    )
    def test_masks_that_are_not_boolean_vectors_are_refused(self, mask):
        with pytest.raises(ValueError, match="mask"):
            extract(SpectralNetwork([3, 4, 2]), keep=[mask])

    def test_inside_a_model_it_needs_one_network(self):
        network, body = randomised(SpectralNetwork([3, 4, 2]), 0), nn.Linear(3, 3)
        keep = [torch.tensor([1, 0, 1, 0]).bool()]
        cut, x = extract(nn.Sequential(body, network), keep=keep), torch.randn(6, 3)
        torch.testing.assert_close(cut(x), extract(network, keep=keep)(body(x)))
        several = nn.Sequential(network, SpectralNetwork([2, 4, 2]))
        with pytest.raises(ValueError, match="Got SpectralNetwork, SpectralNetwork in a"):
            extract(several, keep=keep)


def test_the_iterated_rule_is_refused():
    with pytest.raises(ValueError, match=r"update='feedforward'.*Got update='iterated'"):
        extract(SpectralNetwork([3, 4, 2], update="iterated"))


class TestActivationsThatAreNotNamed:
    @pytest.mark.parametrize(
        "activation", [torch.cos, lambda x: x.abs(), nn.Tanh(), nn.PReLU(), nn.PReLU(init=-0.5)]
    )
    @pytest.mark.parametrize("dead", [0.0, 0.5])
    def test_they_are_taken_over(self, activation, dead):
        network = randomised(SpectralNetwork([3, 6, 4, 2], activation=activation), 0, dead)
        compact = extract(network)
        assert relative_gap(compact, network, inputs(8, 3, torch.float32)) <= 1e-5

    def test_a_module_is_trained_with_the_compact_network(self):
        compact = extract(randomised(SpectralNetwork([3, 6, 2], activation=nn.PReLU()), 0))
        compact(torch.randn(8, 3)).sum().backward()
        assert compact.activation.weight.grad is not None


class TestCompactNetwork:
    @pytest.fixture
    def compact(self) -> CompactNetwork:
        return extract(randomised(SpectralNetwork([3, 8, 5, 2]), 0, dead=0.3))

    def test_it_is_made_of_linear_blocks_only(self, compact):
        leaves = [part for part in compact.modules() if not list(part.children())]
        assert {type(part) for part in leaves} == {nn.Linear}
        held = [p for part in leaves for p in part.parameters()]
        assert len(held) == len(list(compact.parameters()))
        assert not list(compact.buffers())

    def test_torch_export_with_a_dynamic_batch(self, compact):
        shapes = ({0: torch.export.Dim("batch", min=1, max=4096)},)
        program = torch.export.export(compact, (torch.randn(8, 3),), dynamic_shapes=shapes)
        for batch in (1, 7, 500):
            x = torch.randn(batch, 3)
            torch.testing.assert_close(program.module()(x), compact(x))

    @pytest.mark.parametrize(
        "copied", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))]
    )
    def test_copies_are_equal_and_independent(self, compact, copied):
        x = torch.randn(6, 3)
        expected = compact(x)
        twin = copied(compact)
        assert torch.equal(twin(x), expected)
        assert repr(twin) == repr(compact)
        for parameter in twin.parameters():
            nn.init.zeros_(parameter)
        assert torch.equal(compact(x), expected)

    def test_state_dict_round_trip_is_strict(self, compact):
        twin = CompactNetwork(compact.widths, compact.connections, biased=compact.biased)
        twin.load_state_dict(compact.state_dict(), strict=True)
        x = torch.randn(6, 3)
        assert torch.equal(twin(x), compact(x))

    def test_it_can_be_tuned_further(self, compact):
        x = inputs(64, 3, torch.float32)
        y = torch.stack([x.abs().sum(dim=1), x.prod(dim=1)], dim=1)
        optimizer = torch.optim.Adam(compact.parameters(), lr=1e-2)

        def loss():
            return (compact(x) - y).square().mean()

        before = loss().item()
        for _ in range(100):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        assert loss().item() < 0.3 * before

    @pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 4, 3), (0, 3), (5, 1, 2, 3)])
    def test_any_leading_dimensions(self, compact, shape):
        x = torch.randn(shape)
        flat = compact(x.reshape(-1, 3))
        torch.testing.assert_close(compact(x), flat.reshape(*shape[:-1], 2))

    @pytest.mark.parametrize("shape", [(5, 4), ()])
    def test_a_wrong_input_names_both_sizes(self, compact, shape):
        with pytest.raises(ValueError, match=r"last dimension is 3\. Got shape \("):
            compact(torch.zeros(shape))

    def test_a_constant_network_keeps_its_interface(self):
        network = SpectralNetwork([3, 4, 2])
        nn.init.zeros_(network.output_eigenvalues)
        compact = extract(network)
        assert compact.widths == (3, 2)
        assert torch.equal(compact(torch.randn(5, 3)), torch.zeros(5, 2))

    def test_a_constant_network_that_says_something(self):
        space = direct([[0.0, 0, 0], [0, 0, 2]], bias=[1, 4], layers=[1], activation="identity")
        compact = compacted(simplified(space))
        assert compact.widths == (2, 1)
        assert compact(torch.randn(3, 2, dtype=DOUBLE)).tolist() == [[6.0]] * 3

    def test_worked_out_by_hand(self):
        """y = −1·relu(2x + 1) + 3x + ½ at x = 2 and x = −2."""
        compact = CompactNetwork([1, 1, 1], [(1, 0), (2, 1), (2, 0)])
        for (target, source), weight in {(1, 0): 2.0, (2, 1): -1.0, (2, 0): 3.0}.items():
            nn.init.constant_(compact.block(target, source).weight, weight)
        nn.init.constant_(compact.block(1, 0).bias, 1.0)
        nn.init.constant_(compact.block(2, 0).bias, 0.5)
        assert compact(torch.tensor([[2.0], [-2.0]])).flatten().tolist() == [1.5, -5.5]

    def test_in_direct_space_it_is_the_same_function(self, compact):
        x = inputs(6, 3, torch.float32)
        torch.testing.assert_close(computed(compact.to_direct(), x.double()).float(), compact(x))

    def test_a_layer_has_its_bias_once(self):
        compact = CompactNetwork([3, 4, 4, 2], [(1, 0), (2, 1), (3, 0), (3, 1), (3, 2)], biased=[3])
        biases = [name for name, block in compact.blocks.items() if block.bias is not None]
        assert biases == ["3_0"]

    @pytest.mark.parametrize(
        ("widths", "connections", "architecture"),
        [
            ([64, 10], [(1, 0)], "64 → 10"),
            ([64, 14, 10], [(1, 0), (2, 1)], "64 → 14 → 10"),
            ([64, 14, 10], [(1, 0), (2, 0), (2, 1)], "64 → 14 → 10, skip 64 → 10"),
            (
                [6, 5, 4, 3],
                [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2)],
                "6 → 5 → 4 → 3, skip 6 → 4, 6 → 3, 5 → 3, without 5 → 4",
            ),
        ],
    )
    def test_architecture_in_words(self, widths, connections, architecture):
        assert CompactNetwork(widths, connections).architecture == architecture

    def test_description_and_repr(self):
        network = randomised(SpectralNetwork([3, 40, 2]), 0)
        network.hidden_eigenvalues[0].data[4:] = 0
        compact = extract(network)
        # 4·3 + 4 + 2·3 + 2 + 2·4 parameters; 40·4 + 40 + 2·40 + 2 spectral ones
        text = (
            "3 → 4 → 2, skip 3 → 2: 32 parameters, 26 multiply-adds; "
            "cut from 3 → 40 → 2: 282 parameters, 200 multiply-adds"
        )
        assert compact.describe() == text
        assert repr(compact) == f"CompactNetwork({text})"
        assert compact.size == ((3, 4, 2), 32, 26)
        assert compact.size.parameters == sum(p.numel() for p in compact.parameters())

    @pytest.mark.parametrize(
        ("widths", "connections", "message"),
        [
            ([3, 4, 2], [(1, 0), (2, 2)], r"source < target <= 2\. Got \(2, 2\)"),
            ([3, 4, 2], [(1, 0), (3, 0)], r"Got \(3, 0\)"),
            ([3, 4, 2], [(0, 1)], r"Got \(0, 1\)"),
            ([3, 4, 2], [(1, -1)], r"Got \(1, -1\)"),
            ([3, 4, 2], [(1, 0)], r"every layer to be connected\. Layer 2 is not"),
            ([3, 4, 2], [(2, 0), (2, 1)], r"every layer to be connected\. Layer 1 is not"),
            ([3, 2], [(1, 0), (1, 0)], r"\(1, 0\)"),
            ([3, 0, 2], [(1, 0), (2, 1)], "positive integers"),
            ([3, -1, 2], [(1, 0), (2, 1)], "positive integers"),
            ([3], [], "at least two widths"),
        ],
    )
    def test_bad_layers_are_refused(self, widths, connections, message):
        with pytest.raises(ValueError, match=message):
            CompactNetwork(widths, connections)

    def test_other_bad_arguments_are_refused(self):
        with pytest.raises(ValueError, match="Got 'swish'"):
            CompactNetwork([3, 2], [(1, 0)], activation="swish")
        with pytest.raises(ValueError, match="biased"):
            CompactNetwork([3, 2], [(1, 0)], biased=[7])
