"""Lanes: networks of one kind lose single connections size by size, and are fitted again."""

import math

from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.cutting.connections import cut_connections
from torchsparcs.searching.fit_rows import FitRows, Recipe
from torchsparcs.training.deadline import NEVER, Deadline

FINE_BELOW = 300  # numbers: larger networks are cut in larger steps, and mended by fewer turns
SHRINK, COARSE_SHRINK = 0.75, 0.6  # from one size to the next
COARSE_TURNS = 0.5  # of the turns


def descended(
    rows: FitRows,
    smallest: int,
    turns: int,
    networks: list[DirectSpace],
    recipes: list[Recipe],
    deadline: Deadline = NEVER,
) -> list[list[DirectSpace]]:
    """A lane: groups, each with its recipe, lose connections size by size and are fitted again.

    A group begins at its own size; one that is small enough already waits. Of those at a size only
    the one with the lowest loss goes on. For each size at which something is cut there is a group
    for each that began, empty where it is not there or got no smaller. At the deadline it ends.
    """
    rows, fits = rows.to(networks[0].weights.device), rows.fits
    seen = [rows.inputs[weights > 0] for weights in rows.weights]
    starts = range(0, len(networks), fits)
    waiting = {place: networks[start : start + fits] for place, start in enumerate(starts)}
    active: dict[int, list[DirectSpace]] = {}
    size = max(map(_count, waiting.values()))
    found = []
    while size > smallest and not deadline.is_over:
        is_fine = size <= FINE_BELOW
        size = max(smallest, math.floor(size * (SHRINK if is_fine else COARSE_SHRINK)))
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
        spent = turns if is_fine else math.ceil(turns * COARSE_TURNS)
        steps = 1 + math.log(smallest / size, SHRINK)  # about, that are left
        mine, until = [recipes[place] for place in larger], deadline.part(1 / steps)
        groups = rows.fitted(cut, mine, spent, slice(0, fits), until)
        made = {
            place: group
            for place, group in zip(larger, groups, strict=True)
            if _count(group) < _count(larger[place])
        }
        found += [made.get(place, []) for place in range(len(recipes))]
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
