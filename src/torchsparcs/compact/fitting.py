"""Second-order fits of many small networks at once: L-BFGS, every network at its own pace."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.minimising import minimised
from torchsparcs.compact.stack import Stack
from torchsparcs.training.deadline import NEVER, Deadline
from torchsparcs.training.quantiles import pinball, pinball_slope, quantile_level

FEW_ROWS = 500  # that are computed in float64
MOST_DIGITS = 60  # of a binary number that tells for whom a row counts
CACHED, FEWEST_AT_ONCE = 2**19, 64  # signals of as many rows as stay in a cache; rows at least

Losses = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _squared_errors(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    off = output - target
    return off.square().mean(dim=1), off * (2 / output.shape[1])


def _binary_cross_entropies(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    each = F.softplus(output) - output * target
    return each.mean(dim=1), (output.sigmoid() - target) / output.shape[1]


def _cross_entropies(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    logarithms = output.log_softmax(dim=1)
    return -(logarithms * target).sum(dim=1), logarithms.exp_().sub_(target)


# (members, O, rows) and (O, rows), or (members, O, rows), to (members, rows) and the slopes by the
# outputs; the targets of classes are their probabilities
LOSSES: dict[str, Losses] = {
    "regression": _squared_errors,
    "binary": _binary_cross_entropies,
    "multiclass": _cross_entropies,
}


def losses_of(task: str) -> Losses:
    """The row of :data:`LOSSES`, or that of a quantile."""
    level = quantile_level(task)
    if level is None:
        return LOSSES[task]

    def pinballs(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        error = target - output
        return pinball(error, level).mean(dim=1), -pinball_slope(error, level) / output.shape[1]

    return pinballs


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
        pair: inputs (rows, I) and targets as the task has them, for all networks; or targets of
            each, (networks, rows, O), of classes their probabilities.
        weights: (networks, rows), how much each row counts for each.
        decays: one for each network.
        turns: evaluations of the loss at most.
        deadline: when it ends, wherever it is.
    """
    dtype = torch.float64 if len(pair[0]) <= FEW_ROWS else torch.float32
    stack = Stack(directs, dtype)
    is_small = weights.numel() * stack.ends[-1] <= CACHED
    order, blocks = _blocks(torch.ones_like(weights) if is_small else weights)
    pair = pair[0][order], pair[1][order] if pair[1].dim() < 3 else pair[1][:, order]
    inputs, target = with_rows_last(pair, task, dtype, directs[0].outputs)
    share = (weights / weights.sum(dim=1, keepdim=True)).to(dtype)[:, order]
    decay = torch.tensor(decays, dtype=dtype, device=inputs.device)[:, None]
    losses = losses_of(task)

    def evaluate(point: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and slope of the networks ``which``."""
        pull = decay[which] * stack.decays[which] * point
        loss, slope = 0.5 * (pull * point).sum(dim=1), torch.zeros_like(point)
        for block, counts in blocks:
            mine = counts[which].nonzero().squeeze(1)
            if not len(mine):
                continue
            of, here = which[mine], point[mine]
            at_once = max(FEWEST_AT_ONCE, CACHED // (len(mine) * stack.ends[-1]))
            for start in range(block.start, block.stop, at_once):
                some = slice(start, min(start + at_once, block.stop))
                aim = target[:, some] if target.dim() == 2 else target[of, :, some]

                def weighed(output: Tensor, aim=aim, counted=share[of, some]):  # type: ignore[no-untyped-def]
                    each, by_output = losses(output, aim)
                    return (each * counted).sum(dim=1), by_output * counted[:, None]

                its_loss, its_slope = stack.loss_and_slope(here, inputs[:, some], weighed)
                loss.index_add_(0, mine, its_loss)
                slope.index_add_(0, mine, its_slope)
        return loss, slope * stack.mask[which] + pull

    return stack.directs_at(minimised(evaluate, stack.start, turns, deadline))


@torch.no_grad()
def row_losses(directs: Sequence[DirectSpace], pair: tuple[Tensor, Tensor], task: str) -> Tensor:
    """The loss of each network on each row of ``pair``, (networks, rows)."""
    inputs, target = with_rows_last(pair, task, torch.float32, directs[0].outputs)
    stack = Stack(directs, torch.float32)
    return losses_of(task)(stack.outputs(stack.start, inputs), target)[0]


def _blocks(weights: Tensor) -> tuple[Tensor, list[tuple[slice, Tensor]]]:
    """An order of the rows, and slices of it with whom their rows count for, (networks,) bool.

    Rows that count for the same networks stand together, so that the others need not see them.
    """
    counts = weights > 0
    digits = 2 ** (torch.arange(len(weights), device=weights.device) % MOST_DIGITS)
    _, kind, sizes = (
        (counts * digits[:, None]).sum(dim=0).unique(return_inverse=True, return_counts=True)
    )
    order = kind.argsort(stable=True)
    ends = [0, *sizes.cumsum(0).tolist()]
    return order, [
        (slice(start, stop), counts[:, order[start:stop]].any(dim=1))
        for start, stop in pairwise(ends)
    ]


def with_rows_last(
    pair: tuple[Tensor, Tensor], task: str, dtype: torch.dtype, outputs: int
) -> tuple[Tensor, Tensor]:
    """Inputs (I + 1, rows), the constant of the biases last, and targets (.., O, rows)."""
    inputs = F.pad(pair[0].T.to(dtype), (0, 0, 0, 1), value=1.0)
    target = pair[1]
    if target.dim() == 3:
        return inputs, target.mT.to(dtype)
    if task == "multiclass":
        target = F.one_hot(target.long().reshape(-1), outputs)
    return inputs, target.reshape(len(target), -1).T.to(dtype)
