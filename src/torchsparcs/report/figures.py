"""The figures of the page for notebooks, in Plotly.

Each takes a ``SearchResult`` and, where it is about one network, a ``pick`` as
``SearchResult.pick`` has it. What was not recorded leaves a sentence in place of a figure.
"""

from typing import TYPE_CHECKING, Any

from torchsparcs.report.facts import facts_of
from torchsparcs.report.words import same

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Safe for colour-blind readers (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
LAYER_COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9")


def front_figure(result: Any) -> "Figure":
    """Score against parameters: the front, its picks, and every other network that was judged."""
    facts = facts_of(result)
    figure = _figure(
        xaxis={"title": "parameters", "type": "log"}, yaxis={"title": facts["measure"]}
    )
    figure.add_scatter(
        x=[attempt[2] for attempt in facts["attempts"]],
        y=[attempt[3] for attempt in facts["attempts"]],
        mode="markers",
        marker={"color": GREY, "size": 4, "opacity": 0.5},
        name="judged on the way",
        hoverinfo="skip",
    )
    front = [found for found in facts["candidates"] if found["pick"] != "linear"]
    figure.add_scatter(
        x=[found["parameters"] for found in front],
        y=[found["score"] for found in front],
        error_y={"array": [found["error"] for found in front], "thickness": 1, "width": 0},
        mode="lines+markers",
        line={"color": BLUE, "shape": "hv"},
        text=[_plain(found["architecture"]) for found in front],
        name="front",
    )
    for found in facts["candidates"]:
        if found["rules"]:
            words = ", ".join(found["rules"])
            figure.add_scatter(
                x=[found["parameters"]],
                y=[found["score"]],
                mode="markers+text",
                marker={"color": ORANGE, "size": 10},
                text=[words],
                textposition="top center",
                name=words,
                showlegend=False,
            )
    figure.add_hline(facts["tolerance"], line={"color": RED, "dash": "dash", "width": 1})
    return figure


def architecture_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Layers as columns, neurons sized by their strength, bands by the norm of their weights."""
    facts = facts_of(result)
    found = _found(facts, result, pick)
    layers, bands = found["picture"]["layers"], found["picture"]["bands"]
    figure = _figure(
        xaxis={"visible": False},
        yaxis={"visible": False, "range": [-0.6, 0.7 + 0.3 * len(layers)]},
        title=_plain(found["architecture"]),
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
    for depth, layer in enumerate(layers):
        count, most = len(layer["size"]), max(layer["size"], default=1.0) or 1.0
        colour = "#555555" if depth == 0 else GREEN if depth == len(layers) - 1 else BLUE
        names = layer.get("index") or range(count)
        figure.add_scatter(
            x=[depth] * count,
            y=[0.5 - (i + 0.5) / max(count, 1) for i in range(count)],
            mode="markers",
            marker={"color": colour, "size": [4 + 8 * size / most for size in layer["size"]]},
            text=[
                f"{'neuron' if layer['per'] == 1 else 'group'} {name}, fan-in {come:g}, "
                f"fan-out {go:g}, strength {size:g}"
                for name, come, go, size in zip(
                    names, layer["fan_in"], layer["fan_out"], layer["size"], strict=False
                )
            ],
            hoverinfo="text",
            name=f"layer {depth}: {layer['alive']} of {layer['width']}",
        )
    return figure


def eigenvalue_figure(result: Any, pick: Any = "smallest") -> "Figure":
    """Histograms of each hidden layer at the end of training, the zeros counted in the title."""
    facts = facts_of(result)
    grown = _growth(facts, _found(facts, result, pick))
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
    """Loss and recruited neurons by epoch, of the network that the picked one was cut from."""
    facts = facts_of(result)
    grown = _growth(facts, _found(facts, result, pick))
    if not grown or not grown["loss"]:
        return _sentence("No history of the training is in this run.")
    figure = _figure(
        xaxis={"title": "epoch", "anchor": "y2"},
        yaxis={"title": "loss", "type": "log", "domain": [0.55, 1]},
        yaxis2={"title": "recruited neurons", "domain": [0, 0.45], "rangemode": "tozero"},
    )
    lines = {"loss": "training", "validation_loss": "validation"}
    for (name, words), dash in zip(lines.items(), ("solid", "dot"), strict=True):
        if grown[name]:
            line = {"color": "#333333", "dash": dash}
            figure.add_scatter(x=grown["epochs"], y=grown[name], line=line, name=f"{words} loss")
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
    facts = facts_of(result)
    found = _found(facts, result, pick)
    if not facts["attempts"]:
        return _sentence("The sizes on the way down are not in this run.")
    figure = _figure(
        xaxis={"title": "parameters left", "type": "log"}, yaxis={"title": facts["measure"]}
    )
    members = {attempt[0] for attempt in facts["attempts"]}
    for member in sorted(members, key=lambda member: (member == found["member"], member)):
        mine = member == found["member"]
        own = [attempt for attempt in facts["attempts"] if attempt[0] == member]
        own.sort(key=lambda attempt: (attempt[2], -attempt[1]))
        figure.add_scatter(
            x=[attempt[2] for attempt in own],
            y=[attempt[3] for attempt in own],
            mode="lines+markers" if mine else "lines",
            line={"color": BLUE if mine else "#CCCCCC"},
            name="cut from the same network" if mine else "trained with another penalty",
            showlegend=mine,
        )
    figure.add_scatter(
        x=[found["parameters"]],
        y=[found["score"]],
        mode="markers",
        marker={"color": ORANGE, "size": 11},
        name="picked",
    )
    figure.add_hline(facts["tolerance"], line={"color": RED, "dash": "dash", "width": 1})
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
    is_classes = result.preprocessing.target.classes is not None
    if is_classes != (kind == "confusion"):
        wanted, got = (
            ("classification", "regression")
            if kind == "confusion"
            else (
                "regression",
                "classification",
            )
        )
        raise ValueError(f"Expected a {wanted}. Got a {got}.")
    facts = facts_of(result)
    return _found(facts, result, pick)["answers"]


def _found(facts: dict[str, Any], result: Any, pick: Any) -> dict[str, Any]:
    """The facts of the picked candidate."""
    picked = result.pick(pick)
    shown = [*result.front, result.linear]
    place = next(i for i, found in enumerate(shown) if same(found, picked))
    return facts["candidates"][place]


def _growth(facts: dict[str, Any], found: dict[str, Any]) -> dict[str, Any] | None:
    return facts["members"].get(str(found["member"]))


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
