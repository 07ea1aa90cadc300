"""Large tables: a sample to search on, and last fits of what was found to all rows.

Nothing of the sample judges in the end: the rows that choose among many networks flatter them, and
where rows are many, others can say what those that were chosen are worth.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.fitting import fitted
from torchsparcs.cutting.ladder import Rung
from torchsparcs.fitting.dense import DenseFamily, compact
from torchsparcs.fitting.folded import FoldedData, Folds, Judgement
from torchsparcs.judging.candidates import Candidate
from torchsparcs.training.deadline import Deadline

FEWEST = 500  # rows of the sample for each class and each judge, as far as there are
TURNS, DECAY = 30, 3e-5  # of the last fits

Judged = tuple[Candidate, Rung[DirectSpace, Judgement]]


def sampled(folded: FoldedData, count: int, seed: int) -> tuple[FoldedData, FoldedData]:
    """``count`` rows to search on, and those of the last fits: all of them, judged by the others.

    Where there are less than twice as many, or some judge twice, both are ``folded``. Each class
    and each judge has its share of the sample; a rare one has more, whose rows count less, but of
    rows that judge at most half.
    """
    if len(folded.inputs) < 2 * count or folded.folds.source is not None:
        return folded, folded
    kind = folded.folds.judge + 1
    if folded.has_classes:
        kind = kind * (int(folded.targets.max()) + 1) + folded.targets.flatten().long()
    chosen, factors = _drawn(kind.cpu(), folded.folds.judge.cpu() >= 0, count, seed)
    chosen = chosen.to(kind.device)
    some = replace(
        folded,
        inputs=folded.inputs[chosen],
        targets=folded.targets[chosen],
        weights=folded.weights[chosen] * factors.to(kind.device),
        folds=Folds(folded.folds.fitted[:, chosen], folded.folds.judge[chosen]),
        clusters=None if folded.clusters is None else folded.clusters[chosen.cpu()],
        lesson=None if folded.lesson is None else folded.lesson.at(chosen),
    )
    judge = folded.folds.judge.clone()
    judge[chosen] = -1
    if any(not (judge == each).any() for each in range(folded.folds.judges)):
        return folded, folded  # some judge has a single row
    return some, replace(folded, folds=Folds(folded.folds.fitted, judge))


def _drawn(kind: Tensor, is_judge: Tensor, whole: int, seed: int) -> tuple[Tensor, Tensor]:
    """Some rows of each kind, of ``whole``, in their order, and what each counts, 1 on average."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    order = torch.randperm(len(kind), generator=generator)
    share, rows, factors = whole / len(kind), [], []
    for each in kind.unique():
        mine = order[kind[order] == each]
        most = len(mine) - len(mine) // 2 if is_judge[mine[0]] else len(mine)
        count = min(most, max(FEWEST, round(share * len(mine))))
        rows.append(mine[:count])
        # those of one kind stand for all of it
        is_even = count == round(share * len(mine))
        factors.append(torch.full((count,), 1.0 if is_even else share * len(mine) / count))
    chosen, factor = torch.cat(rows), torch.cat(factors)
    place = chosen.argsort()
    return chosen[place], factor[place]


def last_fits(family: DenseFamily, found: Sequence[Judged]) -> list[Judged]:
    """What was ``found``, fitted to all rows of ``family`` from where it is, and judged."""
    folded, groups = family.folded, [rung.networks for _, rung in found]
    rows, weights = folded.pair, folded.member_weights(1)
    if family.executor.engine.workers > 1:  # it is sent
        rows, weights = (rows[0].cpu(), rows[1].cpu()), weights.cpu()
    work = partial(_fits, rows, weights, folded.loss)
    made = family.shared_out("last fits", work, groups, [DECAY] * len(groups))
    after = []
    for (before, rung), (group,) in zip(found, made, strict=True):
        (judgement,) = family.judge([group])
        candidate = Candidate.of(
            compact(group[-1]), judgement, before.penalty_weight, before.member
        )
        after.append((candidate, replace(rung, networks=group, judgement=judgement)))
    return after


def _fits(
    pair: tuple[Tensor, Tensor],
    weights: Tensor,
    task: str,
    networks: list[DirectSpace],
    decay: float,
    deadline: Deadline,
) -> list[list[DirectSpace]]:
    device = networks[0].weights.device
    rows = pair[0].to(device), pair[1].to(device)
    decays = [decay] * len(networks)
    done = fitted(networks, rows, weights.to(device), decays, task, turns=TURNS, deadline=deadline)
    return [done]
