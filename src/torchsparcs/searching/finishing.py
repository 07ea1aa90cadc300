"""The end of a search: second-order fits under several decays, then single connections go.

Minibatches find good basins, second-order fits their bottom; and single connections are a finer
thing to lose than whole neurons.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

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
FIT_TURNS, DRAWN_TURNS, CUT_TURNS = 80, 150, 40
FEWEST_TURNS = 5
MOST_ROWS = 10_000  # that are fitted to, drawn at random
PLAIN = -1  # the group of networks that were drawn, not trained

Band = tuple[float, float]  # sizes above and up to
Rung = AnyRung[DirectSpace, Judgement]


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
        drawn = torch.randperm(len(inputs), generator=_generator(seed))[:MOST_ROWS]
        some = drawn.sort().values.to(inputs.device)
        weights = self.folded.member_weights(1)[:, some]
        rows = Rows(inputs[some], targets[some], weights, self.folded.task)
        is_sent = family.executor.engine.workers > 1
        self.rows = rows.to(torch.device("cpu")) if is_sent else rows

    def run(self, rungs: Sequence[Rung], largest: int | None) -> list[Rung]:
        """More rungs: the best of each size fitted anew, plain networks, and the cuts of both."""
        rungs, bands = [*filter(_is_sound, rungs)], self._bands(largest)
        if not rungs:
            return []
        with stage("second-order fits", self.progress):
            trained = self._fitted("fits", self._contenders(rungs, bands), self._turns(FIT_TURNS))
            plain = [self._plain(rungs[0].network, band) for band in bands]
            drawn = self._fitted("plain fits", plain, self._turns(DRAWN_TURNS))
        found = trained + drawn
        with stage("cutting single connections", self.progress):
            cut = self._cut([self._starts(found, band) for band in (None, *bands)])
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
        """The linear model, and the lowest losses of each band."""
        by_loss = (sorted(_within(rungs, band), key=lambda rung: rung.loss) for band in bands)
        return [_within(rungs, None)[:1], *(mine[:CONTENDERS] for mine in by_loss)]

    def _plain(self, like: DirectSpace, band: Band) -> list[Rung]:
        """Networks of one hidden layer, with a skip and without; nobody has judged them."""
        nobody = Judgement(math.inf, -math.inf, 0.0, None, -math.inf, torch.zeros(0))
        found = []
        for skip in (False, True):
            fixed = like.outputs * (1 + skip * like.inputs)
            width = round((math.sqrt(math.prod(band)) - fixed) / (like.inputs + 1 + like.outputs))
            width = width if self.widest is None else min(width, self.widest)
            if width > 0:
                seeds = [self.seed + fit for fit in range(self.folded.fits)]
                group = [_drawn(like, width, seed, skip=skip) for seed in seeds]
                found.append(Rung(PLAIN, 0, "plain", group, nobody, 0))
        return found

    def _starts(
        self, found: list[tuple[Rung, float]], band: Band | None
    ) -> list[tuple[Rung, float]]:
        """The best network of a band that was trained, and the best that was drawn."""
        inside = _within([rung for rung, _ in found if _is_sound(rung)], band)
        mine = [each for each in found if any(each[0] is rung for rung in inside)]
        kinds = ([f for f in mine if (f[0].group == PLAIN) is drawn] for drawn in (False, True))
        return [max(kind, key=_score) for kind in kinds if kind]

    def _fitted(self, name: str, batches: list[list[Rung]], turns: int) -> list[tuple[Rung, float]]:
        """Every rung fitted under every decay, and that decay; those of a batch at once."""
        batches = [batch for batch in batches if batch]
        if not batches:
            return []
        work = partial(_fits, self.rows)
        groups = [[each for rung in batch for each in rung.networks] for batch in batches]
        made = self.family.shared_out(name, work, groups, [turns] * len(groups))
        of = [(rung, decay) for batch in batches for decay in DECAYS for rung in batch]
        groups = [group for batch in made for group in batch]
        judged = self._judged([(rung, 0) for rung, _ in of], groups)
        return [(rung, decay) for rung, (_, decay) in zip(judged, of, strict=True)]

    def _cut(self, batches: list[list[tuple[Rung, float]]]) -> list[Rung]:
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
            if is_read(group[-1]).any()  # a constant is no network
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


def _score(found: tuple[Rung, float]) -> tuple[float, float]:
    return found[0].judgement.score, -found[0].loss


def _is_sound(rung: Rung) -> bool:
    """Whether nothing in it has diverged."""
    tensors = (part for each in rung.networks for part in (each.weights, each.bias))
    return math.isfinite(rung.loss) and all(bool(part.isfinite().all()) for part in tensors)


def _within(rungs: Sequence[Rung], band: Band | None) -> list[Rung]:
    """Those with hidden neurons of a size in ``band``; None for the linear ones."""
    if band is None:
        return [rung for rung in rungs if not rung.network.hidden]
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


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed % 2**63)


def _uniform(generator: torch.Generator, rows: int, columns: int) -> Tensor:
    numbers = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return (2 * numbers - 1) * math.sqrt(3 / columns)


def _fits(rows: Rows, networks: list[DirectSpace], turns: int) -> list[list[DirectSpace]]:
    """Groups fitted under each of the decays."""
    rows, fits = rows.to(networks[0].weights.device), len(rows.weights)
    copies = len(networks) // fits * len(DECAYS)
    found = fitted(
        networks * len(DECAYS),
        (rows.inputs, rows.targets),
        rows.weights.repeat(copies, 1),
        [decay for decay in DECAYS for _ in networks],
        rows.task,
        turns=turns,
    )
    return [found[start : start + fits] for start in range(0, len(found), fits)]


def _cuts(
    rows: Rows,
    smallest: int,
    turns: int,
    networks: list[DirectSpace],
    decays: list[float],
) -> list[list[DirectSpace]]:
    """Groups, each with its decay, at smaller and smaller sizes; of all groups at each size."""
    rows, fits, count = rows.to(networks[0].weights.device), len(rows.weights), len(decays)
    seen = [rows.inputs[weights > 0] for weights in rows.weights]
    each = [decay for decay in decays for _ in range(fits)]
    sizes = [connection_count(networks[place * fits + fits - 1]) for place in range(count)]
    found = []
    while max(sizes) > smallest:
        sizes = [max(smallest, math.floor(size * SHRINK)) for size in sizes]
        cut: list[DirectSpace] = []
        for place, (size, decay) in enumerate(zip(sizes, decays, strict=True)):
            *others, last = networks[place * fits : (place + 1) * fits]
            kept = cut_connections(last, seen[-1], size, rows.task, decay)
            size = min(size, connection_count(kept))  # none judges that is larger
            cut += [
                cut_connections(other, mine, size, rows.task, decay)
                for other, mine in zip(others, seen[:-1], strict=True)
            ]
            cut.append(kept)
        networks = fitted(
            cut,
            (rows.inputs, rows.targets),
            rows.weights.repeat(count, 1),
            each,
            rows.task,
            turns=turns,
        )
        groups = [networks[start : start + fits] for start in range(0, len(networks), fits)]
        sizes = [min(n, connection_count(g[-1])) for n, g in zip(sizes, groups, strict=True)]
        found += groups
    return found
