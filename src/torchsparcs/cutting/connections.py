"""Single connections removed by the optimal brain surgeon.

The loss around a fitted network is θᵀ H θ / 2 with the Gauss-Newton matrix H of its outputs, so
that the weights are sources to a loss that hears them all: the formula is that of ``removal``.
While there are many, the diagonal of H tells which cost least, and nothing is refitted.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from torchsparcs.compact.direct import (
    DirectSpace,
    connection_count,
    layer_slices,
    simplified,
)
from torchsparcs.cutting.removal import remove_sources_
from torchsparcs.training.quantiles import quantile_level

FEWEST_ROWS = 200
ROWS_PER_NUMBER = 3  # of the Gauss-Newton matrix
MANY_NUMBERS = 400  # for which the diagonal of the matrix will do
DAMPING = 1e-6  # relative to the mean of its diagonal
AT_ONCE = 40  # of so many numbers one goes at a time, of twice as many two, and so on


@torch.no_grad()
def cut_connections(
    direct: DirectSpace, inputs: Tensor, numbers: int, task: str, decay: float
) -> DirectSpace:
    """``direct`` with at most ``numbers`` weights and biases that are not zero, where it can.

    Args:
        inputs: (rows, I), what it was fitted to, with the weight decay ``decay``.
    """
    count = connection_count(direct)
    if count <= numbers:
        return direct
    if count > MANY_NUMBERS:
        direct = _without_slight(direct, inputs, max(numbers, MANY_NUMBERS), task, decay)
    if connection_count(direct) <= numbers:
        return direct
    targets, sources = direct.weights.nonzero(as_tuple=True)
    biased = direct.bias.nonzero().squeeze(1)
    felt = _felt(direct, _some(inputs, direct), task, targets, sources, biased)
    hessian = felt.T @ felt * (direct.outputs / len(felt))
    hessian.diagonal()[: len(targets)].add_(decay)
    hessian.diagonal().add_(DAMPING * hessian.diagonal().mean() + 1e-12)
    precision = torch.linalg.inv(hessian)
    values = torch.cat([direct.weights[targets, sources], direct.bias[biased]])[None]
    may_go = torch.cat([torch.ones_like(targets) > 0, biased < direct.hidden])
    listener = torch.cat([targets, biased])
    is_there = torch.ones_like(may_go)
    while is_there.sum() > numbers:
        free = is_there & may_go
        if not free.any():
            break
        cost = values[0].square() / precision.diagonal().clamp_min(1e-300)
        left = int(is_there.sum())
        at_once = min(max(1, left // AT_ONCE), left - numbers, int(free.sum()))
        gone = torch.where(free, cost, torch.inf).topk(at_once, largest=False).indices
        remove_sources_(values, precision, gone)
        is_there[gone] = False
        unheard = _unheard(direct, sources[is_there[: len(sources)]])
        idle = (unheard[listener] & is_there).nonzero().squeeze(1)
        if len(idle):
            remove_sources_(values, precision, idle)
            is_there[idle] = False
    found = torch.where(is_there, values[0], 0)
    weights, bias = torch.zeros_like(direct.weights), torch.zeros_like(direct.bias)
    weights[targets, sources] = found[: len(targets)]
    bias[biased] = found[len(targets) :]
    return simplified(replace(direct, weights=weights, bias=bias))


def _without_slight(
    direct: DirectSpace, inputs: Tensor, numbers: int, task: str, decay: float
) -> DirectSpace:
    """Only so many weights and biases, those with the largest H_ii θ_i²; outputs keep theirs."""
    heard, felt = _signals(direct, _some(inputs, direct), task)
    curvature = felt.square().sum(dim=1)  # over the outputs, (rows, H + O)
    hessian = curvature.T @ heard.square() / len(heard) + decay
    cost = hessian * direct.weights.square()
    bias_cost = curvature.mean(dim=0) * direct.bias.square()
    bias_cost[direct.hidden :] = torch.inf
    costs = torch.cat([cost.flatten(), bias_cost])
    values = torch.cat([direct.weights.flatten(), direct.bias])
    most = costs.topk(numbers).indices
    kept = torch.zeros_like(values).index_copy(0, most, values[most])
    weights, bias = kept.split([cost.numel(), len(bias_cost)])
    return simplified(replace(direct, weights=weights.view_as(cost), bias=bias))


def _some(inputs: Tensor, direct: DirectSpace) -> Tensor:
    """Enough rows to tell its numbers apart, evenly spread."""
    numbers = min(connection_count(direct), MANY_NUMBERS)
    rows = max(FEWEST_ROWS, math.ceil(ROWS_PER_NUMBER * numbers / direct.outputs))
    return inputs[:: max(1, len(inputs) // rows)].to(direct.weights)


def _unheard(direct: DirectSpace, sources: Tensor) -> Tensor:
    """Whether a neuron is not among the ``sources`` that are heard, (H + O,) bool; no output is."""
    unheard = torch.ones(direct.inputs + direct.hidden, dtype=torch.bool, device=sources.device)
    unheard[sources] = False
    return torch.cat([unheard[direct.inputs :], unheard.new_zeros(direct.outputs)])


def _felt(
    direct: DirectSpace, inputs: Tensor, task: str, targets: Tensor, sources: Tensor, biased: Tensor
) -> Tensor:
    """The root of the Gauss-Newton matrix, what outputs feel of a number, (rows · O, numbers)."""
    heard, felt = _signals(direct, inputs, task)
    felt, heard = felt.flatten(0, 1), heard.repeat_interleave(direct.outputs, dim=0)
    return torch.cat([felt[:, targets] * heard[:, sources], felt[:, biased]], dim=1)


def _signals(direct: DirectSpace, inputs: Tensor, task: str) -> tuple[Tensor, Tensor]:
    """Activities of all sources, (rows, I + H), and what each neuron means to the outputs' loss.

    That is (rows, O, H + O), squared and added up over the outputs the curvature of the loss.
    """
    hidden, layers = direct.hidden, layer_slices(direct)[0][:-1]
    heard = torch.cat([inputs, inputs.new_zeros(len(inputs), hidden)], dim=1)
    slopes = inputs.new_zeros(len(inputs), hidden)
    for rows in layers:
        pre = heard @ direct.weights[rows].T + direct.bias[rows]
        with torch.enable_grad():
            pre = pre.requires_grad_()
            activity = direct.evaluate(pre)
            (slopes[:, rows],) = torch.autograd.grad(activity.sum(), pre)
        heard[:, direct.inputs + rows.start : direct.inputs + rows.stop] = activity.detach()
    output = heard @ direct.weights[hidden:].T + direct.bias[hidden:]
    felt = inputs.new_zeros(len(inputs), direct.outputs, hidden + direct.outputs)
    felt[:, :, hidden:] = torch.eye(direct.outputs, dtype=felt.dtype, device=felt.device)
    for rows in reversed(layers):
        felt[:, :, rows] = felt @ direct.outgoing[:, rows] * slopes[:, None, rows]
    task = "regression" if quantile_level(task) is not None else task  # alike, up to a factor
    return heard, ROOTS[task](felt, output)


def _root_of_squares(felt: Tensor, output: Tensor) -> Tensor:
    return felt * math.sqrt(2 / output.shape[1])


def _root_of_labels(felt: Tensor, output: Tensor) -> Tensor:
    chance = output.sigmoid()
    return felt * (chance * (1 - chance) / output.shape[1]).sqrt()[..., None]


def _root_of_classes(felt: Tensor, output: Tensor) -> Tensor:
    """diag(p) − p pᵀ is RᵀR with R = diag(√p) (1 − 1 pᵀ)."""
    chance = output.softmax(dim=1)[..., None]
    return chance.sqrt() * (felt - (chance * felt).sum(dim=1, keepdim=True))


# The root of the Hessian of each loss by its outputs, applied to what they feel, (rows, O, ..).
ROOTS = {
    "regression": _root_of_squares,
    "binary": _root_of_labels,
    "multiclass": _root_of_classes,
}
