"""The numbers of a report as people write them, and the sentences around them."""

import math
from typing import Any

from torchsparcs.searching.front import is_same
from torchsparcs.tables.target import Target

LONGEST = 80  # characters of a name


def shortened(text: Any) -> str:
    """A name from the data, not longer than a line."""
    name = str(text)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


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


def data_words(settings: dict[str, Any], columns: int, target: Target) -> str:
    """One line about the data."""
    if target.classes is None:
        aim = f"regression of {', '.join(map(shortened, target.names[:3]))}"
        aim += f" and {len(target.names) - 3} more" * (len(target.names) > 3)
    else:
        aim = f"{len(target.classes)} classes of {shortened(target.names[0])}"
    return f"{counted(settings['rows'], 'row')}, {counted(columns, 'column')}, {aim}"


def held_words(result: Any) -> str:
    """What of the data is in the page, for its last line."""
    kept = result.best().answers
    if result.preprocessing.target.classes is not None or kept is None:
        return "It holds summaries of the data, not its rows."
    return (
        f"Of the data it holds summaries, not its rows, and of the target {len(kept):,} values, "
        "to draw predicted against true."
    )


def columns_words(result: Any, candidate: Any) -> str:
    """Which columns a network reads: "on 3 of 10 columns"."""
    reads, inputs = candidate.network.reads, result.preprocessing.inputs
    if reads is None:
        return "on all columns"
    read = len(inputs.columns_read(reads))
    return f"on {read:,} of {counted(len(inputs.columns), 'column')}"


def headline(result: Any, candidate: Any, is_classes: bool) -> str:
    """The answer in one sentence."""
    size = f"with {counted(candidate.parameters, 'parameter')}"
    if is_linear(candidate):
        size = f"A linear model {columns_words(result, candidate)}, {size},"
    else:
        size = f"A network {size}"
    if not math.isfinite(candidate.score):
        return f"{size} has no score."
    if is_classes:
        return f"{size} gets {100 * candidate.score:.1f} % of held-out rows right."
    if candidate.score <= 0:
        return f"{size} predicts no better than the mean (R² {candidate.score:.3f})."
    return f"{size} explains {100 * candidate.score:.1f} % of the variance of held-out rows."


def verdict(result: Any, picked: Any, maximal: Any, is_classes: bool) -> str:
    """How the answer compares with the maximal network, the linear model and the best one."""
    measure = "" if is_classes else "R² "
    linear, best = result.linear, result.best()
    arrows = "\u00a0→ "  # at no line's beginning
    size = counted(maximal.parameters, "parameter")
    allowed = f"{arrows.join(map(str, maximal.widths))} ({size})"
    if maximal.parameters > picked.parameters:
        fewer = f"{ratio_words(maximal.parameters, picked.parameters)} times fewer parameters than"
        sentences = [f"That is {fewer} the network the search was allowed, {allowed}."]
    else:
        sentences = [
            f"That is no fewer parameters than the network the search was allowed, {allowed}: "
            "in direct space each skip connection has weights of its own."
        ]

    def reaches(found: Any) -> str:
        words = f"{measure}{score_words(found.score, is_classes)}"
        return f"has {counted(found.parameters, 'parameter')} and reaches {words}"

    if is_same(picked, linear):
        sentences.append("It is the linear model: nothing larger was worth its parameters.")
    elif is_same(best, linear):
        words = f"The linear model {columns_words(result, linear)} {reaches(linear)}"
        sentences.append(f"{words}, the best score found.")
    else:
        sentences.append(f"The linear model {columns_words(result, linear)} {reaches(linear)}.")
    if not is_same(picked, best) and not is_same(best, linear):
        kind = f"linear model, {columns_words(result, best)}," if is_linear(best) else "network"
        sentences.append(f"The best {kind} {reaches(best)}.")
    if result.settings.get("refitted"):
        sentences.append("The networks were found by an earlier search and refitted to these rows.")
    return " ".join(sentences)


def tolerance_words(result: Any, is_classes: bool) -> str:
    """What the smallest network may give away."""
    best, allowed = result.best(), result.tolerance
    is_error = allowed == best.standard_error
    gap = "one standard error" if is_error else f"{score_words(allowed, is_classes)}"
    return f"{gap} below the best, {score_words(best.score - allowed, is_classes)}"


def is_linear(candidate: Any) -> bool:
    return len(candidate.widths) == 2
