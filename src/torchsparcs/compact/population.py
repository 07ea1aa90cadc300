"""Many small networks of different shapes trained as one, padded to common widths."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.compact.direct import DirectSpace, layer_slices
from torchsparcs.spectral.activations import resolve_activation
from torchsparcs.spectral.population import TILE, HasMembers

STRIDE = 4  # numbers: a ``TILE`` for the products between layers


class CompactPopulation(nn.Module, HasMembers):
    """Networks in direct space as the members of one model; what is zero stays zero.

    They share inputs, outputs and activation. A shallower member leaves the padded layers before
    its outputs empty. ``widths`` are those of the padded hidden layers, by default just enough.

    Shape:
        - input (batch, I), output (members, batch, O)
        - ``from_inputs`` (members, R, I) with R neurons of all padded layers, the outputs after
          them, and idle ones
        - ``from_hidden[k]`` (members, N_k, N_1 + .. + N_{k-1}) for the layers k = 2, 3, ..
        - ``bias`` (members, 1, R)
    """

    def __init__(
        self,
        directs: Sequence[DirectSpace],
        *,
        widths: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__()
        self.directs, self.members = tuple(directs), len(directs)
        first = self.directs[0]
        self.activation = resolve_activation(first.activation)[1]
        self.draws = not isinstance(first.activation, str)
        self.sizes = [*(_padded_widths(self.directs) if widths is None else widths), first.outputs]
        self.ends = [0, *accumulate(self.sizes)]
        hidden, rows = self.ends[-2], _up(self.ends[-1], TILE)
        weights = first.weights.new_zeros(self.members, rows, first.inputs + hidden)
        bias = first.weights.new_zeros(self.members, rows)
        self.places = [self._places(direct) for direct in self.directs]
        for index, (direct, (listeners, sources)) in enumerate(
            zip(self.directs, self.places, strict=True)
        ):
            weights[index, listeners[:, None], sources] = direct.weights
            bias[index, listeners] = direct.bias
        self.mask: Tensor
        self.register_buffer("mask", (weights != 0).to(dtype), persistent=False)
        self.bias_mask: Tensor
        self.register_buffer("bias_mask", (bias != 0).to(dtype)[:, None], persistent=False)
        split = first.inputs
        self.from_inputs = nn.Parameter(weights[:, :, :split].to(dtype).contiguous())
        self.from_hidden = nn.ParameterList(
            weights[:, start:stop, split : split + start].to(dtype).contiguous()
            for start, stop in list(pairwise(self.ends))[1:]
        )
        self.bias = nn.Parameter(bias.to(dtype)[:, None])

    def forward(self, input: Tensor) -> Tensor:
        split = input.shape[-1]
        # what the inputs send to every layer, of all members in one product
        weights = (self.from_inputs * self.mask[:, :, :split]).flatten(0, 1)
        sent = F.linear(input, weights).unflatten(-1, self.bias.shape[::2]).transpose(0, 1)
        sent = sent + self.bias * self.bias_mask
        activities: list[Tensor] = []
        for layer, (start, stop) in enumerate(pairwise(self.ends)):
            pre = sent[..., start:stop]
            if layer:
                mask = self.mask[:, start:stop, split : split + start]
                hidden = (self.from_hidden[layer - 1] * mask).transpose(1, 2)
                pre = torch.baddbmm(pre, torch.cat(activities, dim=-1), hidden)
            if layer == len(self.sizes) - 1:
                break
            activities.append(self.activation(pre))
        return pre

    def part(self, members: slice) -> "CompactPopulation":
        """A copy of some of the members as a population of their own, padded as they were."""
        part = CompactPopulation(
            self.directs[members], widths=self.sizes[:-1], dtype=self.bias.dtype
        ).to(self.bias.device)
        return self._copied_to(part, members)

    @torch.no_grad()
    def to_directs(self) -> list[DirectSpace]:
        """The members with their current weights, in float64."""
        hidden = self.ends[-2]
        rows = [self.from_inputs.new_zeros(self.members, self.sizes[0], hidden)]
        rows += [F.pad(weights, (0, hidden - weights.shape[-1])) for weights in self.from_hidden]
        weights = torch.cat([self.from_inputs[:, : self.ends[-1]], torch.cat(rows, dim=1)], dim=-1)
        weights = weights * self.mask[:, : self.ends[-1]]
        weights, bias = weights.double(), (self.bias * self.bias_mask).squeeze(1).double()
        return [
            replace(
                direct,
                weights=weights[index][listeners[:, None], sources],
                bias=bias[index][listeners],
            )
            for index, (direct, (listeners, sources)) in enumerate(
                zip(self.directs, self.places, strict=True)
            )
        ]

    def _places(self, direct: DirectSpace) -> tuple[Tensor, Tensor]:
        """Where rows, (H + O,), and columns, (I + H,), of ``direct`` stand in the padded model."""
        parts = [
            torch.arange(rows.stop - rows.start) + start
            for rows, start in zip(layer_slices(direct)[0][:-1], self.ends, strict=False)
        ]
        neurons = torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)
        outputs = torch.arange(direct.outputs) + self.ends[-2]
        listeners = torch.cat([neurons, outputs])
        sources = torch.cat([torch.arange(direct.inputs), neurons + direct.inputs])
        return listeners.to(direct.weights.device), sources.to(direct.weights.device)


def _padded_widths(directs: Sequence[DirectSpace]) -> list[int]:
    """The largest width of each hidden layer over the members, rounded up."""
    widths: list[int] = []
    for direct in directs:
        mine = [rows.stop - rows.start for rows in layer_slices(direct)[0][:-1]]
        widths += [0] * (len(mine) - len(widths))
        widths = [
            max(width, other)
            for width, other in zip(widths, [*mine, *[0] * len(widths)], strict=False)
        ]
    return [_up(width, STRIDE) for width in widths]


def _up(number: int, multiple: int) -> int:
    return multiple * math.ceil(number / multiple)
