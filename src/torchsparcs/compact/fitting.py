"""Second-order fits of many small networks at once: L-BFGS, every network at its own pace.

Rows are the last axis, so that a few neurons of many networks fill whole vectors. At each turn all
networks try a step: those that are not better off try a shorter one at the next turn, while the
others go on. A network that no longer gains leaves.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from torchsparcs.compact.direct import DirectSpace, from_biased, layer_slices, with_bias
from torchsparcs.spectral.activations import resolve_activation
from torchsparcs.training.deadline import NEVER, Deadline
from torchsparcs.training.quantiles import pinball, quantile_level

MEMORY = 10  # steps that tell of the curvature
ENOUGH = 1e-4  # of the decrease that the slope promises
LEAST_GAIN, PATIENCE = 1e-6, 4  # a network that gains less, relatively, for so many turns is done
SHORTER, SHORTEST = 0.5, 0.1  # bounds of the next step after one that failed
FIRST_STEP = 0.1  # its length
LEAVERS = 0.3  # a share of the networks that is worth taking out
FEW_ROWS = 500  # that are computed in float64
CACHED, FEWEST_AT_ONCE = 2**19, 64  # signals of as many rows as stay in a cache; rows at least

Losses = Callable[[Tensor, Tensor], Tensor]


def _squared_errors(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean(dim=1)


def _binary_cross_entropies(output: Tensor, target: Tensor) -> Tensor:
    return (F.softplus(output) - output * target).mean(dim=1)


def _cross_entropies(output: Tensor, target: Tensor) -> Tensor:
    said = output.gather(1, target.long().expand(len(output), 1, -1)).squeeze(1)
    return output.logsumexp(dim=1) - said


# (members, outputs, rows) and (outputs, rows), or (1, rows) classes, to (members, rows)
LOSSES: dict[str, Losses] = {
    "regression": _squared_errors,
    "binary": _binary_cross_entropies,
    "multiclass": _cross_entropies,
}


def _losses(task: str) -> Losses:
    """The row of :data:`LOSSES`, or that of a quantile."""
    level = quantile_level(task)
    if level is None:
        return LOSSES[task]
    return lambda output, target: pinball(target - output, level).mean(dim=1)


def fitted(
    directs: Sequence[DirectSpace],
    pair: tuple[Tensor, Tensor],
    weights: Tensor,
    decays: Sequence[float],
    task: str,
    *,
    turns: int,
    deadline: Deadline = NEVER,
) -> list[DirectSpace]:
    """Minimise the mean loss and decay / 2 · ‖weights‖² of each network from where it is.

    Connections and biases that are zero stay so.

    Args:
        pair: inputs (rows, I) and targets as the task has them, for all networks.
        weights: (networks, rows), how much each row counts for each.
        decays: one for each network.
        turns: evaluations of the loss at most.
        deadline: when it ends, wherever it is.
    """
    dtype = torch.float64 if len(pair[0]) <= FEW_ROWS else torch.float32
    stack = _Stack(directs, dtype)
    inputs, target = _with_rows_last(pair, task, dtype)
    share = (weights / weights.sum(dim=1, keepdim=True)).to(dtype)
    decay = torch.tensor(decays, dtype=dtype, device=inputs.device)[:, None]
    losses = _losses(task)

    def evaluate(point: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and gradient of the networks ``which``."""
        loss, slope = torch.zeros_like(point[:, 0]), torch.zeros_like(point)
        at_once = max(FEWEST_AT_ONCE, CACHED // (len(point) * stack.ends[-1]))
        for rows in torch.arange(inputs.shape[1], device=inputs.device).split(at_once):
            some = slice(int(rows[0]), int(rows[-1]) + 1)
            here = point.detach().requires_grad_()
            each = losses(stack.outputs(here, inputs[:, some]), target[:, some])
            part = (each * share[which, some]).sum(dim=1)
            slope += torch.autograd.grad(part.sum(), here)[0]
            loss += part.detach()
        pull = decay[which] * stack.decays[which] * point
        return loss + 0.5 * (pull * point).sum(dim=1), slope * stack.mask[which] + pull

    return stack.directs_at(_minimised(evaluate, stack.start, turns, deadline))


@torch.no_grad()
def row_losses(directs: Sequence[DirectSpace], pair: tuple[Tensor, Tensor], task: str) -> Tensor:
    """The loss of each network on each row of ``pair``, (networks, rows)."""
    inputs, target = _with_rows_last(pair, task, torch.float32)
    stack = _Stack(directs, torch.float32)
    return _losses(task)(stack.outputs(stack.start, inputs), target)


def _with_rows_last(
    pair: tuple[Tensor, Tensor], task: str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Inputs (I + 1, rows), the constant of the biases last, and targets (outputs, rows)."""
    inputs = F.pad(pair[0].T.to(dtype), (0, 0, 0, 1), value=1.0)
    target = pair[1].reshape(len(pair[1]), -1).T
    return inputs, target if task == "multiclass" else target.to(dtype)


@torch.no_grad()
def _minimised(
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    turns: int,
    deadline: Deadline,
) -> Tensor:
    """The points, (members, P), that L-BFGS reaches from ``start``."""
    best, which, point = start.clone(), torch.arange(len(start), device=start.device), start
    with torch.enable_grad():
        loss, slope = evaluate(point, which)
    length, calm = torch.ones_like(loss), torch.zeros_like(loss)
    scale = FIRST_STEP / slope.norm(dim=1).clamp_min(1e-12)
    memory: list[tuple[Tensor, Tensor, Tensor]] = []  # steps, changes of the slope, 1 / (s · y)
    for _ in range(turns):
        if deadline.is_over:
            break
        direction = _direction(slope, memory, scale)
        promise = (slope * direction).sum(dim=1)
        uphill = promise >= 0
        direction = torch.where(uphill[:, None], -slope * scale[:, None], direction)
        promise = torch.where(uphill, (slope * direction).sum(dim=1), promise)
        there = point + length[:, None] * direction
        with torch.enable_grad():
            new_loss, new_slope = evaluate(there, which)
        is_better = new_loss <= loss + ENOUGH * length * promise
        step, change = there - point, new_slope - slope
        curvature, size = (step * change).sum(dim=1), change.square().sum(dim=1)
        is_told = is_better & (curvature > 1e-12)
        inverse = torch.where(is_told, 1 / curvature.clamp_min(1e-30), 0)
        scale = torch.where(is_told, curvature / size.clamp_min(1e-30), scale)
        told = is_told[:, None]  # what is refused may be infinite, and is forgotten
        told_step, told_change = torch.where(told, step, 0), torch.where(told, change, 0)
        memory = [*memory[-MEMORY + 1 :], (told_step, told_change, inverse)]
        gain = torch.where(is_better, loss - new_loss, 0)
        calm = torch.where(gain > LEAST_GAIN * loss.abs(), 0, calm + 1)
        lowest = -promise * length.square() / (2 * (new_loss - loss - promise * length))
        lowest = torch.where(lowest.isfinite(), lowest, 0)
        shorter = lowest.clamp(SHORTEST * length, SHORTER * length)
        length = torch.where(is_better, 1, shorter)
        loss = torch.where(is_better, new_loss, loss)
        slope = torch.where(is_better[:, None], new_slope, slope)
        point = torch.where(is_better[:, None], there, point)
        stays = calm < PATIENCE
        if not stays.any():
            break
        if (~stays).float().mean() > LEAVERS:
            best[which] = point
            which, point, loss, slope = which[stays], point[stays], loss[stays], slope[stays]
            length, calm, scale = length[stays], calm[stays], scale[stays]
            memory = [(s[stays], y[stays], inverse[stays]) for s, y, inverse in memory]
    best[which] = point
    return best


def _direction(slope: Tensor, memory: list[tuple[Tensor, Tensor, Tensor]], scale: Tensor) -> Tensor:
    """Newton's step by the remembered curvature, (members, P)."""
    direction, shares = -slope, []
    for step, change, inverse in reversed(memory):
        share = inverse * (step * direction).sum(dim=1)
        direction = direction - share[:, None] * change
        shares.append(share)
    direction = direction * scale[:, None]
    for (step, change, inverse), share in zip(memory, reversed(shares), strict=True):
        rest = share - inverse * (change * direction).sum(dim=1)
        direction = direction + rest[:, None] * step
    return direction


class _Stack:
    """Networks padded to common widths, the numbers of each in a row of ``start``.

    A row has, layer by layer, the weights from the inputs with the bias beside them, and those from
    earlier hidden neurons. ``mask`` is 1 where a number is free, ``decays`` where it is a weight as
    well.
    """

    def __init__(self, directs: Sequence[DirectSpace], dtype: torch.dtype):
        first = directs[0]
        self.directs, self.inputs = directs, first.inputs
        self.activation = resolve_activation(first.activation)[1]
        slices = [layer_slices(direct)[0] for direct in directs]
        depth = max(map(len, slices))
        widths = [[rows.stop - rows.start for rows in each[:-1]] for each in slices]
        hidden = [max(w[k] if k < len(w) else 0 for w in widths) for k in range(depth - 1)]
        self.ends = [0, *accumulate([*hidden, first.outputs])]
        like = first.weights
        numbers = like.new_zeros(len(directs), *self._shape(), dtype=dtype)
        self.places = [self._places(mine, first.outputs).to(like.device) for mine in widths]
        for mine, direct, places in zip(numbers, directs, self.places, strict=True):
            mine[places[:, None], self._sources(places, direct)] = with_bias(direct).to(dtype)
        blocks = self._blocks(numbers)
        self.lengths = [block[0].numel() for block in blocks]
        self.start = torch.cat([block.flatten(1) for block in blocks], dim=1)
        self.mask = (self.start != 0).to(dtype)
        is_weight = torch.ones_like(numbers[:1])
        is_weight[:, :, self.inputs] = 0
        weighed = torch.cat([block.flatten(1) for block in self._blocks(is_weight)], dim=1)
        self.decays = self.mask * weighed

    def outputs(self, point: Tensor, inputs: Tensor) -> Tensor:
        """(members, O, rows) of the networks whose numbers are ``point``, (members, P).

        ``inputs`` (I + 1, rows) have a last row of ones.
        """
        members, blocks = len(point), iter(point.split(self.lengths, dim=1))
        activities = point.new_empty(members, 0, inputs.shape[1])
        for start, stop in pairwise(self.ends):
            width = stop - start
            sent = next(blocks).reshape(members * width, -1) @ inputs
            pre = sent.view(members, width, -1)
            if start:
                pre = torch.baddbmm(pre, next(blocks).view(members, width, start), activities)
            if stop == self.ends[-1]:
                return pre
            activity = self.activation(pre)
            activities = torch.cat([activities, activity], dim=1) if start else activity
        raise AssertionError

    def directs_at(self, point: Tensor) -> list[DirectSpace]:
        """The networks with those numbers, in float64."""
        numbers = point.new_zeros(len(point), *self._shape(), dtype=torch.float64)
        for block, its in zip(self._blocks(numbers), point.split(self.lengths, dim=1), strict=True):
            block.copy_(its.view(block.shape))
        found = []
        for mine, direct, places in zip(numbers, self.directs, self.places, strict=True):
            found.append(from_biased(direct, mine[places[:, None], self._sources(places, direct)]))
        return found

    def _shape(self) -> tuple[int, int]:
        """Of one network's numbers: rows as its neurons, columns inputs, bias, hidden neurons."""
        return self.ends[-1], self.inputs + 1 + self.ends[-2]

    def _sources(self, places: Tensor, direct: DirectSpace) -> Tensor:
        """The columns of inputs, bias and hidden neurons of a network."""
        columns = torch.arange(self.inputs + 1, device=places.device)
        return torch.cat([columns, places[: direct.hidden] + self.inputs + 1])

    def _blocks(self, numbers: Tensor) -> list[Tensor]:
        """Views of what stands in a row of ``start``."""
        split, found = self.inputs + 1, []
        for start, stop in pairwise(self.ends):
            found.append(numbers[:, start:stop, :split])
            if start:
                found.append(numbers[:, start:stop, split : split + start])
        return found

    def _places(self, widths: list[int], outputs: int) -> Tensor:
        """Where the neurons and outputs of a network with those hidden layers stand, (H + O,)."""
        parts = [torch.arange(n) + start for n, start in zip(widths, self.ends, strict=False)]
        return torch.cat([*parts, torch.arange(outputs) + self.ends[-2]])
