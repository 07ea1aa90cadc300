"""Everything that a report shows, as one structure of plain values."""

import math
from pathlib import Path
from typing import Any

from torchsparcs.report.about import about, columns_of
from torchsparcs.report.answers import answers_of
from torchsparcs.report.growth import growth
from torchsparcs.report.picture import GROUPS, MOST_NEURONS, picture, rounded
from torchsparcs.report.words import (
    counted,
    data_words,
    headline,
    held_words,
    judged_by,
    score_words,
    shortened,
    tolerance_words,
    verdict,
)
from torchsparcs.searching.front import is_same
from torchsparcs.spectral.network import Size, SpectralNetwork

RULES = ("smallest", "best")
NAMES = {"smallest": "smallest", "best": "best score", "linear": "linear model"}
MOST_NAMES = 3000  # of inputs


def facts_of(result: Any, folder: str | Path | None = None) -> dict[str, Any]:
    """What the page and the figures about a ``SearchResult`` are made of; JSON can hold it.

    Args:
        folder: where the result is saved, for the lines that load it.
    """
    settings, target = result.settings, result.preprocessing.target
    is_classes = target.classes is not None
    rule = settings.get("pick", "smallest")
    picked, maximal = result.pick(rule), _maximal(result)
    shown = shown_of(result)
    tolerance = result.best().score - result.tolerance
    return {
        "name": shortened(settings.get("data", "A search")),
        "data": data_words(settings, len(result.preprocessing.inputs.columns), target),
        "measure": "accuracy" if is_classes else "R²",
        "is_classes": is_classes,
        "headline": headline(result, picked, is_classes),
        "architecture": picked.architecture,
        "verdict": verdict(result, picked, maximal, is_classes),
        "judged_by": judged_by(settings),
        "held": held_words(result),
        "is_refitted": bool(settings.get("refitted")),
        "picked": next(i for i, found in enumerate(shown) if is_same(found, picked)),
        "budget": settings.get("max_parameters"),
        "tolerance": tolerance,
        "tolerance_words": tolerance_words(result, is_classes),
        "comparison": _comparison(result, rule, maximal, is_classes),
        "candidates": [_candidate(result, found, is_classes) for found in shown],
        "members": _members(result, shown),
        "attempts": [
            [found.member, found.cut, found.parameters, rounded(found.score)]
            for found in result.attempts
            if math.isfinite(found.score)
        ],
        "starts_awake": settings.get("way") == "awake",
        "widths": list(settings["widths"]),
        "most_neurons": MOST_NEURONS,
        "groups": GROUPS,
        "inputs": _names(result.preprocessing.inputs.encoded_names),
        "outputs": _names(output_names(target)),
        "columns": columns_of(result),
        "about": about(result),
        "folder": None if folder is None else str(folder),
    }


def shown_of(result: Any) -> list[Any]:
    """The front and the linear model, on it or not, by size."""
    is_there = any(is_same(found, result.linear) for found in result.front)
    shown = result.front if is_there else (*result.front, result.linear)
    return sorted(shown, key=lambda found: found.parameters)


def rules_of(result: Any, found: Any) -> list[str]:
    """Those that pick it, "linear" the last."""
    return [rule for rule in (*RULES, "linear") if is_same(result.pick(rule), found)]


def _candidate(result: Any, found: Any, is_classes: bool) -> dict[str, Any]:
    place = next((i for i, other in enumerate(result.front) if other is found), None)
    return {
        "pick": "linear" if place is None else place,
        "rules": rules_of(result, found),
        "architecture": found.architecture,
        "parameters": found.parameters,
        "macs": found.macs,
        "neurons": sum(found.widths[1:-1]),
        "score": found.score,
        "error": found.standard_error,
        "score_words": score_words(found.score, is_classes),
        "score_with_error": score_words(found.score, is_classes, found.standard_error),
        "penalty_weight": rounded(found.penalty_weight),
        "kept_linear": found.member == result.settings["fits"] - 1,  # the first group of fits
        "member": found.member,
        "picture": picture(found.network),
        "answers": answers_of(found, result.preprocessing.target),
    }


def _members(result: Any, shown: list[Any]) -> dict[str, Any]:
    """How those members grew that a candidate was cut from; by their number."""
    trained = len(result.history.train_loss[0]) if result.history.epochs else 0
    used = sorted({found.member for found in shown if found.member < trained})
    return {str(member): growth(result.history, member) for member in used}


def _maximal(result: Any) -> Size:
    """The spectral network that the search was allowed, with every skip connection."""
    return SpectralNetwork(result.settings["widths"], device="meta").size


def _comparison(result: Any, rule: str, maximal: Size, is_classes: bool) -> list[dict[str, Any]]:
    """The rows of the table at the top."""
    order = dict.fromkeys([rule, *NAMES])
    rows: list[dict[str, Any]] = []
    candidates: list[Any] = []
    for pick in order:
        found, name = result.pick(pick), NAMES.get(pick, f"number {pick}")
        already = next((i for i, other in enumerate(candidates) if is_same(found, other)), None)
        if already is not None:
            rows[already]["name"] += f", {name}"
            continue
        candidates.append(found)
        rows.append(
            {
                "name": name,
                "architecture": found.architecture,
                "parameters": found.parameters,
                "macs": found.macs,
                "score": score_words(found.score, is_classes, found.standard_error),
            }
        )
    return [*rows, _largest(result, maximal, is_classes)]


def _largest(result: Any, maximal: Size, is_classes: bool) -> dict[str, Any]:
    """The largest network as it was trained, or where that is not known what was allowed."""
    trained = [found for found in result.attempts if found.cut == 0 and found.neurons > 0]
    top = max(trained, key=lambda found: found.parameters, default=None)
    if top is None:
        return {
            "name": "network allowed",
            "architecture": " → ".join(map(str, maximal.widths)),
            "parameters": maximal.parameters,
            "macs": maximal.macs,
            "score": "",
        }
    return {
        "name": "largest as trained",
        "architecture": counted(top.neurons, "hidden neuron"),
        "parameters": top.parameters,
        "macs": top.macs,
        "score": score_words(top.score, is_classes, top.standard_error),
    }


def _names(names: tuple[Any, ...]) -> list[str]:
    return [shortened(name) for name in names[:MOST_NAMES]]


def output_names(target: Any) -> tuple[Any, ...]:
    """What each output of a network stands for."""
    if target.classes is None:
        return target.names
    return target.classes[1:] if target.task == "binary" else target.classes
