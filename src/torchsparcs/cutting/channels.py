"""Removal of the channels of a compact chain, what reads them refitted by ``removal``'s formula.

The price of a channel is about the loss that its removal costs. With the inputs x of a stage in
patches, their covariance H, the precision P = H⁻¹, and the Fisher information F_c of each output,
the squared gradient of the loss there, that is Σ_c F_c W_c,i (P_ii)⁻¹ W_c,iᵀ for the block i of a
channel. That takes the places and outputs of a reader for independent, while under a pooling they
add up. So it is multiplied by what the channel a means as a whole, E(Σ (a - ā) ∂L/∂a)² over all its
places, over what that would be if they were independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.stages import Stage, changed_stream, without_channels
from torchsparcs.cutting.removal import remove_sources_
from torchsparcs.spectral.linear_maps import patches
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import LossFunction, resolve_task

DAMPING = 1e-3  # of the mean diagonal of H
SEEN = 20_000  # patches of a stage, at most, that H is made of
NOISE = 1e-9  # of the second moments: below it there is no signal


class ChannelCutting:
    """A chain as a :class:`Cutting`, channel by channel, priced on ``rows``, in batches.

    Every layer keeps one channel.
    """

    def __init__(self, network: CompactChain, rows: Sequence[Pair], task: str | LossFunction):
        self.network = in_principal_axes(network, rows, task)
        self.stages, self.readers = self.network.stages(), measured(self.network, rows, task)
        self.precisions = [_precision(reader) for reader in self.readers]
        self.prices: dict[int, Tensor] = {}  # of the channels between stages k and k + 1
        self._look()

    def _look(self) -> None:
        """Find what goes next: ``rate`` is what it costs for a parameter, infinite if nothing."""
        stages = self.stages
        self.parameters = sum(stage.parameters for stage in stages)
        for k in range(len(stages) - 1):
            if k not in self.prices:
                reader = self.readers[k + 1]
                blocks = torch.linalg.inv(_channel_blocks(self.precisions[k + 1]))
                apart = _apart(stages[k + 1], reader.fisher, blocks)
                self.prices[k] = reader.together * apart
        rates = {
            k: prices.min().item() / _saved(stages, k)
            for k, prices in self.prices.items()
            if len(prices) > 1
        }
        self.cheapest = min(rates, key=lambda k: rates[k], default=-1)
        self.rate = rates.get(self.cheapest, math.inf)

    def step(self) -> None:
        """Remove the cheapest channel."""
        k = self.cheapest
        prices, reader, precision = self.prices[k], self.readers[k + 1], self.precisions[k + 1]
        gone = int(prices.argmin())
        kept = torch.arange(len(prices), device=prices.device) != gone
        refitted = _without(self.stages[k + 1], reader.mean, precision, gone)
        self.stages[k : k + 2] = without_channels(self.stages[k], refitted, kept)
        self.precisions[k + 1] = precision[kept][:, :, kept].contiguous()
        reader.mean, reader.together = reader.mean[kept], reader.together[kept]
        self.readers[k].fisher = self.readers[k].fisher[kept]
        self.prices.pop(k)
        self.prices.pop(k - 1, None)  # the reader before has one output less
        self._look()

    def result(self) -> CompactChain:
        return self.network.with_stages(self.stages)


def _saved(stages: Sequence[Stage], k: int) -> int:
    """Parameters that go with one channel between stages k and k + 1."""
    return stages[k].weight[0].numel() + 1 + stages[k + 1].weight[:, 0].numel()


def _precision(reader: "Reader") -> Tensor:
    """P = H⁻¹ with a little on the diagonal of H, (in, positions, in, positions)."""
    size = math.prod(reader.mean.shape)
    matrix, moments = (one.reshape(size, size) for one in (reader.covariance, reader.moments))
    least = NOISE * moments.diagonal().mean().clamp_min(1e-30)  # where nothing varies
    ridge = (DAMPING * matrix.diagonal().mean()).clamp_min(least)
    eye = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    whole = torch.cholesky_inverse(torch.linalg.cholesky(matrix + ridge * eye))
    return whole.contiguous().view(reader.moments.shape)


def _apart(reader: Stage, fisher: Tensor, blocks: Tensor) -> Tensor:
    """What each channel means to ``reader``, by its own (in, positions, positions) of H, (in,)."""
    weight = reader.by_position
    return torch.einsum("oip,ipq,oiq,o->i", weight, blocks, weight, fisher)


def _channel_blocks(matrix: Tensor) -> Tensor:
    """The diagonal block of each channel, (in, positions, positions)."""
    return torch.einsum("ipiq->ipq", matrix)


def _without(reader: Stage, mean: Tensor, precision: Tensor, gone: int) -> Stage:
    """``reader`` refitted to the other channels and the bias; ``precision`` changes in place."""
    before = reader.by_position.flatten(1)
    weight, positions = before.clone(), mean.shape[1]
    places = torch.arange(gone * positions, (gone + 1) * positions, device=weight.device)
    remove_sources_(weight, precision.view(before.shape[1], -1), places)
    bias = reader.bias + (before - weight) @ mean.flatten()
    return replace(reader, weight=weight.view_as(reader.weight), bias=bias)


# --- looking at data ------------------------------------------------------------------------------


@dataclass
class Reader:
    """What is known of a stage as the reader of the channels before it.

    Attributes:
        mean: of the inputs, (in, positions).
        moments: E[x xᵀ], (in, positions, in, positions).
        fisher: F, (out,).
        together: what an input means to the loss as a whole, over the sum of its parts, (in,).
    """

    mean: Tensor
    moments: Tensor
    fisher: Tensor
    together: Tensor

    @classmethod
    def fresh(cls, stage: Stage) -> "Reader":
        mean = torch.zeros_like(stage.by_position[0])
        moments = mean.new_zeros(*mean.shape, *mean.shape)
        return cls(mean, moments, torch.zeros_like(stage.bias), torch.ones_like(mean[:, 0]))

    @property
    def covariance(self) -> Tensor:
        return self.moments - torch.einsum("ip,jq->ipjq", self.mean, self.mean)


def measured(network: CompactChain, rows: Sequence[Pair], task: str | LossFunction) -> list[Reader]:
    """What ``rows``, in batches, tell of each stage."""
    resolved, generator = resolve_task(task), torch.Generator().manual_seed(0)
    stages, axes = network.stages(), network.axes
    readers = [Reader.fresh(stage) for stage in stages]
    felt: list[list[Tensor]] = [[] for _ in stages]
    count = sum(len(x) for x, _ in rows)
    for x, y in rows:
        read, given = network.steps(x)
        total = resolved.felt(given[-1], y, generator) * len(x)
        slopes = torch.autograd.grad(total, [*given, *read[1:]])
        for k, (layer, reader) in enumerate(zip(network.layers, readers, strict=True)):
            seen, share = patches(layer, read[k].detach()), len(x) / count
            seen = seen[some_places(len(seen), share, generator).to(seen.device)].double()
            reader.mean += share * seen.mean(dim=0)
            reader.moments += share * torch.einsum("nip,njq->ipjq", seen, seen) / len(seen)
            by_channel = slopes[k].double().square().movedim(axes[k], 0).flatten(1)
            reader.fisher += by_channel.sum(dim=1) / count
        for k in range(1, len(stages)):
            felt[k].append(_felt(read[k].detach(), slopes[len(stages) + k - 1], axes[k - 1]))
    for stage, reader, parts in zip(stages[1:], readers[1:], felt[1:], strict=True):
        reader.together = _together(stage, reader, torch.cat(parts, dim=1))
    return readers


def _felt(values: Tensor, slopes: Tensor, axis: int) -> Tensor:
    """Mean, Σ a ∂L/∂a and Σ ∂L/∂a of the channels a of each row, (3, rows, channels)."""
    a, slope = (
        part.double().movedim(axis, 1).unsqueeze(-1).flatten(2) for part in (values, slopes)
    )
    return torch.stack([a.mean(dim=2), (a * slope).sum(dim=2), slope.sum(dim=2)])


def _together(stage: Stage, reader: Reader, felt: Tensor) -> Tensor:
    means, whole, slope = felt
    meant = (whole - means.mean(dim=0) * slope).square().mean(dim=0)
    apart = _apart(stage, reader.fisher, _channel_blocks(reader.covariance))
    return torch.where(apart > 0, meant / apart, 1.0)


def in_principal_axes(
    network: CompactChain, rows: Sequence[Pair], task: str | LossFunction
) -> CompactChain:
    """The same network with linear channels that can be given up one by one.

    Between two stages they carry any basis of what is read of them. With S = E[u uᵀ] of one place
    and G = Σ W_cᵀ F_c W_c over the outputs and positions of the reader, this one makes both
    diagonal, and what a channel costs an eigenvalue of S G, at one place. What has no signal goes.
    """
    stages, readers = network.stages(), measured(network, rows, task)
    for k in range(len(stages) - 1):
        m, reader = stages[k].active, stages[k + 1]
        if m == len(stages[k].bias):
            continue
        weight = reader.by_position[:, m:]
        own = readers[k + 1].moments[m:, :, m:]
        second = torch.einsum("ipjp->ij", own) / weight.shape[2]
        cost = torch.einsum("oip,o,ojp->ij", weight, readers[k + 1].fisher, weight)
        size, axes = torch.linalg.eigh(second)
        works = size > NOISE * size.max().clamp_min(1e-300)
        root = axes[:, works] * size[works].sqrt()
        _, turned = torch.linalg.eigh(root.T @ cost @ root)
        inverse_root = axes[:, works] / size[works].sqrt()
        into, out_of = (inverse_root @ turned).T, root @ turned
        stages[k], stages[k + 1] = changed_stream(stages[k], reader, into, out_of)
    return network.with_stages(stages)


def some_places(places: int, share: float, generator: torch.Generator) -> Tensor:
    """Which of them are looked at: ``share`` of ``SEEN``, or all where they are fewer."""
    count = max(1, round(share * SEEN))
    return (
        torch.arange(places)
        if places <= count
        else torch.randint(places, (count,), generator=generator)
    )
