"""The end of a search: second-order fits under several decays, then single connections go.

Minibatches find good basins, second-order fits their bottom; and single connections are a finer
thing to lose than whole neurons.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, connection_count, is_read
from torchsparcs.compact.fitting import fitted
from torchsparcs.cutting.connections import cut_connections
from torchsparcs.cutting.ladder import Rung as AnyRung
from torchsparcs.searching.dense import DenseFamily
from torchsparcs.searching.folded import Judgement
from torchsparcs.training.progress import stage

DECAYS = (3e-4, 3e-3, 3e-2)
MOST_NUMBERS, FEWEST_NUMBERS = 1000, 50  # of a network whose connections go one by one
BAND = 2.5  # sizes within that factor compete for the best starts
CONTENDERS = 2  # of a band, that are fitted; the best of them is cut
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
    """The rows of all fits, and how much each counts for each, (fits, rows)."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    task: str

    def to(self, device: torch.device) -> "Rows":
        inputs, targets, weights, task = self
        return Rows(inputs.to(device), targets.to(device), weights.to(device), task)


class Finishing:
    """Finer and better fitted networks from the rungs of a ladder.

    ``widest`` is the most hidden neurons of a plain network, ``effort`` a share of the usual turns,
    for a quick look.
    """

    def __init__(
        self,
        family: DenseFamily,
        outputs: int,
        seed: int,
        *,
        widest: int | None = None,
        effort: float = 1.0,
        progress: bool = False,
    ):
        self.family, self.folded, self.seed = family, family.folded, seed
        self.outputs, self.widest, self.progress = outputs, widest, progress
        self.effort = min(1.0, effort)
        inputs, targets = self.folded.pair
        weights = self.folded.member_weights(1)
        some = _some_rows(weights, seed)
        weights = weights[:, some]
        rows = Rows(inputs[some], targets[some], weights, self.folded.loss)
        is_sent = family.executor.engine.workers > 1
        self.rows = rows.to(torch.device("cpu")) if is_sent else rows

    def linear(self, like: DirectSpace) -> list[Decayed]:
        """The linear model of all columns, fitted under each of several decays."""
        group = [_drawn(like, 0, self.seed, skip=True) for _ in range(self.folded.fits)]
        rung = Rung(LINEAR, 0, "linear", group, NOBODY, 0)
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
        with stage("second-order fits", self.progress):
            trained = self._fitted("fits", self._contenders(rungs, bands), self._turns(FIT_TURNS))
            plain = [self._plain(rungs[0].network, band) for band in bands]
            drawn = self._fitted("plain fits", plain, self._turns(DRAWN_TURNS))
        found = trained + drawn
        with stage("cutting single connections", self.progress):
            best = max(linear, key=_score)
            cut = self._cut([[best], *(self._starts(found, band) for band in bands)])
        return [rung for rung, _ in found] + cut

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
        """Networks of one hidden layer, with a skip and without; nobody has judged them."""
        found = []
        for skip in (False, True):
            fixed = like.outputs * (1 + skip * like.inputs)
            width = round((math.sqrt(math.prod(band)) - fixed) / (like.inputs + 1 + like.outputs))
            width = width if self.widest is None else min(width, self.widest)
            if width > 0:
                seeds = [self.seed + fit for fit in range(self.folded.fits)]
                group = [_drawn(like, width, seed, skip=skip) for seed in seeds]
                found.append(Rung(PLAIN, 0, "plain", group, NOBODY, 0))
        return found

    def _starts(self, found: list[Decayed], band: Band) -> list[Decayed]:
        """The best network of a band that was trained, and the best that was drawn."""
        inside = _within([rung for rung, _ in found if _is_sound(rung)], band)
        mine = [each for each in found if any(each[0] is rung for rung in inside)]
        kinds = ([f for f in mine if (f[0].group == PLAIN) is drawn] for drawn in (False, True))
        return [max(kind, key=_score) for kind in kinds if kind]

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

    def _cut(self, batches: list[list[Decayed]]) -> list[Rung]:
        """Every start without its least connections, at smaller and smaller sizes."""
        batches = [batch for batch in batches if batch]
        if not batches:
            return []
        work = partial(_cuts, self.rows, self.outputs + 1, self._turns(CUT_TURNS))
        groups = [[each for rung, _ in batch for each in rung.networks] for batch in batches]
        decays = [[decay for _, decay in batch] for batch in batches]
        made = self.family.shared_out("connections", work, groups, decays)
        cut = [
            ((batch[place % len(batch)][0], place // len(batch) + 1), group)
            for batch, cuts in zip(batches, made, strict=True)
            for place, group in enumerate(cuts)
            if group and is_read(group[-1]).any()  # a constant is no network
        ]
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


def _drawn(like: DirectSpace, width: int, seed: int, *, skip: bool) -> DirectSpace:
    """A plain network of one hidden layer with random weights."""
    generator = _generator(seed)
    inputs, outputs = like.inputs, like.outputs
    weights = torch.zeros(width + outputs, inputs + width, dtype=torch.float64)
    weights[:width, :inputs] = _uniform(generator, width, inputs) * math.sqrt(2)
    weights[width:, inputs:] = _uniform(generator, outputs, width)
    if skip:
        weights[width:, :inputs] = _uniform(generator, outputs, inputs)
    bias = torch.cat([_uniform(generator, width, inputs)[:, 0], torch.full((outputs,), 1e-3)])
    layers = torch.ones(width, dtype=like.layers.dtype)
    device = like.weights.device
    return replace(
        like,
        weights=weights.to(device),
        bias=bias.double().to(device),
        layers=layers.to(device),
    )


def _some_rows(weights: Tensor, seed: int) -> Tensor:
    """Rows to fit to, in their order: drawn at random, and a few at least of every fit's own.

    ``weights``: (fits, rows), how much each row counts for each.
    """
    order = torch.randperm(weights.shape[1], generator=_generator(seed)).to(weights.device)
    own = [order[mine[order] > 0][:FEWEST_ROWS] for mine in weights]
    return torch.cat([order[:MOST_ROWS], *own]).unique()


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed % 2**63)


def _uniform(generator: torch.Generator, rows: int, columns: int) -> Tensor:
    numbers = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return (2 * numbers - 1) * math.sqrt(3 / max(1, columns))


def _fits(
    rows: Rows, turns: int, networks: list[DirectSpace], decays: list[float]
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
    )
    return _chunks(found, fits)


def _cuts(
    rows: Rows,
    smallest: int,
    turns: int,
    networks: list[DirectSpace],
    decays: list[float],
) -> list[list[DirectSpace]]:
    """Groups, each with its decay, at smaller and smaller sizes; of all groups at each size.

    A group that can get no smaller is empty from then on.
    """
    rows, fits = rows.to(networks[0].weights.device), len(rows.weights)
    seen = [rows.inputs[weights > 0] for weights in rows.weights]
    left = dict(enumerate(_chunks(networks, fits)))
    found = []
    while left := {n: g for n, g in left.items() if connection_count(g[-1]) > smallest}:
        cut: list[DirectSpace] = []
        for place, (*others, last) in left.items():
            size = max(smallest, math.floor(connection_count(last) * SHRINK))
            kept = cut_connections(last, seen[-1], size, rows.task, decays[place])
            size = min(size, connection_count(kept))  # none judges that is larger
            cut += [
                cut_connections(other, mine, size, rows.task, decays[place])
                for other, mine in zip(others, seen[:-1], strict=True)
            ]
            cut.append(kept)
        groups = _fits(rows, turns, cut, [decays[place] for place in left])
        smaller = dict(zip(left, groups, strict=True))
        left = {
            place: group
            for place, group in smaller.items()
            if connection_count(group[-1]) < connection_count(left[place][-1])
        }
        found += [smaller.get(place, []) for place in range(len(decays))]
    return found
