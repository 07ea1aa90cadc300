"""The numbers of a report as people write them, and the words around them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.visible import shortened
from torchsparcs.judging.correction import HALVINGS
from torchsparcs.judging.scoring import Scoring
from torchsparcs.results.result import FEW_ROWS, Candidate, SearchResult
from torchsparcs.training.progress import duration_words

MOST_NAMED = 12  # columns, one by one
RULES = {"smallest": "smallest as good", "best": "best score", "linear": "linear model"}


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
    return "in cross-validation" if settings["fits"] > 2 else "on held-out rows"


def is_classification(result: SearchResult) -> bool:
    return result.target.classes is not None


def is_linear(candidate: Candidate) -> bool:
    """Whether no neuron or channel of it passes an activation."""
    network = candidate.network
    if isinstance(network, CompactChain):
        return not any(network.active[:-1])
    return len(network.widths) == 2


def kind_words(candidate: Candidate) -> str:
    """A linear model, a network, or either of convolutions."""
    network, is_plain = candidate.network, not is_linear(candidate)
    if isinstance(network, CompactChain) and any(
        "Conv" in type(layer).__name__ for layer in network.layers
    ):
        return "convolutional network" if is_plain else "linear convolutional network"
    return "network" if is_plain else "linear model"


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
    reads, columns = candidate.network.reads, result.inputs.columns
    if reads is not None:
        read = len(result.inputs.columns_read(reads))
    elif (read := sum(bool(column.encoded_names) for column in columns)) == len(columns):
        return "on all columns"
    return f"on {read:,} of {counted(len(columns), 'column')}"


def headline(result: SearchResult, candidate: Candidate) -> str:
    """The answer in one sentence."""
    size = f"A {kind_words(candidate)} of {counted(candidate.parameters, 'parameter')}"
    if result.preprocessing is not None:
        size = f"{size} {columns_words(result, candidate)}"
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


def reads_words(result: SearchResult, candidate: Candidate) -> str:
    """The names of the columns that a network reads; nothing where they are too many."""
    if result.preprocessing is None:
        return ""
    assert isinstance(candidate.network, CompactNetwork)
    columns, reads = result.inputs.columns, candidate.network.reads
    read = columns if reads is None else result.inputs.columns_read(reads)
    names = [column.name for column in read if column.encoded_names]
    others = [column.name for column in columns if column.name not in names]
    if not names:
        return "It reads no column and gives one answer for all rows."
    if len(names) > MOST_NAMED:
        return ""  # the headline counts them
    words = f"It reads {_listed(names, 'and')}"
    if 0 < len(others) <= min(len(names), MOST_NAMED):
        words += f", not {_listed(others, 'or')}"
    return f"{words}."


def _listed(names: Sequence[str], last: str) -> str:
    *most, end = map(shortened, names)
    return f"{', '.join(most)} {last} {end}" if most else end


def measured(scoring: Scoring, score: float) -> str:
    """A score with its name: "R² 0.9705"; of accuracy, which says what it is, without."""
    words = scoring.words(score)
    return words if scoring.name == "accuracy" else f"{scoring.label} {words}"


def comparison_note(result: SearchResult) -> str:
    """What the words of the table at the top mean."""
    rule = result.settings.get("pick", "smallest")
    name = "Picked is"
    if rule != "smallest":
        name = f"Picked is what was asked for: {_asked(rule)}. “Smallest as good” is"
    return (
        f"Parameters are weights and biases. {name} the smallest network whose score is within "
        f"{_gap(result)} of the best; ± is one standard error.{_how_corrected(result)}"
    )


def _asked(rule: str | int) -> str:
    """A rule to pick by, or a pick: "best score", "number 3", "cost up to 12"."""
    text = str(rule)
    if text.isdecimal():
        return f"number {text}"
    return RULES.get(text) or text.replace("cost:", "cost up to ")


def _how_corrected(result: SearchResult) -> str:
    if result.best().expected is None:
        return ""
    return (
        f" Scores are corrected so: the choice was repeated on {HALVINGS} random halves of the "
        "rows that judged, and the other halves scored what was chosen. No further rows were kept "
        "for a test."
    )


def tolerance_words(result: SearchResult) -> str:
    """What the smallest network may give away."""
    side = "above" if result.scoring.is_loss else "below"
    score = result.scoring.words(result.best().score - result.tolerance)
    return f"{_gap(result)} {side} the best, {score} {where_judged(result.settings)}"


def _gap(result: SearchResult) -> str:
    allowed, scoring = result.tolerance, result.scoring
    if allowed == result.best().standard_error:
        return "one standard error"
    if scoring.counts and allowed == FEW_ROWS / result.settings["judged_rows"]:
        return f"{FEW_ROWS} rows"
    return scoring.words(abs(scoring.style.times) / scoring.style.times * allowed)


def bytes_of_chip(settings: Mapping[str, Any]) -> str:
    """Whose bytes a search tells, and whether in int8."""
    return f"bytes, {settings['chip']}{' in int8' * bool(settings.get('int8'))}"
