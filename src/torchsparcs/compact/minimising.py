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
    curvature = Curvature(start, FIRST_STEP / slope.norm(dim=1).clamp_min(1e-12))
    for _ in range(turns):
        if deadline.is_over:
            break
        direction = curvature.direction(slope)
        promise = (slope * direction).sum(dim=1)
        uphill = ~(promise < 0)  # or nowhere
        direction = torch.where(uphill[:, None], -slope * curvature.scale[:, None], direction)
        promise = torch.where(uphill, (slope * direction).sum(dim=1), promise)
        there = torch.addcmul(point, length[:, None], direction)
        new_loss, new_slope = evaluate(there, which)
        is_better = new_loss <= loss + ENOUGH * length * promise
        curvature.learn_(there - point, new_slope - slope, is_better)
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
            length, calm = length[stays], calm[stays]
            curvature.keep_(stays)
    best[which] = point
    return best


class Curvature:
    """What the last steps of each member tell of the curvature of its function.

    Attributes:
        scale: (members,), the length of a step downhill where nothing else is known.
        pairs: (members, 2 M, P), steps S and then the changes of the slope Y; the newest takes the
            place of the oldest, and what is not there is zero.
        crossed, squares: S Yᵀ and Y Yᵀ, (members, M, M) by those places, in float64.
        count: (members,), how many steps it was told.
    """

    def __init__(self, start: Tensor, scale: Tensor):
        members, numbers = start.shape
        self.scale = scale
        self.pairs = start.new_zeros(members, 2 * MEMORY, numbers)
        self.crossed = start.new_zeros(members, MEMORY, MEMORY, dtype=torch.float64)
        self.squares = torch.zeros_like(self.crossed)
        self.count = torch.zeros(members, dtype=torch.int64, device=start.device)

    def learn_(self, step: Tensor, change: Tensor, is_better: Tensor) -> None:
        """Remember the steps, (members, P), that made it better and bend upwards."""
        along, size = (step * change).sum(dim=1), change.square().sum(dim=1)
        told = (is_better & (along > 1e-12)).nonzero().squeeze(1)
        self.scale[told] = along[told] / size[told].clamp_min(1e-30)
        place = self.count[told] % MEMORY
        self.pairs[told, place] = step[told]
        self.pairs[told, MEMORY + place] = change[told]
        products = torch.stack([step, change], dim=1) @ self.pairs.mT  # faster than its transpose
        by_step, by_change = products[told].double().unbind(dim=1)
        self.crossed[told, :, place] = by_change[:, :MEMORY]
        self.crossed[told, place] = by_step[:, MEMORY:]
        self.squares[told, :, place] = self.squares[told, place] = by_change[:, MEMORY:]
        self.count[told] += 1

    def keep_(self, stays: Tensor) -> None:
        """Only those members, (members,) bool."""
        self.scale, self.count = self.scale[stays], self.count[stays]
        self.pairs = self.pairs[stays]
        self.crossed, self.squares = self.crossed[stays], self.squares[stays]

    def direction(self, slope: Tensor) -> Tensor:
        """Newton's step −H g by the remembered curvature, (members, P).

        With the steps in their order, D the diagonal and R the upper triangle of S Yᵀ, γ the
        ``scale``, in the compact form of Byrd, Nocedal and Schnabel

            H g = γ g + Sᵀ R⁻ᵀ ((D + γ Y Yᵀ) p − γ Y g) − γ Yᵀ p,  p = R⁻¹ S g.
        """
        places = torch.arange(MEMORY, device=slope.device)
        order = (self.count.clamp_min(MEMORY)[:, None] + places) % MEMORY  # the oldest first
        order = torch.where(self.count[:, None] < MEMORY, places, order)
        rows = order[:, :, None].expand_as(self.crossed)
        crossed = self.crossed.gather(1, rows).gather(2, rows.mT)
        squares = self.squares.gather(1, rows).gather(2, rows.mT)
        along = crossed.diagonal(dim1=1, dim2=2)
        upper = crossed.triu() + torch.diag_embed((along == 0).double())
        both = torch.cat([order, order + MEMORY], dim=1)
        felt = (slope[:, None] @ self.pairs.mT).double().squeeze(1).gather(1, both)
        by_step, by_change = felt[:, :MEMORY, None], felt[:, MEMORY:, None]
        scale = self.scale[:, None, None]
        first = torch.linalg.solve_triangular(upper, by_step, upper=True)
        right = along[..., None] * first + scale * (squares @ first - by_change)
        second = torch.linalg.solve_triangular(upper.mT, right, upper=False)
        told = torch.cat([second, -scale * first], dim=1).squeeze(2)
        weights = torch.zeros_like(told).scatter(1, both, told).to(slope.dtype)
        return -(scale[:, 0] * slope + (weights[:, None] @ self.pairs)[:, 0])
