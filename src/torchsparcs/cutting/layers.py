"""Channels and layers of a compact chain taken away with data.

A layer goes where the next can be had from what the layer itself reads, by least squares.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.stages import Stage, merged_stage, trimmed_stage
from torchsparcs.cutting.channels import DAMPING, ChannelCutting, measured, some_places
from torchsparcs.cutting.ladder import constant_loss
from torchsparcs.cutting.removal import cut_to_budget
from torchsparcs.spectral.linear_maps import channel_weights, composed, merged, patches
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import LossFunction, evaluate

AT_ONCE = 64  # rows
TRIFLE = 0.02  # of the loss, or of so much of the loss of a constant answer


def chain_cuts(
    network: CompactChain, data: Pair, task: str | LossFunction, parameters: int
) -> dict[str, CompactChain]:
    """``network`` with at most so many parameters, where its layers need one channel each.

    Its cheapest channels go. Linear layers are merged where that is smaller. Other layers go as
    long as the loss on ``data``, some rows it was trained on, is lower with one layer less and as
    many parameters. That is "channels". Where one more layer could go, "narrow" and "wide" are
    without it: fine-tuning will tell. A network that is no better than a constant answer is not
    worth that, and to compare with one says nothing. Where channels alone do not make it small
    enough, "kernel" has a smaller kernel.
    """
    network = merged_and_trimmed(network, data, task)
    constant = constant_loss(network, data, task)
    best = with_fewer_channels(network, data, task, parameters)
    best_loss = evaluate(best, data, task).loss
    while True:
        shorter_ones = []
        for way, shorter in with_a_layer_less(network, data, task).items():
            cut = with_fewer_channels(shorter, data, task, parameters)
            cut_loss = evaluate(cut, data, task).loss
            if cut_loss < constant:
                shorter_ones.append((way, cut_loss, cut, shorter))
        better = [each for each in shorter_ones if each[1] <= best_loss < constant]
        if not better:
            break
        _, best_loss, best, network = min(better, key=lambda each: each[2].parameter_count)
    ways = {"channels": best, **{way: cut for way, _, cut, _ in shorter_ones}}
    trimmed = with_a_smaller_kernel(best, data, task) if best.parameter_count > parameters else None
    return ways if trimmed is None else {**ways, "kernel": trimmed}


def as_good_as(loss: float, constant: float) -> float:
    """The loss up to which nobody would notice, with that of a constant answer in mind."""
    return loss + TRIFLE * max(abs(loss), TRIFLE * abs(constant))


def in_batches(data: Pair) -> list[Pair]:
    """The rows in the batches that are looked at together."""
    return [*zip(*(part.split(AT_ONCE) for part in data), strict=True)]


def with_fewer_channels(
    network: CompactChain, data: Pair, task: str | LossFunction, parameters: int
) -> CompactChain:
    """Remove the cheapest channels until at most so many parameters are left."""
    cutting = ChannelCutting(network, in_batches(data), task)
    cut_to_budget([cutting], parameters)
    return cutting.result()


def merged_and_trimmed(network: CompactChain, data: Pair, task: str | LossFunction) -> CompactChain:
    """Fewer layers and smaller kernels where that is smaller and changes the loss next to nothing.

    A layer of linear channels alone makes one convolution with the next; a kernel can do without
    its outermost positions where they hardly weigh anything.
    """
    now = evaluate(network, data, task).loss
    limit = as_good_as(now, constant_loss(network, data, task))
    while True:
        smaller = (network.with_stages(stages) for stages in _shortened(network.stages()))
        found = next((one for one in smaller if evaluate(one, data, task).loss <= limit), None)
        if found is None:
            return network
        network = found


def with_a_smaller_kernel(
    network: CompactChain, data: Pair, task: str | LossFunction
) -> CompactChain | None:
    """Trim the kernel that is cheapest to trim by its outermost positions; None if none can."""
    stages = network.stages()
    smaller = [
        network.with_stages([*stages[:k], inner, *stages[k + 1 :]])
        for k, stage in enumerate(stages)
        if (inner := trimmed_stage(stage)) is not None
    ]
    return min(smaller, key=lambda chain: evaluate(chain, data, task).loss, default=None)


def _shortened(stages: list[Stage]) -> Iterator[list[Stage]]:
    """Yield two stages as one with no more parameters, and smaller kernels, in every way."""
    for k in range(len(stages) - 1):
        one = merged_stage(stages[k], stages[k + 1])
        if one is not None and one.parameters <= stages[k].parameters + stages[k + 1].parameters:
            yield [*stages[:k], one, *stages[k + 2 :]]
    for k, stage in enumerate(stages):
        inner = trimmed_stage(stage)
        if inner is not None:
            yield [*stages[:k], inner, *stages[k + 1 :]]


def with_a_layer_less(
    network: CompactChain, data: Pair, task: str | LossFunction
) -> dict[str, CompactChain]:
    """Remove the layer that is cheapest to do without; nothing where none can go.

    What came after it hears what it heard, through a map of its own kind: fitted by least squares,
    the error of each output weighted by its Fisher information. "narrow" has the kernel that
    came after, "wide" sees as far as both did, where that takes no more parameters.
    """
    stages, readers = network.stages(), measured(network, in_batches(data), task)
    shorter = {}
    for way, kind in (("narrow", _narrow), ("wide", _wide)):
        found: list[tuple[float, int, Stage]] = []
        for k in range(len(stages) - 1):
            like = kind(stages[k], stages[k + 1])
            if like is not None:
                price, direct = _direct(network, k, like, readers[k + 1].fisher, data)
                found.append((float(price), k, direct))
        if found:
            _, k, direct = min(found, key=lambda one: one[0])
            shorter[way] = network.with_stages([*stages[:k], direct, *stages[k + 2 :]])
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
    network: CompactChain, k: int, like: nn.Module, fisher: Tensor, data: Pair
) -> tuple[Tensor, Stage]:
    """The best stage from what layer k reads to what layer k + 1 gives, and what it costs."""
    generator = torch.Generator().manual_seed(0)
    seen, heard = [], []
    for inputs, _ in in_batches(data):
        read, given = network.steps(inputs)
        rows = patches(like, read[k])
        values = given[k + 1].movedim(network.axes[k + 1], -1).flatten(0, -2)
        some = some_places(len(rows), len(inputs) / len(data[0]), generator).to(rows.device)
        seen.append(rows[some].double())
        heard.append(values[some].double())
    patch, target = torch.cat(seen), torch.cat(heard)
    columns = torch.cat([patch.flatten(1), patch.new_ones(len(patch), 1)], dim=1)
    moments = columns.T @ columns / len(columns)
    ridge = DAMPING**2 * moments.diagonal().mean()
    eye = torch.eye(len(moments), dtype=moments.dtype, device=moments.device)
    fit = torch.linalg.solve(moments + ridge * eye, columns.T @ target / len(columns))
    error = (target - columns @ fit).square().mean(dim=0)
    kernel = channel_weights(like).shape[2:]
    weight = fit[:-1].T.reshape(target.shape[1], patch.shape[1], *kernel)
    return (fisher * error).sum(), Stage(like, weight, fit[-1], network.active[k + 1])
