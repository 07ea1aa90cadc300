"""Channels and layers of a compact chain taken away with data, what reads them refitted.

The price of a channel is the loss that its removal costs, to second order. With the inputs x of a
stage in patches, their covariance H, and a weight F_c on each of its outputs, the squared gradient
of the loss there, the weights W of a reader that does without some inputs are best refitted by
least squares, and what is lost is Σ_c F_c W_c,i (H⁻¹_ii)⁻¹ W_c,iᵀ for the block i of a channel.
That takes the places and outputs of a reader for independent, while under a pooling they add up. So
it is multiplied by what the channel a means as a whole, E(Σ (a - ā) ∂L/∂a)² over all its places,
over what that would be if they were. A layer goes where the next can be had from what the layer
itself reads: by least squares again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from torchsparcs.compact_chain import CompactChain
from torchsparcs.data import Pair
from torchsparcs.linear_maps import channel_weights, composed, merged, patches
from torchsparcs.refinement import constant_loss
from torchsparcs.stages import (
    Stage,
    changed_stream,
    merged_stage,
    trimmed_stage,
    without_channels,
)
from torchsparcs.tasks import evaluate

TRIFLE = 0.02  # of the loss, or of so much of the loss of a constant answer
DAMPING = 1e-3  # of the mean diagonal of H
SEEN = 20_000  # patches of a stage, at most, that H is made of
AT_ONCE = 64  # rows
NOISE = 1e-9  # of the largest second moment: below it a direction carries nothing

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Reader:
    """What is known of a stage as the reader of the channels before it.

    Attributes:
        mean: of the inputs, (in, positions).
        moments: E[x xᵀ], (in, positions, in, positions).
        importance: F, (out,).
        together: what an input means to the loss as a whole, over the sum of its parts, (in,).
    """

    mean: Tensor
    moments: Tensor
    importance: Tensor
    together: Tensor

    @classmethod
    def fresh(cls, stage: Stage) -> "Reader":
        mean = torch.zeros_like(stage.by_position[0])
        moments = mean.new_zeros(*mean.shape, *mean.shape)
        return cls(mean, moments, torch.zeros_like(stage.bias), torch.ones_like(mean[:, 0]))

    @property
    def covariance(self) -> Tensor:
        return self.moments - torch.einsum("ip,jq->ipjq", self.mean, self.mean)


def cuts_to(network: CompactChain, data: Pair, loss: Loss, parameters: int) -> list[CompactChain]:
    """``network`` with at most so many parameters, where its layers need one channel each.

    Its cheapest channels go. Linear layers are merged where that is smaller. Other layers go as
    long as the loss on ``data``, some rows it was trained on, is lower with one layer less and as
    many parameters. That is the first. Where one more layer could go, there are others without it:
    fine-tuning will tell. A network that is no better than a constant answer is not worth that, and
    to compare with one says nothing. Where channels alone do not make it small enough, another has
    a smaller kernel.
    """
    network = merged_and_trimmed(network, data, loss)
    constant = constant_loss(network, data, loss)
    best = with_fewer_channels(network, data, loss, parameters)
    best_loss = evaluate(best, data, loss).loss
    while True:
        found = []
        for shorter in with_a_layer_less(network, data, loss):
            cut = with_fewer_channels(shorter, data, loss, parameters)
            cut_loss = evaluate(cut, data, loss).loss
            if cut_loss < constant:
                found.append((cut.parameter_count, cut_loss, cut, shorter))
        better = [one for one in found if one[1] <= best_loss < constant]
        if not better:
            break
        _, best_loss, best, network = min(better, key=lambda one: one[0])
    others = [cut for _, _, cut, _ in found]
    if best.parameter_count > parameters:
        others += with_a_smaller_kernel(best, data, loss)
    return [best, *others]


def as_good_as(loss: float, constant: float) -> float:
    """The loss up to which nobody would notice, with that of a constant answer in mind."""
    return loss + TRIFLE * max(loss, TRIFLE * constant)


# --- layers ---------------------------------------------------------------------------------------


def merged_and_trimmed(network: CompactChain, data: Pair, loss: Loss) -> CompactChain:
    """Fewer layers and smaller kernels where that is smaller and changes the loss next to nothing.

    A layer of linear channels alone makes one convolution with the next; a kernel can do without
    its outermost positions where they hardly weigh anything.
    """
    now = evaluate(network, data, loss).loss
    limit = as_good_as(now, constant_loss(network, data, loss))
    while True:
        smaller = (network.with_stages(stages) for stages in _shortened(network.stages()))
        found = next((one for one in smaller if evaluate(one, data, loss).loss <= limit), None)
        if found is None:
            return network
        network = found


def with_a_smaller_kernel(network: CompactChain, data: Pair, loss: Loss) -> list[CompactChain]:
    """Without the outermost positions of the kernel that is cheapest to trim; none if none can."""
    stages = network.stages()
    smaller = [
        network.with_stages([*stages[:k], inner, *stages[k + 1 :]])
        for k, stage in enumerate(stages)
        if (inner := trimmed_stage(stage)) is not None
    ]
    return sorted(smaller, key=lambda one: evaluate(one, data, loss).loss)[:1]


def _shortened(stages: list[Stage]) -> Iterator[list[Stage]]:
    """Every way to have two stages as one with no more parameters, and every smaller kernel."""
    for k in range(len(stages) - 1):
        one = merged_stage(stages[k], stages[k + 1])
        if one is not None and one.parameters <= stages[k].parameters + stages[k + 1].parameters:
            yield [*stages[:k], one, *stages[k + 2 :]]
    for k, stage in enumerate(stages):
        inner = trimmed_stage(stage)
        if inner is not None:
            yield [*stages[:k], inner, *stages[k + 1 :]]


def with_a_layer_less(network: CompactChain, data: Pair, loss: Loss) -> list[CompactChain]:
    """Without the layer that is cheapest to do without; none where none can go.

    What came after it hears what it heard, through a map of its own kind: fitted by least squares,
    the error of each output weighted as its importance says. One such network has the kernel that
    came after, another one that sees as far as both did, where that takes no more parameters.
    """
    stages, readers = network.stages(), measured(network, data, loss)
    shorter = []
    for kind in (_narrow, _wide):
        found: list[tuple[float, int, Stage]] = []
        for k in range(len(stages) - 1):
            like = kind(stages[k], stages[k + 1])
            if like is not None:
                price, direct = _direct(network, k, like, readers[k + 1].importance, data)
                found.append((float(price), k, direct))
        if found:
            _, k, direct = min(found, key=lambda one: one[0])
            shorter.append(network.with_stages([*stages[:k], direct, *stages[k + 2 :]]))
    return shorter


def _narrow(here: Stage, there: Stage) -> nn.Module | None:
    """A map with the kernel of the second; None where there is none."""
    return composed(here.like, there.like)


def _wide(here: Stage, there: Stage) -> nn.Module | None:
    """A map that sees as far as both, where that takes no more parameters than they have."""
    like = merged(here.like, there.like)
    if like is None:
        return None
    positions = channel_weights(like)[0, 0].numel()
    outputs, inputs = len(there.weight), here.weight.shape[1]
    is_cheaper = outputs * (inputs * positions + 1) <= here.parameters + there.parameters
    return like if is_cheaper else None


@torch.no_grad()
def _direct(
    network: CompactChain, k: int, like: nn.Module, importance: Tensor, data: Pair
) -> tuple[Tensor, Stage]:
    """The best stage from what layer k reads to what layer k + 1 gives, and what it costs."""
    generator = torch.Generator().manual_seed(0)
    seen, given = [], []
    for inputs in data[0].split(AT_ONCE):
        signals = network.signals(inputs)
        arrived = network.activated(k - 1, signals[k - 1]) if k else inputs
        rows = patches(like, arrived)
        values = signals[k + 1].movedim(network.axes[k + 1], -1).flatten(0, -2)
        some = _some(len(rows), len(inputs) / len(data[0]), generator).to(rows.device)
        seen.append(rows[some].double())
        given.append(values[some].double())
    patch, target = torch.cat(seen), torch.cat(given)
    columns = torch.cat([patch.flatten(1), patch.new_ones(len(patch), 1)], dim=1)
    moments = columns.T @ columns / len(columns)
    ridge = DAMPING**2 * moments.diagonal().mean()
    eye = torch.eye(len(moments), dtype=moments.dtype, device=moments.device)
    fit = torch.linalg.solve(moments + ridge * eye, columns.T @ target / len(columns))
    error = (target - columns @ fit).square().mean(dim=0)
    kernel = channel_weights(like).shape[2:]
    weight = fit[:-1].T.reshape(target.shape[1], patch.shape[1], *kernel)
    return (importance * error).sum(), Stage(like, weight, fit[-1], network.active[k + 1])


# --- channels -------------------------------------------------------------------------------------


def with_fewer_channels(
    network: CompactChain, data: Pair, loss: Loss, parameters: int
) -> CompactChain:
    """With at most so many parameters: its cheapest channels gone, for what each one takes."""
    network = in_principal_axes(network, data, loss)
    stages, readers = network.stages(), measured(network, data, loss)
    inverses = [_inverse(reader.covariance) for reader in readers]
    prices: dict[int, Tensor] = {}
    while sum(stage.parameters for stage in stages) > parameters:
        for k in range(len(stages) - 1):
            if k not in prices:
                reader = readers[k + 1]
                blocks = torch.linalg.inv(_own(inverses[k + 1]))
                prices[k] = reader.together * _apart(stages[k + 1], reader.importance, blocks)
        best = min(
            ((prices[k].min() / _saved(stages, k), k) for k in prices if len(prices[k]) > 1),
            default=None,
        )
        if best is None:
            break
        k = best[1]
        gone = int(prices[k].argmin())
        kept = torch.arange(len(prices[k]), device=prices[k].device) != gone
        mean, inverse = readers[k + 1].mean, inverses[k + 1]
        refitted = _refitted(stages[k + 1], mean, inverse, gone)
        stages[k], stages[k + 1] = without_channels(stages[k], refitted, kept)
        inverses[k + 1] = _inverse_without(inverse, gone)[kept][:, :, kept]
        readers[k + 1].mean, readers[k].importance = mean[kept], readers[k].importance[kept]
        readers[k + 1].together = readers[k + 1].together[kept]
        prices.pop(k)
        prices.pop(k - 1, None)  # the reader before has one output less
    return network.with_stages(stages)


def _saved(stages: Sequence[Stage], k: int) -> int:
    """Parameters that go with one channel between stages k and k + 1."""
    return stages[k].weight[0].numel() + 1 + stages[k + 1].weight[:, 0].numel()


def _inverse(moments: Tensor) -> Tensor:
    """Of H with a little on its diagonal, in the same shape."""
    shape = moments.shape
    matrix = moments.reshape(shape[0] * shape[1], -1)
    ridge = DAMPING * matrix.diagonal().mean().clamp_min(1e-30)
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix + ridge * eye)).view(shape)


def _apart(reader: Stage, importance: Tensor, blocks: Tensor) -> Tensor:
    """What each channel means to ``reader``, by its own (in, positions, positions) of H, (in,)."""
    weight = reader.by_position
    return torch.einsum("oip,ipq,oiq,o->i", weight, blocks, weight, importance)


def _own(matrix: Tensor) -> Tensor:
    """The block of each channel, (in, positions, positions)."""
    return torch.einsum("ipiq->ipq", matrix)


def _refitted(reader: Stage, mean: Tensor, inverse: Tensor, gone: int) -> Stage:
    """``reader`` with what channel ``gone`` gave it made up for by the others and the bias."""
    weight = reader.by_position
    change = torch.einsum("op,pjr->ojr", weight[:, gone], _reach(inverse, gone))
    bias = reader.bias + torch.einsum("ojr,jr->o", change, mean)
    return replace(reader, weight=(weight - change).view_as(reader.weight), bias=bias)


def _inverse_without(inverse: Tensor, gone: int) -> Tensor:
    """H⁻¹ as it is for the other channels, zeros for the one that is ``gone``."""
    reach = _reach(inverse, gone)
    return inverse - torch.einsum("jrp,pls->jrls", inverse[:, :, gone], reach)


def _reach(inverse: Tensor, gone: int) -> Tensor:
    """(H⁻¹_ii)⁻¹ H⁻¹_i,: of a channel i, (positions, in, positions)."""
    block = torch.linalg.inv(inverse[gone, :, gone])
    return torch.einsum("pq,qjr->pjr", block, inverse[gone])


# --- looking at data ------------------------------------------------------------------------------


def measured(network: CompactChain, data: Pair, loss: Loss) -> list[Reader]:
    """What the rows of ``data`` tell of each stage."""
    x, y = data
    generator = torch.Generator().manual_seed(0)
    stages, axes = network.stages(), network.axes
    readers = [Reader.fresh(stage) for stage in stages]
    felt: list[list[Tensor]] = [[] for _ in stages]
    for inputs, targets in zip(x.split(AT_ONCE), y.split(AT_ONCE), strict=True):
        read, given = network.steps(inputs)
        slopes = torch.autograd.grad(loss(given[-1], targets) * len(inputs), [*given, *read[1:]])
        for k, (layer, reader) in enumerate(zip(network.layers, readers, strict=True)):
            seen, share = patches(layer, read[k].detach()), len(inputs) / len(x)
            seen = seen[_some(len(seen), share, generator).to(seen.device)].double()
            reader.mean += share * seen.mean(dim=0)
            reader.moments += share * torch.einsum("nip,njq->ipjq", seen, seen) / len(seen)
            by_channel = slopes[k].double().square().movedim(axes[k], 0).flatten(1)
            reader.importance += by_channel.sum(dim=1) / len(x)
        for k in range(1, len(stages)):
            felt[k].append(_felt(read[k].detach(), slopes[len(stages) + k - 1], axes[k - 1]))
    for stage, reader, rows in zip(stages[1:], readers[1:], felt[1:], strict=True):
        reader.together = _together(stage, reader, torch.cat(rows, dim=1))
    return readers


def _felt(values: Tensor, slopes: Tensor, axis: int) -> Tensor:
    """Mean, Σ a ∂L/∂a and Σ ∂L/∂a of the channels a of each row, (3, rows, channels)."""
    a, slope = (part.double().movedim(axis, 1).flatten(2) for part in (values, slopes))
    return torch.stack([a.mean(dim=2), (a * slope).sum(dim=2), slope.sum(dim=2)])


def _together(stage: Stage, reader: Reader, felt: Tensor) -> Tensor:
    means, whole, slope = felt
    meant = (whole - means.mean(dim=0) * slope).square().mean(dim=0)
    apart = _apart(stage, reader.importance, _own(reader.covariance))
    return torch.where(apart > 0, meant / apart, 1.0)


def in_principal_axes(network: CompactChain, data: Pair, loss: Loss) -> CompactChain:
    """The same network with linear channels that can be given up one by one.

    Between two stages they carry any basis of what is read of them. With S = E[u uᵀ] of one place
    and G = Σ W_cᵀ F_c W_c over the outputs and positions of the reader, this one makes both
    diagonal: a channel's price is an eigenvalue of S G. What has no signal goes.
    """
    stages, readers = network.stages(), measured(network, data, loss)
    for k in range(len(stages) - 1):
        m, reader = stages[k].active, stages[k + 1]
        if m == len(stages[k].bias):
            continue
        weight = reader.by_position[:, m:]
        own = readers[k + 1].moments[m:, :, m:]
        second = torch.einsum("ipjp->ij", own) / weight.shape[2]
        cost = torch.einsum("oip,o,ojp->ij", weight, readers[k + 1].importance, weight)
        size, axes = torch.linalg.eigh(second)
        works = size > NOISE * size.max().clamp_min(1e-300)
        root = axes[:, works] * size[works].sqrt()
        _, turned = torch.linalg.eigh(root.T @ cost @ root)
        inverse_root = axes[:, works] / size[works].sqrt()
        into, out_of = (inverse_root @ turned).T, root @ turned
        stages[k], stages[k + 1] = changed_stream(stages[k], reader, into, out_of)
    return network.with_stages(stages)


def _some(places: int, share: float, generator: torch.Generator) -> Tensor:
    """Which of them are looked at: ``share`` of ``SEEN``, or all where they are fewer."""
    count = max(1, round(share * SEEN))
    return (
        torch.arange(places)
        if places <= count
        else torch.randint(places, (count,), generator=generator)
    )
