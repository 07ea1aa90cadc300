"""The figures of the page for notebooks, in Plotly.

Each takes a ``SearchResult`` and, where it is about one network, a ``pick`` as
``SearchResult.pick`` has it. What was not recorded leaves a sentence in place of a figure.
"""

import math
from typing import TYPE_CHECKING, Any

from torchsparcs.report.answers import answers_of
from torchsparcs.report.facts import output_names, rules_of, shown_of
from torchsparcs.report.growth import growth
from torchsparcs.report.picture import picture
from torchsparcs.report.prints import BLUE, GREEN, GREY, LIGHT, ORANGE, PURPLE, RED
from torchsparcs.report.words import shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LAYER_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9")
ROWS = 24  # of a column of neurons before it gets a second file


def front_figure(result: Any) -> "Figure":
    """Score against parameters: the front, its picks, and every other network that was judged."""
    figure = _figure(xaxis={"title": "parameters", "type": "log"}, yaxis=_score_axis(result))
    figure.add_scatter(
        x=[found.parameters for found in result.attempts],
        y=[found.score for found in result.attempts],
        mode="markers",
        marker={"color": GREY, "size": 4, "opacity": 0.5},
        name="judged on the way",
        hoverinfo="skip",
    )
    front = result.front
    figure.add_scatter(
        x=[found.parameters for found in front],
        y=[found.score for found in front],
        error_y={"array": [found.standard_error for found in front], "thickness": 1, "width": 0},
        mode="lines+markers",
        line={"color": BLUE, "shape": "hv"},
        text=[found.architecture for found in front],
        name="front",
    )
    for found in shown_of(result):
        words = ", ".join(rules_of(result, found))
        if words:
            figure.add_scatter(
                x=[found.parameters],
                y=[found.score],
                mode="markers+text",
                marker={"color": ORANGE, "size": 10},
                text=[words],
                textposition="top center",
                name=words,
                showlegend=False,
            )
    _add_tolerance(figure, result)
    return figure


def architecture_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Layers as columns, neurons sized by their strength, bands by the norm of their weights.

    The strength of a neuron is the norm of what comes in times that of what goes out: a network
    that was cut has weights, and no eigenvalues any more.
    """
    found = result.pick(pick)
    drawn = picture(found.network)
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
        figure.add_scatter(  # a line through three points, smooth: the band
            x=[source, (source + target) / 2, target],
            y=[ends, top, ends],
            mode="lines",
            line={
                "color": ORANGE if skips else BLUE,
                "width": 1 + 16 * strength / largest,
                "shape": "spline",
            },
            opacity=0.3,
            hoverinfo="skip",
            showlegend=False,
        )
    names = {
        0: result.preprocessing.inputs.encoded_names,
        last: output_names(result.preprocessing.target),
    }
    for depth, layer in enumerate(layers):
        count, most = len(layer["size"]), max(layer["size"], default=1.0) or 1.0
        files = -(-count // ROWS)
        rows = -(-count // max(files, 1))
        figure.add_scatter(
            x=[depth + 0.05 * (i // rows - (files - 1) / 2) for i in range(count)],
            y=[0.5 - (i % rows + 0.5) / rows for i in range(count)],
            mode="markers",
            marker={
                "color": "#555555" if depth == 0 else GREEN if depth == last else BLUE,
                "size": [4 + 8 * size / most for size in layer["size"]],
            },
            text=_neuron_words(layer, names.get(depth)),
            hoverinfo="text",
            name=f"layer {depth}: {layer['alive']:,} of {layer['width']:,}",
        )
    return figure


def _neuron_words(layer: dict[str, Any], names: tuple[Any, ...] | None) -> list[str]:
    """Of each dot of a layer: its name, or how many neurons it stands for, and its numbers."""
    if layer["per"] > 1:
        titles = [f"{layer['per']} neurons, means"] * len(layer["size"])
    elif names is None:
        titles = [f"neuron {index}" for index in layer["index"]]
    else:
        titles = [_plain(shortened(names[index])) for index in layer["index"]]
    numbers = zip(titles, layer["fan_in"], layer["fan_out"], layer["size"], strict=True)
    return [
        f"{title}, fan-in {come:g}, fan-out {go:g}, strength {size:g}"
        for title, come, go, size in numbers
    ]


def eigenvalue_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Histograms of each hidden layer at the end of training, the zeros counted in the title."""
    grown = _growth(result, pick)
    if not grown or not grown["layers"]:
        return _sentence("No eigenvalues were recorded in this run.")
    figure = _figure(xaxis={"title": "eigenvalue"}, yaxis={"title": "neurons"}, barmode="overlay")
    for depth, layer in enumerate(grown["layers"], start=1):
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


def history_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Loss, score and recruits by epoch, of the network that the picked one was cut from.

    Scores are there where the training had validation data.
    """
    grown = _growth(result, pick)
    if not grown or not grown["loss"]:
        return _sentence("No history of the training is in this run.")
    figure = _figure(
        xaxis={"title": "epoch", "anchor": "y2"},
        yaxis={"title": "loss", "type": "log", "domain": [0.55, 1]},
        yaxis2={"title": "recruited neurons", "domain": [0, 0.45], "rangemode": "tozero"},
    )
    lines = {"loss": "training loss", "validation_loss": "validation loss"}
    for (name, words), dash in zip(lines.items(), ("solid", "dot"), strict=True):
        if grown[name]:
            line = {"color": "#333333", "dash": dash}
            figure.add_scatter(x=grown["epochs"], y=grown[name], line=line, name=words)
    if grown["score"]:
        line = {"color": RED, "dash": "dot"}
        figure.add_scatter(
            x=grown["epochs"], y=grown["score"], yaxis="y3", line=line, name="validation score"
        )
        figure.update_layout(yaxis3={"title": "score", "overlaying": "y", "side": "right"})
    for depth in range(len(grown["recruited"][0]) if grown["recruited"] else 0):
        figure.add_scatter(
            x=grown["epochs"],
            y=[counts[depth] for counts in grown["recruited"]],
            yaxis="y2",
            line={"color": _colour(depth + 1)},
            name=f"recruited in hidden {depth + 1}",
        )
    return figure


def pruning_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Score at every size while the network was cut down, with the tolerance of the search."""
    found = result.pick(pick)
    if not result.attempts:
        return _sentence("The sizes on the way down are not in this run.")
    figure = _figure(xaxis={"title": "parameters left", "type": "log"}, yaxis=_score_axis(result))
    members = {attempt.member for attempt in result.attempts}
    for member in sorted(members, key=lambda member: (member == found.member, member)):
        mine = member == found.member
        own = [attempt for attempt in result.attempts if attempt.member == member]
        own.sort(key=lambda attempt: (attempt.parameters, -attempt.cut))
        figure.add_scatter(
            x=[attempt.parameters for attempt in own],
            y=[attempt.score for attempt in own],
            mode="lines+markers" if mine else "lines",
            line={"color": BLUE if mine else LIGHT},
            name="cut from the same network" if mine else "trained with another penalty",
            showlegend=mine,
        )
    figure.add_scatter(
        x=[found.parameters],
        y=[found.score],
        mode="markers",
        marker={"color": ORANGE, "size": 11},
        name="picked",
    )
    _add_tolerance(figure, result)
    return figure


def confusion_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Of a classification: rows by their true class and the one that was said."""
    answers = _answers(result, pick, "confusion")
    if answers is None:
        return _sentence("What the networks answered is not in this run.")
    labels = [_plain(label) for label in answers["labels"]]
    figure = _figure(
        xaxis={"title": "said", "type": "category"},
        yaxis={"title": "true", "type": "category", "autorange": "reversed"},
    )
    figure.add_heatmap(
        x=labels, y=labels, z=answers["counts"], colorscale="Blues", texttemplate="%{z}"
    )
    return figure


def fit_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Of a regression: predicted against true, in the units of the target."""
    answers = _answers(result, pick, "pairs")
    if answers is None:
        return _sentence("What the networks answered is not in this run.")
    figure = _figure(xaxis={"title": "true"}, yaxis={"title": "predicted"})
    for output, colour in zip(answers["outputs"], LAYER_COLOURS * 2, strict=False):
        figure.add_scatter(
            x=output["true"],
            y=output["said"],
            mode="markers",
            marker={"color": colour, "opacity": 0.5},
            name=_plain(output["name"]),
        )
    ends = [
        f(value for output in answers["outputs"] for value in output["true"]) for f in (min, max)
    ]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": RED, "dash": "dash"}, name="equal"
    )
    return figure


def _answers(result: Any, pick: Any, kind: str) -> dict[str, Any] | None:
    target = result.preprocessing.target
    kinds = {"confusion": "classification", "pairs": "regression"}
    own = "pairs" if target.classes is None else "confusion"
    if own != kind:
        raise ValueError(f"Expected a {kinds[kind]}. Got a {kinds[own]}.")
    return answers_of(result.pick(pick), target)


def _growth(result: Any, pick: Any) -> dict[str, Any] | None:
    """Of the member that the picked candidate was cut from, where the history has it."""
    history, member = result.history, result.pick(pick).member
    is_there = history.epochs and member < len(history.train_loss[0])
    return growth(history, member) if is_there else None


def _score_axis(result: Any) -> dict[str, Any]:
    """As far as the candidates and the tolerance reach; networks cut to pieces are below it."""
    reach = [result.best().score - result.tolerance]
    for found in shown_of(result):
        reach += [found.score - found.standard_error, found.score + found.standard_error]
    known = [score for score in reach if math.isfinite(score)]
    low, high = min(known), max(known)
    room = 0.08 * (high - low) or 0.01
    name = "R²" if result.preprocessing.target.classes is None else "accuracy"
    return {"title": name, "range": [low - room, high + room]}


def _add_tolerance(figure: "Figure", result: Any) -> None:
    height = result.best().score - result.tolerance
    figure.add_hline(height, line={"color": RED, "dash": "dash", "width": 1})


def _colour(depth: int) -> str:
    return LAYER_COLOURS[(depth - 1) % len(LAYER_COLOURS)]


def _plain(text: str) -> str:
    """Plotly reads a little HTML; names from the data are text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
