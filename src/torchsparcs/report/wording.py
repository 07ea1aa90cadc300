"""The numbers of a report as people write them, and the sentences around them."""

import math
from collections.abc import Mapping
from typing import Any

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.visible import shortened
from torchsparcs.searching.default_scoring import RARE
from torchsparcs.searching.result import FEW_ROWS, Candidate, SearchResult, is_same
from torchsparcs.searching.scoring import Scoring
from torchsparcs.training.progress import duration_words


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(1797, "row")
    ('1 row', '1,797 rows')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def ratio_words(larger: float, smaller: float) -> str:
    """
    >>> ratio_words(12480, 748), ratio_words(300, 200)
    ('17', '1.5')
    """
    ratio = larger / smaller
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def judged_by(settings: dict[str, Any]) -> str:
    """The rows that gave the scores."""
    rows, fits = settings["judged_rows"], settings["fits"]
    if settings.get("time") is not None:
        return f"{rows:,} rows that are later in {shortened(settings['time'])}, in {fits - 1} steps"
    if fits > 2:
        group = settings.get("group")
        kept = "" if group is None else f", whole groups of {shortened(group)}"
        times = settings.get("judged_times", 1)
        if times == 1:
            return f"the {rows:,} rows in turn ({fits - 1}-fold cross-validation{kept})"
        return f"{rows:,} rows, each {times:.3g} times ({fits - 1} splits{kept})"
    return f"{rows:,} held-out rows"


def ended_by(settings: dict[str, Any]) -> str | None:
    """What ended a search before it was done, None where nothing did."""
    budget, ended = settings.get("time_budget"), settings.get("ended")
    if ended == "budget" and budget is not None:
        return f"by the time budget of {duration_words(budget)}"
    return "by Ctrl-C" if ended == "interrupt" else None


def where_judged(settings: dict[str, Any]) -> str:
    """The same in short, behind a score that chose."""
    return "on the folds" if settings["fits"] > 2 else "on held-out rows"


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
    score, is_expected = candidate.told, candidate.expected is not None
    if not math.isfinite(score):
        return f"{size} has no score."
    rows, scoring = "new rows" if is_expected else "held-out rows", result.scoring
    if scoring.name == "accuracy" and not scoring.is_weighted:
        verb = "should get" if is_expected else "gets"
        return f"{size} {verb} {100 * score:.1f} % of {rows} right."
    if scoring.name != "r2" or scoring.is_weighted:
        verb = "should have" if is_expected else "has"
        return f"{size} {verb} {scoring.label} {scoring.words(score)} on {rows}."
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
    sentences += [*_beside_others(result, picked), *_beside_constants(result, picked)]
    if result.settings.get("refitted"):
        sentences.append("The networks were found by an earlier search and refitted to these rows.")
    sentences.append(_caveat(result, picked))
    return " ".join(sentence for sentence in sentences if sentence)


def _caveat(result: SearchResult, picked: Candidate) -> str:
    """What the choice among many networks has to do with the scores."""
    if picked.expected is not None:
        score = result.scoring.words(picked.score)
        among = f", among {counted(len(result.attempts), 'network')}" * bool(result.attempts)
        made = f"on the rows that made it{among}, it has {score}"
        return f"Scores are corrected for the choice: {made}."
    if result.settings["fits"] == 1:
        return "The rows that judge also choose: keep others for a final verdict."
    return ""


def _beside_others(result: SearchResult, picked: Candidate) -> list[str]:
    """Sentences about the linear model and the best network, where they are others."""
    best, linear = result.best(), result.linear

    def reaches(found: Candidate) -> str:
        words = measured(result.scoring, found.told)
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


def measured(scoring: Scoring, score: float) -> str:
    """A score with its name: "R² 0.9705"; of accuracy, which says what it is, without."""
    words = scoring.words(score)
    return words if scoring.name == "accuracy" else f"{scoring.label} {words}"


def _beside_constants(result: SearchResult, picked: Candidate) -> list[str]:
    """What one answer for all rows would be worth, and what a score may hide: the rarest class."""
    scoring, sentences = result.scoring, []
    if result.settings.get("scoring_is_auto") and scoring.name == "log_loss":
        sentences = [
            "A class is rare: accuracy would hide it, so that networks are judged by log loss, how "
            "surprised they are by what is true."
        ]
    if scoring.constant is not None and scoring.name != "r2":
        sentences.append(f"One answer for all rows reaches {measured(scoring, scoring.constant)}.")
    counts = picked.answers
    if counts is not None and (target := result.target).classes is not None:
        rows = counts.sum(dim=1)
        rarest = int(rows.argmin())
        if 0 < rows[rarest] * len(rows) < RARE * rows.sum():
            of_class = f"{counted(int(rows[rarest]), 'row')} of {shortened(target.classes[rarest])}"
            found = int(counts[rarest, rarest])
            sentences.append(f"Of {of_class} the picked network finds {found:,}.")
    return sentences


def tolerance_words(result: SearchResult) -> str:
    """What the smallest network may give away."""
    best, allowed, scoring = result.best(), result.tolerance, result.scoring
    times = abs(scoring.style.times) / scoring.style.times
    gap = scoring.words(times * allowed)
    if allowed == best.standard_error:
        gap = "one standard error"
    elif scoring.counts and allowed == FEW_ROWS / result.settings["judged_rows"]:
        gap = f"{FEW_ROWS} rows"
    side = "above" if scoring.is_loss else "below"
    score = scoring.words(best.score - allowed)
    return f"{gap} {side} the best, {score} {where_judged(result.settings)}"


def bytes_of_chip(settings: Mapping[str, Any]) -> str:
    """Whose bytes a search tells, and whether in int8."""
    return f"bytes, {settings['chip']}{' in int8' * bool(settings.get('int8'))}"
