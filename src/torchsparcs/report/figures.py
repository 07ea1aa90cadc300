"""The figures of the page for notebooks, in Plotly.

Each takes a ``SearchResult`` and, where it is about one network, a ``pick`` as
``SearchResult.pick`` has it. What was not recorded leaves a sentence in place of a figure.
"""

import html
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torchsparcs.files.visible import shortened
from torchsparcs.report.answers import answers_of
from torchsparcs.report.architecture import architecture
from torchsparcs.report.facts import (
    curves_of,
    output_names,
    rules_of,
    shown_of,
    unit_of,
)
from torchsparcs.report.wording import is_classification
from torchsparcs.results.result import Attempt, Candidate, SearchResult
from torchsparcs.results.sizes import SIZES

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Safe for colour-blind readers (Okabe and Ito).
COLOURS = BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
GREYS = GREY, LIGHT = "#666666", "#CCCCCC"
Pick = str | int | Candidate
LAYER_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9")
ROWS = 24  # of a column of neurons before it gets a second file


def front_figure(result: SearchResult) -> "Figure":
    """Score against size: the front, its picks, and every other network that was judged."""
    figure, of = _score_figure(result, result.size.unit), result.size.of
    grey = {"color": GREY, "size": 4, "opacity": 0.5}
    words = "judged on the way"
    style: dict[str, Any] = {"marker": grey, "mode": "markers", "hoverinfo": "skip"}
    _add_networks(figure, result.attempts, words, of, **style)
    front = result.front
    errors = {"array": [found.standard_error for found in front], "thickness": 1, "width": 0}
    texts = [found.architecture for found in front]
    stairs = {"color": BLUE, "shape": "hv"}
    _add_networks(figure, front, "front", of, error_y=errors, line=stairs, text=texts)
    for found in shown_of(result):
        if words := ", ".join(rules_of(result, found)):
            mark = {"marker": {"color": ORANGE, "size": 10}, "textposition": "top center"}
            style = {"mode": "markers+text", "text": [words], "showlegend": False}
            _add_networks(figure, [found], words, of, **mark, **style)
    return figure


def architecture_figure(result: SearchResult, pick: Pick = "smallest") -> "Figure":
    """Layers as columns, neurons sized by their strength, bands by the norm of their weights.

    The strength of a neuron is the norm of what comes in times that of what goes out: a network
    that was cut has weights, and no eigenvalues any more. Linear channels of a chain are orange.
    """
    found = result.pick(pick)
    drawn = architecture(found.network)
    layers, bands = drawn["layers"], drawn["bands"]
    last = len(layers) - 1
    figure = _figure(
        xaxis={"visible": False},
        yaxis={"visible": False, "range": [-0.6, 0.7 + 0.3 * len(layers)]},
        title=found.architecture,
    )
    largest = max(band[2] for band in bands) or 1.0
    for source, target, strength, _ in bands:
        skips = target - source > 1
        ends, top = (0.55, 0.6 + 0.6 * (target - source - 1)) if skips else (0.0, 0.0)
        width, colour = 1 + 16 * strength / largest, ORANGE if skips else BLUE
        figure.add_scatter(  # a line through three points, smooth: the band
            x=[source, (source + target) / 2, target],
            y=[ends, top, ends],
            mode="lines",
            line={"color": colour, "width": width, "shape": "spline"},
            opacity=0.3,
            hoverinfo="skip",
            showlegend=False,
        )
    inputs = result.inputs.encoded_names if result.preprocessing else ()
    names = {0: inputs, last: output_names(result.target)}
    for depth, layer in enumerate(layers):
        count, most = len(layer["size"]), max(layer["size"], default=1.0) or 1.0
        files = -(-count // ROWS)
        rows = -(-count // max(files, 1))
        usual = "#555555" if depth == 0 else GREEN if depth == last else BLUE
        active = count if layer["linear_from"] is None else layer["linear_from"]
        colours = [usual] * active + [ORANGE] * (count - active)
        figure.add_scatter(
            x=[depth + 0.05 * (i // rows - (files - 1) / 2) for i in range(count)],
            y=[0.5 - (i % rows + 0.5) / rows for i in range(count)],
            mode="markers",
            marker={"color": colours, "size": [4 + 8 * size / most for size in layer["size"]]},
            text=_neuron_words(layer, names.get(depth, ()), unit_of(result)),
            hoverinfo="text",
            name=f"layer {depth}: {layer['alive']:,} of {layer['width']:,}",
        )
    return figure


def _neuron_words(layer: dict[str, Any], names: Sequence[Any], unit: str) -> list[str]:
    """The name of each dot of a layer, or how many neurons it stands for, and its numbers."""
    if layer["per"] > 1:
        titles = [f"{count} {unit}s, means" for count in layer["count"]]
    elif names:
        titles = [_plain(shortened(names[index])) for index in layer["index"]]
    else:
        titles = [f"{unit} {index}" for index in layer["index"]]
    numbers = zip(titles, layer["fan_in"], layer["fan_out"], layer["size"], strict=True)
    return [
        f"{title}, fan-in {come:g}, fan-out {go:g}, strength {size:g}"
        for title, come, go, size in numbers
    ]


def eigenvalue_figure(result: SearchResult, pick: Pick = "smallest") -> "Figure":
    """Histograms of each hidden layer at the end of training, the zeros counted in the title."""
    curves = curves_of(result, result.pick(pick))
    if not curves or not curves["layers"]:
        return _sentence("No eigenvalues were recorded in this run.")
    counted = {"title": f"{unit_of(result)}s"}
    figure = _figure(xaxis={"title": "eigenvalue"}, yaxis=counted, barmode="overlay")
    for depth, layer in enumerate(curves["layers"], start=1):
        low, high = layer["histogram"]["from"], layer["histogram"]["to"]
        counts = layer["histogram"]["counts"][-1]
        step = (high - low) / len(counts)
        zeros = layer["width"] - layer["recruited"][-1]
        figure.add_bar(
            x=[low + (place + 0.5) * step for place in range(len(counts))],
            y=counts,
            width=step,
            opacity=0.7,
            marker={"color": _colour(depth)},
            name=f"hidden {depth}: {zeros:,} of {layer['width']:,} exactly zero",
        )
    return figure


def history_figure(result: SearchResult, pick: Pick = "smallest") -> "Figure":
    """Loss, score and recruits by epoch, of the network that the picked one was cut from.

    Scores are there where the training had validation data.
    """
    curves = curves_of(result, result.pick(pick))
    if not curves or not curves["loss"]:
        return _sentence("No history of the training is in this run.")
    losses = {"title": "loss", "type": "log", "domain": [0.55, 1]}
    name = f"recruited {unit_of(result)}s"
    recruits = {"title": name, "domain": [0, 0.45], "rangemode": "tozero"}
    figure = _figure(xaxis={"title": "epoch", "anchor": "y2"}, yaxis=losses, yaxis2=recruits)

    def add(values: list[float], name: str, axis: str, colour: str, dash: str = "solid") -> None:
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=curves["epochs"], y=values, yaxis=axis, line=line, name=name)

    add(curves["loss"], "training loss", "y", "#333333")
    if curves["validation_loss"]:
        add(curves["validation_loss"], "validation loss", "y", "#333333", "dot")
    if curves["score"]:
        add(curves["score"], "validation score", "y3", RED, "dot")
        figure.update_layout(yaxis3={"title": "score", "overlaying": "y", "side": "right"})
    for depth, counts in enumerate(zip(*curves["recruited"], strict=True), start=1):
        add(list(counts), f"recruited in hidden {depth}", "y2", _colour(depth))
    return figure


def pruning_figure(result: SearchResult, pick: Pick = "smallest") -> "Figure":
    """Score at every size while the network was cut down, with the tolerance of the search."""
    found = result.pick(pick)
    if not result.attempts:
        return _sentence("The sizes on the way down are not in this run.")
    figure = _score_figure(result, "parameters left")
    drawn = result.preprocessing is not None  # of a table, those of no member
    members = {a.member for a in result.attempts if a.member is not None or not drawn}
    for member in sorted(members, key=lambda member: (member == found.member, member or 0)):
        mine = member == found.member
        sizes = [attempt for attempt in result.attempts if attempt.member == member]
        sizes.sort(key=lambda attempt: (attempt.parameters, -attempt.cut))
        name = "cut from the same network" if mine else "trained with another penalty"
        mode, line = "lines+markers" if mine else "lines", {"color": BLUE if mine else LIGHT}
        _add_networks(figure, sizes, name, mode=mode, line=line, showlegend=mine)
    mark = {"color": ORANGE, "size": 11}
    _add_networks(figure, [found], "picked", mode="markers", marker=mark)
    return figure


def confusion_figure(result: SearchResult, pick: Pick = "smallest") -> "Figure":
    """Rows of a classification by their true class and the predicted one."""
    answers = _answers(result, pick, "classification")
    if answers is None:
        return _sentence("What the networks answered is not in this run.")
    labels = [_plain(label) for label in answers["labels"]]
    figure = _figure(
        xaxis={"title": "predicted", "type": "category"},
        yaxis={"title": "true", "type": "category", "autorange": "reversed"},
    )
    counts = answers["counts"]
    figure.add_heatmap(x=labels, y=labels, z=counts, colorscale="Blues", texttemplate="%{z}")
    return figure


def fit_figure(result: SearchResult, pick: Pick = "smallest") -> "Figure":
    """Predicted against true values of a regression, in the units of the target."""
    answers = _answers(result, pick, "regression")
    if answers is None:
        return _sentence("What the networks answered is not in this run.")
    figure = _figure(xaxis={"title": "true"}, yaxis={"title": "predicted"})
    for depth, output in enumerate(answers["outputs"], start=1):
        marker, name = {"color": _colour(depth), "opacity": 0.5}, _plain(output["name"])
        figure.add_scatter(
            x=output["true"], y=output["predicted"], mode="markers", marker=marker, name=name
        )
    true = [value for output in answers["outputs"] for value in output["true"]]
    ends, line = [min(true), max(true)], {"color": RED, "dash": "dash"}
    figure.add_scatter(x=ends, y=ends, mode="lines", line=line, name="equal")
    return figure


def _answers(result: SearchResult, pick: Pick, expected: str) -> dict[str, Any] | None:
    kind = "classification" if is_classification(result) else "regression"
    if kind != expected:
        raise ValueError(f"Expected a {expected}. Got a {kind}.")
    return answers_of(result.pick(pick), result.target)


def _add_networks(
    figure: "Figure",
    networks: Sequence[Candidate | Attempt],
    name: str,
    size: Callable[[Any], int] = SIZES["parameters"].of,
    **style: Any,
) -> None:
    """Points or a line through ``networks``, score against ``size``."""
    x, y = [size(each) for each in networks], [each.score for each in networks]
    figure.add_scatter(x=x, y=y, name=name, **{"mode": "lines+markers", **style})


def _score_figure(result: SearchResult, name: str) -> "Figure":
    """Axes as far as the candidates and the tolerance reach, which is the dashed line.

    Networks that were cut to pieces are below.
    """
    tolerated = result.best().score - result.tolerance
    reach = [tolerated]
    for found in shown_of(result):
        reach += [found.score - found.standard_error, found.score + found.standard_error]
    known = [score for score in reach if math.isfinite(score)]
    low, high = min(known), max(known)
    room = 0.08 * (high - low) or 0.01
    measure = f"{'−' * result.scoring.is_loss}{result.scoring.label}"
    figure = _figure(
        xaxis={"title": name, "type": "log"},
        yaxis={"title": measure, "range": [low - room, high + room]},
    )
    figure.add_hline(tolerated, line={"color": RED, "dash": "dash", "width": 1})
    return figure


def _colour(depth: int) -> str:
    return LAYER_COLOURS[(depth - 1) % len(LAYER_COLOURS)]


def _plain(text: str) -> str:
    """Plotly reads a little HTML; names from the data are text."""
    return html.escape(text, quote=False)


def _figure(**layout: Any) -> "Figure":
    try:
        from plotly.graph_objects import Figure
    except ImportError as error:
        raise ImportError(
            "Figures for notebooks need Plotly: pip install 'torchsparcs[plot]'."
        ) from error
    figure = Figure()
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
    margin = {"l": 60, "r": 20, "t": 80, "b": 50}
    figure.update_layout(template="plotly_white", legend=legend, margin=margin, **layout)
    return figure


def _sentence(words: str) -> "Figure":
    figure = _figure(xaxis={"visible": False}, yaxis={"visible": False})
    figure.add_annotation(text=words, showarrow=False)
    return figure
