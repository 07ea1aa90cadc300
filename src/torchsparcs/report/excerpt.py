"""The few networks of a front that tell it, and their layers in short: where room is scarce."""

import math

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.report.facts import rules_of
from torchsparcs.results.result import Candidate, SearchResult

FEW = 8  # networks fit a screen, with what stands around them


def excerpt(
    result: SearchResult, pick: str | int | Candidate = "smallest", most: int = FEW
) -> list[int]:
    """The places of at most ``most`` networks of the front, those of the picks among them.

    The others are taken out one by one, each time the one without which the front loses least:
    step · log(next size / its size), where a step is by how much the logarithm of what is missing
    to the best score falls. So the last half percent counts as much as the first ten.
    """
    front, picked = result.front, result.pick(pick)
    kept = [*range(len(front))]
    nothing, *worth = _worth(result)
    sizes = [result.size.of(found) for found in front]

    def lost(place: int) -> float:
        """What goes with the network at this place of ``kept``."""
        here = kept[place]
        before = worth[kept[place - 1]] if place else nothing
        after = sizes[kept[place + 1]] if place + 1 < len(kept) else 2 * sizes[here]
        return (worth[here] - before) * math.log(max(after, 1) / max(sizes[here], 1))

    while len(kept) > most:
        free = [
            place
            for place, here in enumerate(kept)
            if front[here] is not picked and not rules_of(result, front[here])
        ]
        if not free:
            break
        del kept[min(free, key=lost)]
    return kept


def _worth(result: SearchResult) -> list[float]:
    """−log of what lacks to the best score, which the tolerance adds to.

    First that of the best constant answer, then those of the front.
    """
    told = [found.told if math.isfinite(found.told) else -math.inf for found in result.front]
    known = [score for score in told if score > -math.inf] or [0.0]
    constant = result.scoring.constant
    least, best = min(known) if constant is None else constant, max(known)
    room = max(result.tolerance, 1e-12)
    scores = (max(score, min(least, best)) for score in (least, *told))
    return [-math.log(max(best - score, 0) + room) for score in scores]


def layers_in_short(candidate: Candidate) -> str:
    """The layers, and how many connections skip some of them: "45 of 61 → 7 → 3 → 10, 3 skips".

    Which ones, and how many weights are left of each, ``Candidate.architecture`` has.
    """
    network = candidate.network
    if not isinstance(network, CompactNetwork):
        return candidate.architecture
    read = "" if network.reads is None else f"{network.inputs_read} of "
    layers = read + " → ".join(map(str, network.widths))
    skips = sum(source < target - 1 for target, source in network.connections)
    return layers + (f", {skips} skip" + "s" * (skips > 1)) * (skips > 0)
