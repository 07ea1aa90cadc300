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
from torchsparcs.searching.clock import Clock
from torchsparcs.searching.dense import DenseFamily
from torchsparcs.searching.drawing import SHAPES, Shape, drawn
from torchsparcs.searching.fit_rows import FitRows, Recipe
from torchsparcs.searching.folded import Judgement
from torchsparcs.searching.lanes import descended
from torchsparcs.searching.teaching import lessons
from torchsparcs.training.deadline import Deadline

DECAYS = (3e-5, 3e-4, 3e-3, 3e-2)  # that compete first; then the best one and its neighbours do
NEIGHBOURS = (1 / math.sqrt(10), 1.0, math.sqrt(10))
TAUGHT = ((0.5, 0.0),)  # the teacher's share of the target, and how much made rows count
TAUGHT_BY_OTHERS = ((0.5, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 1.0))  # by somebody's own teacher
MOST_NUMBERS, FEWEST_NUMBERS = 1200, 20  # of a network whose connections go one by one
MOST_DRAWN = 6000  # numbers of a plain network, where larger ones are better
BETTER = 0.99  # of the loss: then the next larger size is tried
BAND = 2.5  # sizes within that factor compete for the best starts
CONTENDERS, KEPT = 2, 3  # of a band: that were trained, and of all those that are fitted to the end
LINEAR_TURNS, FIT_TURNS, CUT_TURNS = 80, 150, 40
FEWEST_TURNS = 5
AT_ONCE = 2**20  # signals of networks that are fitted at once
QUICK = 0.25  # of the usual effort, below which nobody expects the best
FIRST_SHARE = 0.2  # of the turns, in which decays compete
LINEAR_DECAYS = tuple(10 ** (exponent / 2) for exponent in range(-9, 0))
PLAIN, LINEAR = -1, -2  # the groups of networks that were drawn, not trained

Band = tuple[float, float]  # sizes above and up to
Rung = AnyRung[DirectSpace, Judgement]
Cooked = tuple[Rung, Recipe]  # and what it was fitted by
NOBODY = Judgement(math.inf, -math.inf, 0.0, None, -math.inf, torch.zeros(0))  # has judged yet


class Finishing:
    """Finer and better fitted networks from the rungs of a ladder.

    ``widest`` and ``deepest`` are the most hidden neurons in a layer and the most layers of a plain
    network, ``effort`` a share of the usual turns; ``clock`` says how long. Below ``QUICK`` of the
    effort it is a quick look: fewer shapes, in larger steps.
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
        self.effort = min(1.0, effort)
        shapes = SHAPES[:1] if self.is_quick else SHAPES
        self.shapes = [each for each in shapes if deepest is None or each.layers <= deepest]
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
        if not rungs or self.clock.is_over:
            return []
        if self.rows.lessons is None:
            with self.clock.stage("teacher", "asking a teacher"):
                ask = partial(lessons, self.rows, self.outputs, self.seed, self.effort)
                said = self.family.executor.steps.step("lessons", ask)
                self.rows = replace(self.rows, lessons=said)
        found: list[Cooked] = []
        decays: dict[str, float] = {}
        larger = self._larger_bands(bands[0], largest)
        for left, band in reversed([*enumerate([*reversed(larger), *bands], 1)]):
            is_vain = band in larger and not _is_better_above(found, band[0] / BAND)
            if is_vain or self.clock.is_over:
                break
            with self.clock.stage("fits", f"second-order fits to {band[1]:,.0f} parameters", left):
                found += self._fitted_in(band, rungs, decays)
        lanes: dict[str, list[Cooked]] = {"linear": [max(linear, key=_score)]}
        for band in bands:
            for lane, starts in self._starts(found, band).items():
                lanes.setdefault(lane, []).append(starts)
        with self.clock.stage("single", "cutting single connections"):
            cut = self._cut([*lanes.values()])
        return [rung for rung, _ in found] + cut

    def _fitted_in(
        self, band: Band, rungs: Sequence[Rung], decays: dict[str, float]
    ) -> list[Cooked]:
        """What was trained of those sizes, and plain networks of them, the best ones fitted.

        Fits that are judged say which decay is best: for each lane the neighbours of the one in
        ``decays``, which was the best of the sizes below, and at first some far apart. Those with
        the lowest loss then go on, and the best of them is taught as well.
        """
        lowest = sorted(_within(rungs, band), key=lambda rung: rung.loss)[:CONTENDERS]
        tried = [*lowest, *self._plain(rungs[0].network, band)]
        if not tried:
            return []
        name, judged = f"fits to {band[1]:.0f}", self.rows.judged_fits
        starts = [
            (_part(rung, judged), Recipe(decays.get(_lane(rung), math.nan))) for rung in tried
        ]
        new = [place for place, (_, recipe) in enumerate(starts) if math.isnan(recipe.decay)]
        if new:
            far = self._best_of(
                f"{name} far", [starts[place][0] for place in new], [DECAYS] * len(new)
            )
            for place, start in zip(new, far, strict=True):
                starts[place] = start
        near = [[recipe.decay * by for by in NEIGHBOURS] for _, recipe in starts]
        best = self._best_of(f"{name} near", [rung for rung, _ in starts], near)
        losses = [self.rows.loss(rung.networks) for rung, _ in best]
        order = sorted(range(len(tried)), key=losses.__getitem__)
        for place in reversed(order):  # the best one of a lane speaks last
            decays[_lane(tried[place])] = best[place][1].decay
        kept = [(tried[place], *best[place]) for place in order[:KEPT]]
        found = self._gone_on(name, kept)
        if self.rows.lessons is not None:
            taught, (_, recipe) = min(
                zip(kept, found, strict=True), key=lambda each: each[1][0].loss
            )
            ways = TAUGHT if self.rows.made is None else TAUGHT_BY_OTHERS
            pupils = [recipe._replace(taught=share, made=made) for share, made in ways]
            found += self._gone_on(f"{name} taught", [(*taught[:2], each) for each in pupils])
        return found

    def _best_of(
        self, name: str, rungs: list[Rung], decays: Sequence[Sequence[float]]
    ) -> list[Cooked]:
        """Of each rung, all whose fits are judged, the fits under the best of its decays."""
        pairs = [
            [(rung, Recipe(decay)) for decay in some]
            for rung, some in zip(rungs, decays, strict=True)
        ]
        first = max(1, round(self._turns(FIT_TURNS) * FIRST_SHARE))
        made = self._by_recipes(name, pairs, first, self.rows.judged_fits)
        found = []
        for some, groups in zip(pairs, made, strict=True):
            losses = [self.rows.loss(group) for group in groups]
            place = losses.index(min(losses))
            found.append((replace(some[place][0], networks=groups[place]), some[place][1]))
        return found

    def _gone_on(self, name: str, begun: Sequence[tuple[Rung, Rung, Recipe]]) -> list[Cooked]:
        """Rungs as they were and the fits that are judged so far, fitted to the end by recipes."""
        turns = self._turns(FIT_TURNS)
        spent = 2 * max(1, round(turns * FIRST_SHARE))
        fits = self.rows.fits
        groups = [rung.networks for _, rung, _ in begun]
        if fits > 1:  # the one that gives the network has not been fitted yet
            last = slice(fits - 1, fits)
            pairs = [[(_part(rung, last), recipe)] for rung, _, recipe in begun]
            made = self._by_recipes(f"{name} last", pairs, spent, last)
            groups = [[*group, *own] for group, (own,) in zip(groups, made, strict=True)]
        pairs = [
            [(replace(rung, networks=group), recipe)]
            for (rung, _, recipe), group in zip(begun, groups, strict=True)
        ]
        made = self._by_recipes(f"{name} on", pairs, max(1, turns - spent), slice(0, fits))
        return self._judged_by_recipes(pairs, made)

    @property
    def is_quick(self) -> bool:
        return self.effort < QUICK

    def _turns(self, usual: int) -> int:
        return max(FEWEST_TURNS, round(usual * self.effort))

    def _bands(self, largest: int | None) -> list[Band]:
        """Sizes above and up to, from the largest that the rows can tell apart.

        What is larger than allowed may be cut to what is not.
        """
        most = len(self.rows.inputs) * self.outputs
        allowed = math.inf if largest is None else largest * BAND**2
        ends = [min(MOST_NUMBERS, max(min(most, allowed), FEWEST_NUMBERS * BAND))]
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
                lane = _lane(each[0])
                best[lane] = max(best.get(lane, each), each, key=_score)
        return best

    def _by_recipes(
        self, name: str, batches: list[list[Cooked]], turns: int, fits: slice
    ) -> list[list[list[DirectSpace]]]:
        """The networks of each rung, which are those ``fits``, fitted from where they are."""
        groups = [[each for rung, _ in batch for each in rung.networks] for batch in batches]
        recipes = [[recipe for _, recipe in batch] for batch in batches]
        found: list[list[list[DirectSpace]]] = []
        items = self._together(groups)
        made = self.family.shared_out(
            name,
            partial(_fits, self.rows, turns, fits),
            [[each for place in item for each in groups[place]] for item in items],
            [[recipe for place in item for recipe in recipes[place]] for item in items],
        )
        for item, fitted in zip(items, made, strict=True):
            left = iter(fitted)
            found += [[next(left) for _ in recipes[place]] for place in item]
        return found

    def _together(self, groups: list[list[DirectSpace]]) -> list[list[int]]:
        """Places of neighbours that are fitted at once: where few signals are, it costs no more."""
        items: list[list[int]] = []
        for place, group in enumerate(groups):
            last = [each for other in items[-1:] for of in other for each in groups[of]]
            both = [*last, *group]
            signals = len(both) * max(each.hidden + each.outputs for each in both)
            if last and signals * len(self.rows.inputs) <= AT_ONCE:
                items[-1].append(place)
            else:
                items.append([place])
        return items

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
        work = partial(
            descended, self.rows, self.outputs + 1, self._turns(CUT_TURNS), self.is_quick
        )
        groups = [[each for rung, _ in lane for each in rung.networks] for lane in lanes]
        items = self._together(groups)
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


def _lane(rung: Rung) -> str:
    """The kind of network that competes with its like: what was trained, or a shape."""
    return rung.way if rung.group == PLAIN else "trained"


def _part(rung: Rung, fits: slice) -> Rung:
    """Only those fits of a group."""
    return replace(rung, networks=rung.networks[fits])


def _fits(
    rows: FitRows,
    turns: int,
    fits: slice,
    networks: list[DirectSpace],
    recipes: list[Recipe],
    deadline: Deadline,
) -> list[list[DirectSpace]]:
    """Groups fitted where their networks are, each by its recipe."""
    return rows.to(networks[0].weights.device).fitted(networks, recipes, turns, fits, deadline)


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
