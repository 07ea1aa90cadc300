"""Everything that a report shows, as one structure of plain values."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchsparcs.compact.chain import CompactChain
from torchsparcs.report import wording
from torchsparcs.report.about import about, columns_of
from torchsparcs.report.architecture import GROUPS, MOST_NEURONS, architecture, rounded
from torchsparcs.report.predictions import answers_of
from torchsparcs.report.training_curves import curves_of
from torchsparcs.searching.front import is_same
from torchsparcs.searching.result import Attempt, Candidate, SearchResult
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.target import Target

RULES = {"smallest": "smallest", "best": "best score", "linear": "linear model"}
MOST_NAMES = 3000  # of inputs


class Offered(NamedTuple):
    """The size of the spectral network that a search was allowed; of a chain macs are not known."""

    widths: tuple[int, ...]
    parameters: int
    macs: int | None


def facts_of(result: SearchResult, folder: str | Path | None = None) -> dict[str, Any]:
    """What the page and the figures about a ``SearchResult`` are made of; JSON can hold it.

    Args:
        folder: where the result is saved, for the lines that load it.
    """
    settings, target, offered = result.settings, result.target, offered_size(result)
    is_table = result.preprocessing is not None
    rule = settings.get("pick", "smallest")
    picked, shown = result.pick(rule), shown_of(result)
    return {
        "name": wording.shortened(settings.get("data", "A search")),
        "data": wording.data_words(result),
        "is_table": is_table,
        "unit": unit_of(result),
        "measure": "accuracy" if wording.is_classification(result) else "R²",
        "is_classes": wording.is_classification(result),
        "headline": wording.headline(result, picked),
        "architecture": picked.architecture,
        "verdict": wording.verdict(result, picked, offered.widths, offered.parameters),
        "judged_by": wording.judged_by(settings),
        "is_judged_itself": settings["fits"] == 1,
        "held": wording.held_words(result),
        "is_refitted": bool(settings.get("refitted")),
        "picked": next(i for i, found in enumerate(shown) if is_same(found, picked)),
        "budget": settings.get("max_parameters"),
        "tolerance": result.best().score - result.tolerance,
        "tolerance_words": wording.tolerance_words(result),
        "comparison": _comparison(result, rule, offered),
        "candidates": [_candidate(result, found) for found in shown],
        "members": _members(result, shown),
        "attempts": [
            [_member(found), found.cut, found.parameters, rounded(found.score)]
            for found in result.attempts
            if math.isfinite(found.score)
        ],
        "starts_awake": settings.get("way") == "awake",
        "widths": list(settings["widths"]),
        "most_neurons": MOST_NEURONS,
        "groups": GROUPS,
        "inputs": _names(result.inputs.encoded_names if is_table else ()),
        "outputs": _names(output_names(target)),
        "columns": columns_of(result),
        "about": about(result),
        "folder": None if folder is None else str(folder),
    }


def shown_of(result: SearchResult) -> list[Candidate]:
    """The front and the linear model, where there is one, on it or not, by size."""
    linear, shown = result.linear, [*result.front]
    if linear is not None and not any(is_same(found, linear) for found in shown):
        shown.append(linear)
    return sorted(shown, key=lambda found: found.parameters)


def unit_of(result: SearchResult) -> str:
    """What the layers are made of."""
    return "channel" if isinstance(result.best().network, CompactChain) else "neuron"


def rules_of(result: SearchResult, found: Candidate) -> list[str]:
    """The rules that pick ``found``, "linear" the last."""
    return [rule for rule in _rules(result) if is_same(result.pick(rule), found)]


def output_names(target: Target) -> tuple[Any, ...]:
    """What each output of a network stands for."""
    if target.classes is None:
        return target.names
    return target.classes[1:] if target.task == "binary" else target.classes


def offered_size(result: SearchResult) -> Offered:
    trained = result.trained
    if isinstance(trained, SpectralChain):
        return Offered(trained.channels, sum(p.numel() for p in trained.parameters()), None)
    return Offered(*(trained or SpectralNetwork(result.settings["widths"], device="meta")).size)


def _rules(result: SearchResult) -> list[str]:
    return [rule for rule in RULES if rule != "linear" or result.linear is not None]


def _member(found: Candidate | Attempt) -> int:
    """The place in the history; where that is of one network, the first."""
    return found.member or 0


def _candidate(result: SearchResult, found: Candidate) -> dict[str, Any]:
    place = next((i for i, other in enumerate(result.front) if other is found), None)
    is_classes, linear = wording.is_classification(result), result.linear
    return {
        "pick": "linear" if place is None else place,
        "rules": rules_of(result, found),
        "architecture": found.architecture,
        "parameters": found.parameters,
        "macs": found.macs,
        "neurons": sum(found.widths[1:-1]),
        "score": found.score,
        "error": found.standard_error,
        "score_words": wording.score_words(found.score, is_classes),
        "score_with_error": wording.score_words(found.score, is_classes, found.standard_error),
        "penalty_weight": rounded(found.penalty_weight),
        "kept_linear": linear is not None and found.penalty_weight == linear.penalty_weight,
        "member": _member(found),
        "picture": architecture(found.network),
        "answers": answers_of(found, result.target),
    }


def _members(result: SearchResult, shown: list[Candidate]) -> dict[str, Any]:
    """Training curves of the members that a candidate was cut from, by their number."""
    by_member = {_member(found): found for found in shown}
    curves = {str(m): curves_of(result, by_member[m]) for m in sorted(by_member)}
    return {member: known for member, known in curves.items() if known is not None}


def _comparison(result: SearchResult, rule: Any, offered: Offered) -> list[dict[str, Any]]:
    """The rows of the table at the top."""
    names: dict[int, list[str]] = {}
    candidates: list[Candidate] = []
    for pick in dict.fromkeys([rule, *_rules(result)]):
        found = result.pick(pick)
        place = next((i for i, c in enumerate(candidates) if is_same(found, c)), len(candidates))
        candidates += [found] * (place == len(candidates))
        names.setdefault(place, []).append(RULES.get(pick, f"number {pick}"))
    rows = [
        _row(result, ", ".join(names[place]), found.architecture, found)
        for place, found in enumerate(candidates)
    ]
    trained = [found for found in result.attempts if found.cut == 0 and found.neurons > 0]
    if not trained:
        size = {"parameters": offered.parameters, "macs": offered.macs, "score": ""}
        words = " → ".join(map(str, offered.widths))
        return [*rows, {"name": "network allowed", "architecture": words, **size}]
    top = max(trained, key=lambda found: found.parameters)
    hidden = wording.counted(top.neurons, f"hidden {unit_of(result)}")
    return [*rows, _row(result, "largest as trained", hidden, top)]


def _row(result: SearchResult, name: str, words: str, found: Candidate | Attempt) -> dict[str, Any]:
    return {
        "name": name,
        "architecture": words,
        "parameters": found.parameters,
        "macs": found.macs,
        "score": wording.score_words(
            found.score, wording.is_classification(result), found.standard_error
        ),
    }


def _names(names: Sequence[Any]) -> list[str]:
    return [wording.shortened(name) for name in names[:MOST_NAMES]]
