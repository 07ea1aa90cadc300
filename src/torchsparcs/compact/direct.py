"""A network in direct space, neuron by neuron, and rewritings that keep its function.

Hidden neurons are numbered in an order in which signals can flow. :func:`direct_space` comes from a
spectral network; nothing after it knows of spectra.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchsparcs.spectral import equations as spectral
from torchsparcs.spectral.activations import Activation, resolve_activation
from torchsparcs.spectral.network import SpectralNetwork

FLIPPABLE = ("relu", "gelu", "silu")  # f(h) = h + f(−h)


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
        layers=layer_labels(network.widths, like.device),
        activation=network.named_activation,
        dtype=torch.float64 if network.has_named_activation else network.output_eigenvalues.dtype,
    )


def layer_labels(widths: Sequence[int], device: torch.device) -> Tensor:
    """The hidden layer of each hidden neuron, 1, 1, .., 2, .., (H,)."""
    sizes = torch.tensor(widths[1:-1], dtype=torch.long, device=device)
    return torch.arange(1, len(sizes) + 1, device=device).repeat_interleave(sizes)


def keep_neurons(direct: DirectSpace, keep: Tensor) -> DirectSpace:
    """Cut out the rows and columns of all hidden neurons but those in ``keep``, (H,) bool."""
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
    weights, bias = direct.weights.clone(), direct.bias.clone()
    outgoing = weights[:, direct.inputs :]
    while True:
        constant = (weights[: direct.hidden] == 0).all(dim=1) & (outgoing != 0).any(dim=0)
        if not constant.any():
            return replace(direct, weights=weights, bias=bias)
        value = torch.where(constant, direct.evaluate(bias[: direct.hidden]), 0.0)
        bias += outgoing @ value
        outgoing[:, constant] = 0


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


def reoriented(direct: DirectSpace, inputs: Tensor, target: int, source: int) -> DirectSpace:
    """Make the block (target, source) as small as flips of neurons can; the function stays.

    Where f(h) = h + f(−h), a neuron that hears ``source`` alone may hear its negative instead if
    its listeners take over its linear part: W_rj w_j is added to each of their rows. The flips
    minimise the mean square of what the block carries.
    """
    if direct.activation not in FLIPPABLE:
        return direct
    rows, columns = layer_slices(direct)
    cut, listeners = columns[source], rows[target - 1]
    elsewhere = direct.weights[: direct.hidden].clone()
    elsewhere[:, cut] = 0
    can_flip = (elsewhere == 0).all(dim=1) & (direct.outgoing[listeners] != 0).any(dim=0)
    neurons = can_flip.nonzero().squeeze(1)
    if not len(neurons):
        return direct
    signal = activities(direct, inputs)[0]
    signal = signal[:, cut] if source == 0 else signal[:, cut.start + 1 : cut.stop + 1]
    moments = signal.T @ signal / len(signal)
    incoming = direct.weights[neurons][:, cut]
    outgoing = direct.outgoing[listeners][:, neurons]
    block = direct.weights[listeners, cut]
    # ‖block + Σ_j flip_j v_j w_jᵀ‖² in the metric of the moments, a quadratic form in the flips
    quadratic = (outgoing.T @ outgoing) * (incoming @ moments @ incoming.T)
    linear = ((outgoing.T @ block @ moments) * incoming).sum(dim=1)
    flips = _best_flips(quadratic, linear)
    flipped = torch.zeros(direct.hidden, dtype=direct.weights.dtype, device=direct.weights.device)
    flipped[neurons] = flips
    taken_over = direct.outgoing * flipped  # (H + O, H)
    weights = direct.weights + taken_over @ direct.weights[: direct.hidden]
    bias = direct.bias + taken_over @ direct.bias[: direct.hidden]
    sign = torch.cat([1 - 2 * flipped, flipped.new_ones(direct.outputs)])
    return replace(direct, weights=weights * sign[:, None], bias=bias * sign)


def _best_flips(quadratic: Tensor, linear: Tensor) -> Tensor:
    """Minimise flipsᵀ Q flips + 2 linear · flips over {0, 1}, roughly: round, then flip one by one.

    The pseudo-inverse of the symmetric Q, not ``lstsq``: its default driver on a CPU pivots by
    memory that nobody has set, so equal calls round differently.
    """
    damped = quadratic + 1e-9 * quadratic.diagonal().diag_embed()
    flips = -(torch.linalg.pinv(damped, hermitian=True) @ linear).round().clamp(-1, 0)
    for _ in range(10 * len(flips)):
        # the change of the objective if one flip is undone or made
        change = (1 - 2 * flips) * 2 * (quadratic @ flips + linear) + quadratic.diagonal()
        best = change.argmin()
        if change[best] >= 0:
            break
        flips[best] = 1 - flips[best]
    return flips
