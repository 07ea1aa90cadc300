"""The plain MLPs again, by AdamW with a cosine schedule; learning rate and decay tuned.

All networks of a split with as many hidden layers and about as wide train side by side on the same
batches: narrow layers are filled with neurons that have no weights in or out, whose gradients are
zero, so that they stay so.
"""

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from by_size.mlps import Architecture, families
from by_size.preparing import Split, folds, judged, point

BUCKETS = (4, 16, 32, 64, 128)  # members are filled up to the next of these widths
BATCH = 128


@dataclass(frozen=True)
class Schedule:
    """How much is spent on a network."""

    rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)
    decays: tuple[float, ...] = (1e-2, 1e-1, 1.0)
    steps: int = 1_500
    starts: int = 2  # of the fit to all training rows; the lower training loss stays


class Member(NamedTuple):
    architecture: Architecture
    rate: float
    decay: float


def initial(members: list[Member], columns: int, outputs: int, starts: list[int]) -> list[Tensor]:
    """As nn.Linear draws them: weight and bias of each layer, then the skip, zero where absent.

    A weight is (starts, members, to, from), a bias (starts, members, to, 1).
    """
    widest = map(max, zip(*(one.architecture.hidden for one in members), strict=True))
    filled = list(itertools.pairwise([columns, *widest, outputs]))

    def drawn(architecture: Architecture, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)

        def uniform(to: int, of: int, fan_in: int, rows: int, wide: int) -> Tensor:
            values = (torch.rand(to, of, generator=generator) * 2 - 1) / math.sqrt(fan_in)
            return F.pad(values, (0, wide - of, 0, rows - to))

        tensors = []
        sizes = itertools.pairwise([columns, *architecture.hidden, outputs])
        for (of, to), (wide, rows) in zip(sizes, filled, strict=True):
            tensors += [uniform(to, of, of, rows, wide), uniform(to, 1, of, rows, 1)]
        skip = uniform(outputs, columns, columns, outputs, columns)
        return [*tensors, skip * architecture.skip]

    each = [drawn(one.architecture, seed) for seed in starts for one in members]
    stacked = (torch.stack(same) for same in zip(*each, strict=True))
    return [tensor.unflatten(0, (len(starts), len(members))) for tensor in stacked]


def forward(weights: list[Tensor], skips: Tensor, x: Tensor) -> Tensor:
    """Outputs (starts · members, outputs, rows) on x (starts, columns, rows).

    The networks of a start see the same rows: their first layers are one matrix product.
    """
    *layers, skip = weights
    (starts, members), rows = skip.shape[:2], x.shape[-1]
    z = torch.baddbmm(layers[1].flatten(1, 2), layers[0].flatten(1, 2), x)
    z = z.view(starts * members, -1, rows)
    for weight, bias in zip(layers[2::2], layers[3::2], strict=True):
        z = torch.baddbmm(bias.flatten(0, 1), weight.flatten(0, 1), z.relu())
    return z + ((skip * skips).flatten(1, 2) @ x).view(z.shape)


def losses(outputs: Tensor, y: Tensor, classes: int) -> Tensor:
    """Of each network, of outputs (networks, outputs, rows) and targets (networks, rows)."""
    if not classes:
        return (outputs[:, 0] - y).square().mean(1) / 2
    if classes == 2:
        return (F.softplus(outputs[:, 0]) - outputs[:, 0] * y).mean(1)
    return F.cross_entropy(outputs, y, reduction="none").mean(1)


def adamw_(p: Tensor, g: Tensor, m: Tensor, v: Tensor, rate: Tensor, decay: Tensor, t: int) -> None:
    """One step of torch.optim.AdamW on (networks, n), with rate and decay (networks, 1)."""
    m.lerp_(g, 0.1)
    v.lerp_(g.square(), 0.001)
    update = (m / (1 - 0.9**t)).div_((v / (1 - 0.999**t)).sqrt_().add_(1e-8))
    p.sub_(update.add_(p * decay).mul_(rate))


def trained(
    members: list[Member], split: Split, fits: list[NDArray], starts: list[int], steps: int
) -> tuple[list[Tensor], Tensor]:
    """Weights and the mask of skips, after training each start on its rows ``fits``."""
    device = split.device
    x = torch.from_numpy(split.x.astype(np.float32)).to(device)
    y = torch.from_numpy(split.y if split.classes else split.y.astype(np.float32)).to(device)
    shaped = initial(members, x.shape[1], split.outputs, starts)
    shapes = [tensor.shape for tensor in shaped]
    networks = len(starts) * len(members)
    flat = [w.reshape(networks, -1).to(device).requires_grad_() for w in shaped]
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in flat]
    skips = torch.tensor([float(one.architecture.skip) for one in members], device=device)
    skips = skips.view(-1, 1, 1)
    rates, decays = (
        torch.tensor([getattr(one, name) for one in members], device=device)
        .repeat(len(starts))
        .unsqueeze(1)
        for name in ("rate", "decay")
    )
    batch = min(BATCH, *map(len, fits))
    draws = [np.random.default_rng(seed) for seed in starts]
    epochs = math.ceil(steps * batch / min(map(len, fits)))
    order = np.stack(
        [
            np.concatenate([draw.permutation(rows) for _ in range(epochs)])[: steps * batch]
            for draw, rows in zip(draws, fits, strict=True)
        ]
    ).reshape(len(starts), steps, batch)
    order = torch.from_numpy(order).to(device)
    for step in range(steps):
        rows = order[:, step]
        weights = [w.view(shape) for w, shape in zip(flat, shapes, strict=True)]
        target = y[rows].repeat_interleave(len(members), 0)
        loss = losses(forward(weights, skips, x[rows].mT), target, split.classes).sum()
        pace = (1 + math.cos(math.pi * step / steps)) / 2
        gradients = torch.autograd.grad(loss, flat)
        for w, g, (m, v) in zip(flat, gradients, moments, strict=True):
            adamw_(w.detach(), g, m, v, rates * pace, decays, step + 1)
    return [w.detach().view(shape) for w, shape in zip(flat, shapes, strict=True)], skips


@torch.no_grad()
def outputs_of(weights: list[Tensor], skips: Tensor, start: int, x: NDArray) -> NDArray:
    """(members, rows, outputs) of the networks of one start."""
    mine = [weight[start : start + 1] for weight in weights]
    parts = torch.from_numpy(x.astype(np.float32)).to(skips.device).split(2_000)
    return torch.cat([forward(mine, skips, part.mT[None]) for part in parts], -1).mT.cpu().numpy()


def alike(members: list[Member], device: str) -> list[list[Member]]:
    """Those that train together: as deep and, where filling up costs time, about as wide."""
    groups = defaultdict(list)
    for one in members:
        hidden = one.architecture.hidden
        bucket = bisect_left(BUCKETS, max(hidden)) if device == "cpu" else 0
        groups[len(hidden), bucket].append(one)
    return list(groups.values())


def mlps_by_adamw(split: Split, schedule: Schedule = Schedule()) -> dict:  # noqa: B008
    """Every architecture with its rate and decay, trained again on all training rows."""
    columns, outputs, classes = split.x.shape[1], split.outputs, split.classes
    architectures = [one for family in families(columns, outputs) for one in family]
    grid = list(itertools.product(schedule.rates, schedule.decays))
    inner = folds(split)
    tuned: dict[Architecture, tuple[tuple[float, float], Member]] = {}
    members = [Member(a, *setting) for a in architectures for setting in grid]
    for group in alike(members, split.device):
        fits = [fit for fit, _ in inner]
        seeds = [1_000 * split.seed + place for place in range(len(fits))]
        weights, skips = trained(group, split, fits, seeds, schedule.steps)
        found = [
            [judged(out, split.y[held], classes) for out in outputs_of(weights, skips, place, x)]
            for place, (_, held) in enumerate(inner)
            for x in [split.x[held]]
        ]
        for one, (score, loss) in zip(group, np.mean(found, 0), strict=True):
            rank = (float(score), -float(loss))
            tuned[one.architecture] = max(
                tuned.get(one.architecture, (rank, one)), (rank, one), key=lambda pair: pair[0]
            )
    points = []
    for group in alike([one for _, one in tuned.values()], split.device):
        rows = [np.arange(len(split.y))] * schedule.starts
        seeds = [1_000 * split.seed + 500 + place for place in range(schedule.starts)]
        weights, skips = trained(group, split, rows, seeds, schedule.steps)
        fitted, tests = (
            [
                [judged(out, y, classes) for out in outputs_of(weights, skips, start, x)]
                for start in range(schedule.starts)
            ]
            for x, y in ((split.x, split.y), (split.x_test, split.y_test))
        )
        lowest = np.array(fitted)[..., 1].argmin(0)
        for place, one in enumerate(group):
            size = one.architecture.parameters(columns, outputs)
            (validation, _), test = tuned[one.architecture][0], tests[lowest[place]][place]
            made = point(size, str(one.architecture), validation, test)
            settings = {"rate": one.rate, "decay": one.decay}
            points.append({**made, "family": one.architecture.family, **settings})
    points.sort(key=lambda one: (one["family"], one["parameters"]))
    return {"points": points, "device": split.device}
