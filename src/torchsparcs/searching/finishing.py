"""The end of a search: second-order fits under several decays, then single connections go.

Minibatches find good basins, second-order fits their bottom; and single connections are a finer
thing to lose than whole neurons. What was trained and plain networks of several shapes each go
down a lane of their own, so that at every size there is more than one topology.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, connection_count, is_read
from torchsparcs.compact.fitting import fitted, row_losses
from torchsparcs.cutting.connections import cut_connections
from torchsparcs.cutting.ladder import Rung as AnyRung
from torchsparcs.searching import drawing
from torchsparcs.searching.clock import Clock
from torchsparcs.searching.dense import DenseFamily
from torchsparcs.searching.drawing import SHAPES, Shape, drawn
from torchsparcs.searching.folded import FoldedData, Judgement
from torchsparcs.training.deadline import Deadline

DECAYS = (3e-5, 3e-4, 3e-3, 3e-2)
MOST_NUMBERS, FEWEST_NUMBERS = 1200, 20  # of a network whose connections go one by one
BAND = 2.5  # sizes within that factor compete for the best starts
CONTENDERS = 2  # of a band, that are fitted
SHRINK = 0.75  # from one size to the next
LINEAR_TURNS, FIT_TURNS, DRAWN_TURNS, CUT_TURNS = 80, 80, 150, 40
FEWEST_TURNS = 5
FIRST_SHARE = 0.3  # of the turns, in which all decays compete
MOST_ROWS, FEWEST_ROWS = 10_000, 200  # that are fitted to, of all and of each fit
LINEAR_DECAYS = (*DECAYS, 0.3)
PLAIN, LINEAR = -1, -2  # the groups of networks that were drawn, not trained

Band = tuple[float, float]  # sizes above and up to
Rung = AnyRung[DirectSpace, Judgement]
Decayed = tuple[Rung, float]  # and the weight decay that it was fitted under
NOBODY = Judgement(math.inf, -math.inf, 0.0, None, -math.inf, torch.zeros(0))  # has judged yet


class Rows(NamedTuple):
    """What networks are fitted to and judged by.

    Attributes:
        weights: (fits, rows), how much each row counts for each fit.
        judging: inputs and targets of rows that judge.
        shares: (fits, judging rows), how much each of those counts in the verdict on each fit.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    judging: tuple[Tensor, Tensor]
    shares: Tensor
    task: str

    @classmethod
    def of(cls, folded: FoldedData, seed: int) -> "Rows":
        """Some of the rows of ``folded``."""
        inputs, targets = folded.pair
        weights = folded.member_weights(1)
        some = _some_rows(weights, seed)
        judges, others = folded.judging
        rows = folded.folds.judged
        stride = math.ceil(len(rows) / MOST_ROWS)
        by = folded.folds.judge[rows][::stride]
        fits = torch.arange(folded.fits, device=by.device)
        shares = (fits[:, None] == by) * folded.weights[rows][::stride]
        judging = judges[::stride], others[::stride]
        return cls(inputs[some], targets[some], weights[:, some], judging, shares, folded.loss)

    def to(self, device: torch.device) -> "Rows":
        return Rows(
            self.inputs.to(device),
            self.targets.to(device),
            self.weights.to(device),
            (self.judging[0].to(device), self.judging[1].to(device)),
            self.shares.to(device),
            self.task,
        )

    def loss(self, group: list[DirectSpace]) -> float:
        """The mean loss of the fits of a group on the rows that judge them."""
        each = row_losses(group, self.judging, self.task)
        loss = (each * self.shares).sum() / self.shares.sum()
        return float(loss.nan_to_num(nan=math.inf))


class Finishing:
    """Finer and better fitted networks from the rungs of a ladder.

    ``widest`` and ``deepest`` are the most hidden neurons in a layer and the most layers of a plain
    network, ``effort`` a share of the usual turns, for a quick look; ``clock`` says how long.
    """

    def __init__(
        self,
        family: DenseFamily,
        outputs: int,
        seed: int,
        *,
        widest: int | None = None,
        deepest: int | None = None,
        effort: float = 1.0,
        clock: Clock,
    ):
        self.family, self.folded, self.seed = family, family.folded, seed
        self.outputs, self.widest, self.clock = outputs, widest, clock
        self.shapes = [each for each in SHAPES if deepest is None or each.layers <= deepest]
        self.effort = min(1.0, effort)
        rows = Rows.of(self.folded, seed)
        is_sent = family.executor.engine.workers > 1
        self.rows = rows.to(torch.device("cpu")) if is_sent else rows

    def linear(self, like: DirectSpace) -> list[Decayed]:
        """The linear model of all columns, fitted under each of several decays."""
        rung = self._drawn(like, drawing.LINEAR, 0, LINEAR)
        pairs = [[(rung, decay)] for decay in LINEAR_DECAYS]
        fits = self._under_decays("linear", pairs, self._turns(LINEAR_TURNS))
        return [each for batch in fits for each in batch]

    def run(
        self, rungs: Sequence[Rung], linear: Sequence[Decayed], largest: int | None
    ) -> list[Rung]:
        """More rungs: the best of each size fitted anew, plain networks, and the cuts of both.

        The best one of ``linear`` is cut as well.
        """
        rungs, bands = [*filter(_is_sound, rungs)], self._bands(largest)
        if not rungs:
            return []
        with self.clock.stage("fits", "second-order fits"):
            trained = self._fitted("fits", self._contenders(rungs, bands), self._turns(FIT_TURNS))
            plain = [self._plain(rungs[0].network, band) for band in bands]
            by_shape = [[rung] for batch in plain for rung in batch]
            made = self._fitted("plain fits", by_shape, self._turns(DRAWN_TURNS))
        lanes: dict[str, list[Decayed]] = {"linear": [max(linear, key=_score)]}
        for band in bands:
            for lane, starts in self._starts([*trained, *made], band).items():
                lanes.setdefault(lane, []).append(starts)
        with self.clock.stage("single", "cutting single connections"):
            cut = self._cut([*lanes.values()])
        return [rung for rung, _ in (*trained, *made)] + cut

    def _turns(self, usual: int) -> int:
        return max(FEWEST_TURNS, round(usual * self.effort))

    def _bands(self, largest: int | None) -> list[Band]:
        """Sizes above and up to, from the largest that the rows can tell apart."""
        most = len(self.rows.inputs) * self.outputs
        least = FEWEST_NUMBERS * BAND  # what is larger than allowed may be cut to what is not
        ends = [min(MOST_NUMBERS, max(most, least), max(largest or math.inf, least))]
        while ends[-1] > FEWEST_NUMBERS:
            ends.append(ends[-1] / BAND)
        return [*zip(ends[1:], ends, strict=False)]

    def _contenders(self, rungs: Sequence[Rung], bands: list[Band]) -> list[list[Rung]]:
        """The lowest losses of each band."""
        by_loss = (sorted(_within(rungs, band), key=lambda rung: rung.loss) for band in bands)
        return [mine[:CONTENDERS] for mine in by_loss]

    def _plain(self, like: DirectSpace, band: Band) -> list[Rung]:
        """A network of each shape in the middle of a band; nobody has judged them."""
        found, size = [], math.sqrt(math.prod(band))
        for shape in self.shapes:
            width = shape.width(like.inputs, like.outputs, size)
            width = width if self.widest is None else min(width, self.widest)
            if width > 0:
                found.append(self._drawn(like, shape, width, PLAIN))
        return found

    def _drawn(self, like: DirectSpace, shape: Shape, width: int, group: int) -> Rung:
        """A group of fits that start from different weights."""
        seeds = [self.seed + fit for fit in range(self.folded.fits)]
        networks = [drawn(like, shape, width, seed) for seed in seeds]
        return Rung(group, 0, str(shape), networks, NOBODY, connection_count(networks[-1]))

    def _starts(self, found: list[Decayed], band: Band) -> dict[str, Decayed]:
        """The best network of a band for each lane: what was trained, and each shape."""
        inside = _within([rung for rung, _ in found if _is_sound(rung)], band)
        best: dict[str, Decayed] = {}
        for each in found:
            if any(each[0] is rung for rung in inside):
                lane = each[0].way if each[0].group == PLAIN else "trained"
                best[lane] = max(best.get(lane, each), each, key=_score)
        return best

    def _fitted(self, name: str, batches: list[list[Rung]], turns: int) -> list[Decayed]:
        """Every rung fitted under every decay; those of a batch at once.

        All decays have the first turns; what is left of them is for the best one of each rung.
        """
        first = max(1, round(turns * FIRST_SHARE))
        pairs = [[(rung, decay) for rung in batch for decay in DECAYS] for batch in batches]
        tried = self._under_decays(name, pairs, first)
        best = [[min(some, key=_loss) for some in _chunks(batch, len(DECAYS))] for batch in tried]
        finished = self._under_decays(f"{name} on", best, turns - first)
        return [each for batch in (*tried, *finished) for each in batch]

    def _under_decays(
        self, name: str, batches: list[list[Decayed]], turns: int
    ) -> list[list[Decayed]]:
        """Rungs fitted from where they are, each under its decay."""
        batches = [batch for batch in batches if batch]
        if not batches or turns < 1:
            return batches
        groups = [[each for rung, _ in batch for each in rung.networks] for batch in batches]
        decays = [[decay for _, decay in batch] for batch in batches]
        work = partial(_fits, self.rows, turns)
        made = self.family.shared_out(name, work, groups, decays)
        return [
            [*zip(self._judged([(rung, 0) for rung, _ in batch], its), of, strict=True)]
            for batch, its, of in zip(batches, made, decays, strict=True)
        ]

    def _cut(self, lanes: list[list[Decayed]]) -> list[Rung]:
        """The rungs of each lane, from its starts down to the smallest size."""
        work = partial(_descended, self.rows, self.outputs + 1, self._turns(CUT_TURNS))
        groups = [[each for rung, _ in lane for each in rung.networks] for lane in lanes]
        decays = [[decay for _, decay in lane] for lane in lanes]
        made = self.family.shared_out("connections", work, groups, decays)
        cut: list[tuple[tuple[Rung, int], list[DirectSpace]]] = []
        for lane, steps in zip(lanes, made, strict=True):
            cuts = [0] * len(lane)
            for place, group in enumerate(steps):
                start = place % len(lane)
                cuts[start] += bool(group)
                if group and is_read(group[-1]).any():  # a constant is no network
                    cut.append(((lane[start][0], cuts[start]), group))
        return self._judged([of for of, _ in cut], [group for _, group in cut])

    def _judged(self, of: list[tuple[Rung, int]], groups: list[list[DirectSpace]]) -> list[Rung]:
        """Rungs like those they were made ``of``, by so many cuts, with networks of their own."""
        judgements = [self.family.judge([group])[0] for group in groups]
        return [
            replace(
                rung,
                cuts=rung.cuts + cuts,
                networks=group,
                judgement=judgement,
                parameters=connection_count(group[-1]),
            )
            for (rung, cuts), group, judgement in zip(of, groups, judgements, strict=True)
        ]


def _score(found: Decayed) -> tuple[float, float]:
    return found[0].judgement.score, -found[0].loss


def _loss(found: Decayed) -> float:
    loss = found[0].loss
    return math.inf if math.isnan(loss) else loss


def _chunks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _is_sound(rung: Rung) -> bool:
    """Whether nothing in it has diverged."""
    tensors = (part for each in rung.networks for part in (each.weights, each.bias))
    return math.isfinite(rung.loss) and all(bool(part.isfinite().all()) for part in tensors)


def _within(rungs: Sequence[Rung], band: Band) -> list[Rung]:
    """Those with hidden neurons of a size in ``band``."""
    low, high = band
    return [r for r in rungs if low < r.parameters <= high and r.network.hidden]


def _some_rows(weights: Tensor, seed: int) -> Tensor:
    """Rows to fit to, in their order: drawn at random, and a few at least of every fit's own.

    ``weights``: (fits, rows), how much each row counts for each.
    """
    generator = torch.Generator().manual_seed(seed % 2**63)
    order = torch.randperm(weights.shape[1], generator=generator).to(weights.device)
    own = [order[mine[order] > 0][:FEWEST_ROWS] for mine in weights]
    return torch.cat([order[:MOST_ROWS], *own]).unique()


def _fits(
    rows: Rows, turns: int, networks: list[DirectSpace], decays: list[float], deadline: Deadline
) -> list[list[DirectSpace]]:
    """Groups fitted, each under its decay."""
    rows, fits = rows.to(networks[0].weights.device), len(rows.weights)
    found = fitted(
        networks,
        (rows.inputs, rows.targets),
        rows.weights.repeat(len(decays), 1),
        [decay for decay in decays for _ in range(fits)],
        rows.task,
        turns=turns,
        deadline=deadline,
    )
    return _chunks(found, fits)


def _descended(
    rows: Rows,
    smallest: int,
    turns: int,
    networks: list[DirectSpace],
    decays: list[float],
    deadline: Deadline,
) -> list[list[DirectSpace]]:
    """A lane: groups, each with its decay, lose connections size by size and are fitted again.

    A group begins at its own size; one that is small enough already waits. Of those at a size only
    the one with the lowest loss goes on. For each size at which something is cut there is a group
    for each that began, empty where it is not there or got no smaller.
    """
    rows, fits = rows.to(networks[0].weights.device), len(rows.weights)
    seen = [rows.inputs[weights > 0] for weights in rows.weights]
    waiting = dict(enumerate(_chunks(networks, fits)))
    active: dict[int, list[DirectSpace]] = {}
    size = max(map(_count, waiting.values()))
    found = []
    while size > smallest and not deadline.is_over:
        size = max(smallest, math.floor(size * SHRINK))
        begun = [place for place, group in waiting.items() if _count(group) > size]
        active |= {place: waiting.pop(place) for place in begun}
        larger = {place: group for place, group in active.items() if _count(group) > size}
        if not larger:
            continue
        cut = [
            each
            for place, group in larger.items()
            for each in _cut_group(group, seen, size, rows.task, decays[place])
        ]
        steps = 1 + math.log(smallest / size, SHRINK)  # about, that are left
        mine = [decays[place] for place in larger]
        groups = _fits(rows, turns, cut, mine, deadline.part(1 / steps))
        made = {
            place: group
            for place, group in zip(larger, groups, strict=True)
            if _count(group) < _count(larger[place])
        }
        found += [made.get(place, []) for place in range(len(decays))]
        left = {place: g for place, g in active.items() if place not in larger} | made
        best = min(left, key=lambda place: rows.loss(left[place]), default=None)
        active = {} if best is None else {best: left[best]}
    return found


def _count(group: list[DirectSpace]) -> int:
    """The weights and biases of the network that a group is for."""
    return connection_count(group[-1])


def _cut_group(
    group: list[DirectSpace], seen: list[Tensor], size: int, task: str, decay: float
) -> list[DirectSpace]:
    """The fits of a group with at most ``size`` numbers, none that judges larger than the last."""
    *others, last = group
    kept = cut_connections(last, seen[-1], size, task, decay)
    size = min(size, connection_count(kept))
    judging = zip(others, seen[:-1], strict=True)
    return [*(cut_connections(each, mine, size, task, decay) for each, mine in judging), kept]
