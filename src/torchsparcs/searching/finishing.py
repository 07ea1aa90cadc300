"""The end of a search: second-order fits by several recipes, then single connections go.

Minibatches find good basins, second-order fits their bottom; and single connections are a finer
thing to lose than whole neurons. What was trained and plain networks of several shapes each go
down a lane of their own, so that at every size there is more than one topology.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch

from torchsparcs.compact.direct import DirectSpace, connection_count, is_read
from torchsparcs.cutting.ladder import Rung as AnyRung
from torchsparcs.searching import drawing
from torchsparcs.searching.dense import DenseFamily
from torchsparcs.searching.drawing import SHAPES, Shape, drawn
from torchsparcs.searching.fit_rows import FitRows, Recipe
from torchsparcs.searching.folded import Judgement
from torchsparcs.searching.lanes import descended
from torchsparcs.searching.teaching import lessons
from torchsparcs.training.progress import stage

DECAYS = (3e-5, 3e-4, 3e-3, 3e-2)  # that compete first; then the best one and its neighbours do
NEIGHBOURS = (1 / math.sqrt(10), 1.0, math.sqrt(10))
TAUGHT = (0.0, 0.5)  # shares of the teacher in the target
MOST_NUMBERS, FEWEST_NUMBERS = 1200, 20  # of a network whose connections go one by one
MOST_DRAWN = 6000  # numbers of a plain network, where larger ones are better
BETTER = 0.99  # of the loss: then the next larger size is tried
BAND = 2.5  # sizes within that factor compete for the best starts
CONTENDERS = 2  # of a band, that are fitted
LINEAR_TURNS, FIT_TURNS, DRAWN_TURNS, CUT_TURNS = 80, 80, 150, 40
FEWEST_TURNS = 5
FIRST_SHARE = 0.2  # of the turns, in which decays compete, and again in which neighbours do
LINEAR_DECAYS = tuple(10 ** (exponent / 2) for exponent in range(-9, 0))
PLAIN, LINEAR = -1, -2  # the groups of networks that were drawn, not trained

Band = tuple[float, float]  # sizes above and up to
Rung = AnyRung[DirectSpace, Judgement]
Cooked = tuple[Rung, Recipe]  # and what it was fitted by
NOBODY = Judgement(math.inf, -math.inf, 0.0, None, -math.inf, torch.zeros(0))  # has judged yet


class Finishing:
    """Finer and better fitted networks from the rungs of a ladder.

    ``widest`` and ``deepest`` are the most hidden neurons in a layer and the most layers of a plain
    network, ``effort`` a share of the usual turns, for a quick look.
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
        progress: bool = False,
    ):
        self.family, self.folded, self.seed = family, family.folded, seed
        self.outputs, self.widest, self.progress = outputs, widest, progress
        self.shapes = [each for each in SHAPES if deepest is None or each.layers <= deepest]
        self.effort = min(1.0, effort)
        rows = FitRows.of(self.folded, seed)
        is_sent = family.executor.engine.workers > 1
        self.rows = rows.to(torch.device("cpu")) if is_sent else rows

    def linear(self, like: DirectSpace) -> list[Cooked]:
        """The linear model of all columns, fitted under each of several decays."""
        rung = self._drawn(like, drawing.LINEAR, 0, LINEAR)
        pairs = [[(rung, Recipe(decay))] for decay in LINEAR_DECAYS]
        made = self._by_recipes(
            "linear", pairs, self._turns(LINEAR_TURNS), slice(0, self.rows.fits)
        )
        return self._judged_by_recipes(pairs, made)

    def run(
        self, rungs: Sequence[Rung], linear: Sequence[Cooked], largest: int | None
    ) -> list[Rung]:
        """More rungs: the best of each size fitted anew, plain networks, and the cuts of both.

        The best one of ``linear`` is cut as well.
        """
        rungs, bands = [*filter(_is_sound, rungs)], self._bands(largest)
        if not rungs:
            return []
        with stage("asking a teacher", self.progress):
            said = self.family.executor.steps.step("lessons", lambda: lessons(self.rows, self.seed))
            self.rows = replace(self.rows, lessons=said)
        with stage("second-order fits", self.progress):
            found = self._fitted_in("fits", rungs, bands)
            for band in self._larger_bands(bands[0], largest):
                if not _is_better_above(found, band[0] / BAND):
                    break
                found += self._fitted_in(f"fits to {band[1]:.0f}", rungs, [band])
        lanes: dict[str, list[Cooked]] = {"linear": [max(linear, key=_score)]}
        for band in bands:
            for lane, starts in self._starts(found, band).items():
                lanes.setdefault(lane, []).append(starts)
        with stage("cutting single connections", self.progress):
            cut = self._cut([*lanes.values()])
        return [rung for rung, _ in found] + cut

    def _fitted_in(self, name: str, rungs: Sequence[Rung], bands: list[Band]) -> list[Cooked]:
        """What was trained of those sizes, and plain networks of them, fitted."""
        contenders = self._contenders(rungs, bands)
        plain = [[rung] for band in bands for rung in self._plain(rungs[0].network, band)]
        return [
            *self._fitted(name, contenders, self._turns(FIT_TURNS)),
            *self._fitted(f"plain {name}", plain, self._turns(DRAWN_TURNS)),
        ]

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

    def _larger_bands(self, top: Band, largest: int | None) -> list[Band]:
        """Sizes above those whose connections go, as far as the rows can tell them apart."""
        most = min(MOST_DRAWN, len(self.rows.inputs) * self.outputs, largest or math.inf)
        ends = [top[1]]
        while ends[-1] * math.sqrt(BAND) <= most:
            ends.append(ends[-1] * BAND)
        return [*pairwise(ends)]

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

    def _starts(self, found: list[Cooked], band: Band) -> dict[str, Cooked]:
        """The best network of a band for each lane: what was trained, and each shape."""
        inside = _within([rung for rung, _ in found if _is_sound(rung)], band)
        best: dict[str, Cooked] = {}
        for each in found:
            if any(each[0] is rung for rung in inside):
                lane = each[0].way if each[0].group == PLAIN else "trained"
                best[lane] = max(best.get(lane, each), each, key=_score)
        return best

    def _fitted(self, name: str, batches: list[list[Rung]], turns: int) -> list[Cooked]:
        """Every rung fitted under its best decay, by each share of a teacher; batches at once.

        Fits that are judged say which decay is best: a few far apart compete, then the neighbours
        of the best one.
        """
        batches = [batch for batch in batches if batch]
        if not batches:
            return []
        judged, last = self.rows.judged_fits, slice(self.rows.fits - 1, self.rows.fits)
        first = max(1, round(turns * FIRST_SHARE))
        tried = [[_part(rung, judged) for rung in batch] for batch in batches]
        decays: list[list[Sequence[float]]] = [[DECAYS] * len(batch) for batch in batches]
        for which in ("far", "near"):
            pairs = [
                [
                    (rung, Recipe(decay))
                    for rung, some in zip(batch, its, strict=True)
                    for decay in some
                ]
                for batch, its in zip(tried, decays, strict=True)
            ]
            made = self._by_recipes(f"{name} {which}", pairs, first, judged)
            best = [
                self._best_of(batch, groups, its)
                for batch, groups, its in zip(pairs, made, decays, strict=True)
            ]
            tried = [[rung for rung, _ in batch] for batch in best]
            decays = [[[r.decay * by for by in NEIGHBOURS] for _, r in batch] for batch in best]
        if self.rows.fits > 1:  # the one that gives the network has not been fitted yet
            pairs = [
                [(_part(rung, last), recipe) for rung, (_, recipe) in zip(*both, strict=True)]
                for both in zip(batches, best, strict=True)
            ]
            made = self._by_recipes(f"{name} last", pairs, 2 * first, last)
            best = [
                [
                    (replace(rung, networks=[*rung.networks, *group]), recipe)
                    for (rung, recipe), group in zip(*both, strict=True)
                ]
                for both in zip(best, made, strict=True)
            ]
        shares = TAUGHT if self.rows.lessons is not None else TAUGHT[:1]
        pairs = [
            [(rung, recipe._replace(taught=share)) for rung, recipe in batch for share in shares]
            for batch in best
        ]
        everybody = slice(0, self.rows.fits)
        made = self._by_recipes(f"{name} on", pairs, max(1, turns - 2 * first), everybody)
        return self._judged_by_recipes(pairs, made)

    def _best_of(
        self, pairs: list[Cooked], made: list[list[DirectSpace]], decays: list[Sequence[float]]
    ) -> list[Cooked]:
        """Of each rung the decay with the lowest loss, and its fits there."""
        losses, found, start = [self.rows.loss(group) for group in made], [], 0
        for some in decays:
            place = min(range(start, start + len(some)), key=losses.__getitem__)
            rung, recipe = pairs[place]
            found.append((replace(rung, networks=made[place]), recipe))
            start += len(some)
        return found

    def _by_recipes(
        self, name: str, batches: list[list[Cooked]], turns: int, fits: slice
    ) -> list[list[list[DirectSpace]]]:
        """The networks of each rung, which are those ``fits``, fitted from where they are."""
        groups = [[each for rung, _ in batch for each in rung.networks] for batch in batches]
        recipes = [[recipe for _, recipe in batch] for batch in batches]
        return self.family.shared_out(name, partial(_fits, self.rows, turns, fits), groups, recipes)

    def _judged_by_recipes(
        self, batches: list[list[Cooked]], made: list[list[list[DirectSpace]]]
    ) -> list[Cooked]:
        """Rungs with the networks that were ``made`` of them."""
        pairs = [pair for batch in batches for pair in batch]
        groups = [group for batch in made for group in batch]
        rungs = self._judged([(rung, 0) for rung, _ in pairs], groups)
        return [(rung, recipe) for rung, (_, recipe) in zip(rungs, pairs, strict=True)]

    def _cut(self, lanes: list[list[Cooked]]) -> list[Rung]:
        """The rungs of each lane, from its starts down to the smallest size."""
        work = partial(descended, self.rows, self.outputs + 1, self._turns(CUT_TURNS))
        groups = [[each for rung, _ in lane for each in rung.networks] for lane in lanes]
        recipes = [[recipe for _, recipe in lane] for lane in lanes]
        made = self.family.shared_out("connections", work, groups, recipes)
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


def _score(found: Cooked) -> tuple[float, float]:
    return found[0].judgement.score, -found[0].loss


def _part(rung: Rung, fits: slice) -> Rung:
    """Only those fits of a group."""
    return replace(rung, networks=rung.networks[fits])


def _fits(
    rows: FitRows, turns: int, fits: slice, networks: list[DirectSpace], recipes: list[Recipe]
) -> list[list[DirectSpace]]:
    """Groups fitted where their networks are, each by its recipe."""
    return rows.to(networks[0].weights.device).fitted(networks, recipes, turns, fits)


def _is_better_above(found: Sequence[Cooked], size: float) -> bool:
    """Whether the lowest loss is that of a network larger than ``size``, and clearly so."""
    large = min((r.loss for r, _ in found if r.parameters > size), default=math.inf)
    small = min((r.loss for r, _ in found if r.parameters <= size), default=math.inf)
    return large < BETTER * small


def _is_sound(rung: Rung) -> bool:
    """Whether nothing in it has diverged."""
    tensors = (part for each in rung.networks for part in (each.weights, each.bias))
    return math.isfinite(rung.loss) and all(bool(part.isfinite().all()) for part in tensors)


def _within(rungs: Sequence[Rung], band: Band) -> list[Rung]:
    """Those with hidden neurons of a size in ``band``."""
    low, high = band
    return [r for r in rungs if low < r.parameters <= high and r.network.hidden]
