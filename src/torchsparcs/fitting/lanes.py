"""Lanes: networks of one kind lose single connections size by size, and are fitted again."""

import math
from collections.abc import Generator
from typing import Any

from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.cutting.connections import cut_connections
from torchsparcs.fitting.fit_rows import FitRows, Recipe
from torchsparcs.training.deadline import NEVER, Deadline

FINE_BELOW = 300  # numbers: larger networks are cut in larger steps, and mended by fewer turns
SHRINK, COARSE_SHRINK, QUICK_SHRINK = 0.75, 0.6, 0.5  # from one size to the next
COARSE_TURNS = 0.5  # of the turns


def descended(
    rows: FitRows,
    smallest: int,
    turns: int,
    is_quick: bool,
    networks: list[DirectSpace],
    lanes: list[list[Recipe]],
    deadline: Deadline = NEVER,
) -> list[list[DirectSpace]]:
    """Lanes side by side, one step of each after the other; what is cut is fitted together.

    ``networks`` are those of all lanes, group by group, with a recipe for each group. For each lane
    there are as many groups as steps times starts, empty where there is none. At the deadline it
    ends. A quick look takes larger steps.
    """
    rows, fits = rows.to(networks[0].weights.device), rows.fits
    seen = [rows.inputs[weights > 0] for weights in rows.weights]
    groups = iter([networks[start : start + fits] for start in range(0, len(networks), fits)])
    shrinks = (QUICK_SHRINK, QUICK_SHRINK) if is_quick else (SHRINK, COARSE_SHRINK)
    walks = [
        _lane(rows, seen, smallest, [next(groups) for _ in lane], lane, shrinks) for lane in lanes
    ]
    found: list[list[list[DirectSpace]]] = [[] for _ in lanes]
    asked = {place: next(walk) for place, walk in enumerate(walks)}
    while asked := {place: cut for place, cut in asked.items() if cut is not None}:
        if deadline.is_over:
            break
        cuts = [each for cut, _ in asked.values() for each in cut]
        recipes = [recipe for _, some in asked.values() for recipe in some]
        largest = max(map(connection_count, cuts))
        spent = turns if largest <= FINE_BELOW else turns * COARSE_TURNS
        steps = 1 + math.log(smallest / max(smallest, largest), shrinks[0])  # about, that are left
        until = deadline.part(1 / steps)
        fitted = iter(rows.fitted(cuts, recipes, math.ceil(spent), slice(0, fits), until))
        for place, (_, some) in asked.items():
            made, asked[place] = walks[place].send([next(fitted) for _ in some])
            found[place] += made
    steps = max(len(mine) // len(lane) for mine, lane in zip(found, lanes, strict=True))
    return [
        group
        for mine, lane in zip(found, lanes, strict=True)
        for group in (*mine, *([[]] * (steps * len(lane) - len(mine))))
    ]


def _lane(
    rows: FitRows,
    seen: list[Tensor],
    smallest: int,
    groups: list[list[DirectSpace]],
    recipes: list[Recipe],
    shrinks: tuple[float, float],
) -> Generator[Any, list[list[DirectSpace]], None]:
    """A lane: groups, each with its recipe, lose connections size by size and are fitted again.

    A group begins at its own size; one that is small enough already waits. Of those at a size only
    the one with the lowest loss goes on. It yields what is to be fitted, None at the end, and for
    each size at which something was cut a group for each that began, empty where it is not there or
    got no smaller.
    """
    fine, coarse = shrinks
    waiting = dict(enumerate(groups))
    active: dict[int, list[DirectSpace]] = {}
    size = max(map(_count, groups))
    found: list[list[DirectSpace]] | None = None
    while size > smallest:
        size = max(smallest, math.floor(size * (fine if size <= FINE_BELOW else coarse)))
        begun = [place for place, group in waiting.items() if _count(group) > size]
        active |= {place: waiting.pop(place) for place in begun}
        larger = {place: group for place, group in active.items() if _count(group) > size}
        if not larger:
            continue
        cut = [
            each
            for place, group in larger.items()
            for each in _cut_group(group, seen, size, rows.task, recipes[place].decay)
        ]
        asked = cut, [recipes[place] for place in larger]
        fitted = yield asked if found is None else (found, asked)
        made = {
            place: group
            for place, group in zip(larger, fitted, strict=True)
            if _count(group) < _count(larger[place])
        }
        found = [made.get(place, []) for place in range(len(recipes))]
        left = {place: g for place, g in active.items() if place not in larger} | made
        best = min(left, key=lambda place: rows.loss(left[place]), default=None)
        active = {} if best is None else {best: left[best]}
    yield None if found is None else (found, None)


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
