"""Compact networks: linear blocks and additions, loadable and exportable anywhere."""

import copy
import html
import operator
from collections.abc import Mapping, Sequence
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
from torchsparcs.compact.drawing import drawing
from torchsparcs.compact.sparse import MOST_SPARSE, SparseLinear
from torchsparcs.spectral.activations import Activation, HasActivation
from torchsparcs.spectral.network import Size, check_input, checked_widths


class CompactNetwork(nn.Module, HasActivation):
    """Layers of linear blocks, added up where several meet, and one activation.

    >>> network = CompactNetwork([64, 14, 10], [(1, 0), (2, 0), (2, 1)])
    >>> print(network.describe())
    64 → 14 → 10, skip 64 → 10: 1,700 parameters, 1,676 multiply-adds

    Args:
        widths: neurons per layer.
        connections: the pairs (target, source) of layers that are connected.
        reads: the inputs it reads, where the others do not matter; all by default.
        biased: the layers that have a bias; all but the input by default.
        maximal: the size of the network this one was extracted from, for :meth:`describe`.
        kept: the places of the numbers that a block has, by its name "target_source", where it has
            not all of them; see :class:`SparseLinear`.

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
        kept: Mapping[str, Sequence[int]] | None = None,
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
        self.kept = {name: tuple(places) for name, places in (kept or {}).items()} or None
        if unknown := set(self.kept or ()) - {f"{t}_{s}" for t, s in self.connections}:
            raise ValueError(f"Expected kept by the names of blocks. Got {sorted(unknown)[0]!r}.")
        sizes = (self.inputs_read, *self.widths[1:])
        self.blocks = nn.ModuleDict()
        self._block_names = []  # of each layer: (name of the block, source layer)
        for layer in layers:
            sources = [source for target, source in self.connections if target == layer]
            for source in sources:
                # the first block of a layer carries its bias
                bias = source == sources[0] and layer in self.biased
                name, shape = f"{layer}_{source}", (sizes[source], sizes[layer])
                if self.kept is not None and name in self.kept:
                    places = self.kept[name]
                    block = SparseLinear(*shape, places, device=device, dtype=dtype)
                    self.blocks[name] = block
                else:
                    self.blocks[name] = nn.Linear(*shape, bias=bias, device=device, dtype=dtype)
            self._block_names.append([(f"{layer}_{source}", source) for source in sources])

    @classmethod
    def from_direct(
        cls,
        direct: DirectSpace,
        *,
        maximal: Size | None,
        dtype: torch.dtype,
        sparse: bool = False,
    ) -> "CompactNetwork":
        """A compact network of the layers, blocks and biases of ``direct`` that are not zero.

        ``sparse``: blocks with zeros have only the other numbers as parameters.
        """
        rows, columns = layer_slices(direct)
        blocks = connected_blocks(direct)
        last = len(rows)
        read = is_read(direct)
        if not any(target == last for target, _ in blocks):  # a constant: it still takes inputs
            blocks[last, 0] = direct.weights[rows[-1], columns[0]]
            read[0] = True
        if not read.all():
            blocks |= {(t, s): block[:, read] for (t, s), block in blocks.items() if s == 0}
        biases = {layer: direct.bias[rows[layer - 1]] for layer in range(1, last + 1)}
        biased = [layer for layer, bias in biases.items() if bias.any()]
        matrices = _with_biases(blocks, biases)
        kept = {
            f"{target}_{source}": matrix.flatten().nonzero().squeeze(1).tolist()
            for (target, source), matrix in (matrices.items() if sparse else ())
            if matrix.any()
            and matrix.numel() <= MOST_SPARSE
            and not matrix[:, : None if _carries_bias(target, source, blocks, biased) else -1].all()
        }
        network = cls(
            [s.stop - s.start for s in (columns[0], *rows)],
            list(blocks),
            reads=None if read.all() else read.nonzero().squeeze(1).tolist(),
            activation=copy.deepcopy(direct.activation),
            biased=biased,
            maximal=maximal,
            kept=kept or None,
            device="meta",
            dtype=dtype,
        )
        # no numbers are drawn on the way: looking at a network must not change what comes after
        activation, network.activation = network.activation, None  # type: ignore[assignment]
        buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        network.to_empty(device=direct.weights.device)
        with torch.no_grad():
            for name, buffer in network.named_buffers():
                buffer.copy_(buffers[name])
            network.activation = activation
            for (target, source), matrix in matrices.items():
                linear = network.block(target, source)
                if isinstance(linear, SparseLinear):
                    linear.values.copy_(matrix.flatten()[linear.places])
                    continue
                linear.weight.copy_(matrix[:, :-1])
                if linear.bias is not None:
                    linear.bias.copy_(matrix[:, -1])
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
                bias[rows] += linear.bias.detach().to(weights)
        layers = layer_labels(self.widths, weight.device)
        dtype = torch.float64 if self.has_named_activation else next(self.parameters()).dtype
        return DirectSpace(weights, bias, layers, self.named_activation, dtype)

    def recount_(self) -> None:
        """Take the widths from the blocks, of which somebody has cut hidden neurons."""
        counts = {
            target: self.block(target, source).out_features for target, source in self.connections
        }
        self.widths = (self.widths[0], *(counts[layer] for layer in range(1, len(self.widths))))

    def block(self, target: int, source: int) -> nn.Linear | SparseLinear:
        """The map from layer ``source`` to layer ``target``."""
        linear = self.blocks[f"{target}_{source}"]
        assert isinstance(linear, nn.Linear | SparseLinear)
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
        blocks = [self.block(*pair) for pair in self.connections]
        macs = sum(
            block.weight_count if isinstance(block, SparseLinear) else block.weight.numel()
            for block in blocks
        )
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
        if self.kept is not None:
            sizes = (self.inputs_read, *self.widths[1:])
            dense = sum(sizes[t] * sizes[s] for t, s in self.connections)
            parts += [f"{self.size.macs:,} of {dense:,} weights"] * (self.size.macs < dense)
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

    def _repr_html_(self) -> str:
        """What a notebook shows: a line and a drawing."""
        return f"<div><p>{html.escape(self.describe())}</p>{drawing(self)}</div>"


def _with_biases(
    blocks: dict[tuple[int, int], Tensor], biases: dict[int, Tensor]
) -> dict[tuple[int, int], Tensor]:
    """The blocks with one column more, in which the first one of each layer carries its bias."""
    first = {target: min(s for t, s in blocks if t == target) for target, _ in blocks}
    return {
        (target, source): torch.cat(
            [block, biases[target][:, None] * (source == first[target])], dim=1
        )
        for (target, source), block in blocks.items()
    }


def _carries_bias(
    target: int, source: int, blocks: dict[tuple[int, int], Tensor], biased: list[int]
) -> bool:
    """Whether a block is the first one of a layer that has a bias."""
    return target in biased and source == min(s for t, s in blocks if t == target)


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
