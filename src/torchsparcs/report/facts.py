"""Everything that a report shows, as one structure of plain values."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs.compact.chain import CompactChain
from torchsparcs.files.visible import shortened
from torchsparcs.report import wording
from torchsparcs.report.about import about
from torchsparcs.report.architecture import GROUPS, MOST_NEURONS, architecture, rounded
from torchsparcs.report.columns import columns_of, costs_of
from torchsparcs.searching.result import Attempt, Candidate, SearchResult, is_same
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.target import Target
from torchsparcs.training.history import History, spread

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
        folder: where the result is saved, for the lines that load it; of one that is not below the
            current folder only the name, since a page is passed on.
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
        "measure": result.scoring.label,
        "training_measure": "accuracy" if wording.is_classification(result) else "R²",
        "style": result.scoring.style._asdict(),
        "headline": wording.headline(result, picked),
        "architecture": picked.architecture,
        "verdict": wording.verdict(result, picked, offered.widths, offered.parameters),
        "judged_by": wording.judged_by(settings),
        "where_judged": wording.where_judged(settings),
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
        "candidates": [_candidate(result, found) for found in shown],
        "members": _members(result, shown),
        "attempts": [
            [
                *(_member(result, found), found.cut, found.parameters, rounded(found.score)),
                result.size.of(found),
            ]
            for found in result.attempts
            if math.isfinite(found.score)
        ],
        "widths": list(settings["widths"]),
        "most_neurons": MOST_NEURONS,
        "groups": GROUPS,
        "inputs": _names(result.inputs.encoded_names if is_table else ()),
        "outputs": _names(output_names(target)),
        "columns": columns_of(result),
        "costs": costs_of(result),
        "about": about(result),
        "folder": None if folder is None else _place(Path(folder)),
    }


def _place(folder: Path) -> str:
    is_below = not folder.is_absolute() and ".." not in folder.parts
    return str(folder) if is_below else folder.name


def shown_of(result: SearchResult) -> list[Candidate]:
    """The front, the linear model where there is one, and the pick, on it or not, by size."""
    shown = [*result.front]
    for other in (result.linear, result.pick(result.settings.get("pick", "smallest"))):
        if other is not None and not any(is_same(found, other) for found in shown):
            shown.append(other)
    return sorted(shown, key=result.size.of)


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
        names.setdefault(place, []).append(RULES.get(pick) or _words(pick))
    rows = [
        _row(result, ", ".join(names[place]), found.architecture, found)
        for place, found in enumerate(candidates)
    ]
    if (constant := result.scoring.constant) is not None:
        score, outputs = result.scoring.words(constant), result.target.outputs
        size = {"parameters": outputs, "macs": 0, "bytes": None, "score": score}
        rows.append({"name": "one answer for all rows", "architecture": "", **size})
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
    return [*rows, _row(result, "largest as trained", hidden, top)]


def _words(pick: str | int) -> str:
    """A pick that is no rule: "number 3", "cost up to 12"."""
    text = str(pick)
    return f"number {pick}" if text.isdecimal() else text.replace("cost:", "cost up to ")


def _row(result: SearchResult, name: str, words: str, found: Candidate | Attempt) -> dict[str, Any]:
    scoring, error = result.scoring, found.standard_error
    if isinstance(found, Candidate):
        score = scoring.words(found.told, error)
    else:  # nobody chose it
        score = f"{scoring.words(found.score, error)} {wording.where_judged(result.settings)}"
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


MOST_SHOWN = 20  # classes of a confusion matrix
MOST_OUTPUTS = 6  # of a regression


def answers_of(
    candidate: Candidate, target: Target, *, is_accuracy: bool = True
) -> dict[str, Any] | None:
    """A confusion matrix, or pairs in their own units; None where nothing was kept.

    ``is_accuracy``: whether that is the score, which a matrix can be held against.
    """
    kept = candidate.answers
    if kept is None:
        return None
    if target.classes is None:
        return _pairs(kept, target)
    return _confusion(kept, target, candidate.score if is_accuracy else None)


def _confusion(counts: Tensor, target: Target, accuracy: float | None) -> dict[str, Any]:
    """True by said; of many classes those with most mistakes, and the rest as one."""
    labels = [shortened(label) for label in target.classes or ()]
    note = ""
    if len(labels) > MOST_SHOWN:
        wrong = counts.sum(dim=0) + counts.sum(dim=1) - 2 * counts.diagonal()
        worst = wrong.argsort(descending=True, stable=True)[: MOST_SHOWN - 1].sort().values
        place = torch.full((len(labels),), len(worst)).scatter(0, worst, torch.arange(len(worst)))
        mix = torch.nn.functional.one_hot(place).to(counts)
        others = len(labels) - len(worst)
        right = counts.diagonal().sum() - counts.diagonal()[worst].sum()
        counts = mix.T @ counts @ mix
        labels = [*(labels[i] for i in worst.tolist()), f"{others} others"]
        note = (
            f"The {len(worst)} classes with most mistakes; the other {others} are one row and "
            f"column, where {int(counts[-1, -1] - right):,} are mistakes among themselves."
        )
    share = counts.diagonal().sum().item() / max(int(counts.sum()), 1)
    if not note and accuracy is not None and abs(share - accuracy) > 1e-3:
        note = "Rows are counted once each here; the score counts them by their weights."
    return {"kind": "confusion", "labels": labels, "counts": counts.tolist(), "note": note}


def _pairs(pairs: Tensor, target: Target) -> dict[str, Any]:
    """(rows, outputs, 2) back in the units of the target."""
    scale, mean = np.array(target.scale)[:, None], np.array(target.mean)[:, None]
    values = (pairs.numpy() * scale + mean)[:, :MOST_OUTPUTS]
    outputs = [
        {"name": shortened(name), "true": _short(values[:, i, 0]), "said": _short(values[:, i, 1])}
        for i, name in enumerate(target.names[:MOST_OUTPUTS])
    ]
    more = len(target.names) - len(outputs)
    note = f"{more} more outputs are not shown." if more > 0 else ""
    return {"kind": "pairs", "outputs": outputs, "note": note}


def _short(values: np.ndarray) -> list[float]:
    """Four digits beyond what the values have in common."""
    finite = np.where(np.isfinite(values), values, np.nan)
    spread = np.nanmax(finite) - np.nanmin(finite) if not np.isnan(finite).all() else 0.0
    digits = 4 - int(np.floor(np.log10(spread))) if spread > 0 else 4
    return [round(float(value), digits) for value in values]


MOST_EPOCHS = 200  # of a curve
BINS = 30  # of a histogram


def curves_of(result: SearchResult, candidate: Candidate) -> dict[str, Any] | None:
    """The curves of the network that ``candidate`` was cut from; None where none are recorded."""
    losses, member = result.history.train_loss, _member(result, candidate)
    if not losses or member < 0 or (member and member >= len(losses[0])):
        return None
    return training_curves(result.history_of(candidate))


def training_curves(history: History) -> dict[str, Any]:
    """Losses, scores, recruits and eigenvalues of one training; what was not recorded is empty."""
    epochs = spread(history.epochs, MOST_EPOCHS)
    kept = history.thinned().snapshots
    names = sorted(kept[0][1], key=_in_order) if kept else []
    recruited = history.recruited
    return {
        "epochs": [epoch + 1 for epoch in epochs],
        "loss": _at(history.train_loss, epochs),
        "validation_loss": _at(history.validation_loss, epochs),
        "score": _at(history.validation_score, epochs),
        "recruited": [recruited[epoch] for epoch in epochs] if any(recruited) else [],
        "stops": [epoch for epoch, _ in kept] if names else [],
        "layers": [_layer([snapshot[name] for _, snapshot in kept]) for name in names],
    }


def _layer(snapshots: list[Tensor]) -> dict[str, Any]:
    """One hidden layer: eigenvalues and their histogram at every stop.

    Of a layer with many neurons that were recruited, ``values`` are the means of |λ| of ``per``
    recruits each, from the largest; else the eigenvalues of the neurons at ``index``.
    """
    values = torch.stack([snapshot.float().nan_to_num() for snapshot in snapshots])  # (stops, N)
    ever = (values != 0).any(dim=0).nonzero().squeeze(1)
    width = values.shape[1]
    layer: dict[str, Any] = {
        "width": width,
        "recruited": values.count_nonzero(dim=1).tolist(),
        "norm": rounded(torch.linalg.vector_norm(values, dim=1)),
        "histogram": _histogram(values),
    }
    if len(ever) <= MOST_NEURONS:
        eigenvalues = [rounded(stop) for stop in values[:, ever]]
        return {**layer, "per": 1, "index": ever.tolist(), "values": eigenvalues}
    per = -(-width // GROUPS)
    ranked = values.abs().sort(dim=1, descending=True).values
    recruits = [stop[:n] for stop, n in zip(ranked, layer["recruited"], strict=True)]
    means = [[rounded(p.mean().item()) for p in stop.split(per) if len(p)] for stop in recruits]
    return {**layer, "per": per, "index": [], "values": means}


def _histogram(values: Tensor) -> dict[str, Any]:
    """Counts of what is not zero, in bins that all stops share."""
    low, high = min(values.min().item(), 0.0), max(values.max().item(), 0.0)
    if low == high:
        low, high = -1.0, 1.0
    counts = [torch.histc(stop[stop != 0], bins=BINS, min=low, max=high) for stop in values]
    return {"from": low, "to": high, "counts": [count.int().tolist() for count in counts]}


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """A key that sorts layer 10 after layer 9; files do not keep the order of their tensors."""
    parts = name.split(".")
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _at(values: list[float], places: list[int]) -> list[float]:
    return [rounded(values[place]) for place in places] if values else []
