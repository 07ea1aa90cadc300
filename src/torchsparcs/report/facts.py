"""Everything that a report shows, as one structure of plain values."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchsparcs.compact.chain import CompactChain
from torchsparcs.export.folding import Program
from torchsparcs.report import wording
from torchsparcs.report.about import about
from torchsparcs.report.answers import answers_of
from torchsparcs.report.architecture import GROUPS, MOST_NEURONS, architecture, rounded
from torchsparcs.report.columns import columns_of, costs_of
from torchsparcs.report.curves import training_curves
from torchsparcs.report.flash import flash_words
from torchsparcs.report.formula import MOST_PARAMETERS, formula_of
from torchsparcs.report.trying import controls_of, programs_of, running
from torchsparcs.report.verdict import error_words, plain_alike, verdict
from torchsparcs.results.result import Attempt, Candidate, SearchResult, is_same
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.target import Target

PICKED = "picked"
MOST_NAMES = 3000  # of inputs


class Offered(NamedTuple):
    """The size of the spectral network that a search was allowed; of a chain macs are not known."""

    widths: tuple[int, ...]
    parameters: int
    macs: int | None


def facts_of(result: SearchResult, folder: str | Path | None = None) -> dict[str, Any]:
    """What the page and the figures about a ``SearchResult`` are made of; JSON can hold it.

    Args:
        folder: where the result is saved, for the lines that load it; of one that is not below the
            current folder only the name, since a page is passed on.
    """
    settings, target, offered = result.settings, result.target, offered_size(result)
    is_table = result.preprocessing is not None
    rule = settings.get("pick", "smallest")
    picked, shown = result.pick(rule), shown_of(result)
    programs = programs_of(result, shown)
    controls = controls_of(result, programs)
    return {
        "name": wording.shortened(settings.get("data", "A search")),
        "data": wording.data_words(result),
        "is_table": is_table,
        "unit": unit_of(result),
        "measure": result.scoring.label,
        "training_measure": "accuracy" if wording.is_classification(result) else "R²",
        "style": result.scoring.style._asdict(),
        "headline": wording.headline(result, picked),
        "architecture": picked.architecture,
        "verdict": verdict(result, picked),
        "legend": wording.comparison_note(result),
        "judged_by": wording.judged_by(settings),
        "where_judged": wording.where_judged(settings),
        "is_accuracy": result.scoring.label == "accuracy",
        "is_judged_itself": settings["fits"] == 1,
        "is_corrected": picked.expected is not None,
        "held": wording.held_words(result),
        "is_refitted": bool(settings.get("refitted")),
        "picked": next(i for i, found in enumerate(shown) if is_same(found, picked)),
        "size": result.size.unit,
        "chip": settings.get("chip"),
        "bytes_name": wording.bytes_of_chip(settings) if settings.get("chip") else "",
        "is_int8": bool(settings.get("int8")),
        "budget": settings.get(f"max_{settings.get('size', 'parameters')}"),
        "tolerance": result.best().score - result.tolerance,
        "tolerance_words": wording.tolerance_words(result),
        "comparison": _comparison(result, rule, offered),
        "candidates": [
            {
                **_candidate(result, found),
                "program": None if program is None else running(program, controls),
                "formula": _formula(result, found, program),
                "flash": flash_words(program),
            }
            for found, program in zip(shown, programs, strict=True)
        ],
        "controls": controls,
        "members": _members(result, shown),
        "attempts": [
            [
                *(_member(result, found), found.cut, found.parameters, rounded(found.score)),
                result.size.of(found),
                found.neurons,
            ]
            for found in result.attempts
            if math.isfinite(found.score)
        ],
        "widths": list(settings["widths"]),
        "most_neurons": MOST_NEURONS,
        "groups": GROUPS,
        "inputs": _names(result.inputs.encoded_names if is_table else ()),
        "outputs": _names(output_names(target)),
        "classes": _names(target.classes or ()),
        "columns": columns_of(result),
        "costs": costs_of(result),
        "about": about(result),
        "folder": None if folder is None else _place(Path(folder)),
        "commands": _commands(Path(folder)) if is_table and folder is not None else [],
    }


def _formula(result: SearchResult, found: Candidate, program: Program | None) -> list[str]:
    is_small = program is not None and found.parameters <= MOST_PARAMETERS
    return formula_of(program, result.inputs.scale) if program is not None and is_small else []


def _place(folder: Path) -> str:
    is_below = not folder.is_absolute() and ".." not in folder.parts
    return str(folder) if is_below else folder.name


def _commands(folder: Path) -> list[tuple[str, str]]:
    """What follows a search of a table on the command line; between the two comes --pick."""
    run = shlex.quote(_place(folder))
    export = f"sparcs export {run}"
    return [
        (f"# {run}: the folder of this search; formats: c, onnx, python, javascript", ""),
        (f"sparcs predict {run}", " NEW.csv -o predictions.csv"),
        (export, " --format c"),
        (export, " --format c --measure cortex-m4"),
        (export, " --format c --int8 --data ROWS.csv"),
    ]


def shown_of(result: SearchResult) -> list[Candidate]:
    """The front, the linear model where there is one, and the pick, on it or not, by size."""
    shown = [*result.front]
    for other in (result.linear, result.pick(result.settings.get("pick", "smallest"))):
        if other is not None and not any(is_same(found, other) for found in shown):
            shown.append(other)
    return sorted(shown, key=result.size.of)


def names_of(result: SearchResult, found: Candidate) -> list[str]:
    """What ``found`` is called: picked, and by the other rules that pick it."""
    rule = result.settings.get("pick", "smallest")
    names = [PICKED] if is_same(result.pick(rule), found) else []
    return names + [each for each in rules_of(result, found) if each != rule]


def gains_nothing(result: SearchResult, found: Candidate) -> bool:
    """Whether a smaller network of the front should be as good on new rows.

    The front is made of the scores in validation, which the correction may turn round.
    """
    place = next((i for i, other in enumerate(result.front) if other is found), 0)
    return any(other.told >= found.told for other in result.front[:place])


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
    return [rule for rule in wording.RULES if rule != "linear" or result.linear is not None]


DRAWN, LINEAR = -1, -2  # the places of networks that nobody in the history was cut to


def _member(result: SearchResult, found: Candidate | Attempt) -> int:
    """The place in the history; where that is of one network, the first."""
    if found.member is None:
        neurons = found.neurons if isinstance(found, Attempt) else sum(found.widths[1:-1])
        is_table = result.preprocessing is not None
        return (DRAWN if neurons else LINEAR) if is_table else 0
    return found.member


def _candidate(result: SearchResult, found: Candidate) -> dict[str, Any]:
    place = next((i for i, other in enumerate(result.front) if other is found), None)
    scoring, linear, told = result.scoring, result.linear, found.told
    bins = found.reliability
    return {
        "pick": place if place is not None else _off_the_front(result, found),
        "rules": rules_of(result, found),
        "names": names_of(result, found),
        "gains_nothing": gains_nothing(result, found),
        "error_words": error_words(result, told),
        "architecture": found.architecture,
        "parameters": found.parameters,
        "macs": found.macs,
        "bytes": found.bytes,
        "size": result.size.of(found),
        "neurons": sum(found.widths[1:-1]),
        "score": found.score,
        "error": found.standard_error,
        "told": told,
        "score_words": scoring.words(told),
        "score_with_error": scoring.words(told, found.standard_error),
        "judged_words": scoring.words(found.score),
        "int8_words": "" if found.told_in_int8 is None else scoring.words(found.told_in_int8),
        "penalty_weight": rounded(found.penalty_weight),
        "kept_linear": linear is not None and found.penalty_weight == linear.penalty_weight,
        "member": _member(result, found),
        "picture": architecture(found.network),
        "answers": answers_of(found, result.target, is_accuracy=scoring.name == "accuracy"),
        "temperature": rounded(found.temperature),
        "reliability": None if bins is None else [[*map(rounded, row)] for row in bins.tolist()],
    }


def _off_the_front(result: SearchResult, found: Candidate) -> str:
    """The rule that picks ``found``: the linear model, or by cost what was asked for."""
    is_linear = result.linear is not None and is_same(found, result.linear)
    return "linear" if is_linear else str(result.settings["pick"])


def _members(result: SearchResult, shown: list[Candidate]) -> dict[str, Any]:
    """Training curves of the members that a candidate was cut from, by their number."""
    by_member = {_member(result, found): found for found in shown}
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
        names.setdefault(place, []).append(PICKED if pick == rule else wording.RULES[pick])
    rows = [
        _row(result, ", ".join(names[place]), found.architecture, found)
        for place, found in enumerate(candidates)
    ]
    if (constant := result.scoring.constant) is not None:
        score, outputs = result.scoring.words(constant), result.target.outputs
        size = {"parameters": outputs, "macs": 0, "bytes": None, "score": score}
        rows.append({"name": "one answer for all rows", "architecture": "", **size})
    if plain_alike(result) is not None:
        return rows  # the verdict has it, with scores that are judged alike
    trained = [
        found
        for found in result.attempts
        if found.cut == 0 and found.neurons > 0 and _member(result, found) >= 0
    ]
    if not trained:
        size = {"parameters": offered.parameters, "macs": offered.macs, "bytes": None, "score": ""}
        words = " → ".join(map(str, offered.widths))
        return [*rows, {"name": "network allowed", "architecture": words, **size}]
    top = max(trained, key=lambda found: found.parameters)
    hidden = wording.counted(top.neurons, f"hidden {unit_of(result)}")
    return [*rows, _row(result, "largest trained", hidden, top)]


def _row(result: SearchResult, name: str, words: str, found: Candidate | Attempt) -> dict[str, Any]:
    scoring, error = result.scoring, found.standard_error
    if isinstance(found, Candidate):
        score = scoring.words(found.told, error)
    else:
        score, name = scoring.words(found.score, error), f"{name}, in validation"
    return {
        "name": name,
        "architecture": words,
        "parameters": found.parameters,
        "macs": found.macs,
        "bytes": found.bytes,
        "score": score,
    }


def _names(names: Sequence[Any]) -> list[str]:
    return [wording.shortened(name) for name in names[:MOST_NAMES]]


def curves_of(result: SearchResult, candidate: Candidate) -> dict[str, Any] | None:
    """The curves of the network that ``candidate`` was cut from; None where none are recorded."""
    losses, member = result.history.train_loss, _member(result, candidate)
    if not losses or member < 0 or (member and member >= len(losses[0])):
        return None
    return training_curves(result.history_of(candidate))
