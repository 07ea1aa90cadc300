"""Compact networks: plain linear blocks and additions, loadable and exportable anywhere."""

import copy
import operator
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from torchsparcs.compact.direct import (
    DirectSpace,
    connected_blocks,
    is_read,
    layer_labels,
    layer_slices,
)
from torchsparcs.spectral.activations import Activation, HasActivation
from torchsparcs.spectral.network import Size, check_input, checked_widths


class CompactNetwork(nn.Module, HasActivation):
    """Layers of ``nn.Linear`` blocks, added up where several meet, and one activation.

    >>> network = CompactNetwork([64, 14, 10], [(1, 0), (2, 0), (2, 1)])
    >>> print(network.describe())
    64 → 14 → 10, skip 64 → 10: 1,700 parameters, 1,676 multiply-adds

    Args:
        widths: neurons per layer.
        connections: the pairs (target, source) of layers that are connected.
        reads: the inputs it reads, where the others do not matter; all by default.
        biased: the layers that have a bias; all but the input by default.
        maximal: the size of the network this one was extracted from, for :meth:`describe`.

    Shape:
        - input (..., widths[0]), output (..., widths[-1])
    """

    def __init__(
        self,
        widths: Sequence[int],
        connections: Sequence[tuple[int, int]],
        *,
        activation: str | Activation = "relu",
        reads: Sequence[int] | None = None,
        biased: Sequence[int] | None = None,
        maximal: Size | Sequence | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.widths = checked_widths(widths)
        self.reads = None if reads is None else _checked_reads(reads, self.widths[0])
        self._read: Tensor | None
        self.register_buffer("_read", None, persistent=False)
        if self.reads is not None:
            on_meta = device is not None and torch.device(device).type == "meta"
            self._read = torch.tensor(self.reads, device=None if on_meta else device)
        self.maximal = None if maximal is None else _checked_size(maximal)
        self.set_activation(activation)
        layers = range(1, len(widths))
        self.connections = tuple(sorted((t, s) for t, s in connections))
        self.biased = tuple(sorted(layers if biased is None else biased))
        for target, source in self.connections:
            if not 0 <= source < target < len(widths):
                raise ValueError(
                    f"Expected connections (target, source) between layers 0 <= source < target "
                    f"<= {len(widths) - 1}. Got {(target, source)}."
                )
        if len(set(self.connections)) < len(self.connections):
            raise ValueError(f"Expected each connection once. Got {list(connections)}.")
        if not set(self.biased) <= set(layers):
            raise ValueError(f"Expected biased layers among {[*layers]}. Got {list(self.biased)}.")
        for layer in layers:
            if all(target != layer for target, _ in self.connections):
                raise ValueError(f"Expected every layer to be connected. Layer {layer} is not.")
        sizes = (self.inputs_read, *self.widths[1:])
        self.blocks = nn.ModuleDict()
        self._block_names = []  # of each layer: (name of the block, source layer)
        for layer in layers:
            sources = [source for target, source in self.connections if target == layer]
            for source in sources:
                # the first block of a layer carries its bias
                bias = source == sources[0] and layer in self.biased
                self.blocks[f"{layer}_{source}"] = nn.Linear(
                    sizes[source], sizes[layer], bias=bias, device=device, dtype=dtype
                )
            self._block_names.append([(f"{layer}_{source}", source) for source in sources])

    @classmethod
    def from_direct(
        cls, direct: DirectSpace, *, maximal: Size | None, dtype: torch.dtype
    ) -> "CompactNetwork":
        """A compact network of the layers, blocks and biases of ``direct`` that are not zero."""
        rows, columns = layer_slices(direct)
        blocks = connected_blocks(direct)
        last = len(rows)
        read = is_read(direct)
        if not any(target == last for target, _ in blocks):  # a constant: it still takes inputs
            blocks[last, 0] = direct.weights[rows[-1], columns[0]]
            read[0] = True
        blocks = {(t, s): block[:, read] if s == 0 else block for (t, s), block in blocks.items()}
        biases = {layer: direct.bias[rows[layer - 1]] for layer in range(1, last + 1)}
        biased = [layer for layer, bias in biases.items() if bias.any()]
        network = cls(
            [s.stop - s.start for s in (columns[0], *rows)],
            list(blocks),
            reads=None if read.all() else read.nonzero().squeeze(1).tolist(),
            activation=copy.deepcopy(direct.activation),
            biased=biased,
            maximal=maximal,
            device="meta",
            dtype=dtype,
        )
        # no numbers are drawn on the way: looking at a network must not change what comes after
        activation, network.activation = network.activation, None  # type: ignore[assignment]
        read_inputs, network._read = network._read, None
        network.to_empty(device=direct.weights.device)
        network.activation = activation
        network._read = None if read_inputs is None else read_inputs.to(direct.weights.device)
        with torch.no_grad():
            for (target, source), block in blocks.items():
                linear = network.block(target, source)
                linear.weight.copy_(block)
                if linear.bias is not None:
                    linear.bias.copy_(biases[target])
        return network

    def to_direct(self) -> DirectSpace:
        """The same network neuron by neuron, in float64."""
        hidden, inputs = sum(self.widths[1:-1]), self.widths[0]
        weight = next(self.parameters()).detach().double()
        weights = weight.new_zeros(hidden + self.widths[-1], inputs + hidden)
        bias = weight.new_zeros(len(weights))
        starts = [0, *accumulate(self.widths[1:])]
        for target, source in self.connections:
            rows = slice(starts[target - 1], starts[target])
            linear = self.block(target, source)
            if source == 0:
                columns = torch.arange(inputs) if self._read is None else self._read
            else:
                columns = torch.arange(self.widths[source]) + inputs + starts[source - 1]
            weights[rows, columns.to(weights.device)] = linear.weight.detach().to(weights)
            if linear.bias is not None:
                bias[rows] = linear.bias.detach()
        layers = layer_labels(self.widths, weight.device)
        dtype = torch.float64 if self.has_named_activation else next(self.parameters()).dtype
        return DirectSpace(weights, bias, layers, self.named_activation, dtype)

    def block(self, target: int, source: int) -> nn.Linear:
        """The ``nn.Linear`` from layer ``source`` to layer ``target``."""
        linear = self.blocks[f"{target}_{source}"]
        assert isinstance(linear, nn.Linear)
        return linear

    def forward(self, input: Tensor) -> Tensor:
        check_input(input, self.widths[0])
        activities = [input if self._read is None else input.index_select(-1, self._read)]
        for blocks in self._block_names[:-1]:
            activities.append(self.activation(self._gather(blocks, activities)))
        return self._gather(self._block_names[-1], activities)

    def _gather(self, blocks: list[tuple[str, int]], activities: list[Tensor]) -> Tensor:
        """The sum that arrives at a layer through its ``blocks``, (name, source) each."""
        (name, source), *others = blocks
        total = self.blocks[name](activities[source])
        for name, source in others:
            total = total + self.blocks[name](activities[source])
        return total

    @property
    def in_features(self) -> int:
        """The width of the input, as ``nn.Linear`` calls it; :attr:`reads` may be fewer."""
        return self.widths[0]

    @property
    def out_features(self) -> int:
        """The width of the output."""
        return self.widths[-1]

    @property
    def inputs_read(self) -> int:
        return self.widths[0] if self.reads is None else len(self.reads)

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @property
    def size(self) -> Size:
        sizes = (self.inputs_read, *self.widths[1:])
        macs = sum(sizes[t] * sizes[s] for t, s in self.connections)
        return Size(self.widths, self.parameter_count, macs)

    @property
    def architecture(self) -> str:
        """The layers and their skip connections in words, "64 → 14 → 10, skip 64 → 10"."""
        read = "" if self.reads is None else f"{self.inputs_read} of "
        consecutive = read + " → ".join(map(str, self.widths))
        skips = [pair for pair in self.connections if pair[1] < pair[0] - 1]
        layers = range(1, len(self.widths))
        missing = [(k, k - 1) for k in layers if (k, k - 1) not in self.connections]
        parts = [consecutive]
        parts += [f"skip {self._in_words(skips)}"] * bool(skips)
        parts += [f"without {self._in_words(missing)}"] * bool(missing)
        return ", ".join(parts)

    def _in_words(self, pairs: list[tuple[int, int]]) -> str:
        """Connections by their widths, and by their layers where that is not clear."""
        sizes = (self.inputs_read, *self.widths[1:])
        words = [f"{sizes[source]} → {sizes[target]}" for target, source in pairs]
        if len(set(words)) == len(words) and len(set(sizes)) == len(sizes):
            return ", ".join(words)
        if len(self.widths) == 3:
            return ", ".join(words)
        named = zip(words, pairs, strict=True)
        return ", ".join(f"{word} (layer {s} to {t})" for word, (t, s) in named)

    def describe(self) -> str:
        """Architecture and size, and the size of the maximal network it was cut from."""
        text = f"{self.architecture}: {self.size.amount}"
        if self.maximal is None:
            return text
        widths = " → ".join(map(str, self.maximal.widths))
        return f"{text}; cut from {widths}: {self.maximal.amount}"

    def __repr__(self) -> str:
        return f"CompactNetwork({self.describe()})"


def _checked_reads(reads: Sequence[int], inputs: int) -> tuple[int, ...]:
    indices = tuple(operator.index(index) for index in reads)
    if (
        not indices
        or list(indices) != sorted(set(indices))
        or not 0 <= indices[0] <= indices[-1] < inputs
    ):
        raise ValueError(
            f"Expected reads to be ascending indices of {inputs} inputs, at least one. "
            f"Got {list(reads)!r}."
        )
    return indices


def _checked_size(size: Sequence) -> Size:
    try:
        widths, parameters, macs = size
        return Size(checked_widths(widths), operator.index(parameters), operator.index(macs))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected maximal to be widths, parameters and multiply-adds. Got {size!r}."
        ) from error
