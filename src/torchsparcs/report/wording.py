"""The numbers of a report as people write them, and the sentences around them."""

import math
from collections.abc import Mapping
from typing import Any

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.visible import shortened
from torchsparcs.report.columns import kinds_words
from torchsparcs.searching.result import Candidate, SearchResult, is_same
from torchsparcs.tables.target import Target


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(1797, "row")
    ('1 row', '1,797 rows')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def score_words(score: float, is_classes: bool, error: float | None = None) -> str:
    """
    >>> score_words(0.9705, True, 0.004), score_words(0.9705, False), score_words(math.nan, True)
    ('97.05 % ± 0.40', '0.9705', '–')
    """
    if not math.isfinite(score):
        return "–"
    times, digits, unit = (100, 2, " %") if is_classes else (1, 4, "")
    words = f"{times * score:.{digits}f}{unit}"
    if error is None or not math.isfinite(error):
        return words
    return f"{words} ± {times * error:.{digits}f}"


def ratio_words(larger: float, smaller: float) -> str:
    """
    >>> ratio_words(12480, 748), ratio_words(300, 200)
    ('17', '1.5')
    """
    ratio = larger / smaller
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def duration_words(seconds: float) -> str:
    """
    >>> duration_words(43.5), duration_words(754), duration_words(9000)
    ('44 s', '12 min 34 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def judged_by(settings: dict[str, Any]) -> str:
    """The rows that gave the scores."""
    rows, fits = settings["judged_rows"], settings["fits"]
    if fits > 2:
        return f"the {rows:,} rows in turn ({fits - 1}-fold cross-validation)"
    return f"{rows:,} held-out rows"


def where_judged(settings: dict[str, Any]) -> str:
    """The same in short, behind a score that chose."""
    return "on the folds" if settings["fits"] > 2 else "on held-out rows"


def claim(candidate: Candidate) -> float:
    """The score that is told: the one to be expected; of older folders the one that chose."""
    return candidate.score if candidate.expected is None else candidate.expected


def is_classification(result: SearchResult) -> bool:
    return result.target.classes is not None


def is_linear(candidate: Candidate) -> bool:
    """Whether no neuron or channel of it passes an activation."""
    network = candidate.network
    if isinstance(network, CompactChain):
        return not any(network.active[:-1])
    return len(network.widths) == 2


def shape_words(result: SearchResult) -> str:
    """What a row is: the columns of a table, or the shape that a network takes."""
    if result.preprocessing is not None:
        return counted(len(result.inputs.columns), "column")
    shape = result.best().row_shape or result.best().widths[:1]
    return f"{' × '.join(map(str, shape))} inputs"


def data_words(result: SearchResult) -> str:
    """One line about the data."""
    target = result.target
    if target.classes is None:
        aim = f"regression of {', '.join(map(shortened, target.names[:3]))}"
        aim += f" and {len(target.names) - 3} more" * (len(target.names) > 3)
    else:
        aim = f"{len(target.classes)} classes of {shortened(target.names[0])}"
    return f"{counted(result.settings['rows'], 'row')}, {shape_words(result)}, {aim}"


def held_words(result: SearchResult) -> str:
    """What of the data is in the page, for its last line."""
    kept = result.best().answers
    if is_classification(result) or kept is None:
        return "It holds summaries of the data, not its rows."
    return (
        f"Of the data it holds summaries, not its rows, and of the target {len(kept):,} values, "
        "to draw predicted against true."
    )


def columns_words(result: SearchResult, candidate: Candidate) -> str:
    """Which columns of a table a network reads: "on 3 of 10 columns"."""
    assert isinstance(candidate.network, CompactNetwork)
    reads = candidate.network.reads
    if reads is None:
        return "on all columns"
    read = len(result.inputs.columns_read(reads))
    return f"on {read:,} of {counted(len(result.inputs.columns), 'column')}"


def headline(result: SearchResult, candidate: Candidate) -> str:
    """The answer in one sentence."""
    kind = "linear model" if is_linear(candidate) else "network"
    size = f"A {kind} with {counted(candidate.parameters, 'parameter')}"
    if is_linear(candidate) and result.preprocessing is not None:
        size = size.replace(" with", f" {columns_words(result, candidate)}, with") + ","
    score, is_expected = claim(candidate), candidate.expected is not None
    if not math.isfinite(score):
        return f"{size} has no score."
    rows = "new rows" if is_expected else "held-out rows"
    if is_classification(result):
        verb = "should get" if is_expected else "gets"
        return f"{size} {verb} {100 * score:.1f} % of {rows} right."
    if score <= 0:
        return f"{size} predicts no better than the mean (R² {score:.3f})."
    verb = "should explain" if is_expected else "explains"
    return f"{size} {verb} {100 * score:.1f} % of the variance of {rows}."


def verdict(
    result: SearchResult, picked: Candidate, widths: tuple[int, ...], parameters: int
) -> str:
    """How the answer compares with the network offered, the linear model and the best one.

    ``widths`` and ``parameters`` are those of the spectral network that the search was allowed.
    """
    arrows = "\u00a0→ "  # at no line's beginning
    allowed = f"{arrows.join(map(str, widths))} ({counted(parameters, 'parameter')})"
    if parameters > picked.parameters:
        fewer = f"{ratio_words(parameters, picked.parameters)} times fewer parameters than"
        sentences = [f"That is {fewer} the network the search was allowed, {allowed}."]
    else:
        is_chain = isinstance(picked.network, CompactChain)
        own = "layer that is skipped has channels" if is_chain else "skip connection has weights"
        sentences = [
            f"That is no fewer parameters than the network the search was allowed, {allowed}: "
            f"in direct space each {own} of its own."
        ]
    sentences += _beside_others(result, picked)
    if result.settings.get("refitted"):
        sentences.append("The networks were found by an earlier search and refitted to these rows.")
    sentences.append(_caveat(result, picked))
    return " ".join(sentence for sentence in sentences if sentence)


def _caveat(result: SearchResult, picked: Candidate) -> str:
    """What the choice among many networks has to do with the scores."""
    if picked.expected is not None:
        score = score_words(picked.score, is_classification(result))
        among = f", among {counted(len(result.attempts), 'network')}" * bool(result.attempts)
        made = f"on the rows that made it{among}, it has {score}"
        return f"Scores are corrected for the choice: {made}."
    if result.settings["fits"] == 1:
        return "The rows that judge also choose: keep others for a final verdict."
    return ""


def _beside_others(result: SearchResult, picked: Candidate) -> list[str]:
    """Sentences about the linear model and the best network, where they are others."""
    is_classes, best, linear = is_classification(result), result.best(), result.linear

    def reaches(found: Candidate) -> str:
        words = f"{'' if is_classes else 'R² '}{score_words(claim(found), is_classes)}"
        return f"has {counted(found.parameters, 'parameter')} and reaches {words}"

    sentences, is_best_linear = [], linear is not None and is_same(best, linear)
    if linear is not None and is_same(picked, linear):
        sentences = ["It is the linear model: nothing larger was worth its parameters."]
    elif linear is not None:
        praise = ", the best score found" * is_best_linear
        words = f"The linear model {columns_words(result, linear)} {reaches(linear)}"
        sentences = [f"{words}{praise}."]
    if not is_same(picked, best) and not is_best_linear:
        kind = "network"
        if linear is not None and is_linear(best):
            kind = f"linear model, {columns_words(result, best)},"
        sentences.append(f"The best {kind} {reaches(best)}.")
    return sentences


def tolerance_words(result: SearchResult) -> str:
    """What the smallest network may give away."""
    best, allowed, is_classes = result.best(), result.tolerance, is_classification(result)
    is_error = allowed == best.standard_error
    gap = "one standard error" if is_error else f"{score_words(allowed, is_classes)}"
    score = score_words(best.score - allowed, is_classes)
    return f"{gap} below the best, {score} {where_judged(result.settings)}"


MOST_CLASSES, MOST_OUTPUTS = 20, 10  # by name


def about(result: SearchResult) -> list[dict[str, Any]]:
    """Titled lists of names and facts; what has no meaning for this search is left out."""
    sections: dict[str, Mapping[str, str | None]] = {
        "Data": _data(result),
        "Search": _search(result),
        "Configuration": {
            name.replace("_", " "): _text(value)
            for name, value in result.settings.get("config", {}).items()
        },
        "Made with": made_with(result.settings),
    }
    return [
        {"title": title, "facts": [[name, text] for name, text in facts.items() if text]}
        for title, facts in sections.items()
    ]


def _data(result: SearchResult) -> dict[str, str | None]:
    settings, is_table = result.settings, result.preprocessing is not None
    used, seen = settings["rows"], settings.get("rows_seen", settings["rows"])
    return {
        "name": shortened(settings.get("data", "not recorded" if is_table else "")),
        "rows": f"{used:,}" if seen <= used else f"{used:,} drawn from {seen:,}",
        "row": None if is_table else shape_words(result),
        "columns": kinds_words(result.inputs.columns) if is_table else None,
        "dropped": ", ".join(map(shortened, settings.get("dropped", []))),
        "judged on": judged_by(settings),
        **_aim(result, result.target),
    }


def _aim(result: SearchResult, target: Target) -> dict[str, str]:
    """The target, its classes with how often each came up, or its outputs with their moments."""
    if target.classes is None:
        moments = zip(target.names[:MOST_OUTPUTS], target.mean, target.scale, strict=False)
        outputs = [f"{shortened(name)}, {m:.4g} ± {s:.4g}" for name, m, s in moments]
        if result.preprocessing is None:
            outputs = [shortened(name) for name in target.names[:MOST_OUTPUTS]]
        return {"target": "; ".join([*outputs, *_rest(len(target.names) - MOST_OUTPUTS)])}
    counts, shown = result.best().answers, [shortened(c) for c in target.classes[:MOST_CLASSES]]
    if counts is not None:
        rows = counts.sum(dim=1).tolist()
        shown = [f"{label} ({n:,})" for label, n in zip(shown, rows, strict=False)]
    return {
        "target": f"{shortened(target.names[0])}, {len(target.classes)} classes",
        "classes": ", ".join([*shown, *_rest(len(target.classes) - MOST_CLASSES)]),
    }


def _rest(count: int) -> list[str]:
    return [f"{count} more"] if count > 0 else []


def _search(result: SearchResult) -> dict[str, str | None]:
    settings, is_table = result.settings, result.preprocessing is not None
    budget, steps, fits = (settings.get(n) for n in ("max_parameters", "refit_steps", "fits"))
    ways = settings.get("config", {}).get("ways", "not recorded")
    penalties = (f"{weight:.3g}" for weight in settings.get("penalty_weights", []))
    shares = f"{fits}{' for each penalty weight' * is_table}, each to its part of the rows"
    return {
        "refitted": f"from an earlier search, {counted(steps, 'step')}" if steps else None,
        "widths allowed": " → ".join(map(str, settings["widths"])),
        "activation": result.best().network.activation_name,
        "trained": _text(settings.get("way", ways)) if is_table else None,
        "penalty weights": ", ".join(penalties) if is_table else None,
        "fits": None if fits == 1 else shares,
        "budget": "none" if budget is None else counted(budget, "parameter"),
        "seed": str(settings["seed"]),
    }


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def made_with(settings: dict[str, Any]) -> dict[str, str]:
    """Versions, machine and time; what an older folder has not is "not recorded"."""
    version = {"torchsparcs": settings.get("version", "not recorded")}  # of an older folder
    seconds = settings.get("seconds")
    return {
        **{name: str(known) for name, known in (version | settings.get("versions", {})).items()},
        "hardware": str(settings.get("hardware", "not recorded")),
        "device": str(settings.get("device", "not recorded")),
        "wall time": "not recorded" if seconds is None else duration_words(seconds),
    }
