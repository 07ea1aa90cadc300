"""The end of a search: second-order fits by several recipes, then single connections go.

Minibatches find good basins, second-order fits their bottom; and single connections are a finer
thing to lose than whole neurons. What was trained and plain networks of several shapes each go
down a lane of their own, so that at every size there is more than one topology.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch

from torchsparcs.compact.direct import DirectSpace, connection_count, is_connected
from torchsparcs.fitting import boosting, drawing
from torchsparcs.fitting.dense import DenseFamily
from torchsparcs.fitting.drawing import SHAPES, Shape, drawn
from torchsparcs.fitting.fit_rows import FitRows, Recipe
from torchsparcs.fitting.lanes import descended
from torchsparcs.fitting.lesson import Lesson
from torchsparcs.fitting.second_order import (
    NOBODY,
    Band,
    Begun,
    Cooked,
    Rung,
    SecondOrder,
)
from torchsparcs.searching.clock import Clock
from torchsparcs.training.deadline import NEVER

DECAYS = (3e-5, 3e-4, 3e-3, 3e-2)  # that compete first; then the best one and its neighbours do
NEIGHBOURS = (1 / math.sqrt(10), 1.0, math.sqrt(10))
MOST_NUMBERS, FEWEST_NUMBERS = 1200, 20  # of a network whose connections go one by one
MOST_DRAWN = 6000  # numbers of a plain network, where larger ones are better
CLEARLY = 0.99  # of a loss: what is below is clearly better
BAND = 2.5  # sizes within that factor compete for the best starts
PUPIL_SIZES = (250, 1000, 4000)  # numbers of plain networks that a teacher has as pupils
CONTENDERS, KEPT = 2, 3  # of a band: that were trained, and of all those that are fitted to the end
LINEAR_TURNS, DEEP_TURNS, CUT_TURNS = 80, 200, 40
DEEP_ROWS = 1500  # fewer are known by heart after the usual turns
SHARES = 2  # of the lanes: what goes down together costs less, and two cores have one each
QUICK = 0.25  # of the usual effort, below which nobody expects the best
LINEAR_DECAYS = tuple(10 ** (exponent / 2) for exponent in range(-9, 0))
PLAIN, LINEAR = -1, -2  # the groups of networks that were drawn, not trained


class Finishing:
    """Finer and better fitted networks from the rungs of a ladder.

    ``widest`` and ``deepest`` are the most hidden neurons in a layer and the most layers of a plain
    network, ``effort`` a share of the usual turns; ``clock`` says how long. Below ``QUICK`` of the
    effort it is a quick look: fewer shapes, in larger steps, and no networks or pupils larger than
    those whose connections go. ``boosts``: boosting may be a teacher.

    Attributes:
        is_taught_by_boosting: it was.
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
        boosts: bool = True,
        clock: Clock,
    ):
        self.boosts, self.is_taught_by_boosting = boosts, False
        self.family, self.folded, self.seed = family, family.folded, seed
        self.outputs, self.widest, self.clock = outputs, widest, clock
        rows = FitRows.of(self.folded, seed)
        is_sent = family.executor.engine.workers > 1
        self.fits = SecondOrder(family, rows.to(torch.device("cpu")) if is_sent else rows, effort)
        shapes = SHAPES[:1] if self.is_quick else SHAPES
        self.shapes = [each for each in shapes if deepest is None or each.layers <= deepest]

    def linear(self, like: DirectSpace) -> list[Cooked]:
        """The linear model of all columns, fitted under each of several decays."""
        rung = self._drawn(like, drawing.LINEAR, 0, LINEAR)
        begun = [(rung, Recipe(decay)) for decay in LINEAR_DECAYS]
        return self.fits.fitted("linear", begun, LINEAR_TURNS)

    def run(
        self, rungs: Sequence[Rung], linear: Sequence[Cooked], largest: int | None
    ) -> list[Rung]:
        """More rungs: the best of each size fitted anew, plain networks, and the cuts of both.

        The best one of ``linear`` is cut as well.
        """
        rungs, bands = [*filter(_is_sound, rungs)], self._bands(largest)
        if not rungs or self.clock.is_over:
            return []
        begun: list[Begun] = []
        decays: dict[str, float] = {}
        larger = [] if self.is_quick else self._larger_bands(bands[0], largest)
        for left, band in reversed([*enumerate([*reversed(larger), *bands], 1)]):
            is_vain = band in larger and not _is_better_above(begun, band[0] / BAND)
            if is_vain or self.clock.is_over:
                break
            with self.clock.stage(
                "decays", f"choosing weight decays, up to {band[1]:,.0f} parameters", left
            ):
                begun += self._begun_in(band, rungs, decays)
        with self.clock.stage("fits", f"fitting {len(begun)} networks by L-BFGS"):
            found = self.fits.gone_on("fits", begun)
        found = _sound(found)
        self._ask_boosting(found)
        pupils = self._pupils(found, largest)
        fitted = [*(each for each, _ in found), *pupils]
        if found and len(self.fits.rows.inputs) >= DEEP_ROWS:
            with self.clock.stage("deeper", "fitting the best of each size for longer"):
                deeper = self.fits.fitted("deeper", _best_of_bands(found), DEEP_TURNS)
            fitted += [each for each in deeper if _is_sound(each[0])]
        lanes: dict[str, list[Cooked]] = {"linear": [max(linear, key=_score)]}
        for band in bands:
            for lane, starts in self._starts(fitted, band).items():
                lanes.setdefault(lane, []).append(starts)
        with self.clock.stage("single", "cutting single connections"):
            cut = self._cut([*lanes.values()])
        return [rung for rung, _ in fitted] + cut

    def _ask_boosting(self, found: Sequence[tuple[Cooked, Begun]]) -> None:
        """Have boosting as the teacher where nobody is and it is better than what was found."""
        rows, executor = self.fits.rows, self.family.executor
        is_asked = self.boosts and rows.made is None and not self.is_quick
        if not is_asked or not found or self.clock.is_over:
            return
        (best, _), _ = min(found, key=lambda each: each[0][0].loss)
        known, started = (self.outputs, self.seed), time.monotonic()
        with self.clock.stage("teacher", "comparing with gradient boosting", 2):

            def compare() -> bool:
                return boosting.leads(rows, best.networks, *known)

            if not executor.steps.step("teacher", lambda: executor.first(compare)):
                return
        deadline = self.clock.deadline or NEVER
        spent = (time.monotonic() - started) * rows.fits * boosting.PARTS
        if spent > deadline.left * executor.engine.workers:
            return
        with self.clock.stage("teacher", "asking gradient boosting as a teacher"):
            said = executor.steps.step("lesson", lambda: boosting.lesson(rows, *known, executor))
        if said is not None:
            self.fits.rows = rows.taught(Lesson(*said).to(rows.inputs.device))
            self.is_taught_by_boosting = True

    def _pupils(self, found: list[tuple[Cooked, Begun]], largest: int | None) -> list[Cooked]:
        """The best of each size, and plain networks, fitted to what a teacher says."""
        if self.fits.rows.made is None or not found or self.clock.is_over:
            return []
        with self.clock.stage("taught", "fitting networks to the teacher", 2):
            pupils = [each for each, _ in _sound(self.fits.taught(found))]
        rungs = self._drawn_pupils(found[0][1].rung.network, largest)
        if not rungs or self.clock.is_over:
            return pupils
        with self.clock.stage("taught", "training networks to the teacher"):
            more = self.fits.pupils(rungs, self.seed)
        return pupils + [each for each in more if _is_sound(each[0])]

    def _drawn_pupils(self, like: DirectSpace, largest: int | None) -> list[Rung]:
        """Plain networks of several sizes, the largest that is allowed and those cut to it."""
        if not self.shapes:
            return []
        shape = max(self.shapes, key=lambda each: each.layers)
        most: float = MOST_NUMBERS if self.is_quick else math.inf
        if largest is not None:
            most = min(most, max(largest, min(MOST_NUMBERS, largest * BAND**2)))
        widths = {self._width(shape, like, size) for size in PUPIL_SIZES if size <= most}
        if largest is not None and largest <= most:
            width = self._width(shape, like, largest)
            is_above = self._drawn(like, shape, width, PLAIN).parameters > largest  # rounded up
            widths.add(width - is_above)
        return [self._drawn(like, shape, width, PLAIN) for width in sorted(widths) if width > 0]

    def _begun_in(self, band: Band, rungs: Sequence[Rung], decays: dict[str, float]) -> list[Begun]:
        """The best of what was trained of those sizes, and of plain networks of them.

        Fits that are judged say which decay is best: for each lane the neighbours of the one in
        ``decays``, which was the best of the sizes below, and at first some far apart.
        """
        lowest = sorted(_within(rungs, band), key=lambda rung: rung.loss)[:CONTENDERS]
        tried = [*lowest, *self._plain(rungs[0].network, band)]
        if not tried:
            return []
        name, judged = f"decays to {band[1]:.0f}", self.fits.rows.judged_fits
        starts = [
            (
                replace(rung, networks=rung.networks[judged]),
                Recipe(decays.get(_lane(rung), math.nan)),
            )
            for rung in tried
        ]
        new = [place for place, (_, recipe) in enumerate(starts) if math.isnan(recipe.decay)]
        if new:
            far = self.fits.best_of(
                f"{name} far", [starts[place][0] for place in new], [DECAYS] * len(new)
            )
            for place, start in zip(new, far, strict=True):
                starts[place] = start
        near = [[recipe.decay * by for by in NEIGHBOURS] for _, recipe in starts]
        best = self.fits.best_of(f"{name} near", [rung for rung, _ in starts], near)
        losses = [self.fits.rows.loss(rung.networks) for rung, _ in best]
        order = sorted(range(len(tried)), key=losses.__getitem__)
        for place in reversed(order):  # the best one of a lane speaks last
            decays[_lane(tried[place])] = best[place][1].decay
        return [
            Begun(band, tried[place], best[place][0].networks, best[place][1], losses[place])
            for place in order[:KEPT]
        ]

    @property
    def is_quick(self) -> bool:
        return self.fits.effort < QUICK

    def _bands(self, largest: int | None) -> list[Band]:
        """Sizes above and up to, from the largest that the rows can tell apart.

        What is larger than allowed may be cut to what is not.
        """
        most = len(self.fits.rows.inputs) * self.outputs
        allowed = math.inf if largest is None else largest * BAND**2
        ends = [min(MOST_NUMBERS, max(min(most, allowed), FEWEST_NUMBERS * BAND))]
        while ends[-1] > FEWEST_NUMBERS:
            ends.append(ends[-1] / BAND)
        return [*zip(ends[1:], ends, strict=False)]

    def _larger_bands(self, top: Band, largest: int | None) -> list[Band]:
        """Sizes above those whose connections go, as far as the rows can tell them apart."""
        most = min(MOST_DRAWN, len(self.fits.rows.inputs) * self.outputs, largest or math.inf)
        ends = [top[1]]
        while ends[-1] * math.sqrt(BAND) <= most:
            ends.append(ends[-1] * BAND)
        return [*pairwise(ends)]

    def _plain(self, like: DirectSpace, band: Band) -> list[Rung]:
        """A network of each shape in the middle of a band; nobody has judged them."""
        found, size = [], math.sqrt(math.prod(band))
        for shape in self.shapes:
            width = self._width(shape, like, size)
            if width > 0:
                found.append(self._drawn(like, shape, width, PLAIN))
        return found

    def _width(self, shape: Shape, like: DirectSpace, size: float) -> int:
        """Of a layer, at most the widest that is allowed."""
        width = shape.width(like.inputs, like.outputs, size)
        return width if self.widest is None else min(width, self.widest)

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
                lane = _lane(each[0])
                best[lane] = max(best.get(lane, each), each, key=_score)
        return best

    def _shares(self, groups: list[list[DirectSpace]]) -> list[list[int]]:
        """Places of groups that go down together: a few shares of nearly equal size."""
        numbers = [sum(map(connection_count, group)) for group in groups]
        shares: list[list[int]] = [[] for _ in range(SHARES)]
        for place in sorted(range(len(groups)), key=numbers.__getitem__, reverse=True):
            min(shares, key=lambda share: sum(numbers[each] for each in share)).append(place)
        return [sorted(share) for share in shares if share]

    def _cut(self, lanes: list[list[Cooked]]) -> list[Rung]:
        """The rungs of each lane, from its starts down to the smallest size."""
        work = partial(
            descended, self.fits.rows, self.outputs + 1, self.fits.turns(CUT_TURNS), self.is_quick
        )
        groups = [[each for rung, _ in lane for each in rung.networks] for lane in lanes]
        items = self._shares(groups)
        made = self.family.shared_out(
            "connections",
            work,
            [[each for place in item for each in groups[place]] for item in items],
            [[[recipe for _, recipe in lanes[place]] for place in item] for item in items],
        )
        cut: list[tuple[tuple[Rung, int], list[DirectSpace]]] = []
        for item, steps in zip(items, made, strict=True):
            left, count = iter(steps), len(steps) // sum(len(lanes[place]) for place in item)
            for lane in (lanes[place] for place in item):
                cuts = [0] * len(lane)
                for start in [*range(len(lane))] * count:
                    group = next(left)
                    cuts[start] += bool(group)
                    if group and is_connected(group[-1]):  # a constant is no network
                        cut.append(((lane[start][0], cuts[start]), group))
        return self.fits.judged([of for of, _ in cut], [group for _, group in cut])


def _score(found: Cooked) -> tuple[float, float]:
    return found[0].judgement.score, -found[0].loss


def _best_of_bands(found: Sequence[tuple[Cooked, Begun]]) -> list[Cooked]:
    """Of each size that with the lowest loss."""
    best: dict[Band, Cooked] = {}
    for each, begun in found:
        best[begun.band] = min(best.get(begun.band, each), each, key=lambda cooked: cooked[0].loss)
    return [*best.values()]


def _lane(rung: Rung) -> str:
    """The kind of network that competes with its like: what was trained, or a shape."""
    return rung.way if rung.group == PLAIN else "trained"


def _is_better_above(begun: Sequence[Begun], size: float) -> bool:
    """Whether the lowest loss is that of a network larger than ``size``, and clearly so."""
    large = min((each.loss for each in begun if each.rung.parameters > size), default=math.inf)
    small = min((each.loss for each in begun if each.rung.parameters <= size), default=math.inf)
    return large < CLEARLY * small


def _is_sound(rung: Rung) -> bool:
    """Whether nothing in it has diverged, and decay has silenced no layer."""
    tensors = (part for each in rung.networks for part in (each.weights, each.bias))
    is_finite = math.isfinite(rung.loss) and all(bool(part.isfinite().all()) for part in tensors)
    return is_finite and is_connected(rung.network)


def _sound(found: Sequence[tuple[Cooked, Begun]]) -> list[tuple[Cooked, Begun]]:
    """Those of what was fitted to the end that nothing has spoilt: NaN cannot be compared."""
    return [each for each in found if _is_sound(each[0][0])]


def _within(rungs: Sequence[Rung], band: Band) -> list[Rung]:
    """Those with hidden neurons of a size in ``band``."""
    low, high = band
    return [r for r in rungs if low < r.parameters <= high and r.network.hidden]
