"""A network in direct space, neuron by neuron, and rewritings that keep its function.

Hidden neurons are numbered in an order in which signals can flow; nothing is known of spectra here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchsparcs import spectral
from torchsparcs.network import SpectralNetwork


@dataclass(frozen=True)
class DirectSpace:
    """I inputs, H hidden neurons and O outputs, with a weight for every connection.

    Attributes:
        weights: (H + O, I + H); row: target, a hidden neuron or an output; column: source, an
            input or a hidden neuron. A hidden neuron hears only hidden neurons of lower layers.
        bias: (H + O,)
        layers: (H,), the hidden layer of each neuron, 1, 2, .., in ascending order.
    """

    weights: Tensor
    bias: Tensor
    layers: Tensor
    activation: str | Callable[[Tensor], Tensor]
    function: Callable[[Tensor], Tensor]

    @property
    def hidden(self) -> int:
        return len(self.layers)

    @property
    def inputs(self) -> int:
        return self.weights.shape[1] - self.hidden

    @property
    def outputs(self) -> int:
        return self.weights.shape[0] - self.hidden

    @property
    def outgoing(self) -> Tensor:
        """(H + O, H): what each hidden neuron sends."""
        return self.weights[:, self.inputs :]


def direct_space(network: SpectralNetwork) -> DirectSpace:
    """Every block W_ij of ``network`` in float64, its bias neuron's column taken apart."""
    if network.update != "feedforward":
        raise ValueError(
            "Expected a network with update='feedforward': only that rule is an ordinary "
            f"feed-forward network. Got update={network.update!r}."
        )
    transfers = [t.detach().double() for t in network.transfers]
    eigenvalues = [e.detach().double() for e in network.eigenvalues]
    last, like = len(transfers), transfers[0]
    columns = [network.widths[0] + network.bias, *network.widths[1:-1]]
    rows = []
    for target in range(1, last + 1):
        head = spectral.adjacent_block(
            transfers[target - 1], eigenvalues[target - 1], eigenvalues[target]
        )
        blocks = list(spectral.unrolled(head, transfers, target - 1, 0))[::-1]
        silent = like.new_zeros(network.widths[target], sum(columns[target:]))
        rows.append(torch.cat([*blocks, silent], dim=1))
    weights = torch.cat(rows)
    inputs = network.widths[0]
    bias = weights[:, inputs] if network.bias else like.new_zeros(len(weights))
    return DirectSpace(
        weights=torch.cat([weights[:, :inputs], weights[:, columns[0] :]], dim=1),
        bias=bias.clone(),
        layers=torch.cat(
            [torch.full((n,), layer + 1) for layer, n in enumerate(network.widths[1:-1])]
            or [torch.empty(0, dtype=torch.long)]
        ).to(like.device),
        activation=network.activation_name if network.has_named_activation else network.activation,
        function=network.activation,
    )


def keep_neurons(direct: DirectSpace, keep: Tensor) -> DirectSpace:
    """Only the hidden neurons where ``keep``, (H,) bool; their rows and columns are cut out."""
    rows = torch.cat([keep, keep.new_ones(direct.outputs)])
    columns = torch.cat([keep.new_ones(direct.inputs), keep])
    return replace(
        direct,
        weights=direct.weights[rows][:, columns],
        bias=direct.bias[rows],
        layers=direct.layers[keep],
    )


def simplified(direct: DirectSpace) -> DirectSpace:
    """The same function with fewer neurons and layers: all exact rules, until none applies."""
    while True:
        before = direct.hidden
        direct = without_constants(without_unused(direct))
        if direct.hidden == before:
            return hoisted(direct)


def without_constants(direct: DirectSpace) -> DirectSpace:
    """Neurons without input are constants f(b): fold them into the biases they reach."""
    constant = (direct.weights[: direct.hidden] == 0).all(dim=1)
    if not constant.any():
        return direct
    value = direct.function(direct.bias[: direct.hidden]) * constant
    folded = replace(direct, bias=direct.bias + direct.outgoing @ value)
    return keep_neurons(folded, ~constant)


def without_unused(direct: DirectSpace) -> DirectSpace:
    """Neurons that nothing listens to are dropped."""
    used = (direct.outgoing != 0).any(dim=0)
    return direct if used.all() else keep_neurons(direct, used)


def hoisted(direct: DirectSpace) -> DirectSpace:
    """Each neuron in the lowest layer its sources allow, if that makes the network smaller.

    A neuron of layer 2 that hears only the inputs belongs in layer 1.
    """
    hears = direct.weights[: direct.hidden, direct.inputs :] != 0
    depth = torch.ones_like(direct.layers)
    for _ in range(int(direct.layers.max()) if direct.hidden else 0):
        deepest_source = torch.where(hears, depth, 0).amax(dim=1)
        depth = deepest_source + 1
    order = torch.argsort(depth, stable=True)
    moved = _reordered(replace(direct, layers=depth), order)
    return min((moved, direct), key=parameter_count)


def _reordered(direct: DirectSpace, order: Tensor) -> DirectSpace:
    outputs = torch.arange(direct.outputs, device=order.device) + direct.hidden
    inputs = torch.arange(direct.inputs, device=order.device)
    rows, columns = torch.cat([order, outputs]), torch.cat([inputs, order + direct.inputs])
    return replace(
        direct,
        weights=direct.weights[rows][:, columns],
        bias=direct.bias[rows],
        layers=direct.layers[order],
    )


def layer_slices(direct: DirectSpace) -> tuple[list[slice], list[slice]]:
    """Rows of each layer 1.. and columns of each layer 0.., empty layers left out.

    The first list ends with the outputs, the second begins with the inputs.
    """
    counts = torch.unique_consecutive(direct.layers, return_counts=True)[1].tolist()
    rows, columns = [], [slice(0, direct.inputs)]
    start = 0
    for count in counts:
        rows.append(slice(start, start + count))
        columns.append(slice(direct.inputs + start, direct.inputs + start + count))
        start += count
    rows.append(slice(start, start + direct.outputs))
    return rows, columns


def connected_blocks(direct: DirectSpace) -> dict[tuple[int, int], Tensor]:
    """The blocks (target, source) that are not all zero, layers counted without the empty ones."""
    rows, columns = layer_slices(direct)
    blocks = {
        (target, source): direct.weights[rows[target - 1], columns[source]]
        for target in range(1, len(rows) + 1)
        for source in range(target)
    }
    return {pair: block for pair, block in blocks.items() if block.any()}


def parameter_count(direct: DirectSpace) -> int:
    """Weights of the connected blocks, and a bias for each layer that has one."""
    biases = [direct.bias[rows] for rows in layer_slices(direct)[0]]
    weights = sum(block.numel() for block in connected_blocks(direct).values())
    return weights + sum(bias.numel() for bias in biases if bias.any())
