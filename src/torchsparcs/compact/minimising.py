"""L-BFGS of many functions at once, each at its own pace.

At each turn all of them try a step: those that are not better off try a shorter one at the next
turn, while the others go on. One that no longer gains leaves.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from torchsparcs.training.deadline import NEVER, Deadline

MEMORY = 10  # steps that tell of the curvature
ENOUGH = 1e-4  # of the decrease that the slope promises
LEAST_GAIN, PATIENCE = 1e-6, 4  # who gains less, relatively, for so many turns is done
SHORTER, SHORTEST = 0.5, 0.1  # bounds of the next step after one that failed
FIRST_STEP = 0.1  # its length
LEAVERS = 0.3  # a share of the members that is worth taking out


@torch.no_grad()
def minimised(
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    turns: int,
    deadline: Deadline = NEVER,
) -> Tensor:
    """The points, (members, P), that L-BFGS reaches from ``start`` in at most so many turns.

    At the ``deadline`` it ends wherever it is.

    ``evaluate`` takes points and which members they are of, and gives losses and slopes.
    """
    best, which, point = start.clone(), torch.arange(len(start), device=start.device), start
    loss, slope = evaluate(point, which)
    length, calm = torch.ones_like(loss), torch.zeros_like(loss)
    scale = FIRST_STEP / slope.norm(dim=1).clamp_min(1e-12)
    steps = changes = point.new_zeros(len(point), 1, point.shape[1])  # that are remembered
    for _ in range(turns):
        if deadline.is_over:
            break
        direction = _direction(slope, steps, changes, scale)
        promise = (slope * direction).sum(dim=1)
        uphill = ~(promise < 0)  # or nowhere
        direction = torch.where(uphill[:, None], -slope * scale[:, None], direction)
        promise = torch.where(uphill, (slope * direction).sum(dim=1), promise)
        there = point + length[:, None] * direction
        new_loss, new_slope = evaluate(there, which)
        is_better = new_loss <= loss + ENOUGH * length * promise
        step, change = there - point, new_slope - slope
        curvature, size = (step * change).sum(dim=1), change.square().sum(dim=1)
        is_told = is_better & (curvature > 1e-12)
        scale = torch.where(is_told, curvature / size.clamp_min(1e-30), scale)
        told = is_told[:, None]  # what is refused may be infinite, and is forgotten
        told_step, told_change = torch.where(told, step, 0), torch.where(told, change, 0)
        steps = torch.cat([steps[:, -MEMORY + 1 :], told_step[:, None]], dim=1)
        changes = torch.cat([changes[:, -MEMORY + 1 :], told_change[:, None]], dim=1)
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
            steps, changes = steps[stays], changes[stays]
    best[which] = point
    return best


def _direction(slope: Tensor, steps: Tensor, changes: Tensor, scale: Tensor) -> Tensor:
    """Newton's step −H g by the remembered curvature, (members, P).

    With steps S and changes of the slope Y, (members, M, P), the oldest first, D the diagonal and R
    the upper triangle of S Yᵀ, γ the ``scale``, in the compact form of Byrd, Nocedal and Schnabel

        H g = γ g + Sᵀ R⁻ᵀ ((D + γ Y Yᵀ) p − γ Y g) − γ Yᵀ p,  p = R⁻¹ S g.

    What was forgotten is zero, and takes no part.
    """
    both = torch.cat([steps, changes], dim=1)
    count, scale = steps.shape[1], scale[:, None, None]
    by_change = (both @ changes.mT).double()  # (members, 2 M, M)
    crossed, squares = by_change[:, :count], by_change[:, count:]
    along = crossed.diagonal(dim1=1, dim2=2)
    upper = crossed.triu() + torch.diag_embed((along == 0).double())
    felt = (both @ slope[:, :, None]).double()  # (members, 2 M, 1)
    by_step, by_changes = felt[:, :count], felt[:, count:]
    first = torch.linalg.solve_triangular(upper, by_step, upper=True)
    right = along[..., None] * first + scale * (squares @ first - by_changes)
    second = torch.linalg.solve_triangular(upper.mT, right, upper=False)
    weights = torch.cat([second, -scale * first], dim=1).to(slope.dtype)
    return -(scale[:, 0] * slope + (weights.mT @ both)[:, 0])
