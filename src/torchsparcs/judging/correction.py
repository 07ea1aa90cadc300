"""What a chosen network will score on rows that nobody has seen.

The best of many scores on the same rows is partly luck. So the choice is cross-validated as well:
one half of the rows chooses, the other half, which had no part in it, says what the chosen network
is worth; then the other way round, and again for many ways to halve them. No network is trained
anew. It is the bootstrap bias correction of I. Tsamardinos, E. Greasidou and G. Borboudakis,
*Bootstrapping the out-of-sample predictions for efficient and accurate cross-validation*, Machine
Learning 107, 2018, with halves in the place of bootstrap samples: these repeat rows, and so choose
as badly as one half does, but leave other rows to judge in every draw; halves use every row alike,
and what nothing competes with keeps its score exactly.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from torchsparcs.judging.candidates import ROUNDING

HALVINGS = 100
Size = TypeVar("Size", int, float)

NO_SCORE = -1e30  # of what diverged: never chosen


def expected_scores(parts: Sequence[Tensor], sizes: Sequence[Size]) -> dict[Size, float]:
    """By size, the score to be expected on unseen rows of the best network of at most that size.

    Networks are chosen as on a front: the best score, of equal ones that of the smallest network.

    Args:
        parts: of each network that may be chosen, (parts,), what each part of the rows adds to its
            score, see :class:`torchsparcs.judging.judgement.Judgement`.
        sizes: their parameters, or what they cost.
    """
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    added = torch.stack([*parts]).double()[order]
    added[~added.isfinite().all(dim=1)] = NO_SCORE
    half = _halves(added.shape[1])
    total = torch.zeros(len(sizes), dtype=torch.float64)
    for chooses, judges in ((half, 1 - half), (1 - half, half)):
        chosen = _leaders(chooses @ added.T)
        total += (judges @ added.T).gather(1, chosen).mean(dim=0)
    return {sizes[place]: score for place, score in zip(order, total.tolist(), strict=True)}


def _halves(parts: int) -> Tensor:
    """One half of the parts at a time, (halvings, parts) zeros and ones; always the same."""
    drawn = torch.rand(HALVINGS, parts, generator=torch.Generator().manual_seed(0))
    return (drawn.argsort(dim=1) % 2).double()


def _leaders(scores: Tensor) -> Tensor:
    """The place of the best so far along each row; what is no better than rounding is no better."""
    best = scores.cummax(dim=1).values
    is_better = torch.ones_like(scores, dtype=torch.bool)
    is_better[:, 1:] = scores[:, 1:] > best[:, :-1] + ROUNDING
    return torch.where(is_better, torch.arange(scores.shape[1]), 0).cummax(dim=1).values
