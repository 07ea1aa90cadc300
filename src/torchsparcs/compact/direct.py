"""A network in direct space, neuron by neuron, and rewritings that keep its function.

Hidden neurons are numbered in an order in which signals can flow. :func:`direct_space` comes from a
spectral network; nothing after it knows of spectra.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import torch
from torch import Tensor, nn

from torchsparcs.spectral import equations as spectral
from torchsparcs.spectral.activations import Activation, odd_slope, resolve_activation
from torchsparcs.spectral.network import SpectralNetwork


@dataclass(frozen=True)
class DirectSpace:
    """I inputs, H hidden neurons and O outputs, with a weight for every connection.

    Attributes:
        weights: (H + O, I + H); row: target, a hidden neuron or an output; column: source, an
            input or a hidden neuron. A hidden neuron hears only hidden neurons of lower layers.
        bias: (H + O,)
        layers: (H,), the hidden layer of each neuron, 1, 2, .., in ascending order.
        activation: its name, or the function itself where it has none.
        dtype: what the activation computes in; float64 where it can.
    """

    weights: Tensor
    bias: Tensor
    layers: Tensor
    activation: str | Activation
    dtype: torch.dtype = torch.float64

    @property
    def hidden(self) -> int:
        return len(self.layers)

    @property
    def inputs(self) -> int:
        return self.weights.shape[1] - self.hidden

    @property
    def outputs(self) -> int:
        return self.weights.shape[0] - self.hidden

    def evaluate(self, pre: Tensor) -> Tensor:
        """Apply f in the precision it was made for; it may have parameters of its own."""
        function = resolve_activation(self.activation)[1]
        return function(pre.to(self.dtype)).to(pre.dtype)

    @property
    def outgoing(self) -> Tensor:
        """The weights from each hidden neuron, (H + O, H)."""
        return self.weights[:, self.inputs :]


def direct_space(network: SpectralNetwork) -> DirectSpace:
    """Every block W_ij of ``network`` in float64, its bias neuron's column taken apart.

    Where f(h) = κh + f(−h), and κ (L_{k−1} − L_k) is one for all that a neuron of layer k hears,
    z_k = f(−pre_k): it comes out with the other sign and without a skip connection around it.
    """
    if network.update != "feedforward":
        raise ValueError(
            "Expected a network with update='feedforward': only that rule is an ordinary "
            f"feed-forward network. Got update={network.update!r}."
        )
    transfers = [t.detach().double() for t in network.transfers]
    eigenvalues = [e.detach().double() for e in network.eigenvalues]
    last, like, inputs = len(transfers), transfers[0], network.widths[0]
    hidden = sum(network.widths[1:-1])
    plain = _plain_neurons(network, transfers, eigenvalues)
    weights = like.new_zeros(hidden + network.widths[-1], inputs + hidden)
    bias = like.new_zeros(len(weights))
    starts = [0, *accumulate(network.widths[1:])]
    for target in range(1, last + 1):
        rows = slice(starts[target - 1], starts[target])
        head = spectral.adjacent_block(
            transfers[target - 1], eigenvalues[target - 1], eigenvalues[target]
        )
        if target < last:
            head[plain[target - 1]] *= -1
        blocks = spectral.unrolled(head, transfers, target - 1, 0, plain=plain)
        for source, block in zip(range(target - 1, -1, -1), blocks, strict=True):
            if source > 0:
                start = inputs + starts[source - 1]
                weights[rows, start : start + block.shape[1]] = block
            else:
                weights[rows, :inputs] = block[:, :inputs]
                bias[rows] = block[:, -1] if network.bias else 0.0
    return DirectSpace(
        weights=weights,
        bias=bias,
        layers=layer_labels(network.widths, like.device),
        activation=network.named_activation,
        dtype=torch.float64 if network.has_named_activation else network.output_eigenvalues.dtype,
    )


def _plain_neurons(
    network: SpectralNetwork, transfers: list[Tensor], eigenvalues: list[Tensor]
) -> list[Tensor]:
    """The neurons of each hidden layer whose z is f(−pre) up to rounding, (N_k,) bool each."""
    activation = network.activation
    is_known = network.has_named_activation or (
        isinstance(activation, nn.Module)
        and not any(True for _ in chain(activation.parameters(), activation.buffers()))
    )
    kappa = odd_slope(activation) if is_known else None
    rounding = 4 * torch.finfo(network.output_eigenvalues.dtype).eps
    plain = []
    for transfer, source, target in zip(
        transfers[:-1], eigenvalues[:-2], eigenvalues[1:-1], strict=True
    ):
        if kappa is None or not (target != 0).any():
            plain.append(torch.zeros_like(target, dtype=torch.bool))
            continue
        left = kappa * (source - target[:, None]) - 1
        plain.append(((left.abs() <= rounding) | (transfer == 0)).all(dim=1) & (target != 0))
    return plain


def layer_labels(widths: Sequence[int], device: torch.device) -> Tensor:
    """The hidden layer of each hidden neuron, 1, 1, .., 2, .., (H,)."""
    sizes = torch.tensor(widths[1:-1], dtype=torch.long, device=device)
    return torch.arange(1, len(sizes) + 1, device=device).repeat_interleave(sizes)


def keep_neurons(direct: DirectSpace, keep: Tensor) -> DirectSpace:
    """Cut out the rows and columns of all hidden neurons but those in ``keep``, (H,) bool."""
    if keep.all():
        return direct
    rows = torch.cat([keep, keep.new_ones(direct.outputs)])
    columns = torch.cat([keep.new_ones(direct.inputs), keep])
    return replace(
        direct,
        weights=direct.weights[rows][:, columns],
        bias=direct.bias[rows],
        layers=direct.layers[keep],
    )


def simplified(direct: DirectSpace) -> DirectSpace:
    """Remove neurons and layers by all exact rules until none applies; the function stays."""
    while True:
        before = direct.hidden
        direct = without_constants(without_unused(direct))
        if direct.hidden == before:
            return hoisted(direct)


def without_constants(direct: DirectSpace) -> DirectSpace:
    """Remove neurons without input, which are constants, and add them to the biases they reach."""
    folded = fold_constants(direct)
    return keep_neurons(folded, (folded.weights[: folded.hidden] != 0).any(dim=1))


def fold_constants(direct: DirectSpace) -> DirectSpace:
    """Add neurons without input, the constants f(b), to the biases they reach.

    They stay behind, unused; so do those that hear nothing but constants.
    """
    while True:
        hears, outgoing = direct.weights[: direct.hidden], direct.outgoing
        constant = ~hears.any(dim=1) & outgoing.any(dim=0)
        if not constant.any():
            return direct
        value = torch.where(constant, direct.evaluate(direct.bias[: direct.hidden]), 0.0)
        bias = direct.bias + outgoing @ value
        weights = direct.weights.clone()
        weights[:, direct.inputs :][:, constant] = 0
        direct = replace(direct, weights=weights, bias=bias)


def without_unused(direct: DirectSpace) -> DirectSpace:
    """Remove neurons from which no path leads to an output."""
    return keep_neurons(direct, is_used(direct))


def is_used(direct: DirectSpace) -> Tensor:
    """Whether a path leads from each hidden neuron to an output, (H,) bool."""
    connected = direct.outgoing != 0
    used = torch.zeros(direct.hidden, dtype=torch.bool, device=connected.device)
    outputs = torch.ones(direct.outputs, dtype=torch.bool, device=connected.device)
    while True:
        heard = connected[torch.cat([used, outputs])].any(dim=0)
        if torch.equal(heard, used):
            return used
        used = heard


def hoisted(direct: DirectSpace) -> DirectSpace:
    """Move each neuron to the lowest layer its sources allow, if that makes the network smaller.

    A neuron of layer 2 that hears only the inputs belongs in layer 1.
    """
    if not direct.hidden or direct.layers[0] == direct.layers[-1]:
        return replace(direct, layers=torch.ones_like(direct.layers))
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


def is_read(direct: DirectSpace) -> Tensor:
    """Whether each input is read by any neuron or output, (I,) bool."""
    return (direct.weights[:, : direct.inputs] != 0).any(dim=0)


def is_connected(direct: DirectSpace) -> bool:
    """Whether each layer hears something."""
    return all(bool(direct.weights[rows].any()) for rows in layer_slices(direct)[0])


def parameter_count(direct: DirectSpace) -> int:
    """Count the weights of connected blocks from inputs that are read, and the biases."""
    biases = [direct.bias[rows] for rows in layer_slices(direct)[0]]
    read = int(is_read(direct).sum())
    weights = sum(
        len(block) * (read if source == 0 else block.shape[1])
        for (_, source), block in connected_blocks(direct).items()
    )
    return weights + sum(bias.numel() for bias in biases if bias.any())


def connection_count(direct: DirectSpace) -> int:
    """Count the weights and biases that are not zero."""
    return int(direct.weights.count_nonzero() + direct.bias.count_nonzero())


def activities(direct: DirectSpace, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Activities for each row, (n, I + 1 + H), a constant 1 after the inputs; and E[f'²], (H,)."""
    sources = [inputs, torch.ones_like(inputs[:, :1])]
    slopes = []
    rows_of, columns_of = layer_slices(direct)
    for rows, columns in zip(rows_of[:-1], columns_of[:-1], strict=True):
        heard = torch.cat([sources[0], *sources[2:]], dim=1)
        pre = heard @ direct.weights[rows, : columns.stop].T + direct.bias[rows]
        pre = pre.detach().requires_grad_()
        with torch.enable_grad():
            activity = direct.evaluate(pre)
            (slope,) = torch.autograd.grad(activity.sum(), pre)
        sources.append(activity.detach())
        slopes.append(slope.square().mean(dim=0))
    return torch.cat(sources, dim=1), torch.cat(slopes) if slopes else inputs.new_empty(0)


def with_bias(direct: DirectSpace) -> Tensor:
    """The weights with the bias as the column of a constant source after the inputs, (H + O, S)."""
    left, right = direct.weights[:, : direct.inputs], direct.outgoing
    return torch.cat([left, direct.bias[:, None], right], dim=1)


def from_biased(direct: DirectSpace, weights: Tensor) -> DirectSpace:
    """``direct`` with other weights and biases, as :func:`with_bias` gives them."""
    n = direct.inputs
    joined = torch.cat([weights[:, :n], weights[:, n + 1 :]], dim=1)
    return replace(direct, weights=joined, bias=weights[:, n].clone())
