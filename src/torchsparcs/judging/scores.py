"""Scores as means over rows, also those that are none: a score S and what each row does to it.

Every function here gives (n,) values v with Σ share · v = S. Where S is a mean over rows they are
its terms. Else v = S + IF, with IF the influence function: what S gains, to first order, where a
row counts for a little more. Then √(Σ share² (v − S)²) is the standard error (the infinitesimal
jackknife; of the area under a ROC curve it is DeLong's), and twice the sum over half of the rows
is, to first order, the score of that half.

Shapes: output (n, k), target (n,) or (n, k), share (n,) with sum one. Of two classes k is one, the
logit of the second, whose score it is where only one class can be meant.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from torchsparcs.tables.target import Target
from torchsparcs.training.tasks import resolve_task

NOTHING = 1e-6  # of a target, beside its mean and scale


def by_row(values: Tensor) -> Tensor:
    """The number of each row, in float64; where a row has several, their mean."""
    return values.double() if values.dim() == 1 else values.double().flatten(1).mean(dim=1)


def task_scores(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """Accuracy or R², the score of the task."""
    scores = resolve_task(aim.task).scores
    assert scores is not None
    return by_row(scores(output, target, share))


def log_losses(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """log p of the true class."""
    losses = resolve_task(aim.task).losses
    assert losses is not None
    return -by_row(losses(output, target))


# --- numbers, in the units of the target ---------------------------------------------------------


def absolute_errors(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """−|y − ŷ|."""
    true, said = _in_units(output, target, aim)
    return by_row(-(true - said).abs())


def relative_errors(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """−|y − ŷ| / |y|; −∞ where y is zero, as far as float32 tells."""
    true, said = _in_units(output, target, aim)
    size = true.abs()
    is_zero = size < NOTHING * (output.new_tensor(aim.scale) + output.new_tensor(aim.mean).abs())
    return by_row(-(true - said).abs() / size.masked_fill(is_zero, 0.0))


def pinball_losses(
    output: Tensor, target: Tensor, share: Tensor, aim: Target, *, level: float
) -> Tensor:
    """−max(level · e, (level − 1) · e) of errors e = y − ŷ."""
    true, said = _in_units(output, target, aim)
    error = true - said
    return by_row(-torch.maximum(level * error, (level - 1) * error))


def _in_units(output: Tensor, target: Tensor, aim: Target) -> tuple[Tensor, Tensor]:
    """What is true and what is said, (n, k) each."""
    scale, mean = (output.new_tensor(part, dtype=torch.float64) for part in (aim.scale, aim.mean))
    true, said = target.reshape(output.shape).double(), output.double()
    return true * scale + mean, said * scale + mean


# --- classes -------------------------------------------------------------------------------------


def balanced_hits(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """The mean over C classes of r, the share that is found: IF = (hit − r) / (C · class share)."""
    if output.shape[1] == 1:
        said, true = (output[:, 0] > 0).long(), (target > 0.5).long()
    else:
        said, true = output.argmax(dim=1), target.long()
    weight = _sums(share, true, max(2, output.shape[1]))
    hit = (said == true).double()
    found = _sums(share * hit, true, len(weight)) / weight
    occurs = weight > 0
    influence = (hit - found[true]) / (occurs.sum() * weight[true])
    return found[occurs].mean() + influence


def f1_values(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """F = 2 A / B of the second class, or the mean of all; A: said and true, B: said plus true.

    IF = (2 a − F b) / B, with a and b of the row.
    """
    true, said = _truth(output, target), _said(output)
    both, either = 2.0 * (true & said), true.double() + said.double()
    total = share @ either  # (classes,)
    occurs = total > 0
    if not occurs.any():
        return torch.zeros_like(share)
    both, either, total = both[:, occurs].double(), either[:, occurs], total[occurs]
    score = share @ both / total
    return (score + (both - score * either) / total).mean(dim=1)


def roc_areas(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """The area under the ROC curve; of several classes the mean of each against the rest.

    IF = (V − S) / share of the row's side, with V the share of the other side that it is on the
    right side of.
    """
    return _over_classes(_roc_area, output, target, share)


def _roc_area(rank: Tensor, true: Tensor, share: Tensor) -> Tensor:
    levels = int(rank.max()) + 1
    positive, negative = _sums(share * true, rank, levels), _sums(share * ~true, rank, levels)
    below = (negative.cumsum(0) - negative / 2)[rank] / negative.sum()
    above = (positive.sum() - positive.cumsum(0) + positive / 2)[rank] / positive.sum()
    area = (share * true) @ below / positive.sum()
    influence = torch.where(true, (below - area) / positive.sum(), (above - area) / negative.sum())
    return area + influence


def average_precisions(output: Tensor, target: Tensor, share: Tensor, aim: Target) -> Tensor:
    """S, the mean over the rows x of a class of P(x), the precision among all from x upwards.

    IF = y (P − S) / p + Σ share(x) (y − P(x)) / (p B(x)) over rows x of the class up to the row,
    with p the share of the class and B(x) that of all from x upwards. Of several classes, their
    mean.
    """
    return _over_classes(_average_precision, output, target, share)


def _average_precision(rank: Tensor, true: Tensor, share: Tensor) -> Tensor:
    levels = int(rank.max()) + 1
    positive, every = _sums(share * true, rank, levels), _sums(share, rank, levels)
    upwards = every.flip(0).cumsum(0).flip(0)
    precision = positive.flip(0).cumsum(0).flip(0) / upwards
    here = positive / positive.sum()
    score = here @ precision
    gains = (here / upwards).cumsum(0)[rank]
    costs = (here * precision / upwards).cumsum(0)[rank]
    return score + true * (precision[rank] - score) / positive.sum() + true * gains - costs


def _over_classes(
    values: Callable[[Tensor, Tensor, Tensor], Tensor],
    output: Tensor,
    target: Tensor,
    share: Tensor,
) -> Tensor:
    """The mean of ``values(rank, true, share)`` over the classes that some rows have, not all."""
    true = _truth(output, target)
    level = output.double() if output.shape[1] == 1 else output.double().softmax(dim=1)
    mixed = true.any(dim=0) & ~true.all(dim=0)
    found = [
        values(level[:, place].unique(return_inverse=True)[1], true[:, place], share)
        for place in mixed.nonzero().squeeze(1).tolist()
    ]
    return torch.stack(found).mean(dim=0) if found else torch.full_like(share, torch.nan)


def _truth(output: Tensor, target: Tensor) -> Tensor:
    """Whether each row is of each class, (n, classes) bool; of two classes the second, (n, 1)."""
    if output.shape[1] == 1:
        return target.reshape(-1, 1) > 0.5
    return target.long()[:, None] == torch.arange(output.shape[1], device=output.device)


def _said(output: Tensor) -> Tensor:
    """The same for what is said."""
    return output > 0 if output.shape[1] == 1 else _truth(output, output.argmax(dim=1))


def _sums(values: Tensor, place: Tensor, count: int) -> Tensor:
    """The sum of the values at each place, (count,) in float64."""
    return values.new_zeros(count, dtype=torch.float64).index_add(0, place, values.double())
