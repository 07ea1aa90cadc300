"""Second-order fits of groups of networks by recipes, shared out and judged."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import torch

from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.cutting.ladder import Rung as AnyRung
from torchsparcs.fitting.dense import DenseFamily, Work
from torchsparcs.fitting.fit_rows import FitRows, Recipe
from torchsparcs.fitting.folded import Judgement
from torchsparcs.training.deadline import NEVER, Deadline

# The teacher's share of the target, how much made rows count, and the share of the best decay,
# which they make up for.
TAUGHT = ((0.5, 1.0, 0.1), (1.0, 1.0, 0.1))
PUPIL, PUPIL_STEPS = Recipe(3e-5, 0.5, 1.0), 5_000  # of one that is trained by minibatches
FIT_TURNS, FEWEST_TURNS = 100, 5
FIRST_SHARE = 0.2  # of the turns, in which decays compete
AT_ONCE = 2**20  # signals of networks that are fitted at once

Band = tuple[float, float]  # sizes above and up to
Rung = AnyRung[DirectSpace, Judgement]
Cooked = tuple[Rung, Recipe]  # and what it was fitted by
NOBODY = Judgement(math.inf, -math.inf, 0.0, None, -math.inf, torch.zeros(0))  # has judged yet


class Begun(NamedTuple):
    """A network that is worth fitting to the end.

    Attributes:
        rung: as it was before.
        fits: those that are judged, fitted for a share of the turns.
        loss: of these.
    """

    band: Band
    rung: Rung
    fits: list[DirectSpace]
    recipe: Recipe
    loss: float


class SecondOrder:
    """Fits to ``rows``, of whose turns there is a share: the ``effort``."""

    def __init__(self, family: DenseFamily, rows: FitRows, effort: float):
        self.family, self.rows, self.effort = family, rows, min(1.0, effort)

    def turns(self, usual: int) -> int:
        """The evaluations of a fit that usually has so many."""
        return max(FEWEST_TURNS, round(usual * self.effort))

    def fitted(self, name: str, begun: Sequence[Cooked], usual: int) -> list[Cooked]:
        """Rungs fitted by their recipes from where they are, in so many turns."""
        pairs = [[each] for each in begun]
        work = partial(_fits, self.rows, self.turns(usual), slice(0, self.rows.fits))
        return self._judged_by_recipes(pairs, self._by_recipes(name, pairs, work))

    def best_of(
        self, name: str, rungs: list[Rung], decays: Sequence[Sequence[float]]
    ) -> list[Cooked]:
        """Of each rung, all whose fits are judged, the fits under the best of its decays."""
        pairs = [
            [(rung, Recipe(decay)) for decay in some]
            for rung, some in zip(rungs, decays, strict=True)
        ]
        first = max(1, round(self.turns(FIT_TURNS) * FIRST_SHARE))
        made = self._by_recipes(
            name, pairs, partial(_fits, self.rows, first, self.rows.judged_fits)
        )
        found = []
        for some, groups in zip(pairs, made, strict=True):
            losses = [self.rows.loss(group) for group in groups]
            place = losses.index(min(losses))
            found.append((replace(some[place][0], networks=groups[place]), some[place][1]))
        return found

    def gone_on(self, name: str, begun: Sequence[Begun]) -> list[tuple[Cooked, Begun]]:
        """The networks fitted to the end by their recipes, as far as there is time for them."""
        if not begun:
            return []
        turns = self.turns(FIT_TURNS)
        spent = 2 * max(1, round(turns * FIRST_SHARE))
        judged = self.rows.judged_fits
        pairs = [
            [
                (
                    replace(each.rung, networks=[*each.fits, *each.rung.networks[judged.stop :]]),
                    each.recipe,
                )
            ]
            for each in begun
        ]
        made = self._by_recipes(name, pairs, partial(_gone_on, self.rows, spent, turns))
        there = [place for place, (group,) in enumerate(made) if group]
        cooked = self._judged_by_recipes(
            [pairs[place] for place in there], [made[place] for place in there]
        )
        return [(each, begun[place]) for each, place in zip(cooked, there, strict=True)]

    def taught(self, found: Sequence[tuple[Cooked, Begun]]) -> list[tuple[Cooked, Begun]]:
        """The best one of each band, fitted to the end with a teacher."""
        pupils = []
        for _, some in groupby(found, key=lambda each: each[1].band):
            _, best = min(some, key=lambda each: each[0][0].loss)
            pupils += [
                best._replace(recipe=Recipe(less * best.recipe.decay, share, made))
                for share, made, less in TAUGHT
            ]
        return self.gone_on("taught", pupils)

    def pupils(self, rungs: Sequence[Rung], seed: int) -> list[Cooked]:
        """Rungs trained from where they are to a teacher's answers, most of them to made rows."""
        pairs: list[list[Cooked]] = [[(rung, PUPIL)] for rung in rungs]
        work = partial(_trained, self.rows, self.turns(PUPIL_STEPS), seed)
        groups = [rung.networks for rung in rungs]
        made = self.family.shared_out("pupils", work, groups, [PUPIL] * len(rungs))
        return self._judged_by_recipes(pairs, made)

    def _by_recipes(
        self, name: str, batches: list[list[Cooked]], work: Work
    ) -> list[list[list[DirectSpace]]]:
        """What ``work`` makes of the networks of each rung and its recipe."""
        groups = [[each for rung, _ in batch for each in rung.networks] for batch in batches]
        recipes = [[recipe for _, recipe in batch] for batch in batches]
        found: list[list[list[DirectSpace]]] = []
        items = self._together(groups)
        made = self.family.shared_out(
            name,
            work,
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
        rungs = self.judged([(rung, 0) for rung, _ in pairs], groups)
        return [(rung, recipe) for rung, (_, recipe) in zip(rungs, pairs, strict=True)]

    def judged(self, of: list[tuple[Rung, int]], groups: list[list[DirectSpace]]) -> list[Rung]:
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


def _trained(
    rows: FitRows,
    steps: int,
    seed: int,
    networks: list[DirectSpace],
    recipe: Recipe,
    deadline: Deadline,
) -> list[list[DirectSpace]]:
    """One group trained by minibatches."""
    rows = rows.to(networks[0].weights.device)
    return [rows.trained(networks, recipe, steps, seed, deadline)]


def _gone_on(
    rows: FitRows,
    spent: int,
    turns: int,
    networks: list[DirectSpace],
    recipes: list[Recipe],
    deadline: Deadline,
) -> list[list[DirectSpace]]:
    """Groups fitted to the end, of which those fits that are judged were for ``spent`` turns.

    The last one, which gives the network, catches up first, whatever the deadline: it must not be
    worse than they are. Where there is no time for a group there is none.
    """
    if deadline.is_over:
        return [[] for _ in recipes]
    rows, fits = rows.to(networks[0].weights.device), rows.fits
    if fits > 1:
        last = slice(fits - 1, fits)
        own = rows.fitted(networks[last.start :: fits], recipes, spent, last, NEVER)
        networks = list(networks)
        networks[last.start :: fits] = [network for (network,) in own]
    return rows.fitted(networks, recipes, max(1, turns - spent), slice(0, fits), deadline)
