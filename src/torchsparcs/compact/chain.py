"""Compact chains: plain layers in which some channels pass the activation and some do not."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchsparcs.compact.stages import Stage, direct_stages, exactly_reduced
from torchsparcs.spectral.activations import Activation, HasActivation
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.layer_kinds import TRANSPOSED
from torchsparcs.spectral.linear_maps import (
    channel_weights,
    channels_of,
    fitting_channels,
    plain_layer,
)
from torchsparcs.spectral.network import check_input


class CompactChain(nn.Module, HasActivation):
    """Plain convolutions and Linears one after the other, an activation on some of their channels.

    The first ``active[k]`` channels that layer k gives pass the activation; the others are linear
    and go on as they are.

    Shape:
        - input and output as those of the chain it was cut from
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        active: Sequence[int],
        *,
        activation: str | Activation = "relu",
    ):
        super().__init__()
        self.layers, self.active = nn.ModuleList(layers), tuple(active)
        channels = fitting_channels(layers)
        counts = [one.count_out for one in channels]
        if len(self.active) != len(counts) or not all(
            type(some) is int and 0 <= some <= count
            for some, count in zip(self.active, counts, strict=True)
        ):
            raise ValueError(
                f"Expected active channels of each layer, at most {counts}. Got {list(active)!r}."
            )
        self.axis_in = channels[0].axis_in
        self.axes = tuple(one.axis_out for one in channels)
        self.channels = (channels[0].count_in, *counts)
        self.set_activation(activation)

    @classmethod
    def of(cls, chain: SpectralChain) -> "CompactChain":
        """A compact chain that computes the same with no more channels than that takes."""
        stages = exactly_reduced(direct_stages(chain))
        activation, dtype = chain.named_activation, chain.output_eigenvalues.dtype
        return cls.from_stages(stages, activation=activation, dtype=dtype)

    @classmethod
    def from_stages(
        cls,
        stages: Sequence[Stage],
        *,
        activation: str | Activation,
        dtype: torch.dtype,
    ) -> "CompactChain":
        layers = [
            plain_layer(
                stage.like,
                stage.weight.to(dtype),
                stage.bias.to(dtype) if stage.bias.any() else None,
            )
            for stage in stages
        ]
        active = [stage.active for stage in stages]
        return cls(layers, active, activation=copy.deepcopy(activation))

    @torch.no_grad()
    def stages(self) -> list[Stage]:
        """The layers in float64, for rewriting."""
        return [
            _stage(layer, active) for layer, active in zip(self.layers, self.active, strict=True)
        ]

    def with_stages(self, stages: Sequence[Stage]) -> "CompactChain":
        """A network of these stages with the activation and the precision of this one."""
        activation, dtype = self.named_activation, next(self.parameters()).dtype
        return CompactChain.from_stages(stages, activation=activation, dtype=dtype)

    def recount_(self) -> None:
        """Take the channels from the layers, of which somebody has cut some.

        So can only layers lose them in which all are active, or none.
        """
        counts = [one.count_out for one in fitting_channels([*self.layers])]
        pairs = zip(self.active, self.channels[1:], counts, strict=True)
        self.active = tuple(new if some == old else some for some, old, new in pairs)
        self.channels = (self.channels[0], *counts)

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(self, input: Tensor) -> Tensor:
        check_input(input, self.channels[0], self.axis_in)
        signal = self.layers[0](input)
        for k, layer in enumerate(self.layers[1:]):
            signal = layer(self.activated(k, signal))
        return signal

    def signals(self, input: Tensor) -> list[Tensor]:
        """The output of each layer, before any activation."""
        return self.steps(input)[1]

    def steps(self, input: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The input of each layer, and its output before any activation."""
        read, given = [input], [self.layers[0](input)]
        for k, layer in enumerate(self.layers[1:]):
            read.append(self.activated(k, given[-1]))
            given.append(layer(read[-1]))
        return read, given

    def activated(self, k: int, signal: Tensor) -> Tensor:
        """Apply the activation to the active channels of ``signal``, the output of layer k."""
        active, axis = self.active[k], self.axes[k]
        count = self.channels[k + 1]
        if active in (0, count):
            return self.activation(signal) if active else signal
        first, second = signal.split([active, count - active], dim=axis)
        return torch.cat([self.activation(first), second], dim=axis)

    def macs(self, example: Tensor) -> int:
        """Multiply-adds for one row like those of ``example``, (rows, ...)."""
        with torch.no_grad():
            given = self.signals(example[:1])
        total = 0
        for k, (layer, signal) in enumerate(zip(self.layers, given, strict=True)):
            # a transposed convolution uses its kernel once for each place that it reads
            reads = isinstance(layer, TRANSPOSED)
            there = (given[k - 1] if k else example[:1]) if reads else signal
            axis = channels_of(layer).axis_in if reads else self.axes[k]
            total += channel_weights(layer).numel() * (there.numel() // there.shape[axis])
        return total

    @property
    def architecture(self) -> str:
        """Channels layer by layer, active ones + linear ones."""
        between = zip(self.active[:-1], self.channels[1:-1], strict=True)
        parts = [f"{active} + {count - active}" for active, count in between]
        return " → ".join(map(str, (self.channels[0], *parts, self.channels[-1])))

    def extra_repr(self) -> str:
        return f"{self.architecture}: {self.parameter_count:,} parameters"

    def __repr__(self) -> str:
        return f"CompactChain({self.extra_repr()})"


def _stage(layer: nn.Module, active: int) -> Stage:
    weight = channel_weights(layer).double()
    bias = layer.bias.double() if isinstance(layer.bias, Tensor) else weight.new_zeros(len(weight))
    return Stage(layer, weight, bias, active)
