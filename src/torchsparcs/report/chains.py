"""The page about a search of convolutional networks: the front, the layers, how they grew."""

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from torchsparcs.report.document import document_of, markdown_table
from torchsparcs.report.prints import BLUE, GREY, LIGHT, ORANGE, RED, new_figure
from torchsparcs.report.shell import check_place, write
from torchsparcs.report.words import counted, duration_words, ratio_words, score_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_chain_page(result: Any, path: str | Path, *, force: bool = False) -> Path:
    """Write the page about a ``ChainResult`` to ``path``; a file that is there only if forced."""
    file = Path(path)
    check_place(file, force=force)
    return write(file, chain_page(result))


def chain_page(result: Any) -> str:
    """The page about a ``ChainResult`` as text."""
    figures = {
        "front": front_figure(result),
        "layers": layers_figure(result),
        "eigenvalues": eigenvalue_figure(result),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, figure in figures.items():
            image = io.BytesIO()
            figure.savefig(image, format="svg")
            (Path(folder) / f"{name}.svg").write_bytes(image.getvalue())
        return document_of(chain_words(result), folder)


def chain_words(result: Any) -> str:
    """The page in Markdown."""
    small, best, settings = result.smallest(), result.best(), result.settings
    is_classes = settings["task"] != "regression"
    marks = {id(best): "best", id(small): "smallest within one error of the best"}
    if small is best:
        marks = {id(best): "best and smallest"}
    front = [
        [
            f"{found.parameters:,}",
            f"{found.macs:,}",
            score_words(found.score, is_classes, found.standard_error),
            found.architecture,
            marks.get(id(found), ""),
        ]
        for found in reversed(result.front)
    ]
    kind = "accuracy" if is_classes else "R²"
    beside = (
        "It is also the best network of the front."
        if small is best
        else f"The best network has {ratio_words(best.parameters, small.parameters)} times as many "
        f"parameters and reaches {score_words(best.score, is_classes, best.standard_error)}."
    )
    offered = " → ".join(map(str, settings["channels"]))
    return "\n\n".join(
        [
            "# What was found",
            f"**{counted(small.parameters, 'parameter')}** and {small.macs:,} multiply-adds reach "
            f"{score_words(small.score, is_classes, small.standard_error)} {kind} on "
            f"{counted(settings['judged_rows'], 'held-out row')}. {beside}",
            f"Offered were the channels {offered}. One training on "
            f"{counted(settings['rows'], 'row')}, then {counted(len(result.attempts), 'network')} "
            f"judged on the way down, {duration_words(settings['seconds'])} in all. The rows that "
            "judge also choose: keep others for a final verdict.",
            "## The front",
            "![Score against parameters](front.svg)",
            markdown_table(["parameters", "multiply-adds", kind, "channels", ""], front),
            "Channels are written layer by layer, those that pass the activation + those that hand "
            "a signal on as it is. Of both together a layer can have more than were offered.",
            "## Layers of the smallest",
            "![Channels of each layer](layers.svg)",
            markdown_table(["layer", "kernel", "stride", "active", "linear"], layer_rows(small)),
            "## How it grew",
            "![Eigenvalues of each layer against epochs](eigenvalues.svg)",
            "Each line is the eigenvalue of a channel. At zero a channel is linear.",
        ]
    )


def layer_rows(found: Any) -> list[list[Any]]:
    """Of each layer of a candidate: its kind, kernel, stride, active and linear channels."""
    network = found.network
    rows = []
    for k, layer in enumerate(network.layers):
        count, last = network.channels[k + 1], k == len(network.layers) - 1
        rows.append(
            [
                f"{k + 1}, {type(layer).__name__}",
                _sides(getattr(layer, "kernel_size", ())),
                _sides(getattr(layer, "stride", ())),
                "–" if last else network.active[k],
                f"{count} outputs" if last else count - network.active[k],
            ]
        )
    return rows


def _sides(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "–"


def front_figure(result: Any) -> "Figure":
    """Score against parameters: the front, its picks, and all that were judged."""
    figure = new_figure(7, 3.6)
    axes = figure.add_subplot()
    times = 100 if result.settings["task"] != "regression" else 1
    judged, front = result.attempts, result.front
    axes.plot(
        [found.parameters for found in judged],
        [times * found.score for found in judged],
        "o",
        color=LIGHT,
        label="judged on the way",
    )
    axes.errorbar(
        [found.parameters for found in front],
        [times * found.score for found in front],
        [times * found.standard_error for found in front],
        color=BLUE,
        marker="o",
        drawstyle="steps-post",
        label="front",
    )
    small = result.smallest()
    axes.plot(small.parameters, times * small.score, "o", color=RED, label="smallest", zorder=5)
    axes.set_xscale("log")
    axes.set(xlabel="parameters", ylabel="accuracy, %" if times == 100 else "R²")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def layers_figure(result: Any) -> "Figure":
    """Channels of the smallest network: active, linear, and what was offered."""
    from matplotlib.ticker import MaxNLocator

    found, offered = result.smallest().network, result.settings["channels"]
    figure = new_figure(7, 3)
    axes = figure.add_subplot()
    active = [0, *found.active[:-1], 0]
    places = np.arange(len(found.channels))
    linear = [count - m for count, m in zip(found.channels, active, strict=True)]
    inner = slice(1, -1)
    if len(offered) == len(found.channels):
        axes.bar(places, offered, color="none", edgecolor=GREY, linestyle=":", label="offered")
    axes.bar(places[inner], active[inner], color=BLUE, label="active")
    axes.bar(places[inner], linear[inner], bottom=active[inner], color=ORANGE, label="linear")
    axes.bar(places[[0, -1]], [linear[0], linear[-1]], color=LIGHT, label="input, output")
    names = [f"{k + 1}\n{_named(layer)}" for k, layer in enumerate(found.layers)]
    axes.set_xticks(places, ["input", *names])
    axes.set_ylabel("channels")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _named(layer: nn.Module) -> str:
    kernel = _sides(getattr(layer, "kernel_size", ()))
    return type(layer).__name__ if kernel == "–" else kernel


def eigenvalue_figure(result: Any) -> "Figure":
    """Every hidden eigenvalue against epochs, a panel for each layer."""
    snapshots = result.history.snapshots
    layers = list(snapshots[0][1])
    figure = new_figure(max(4, min(2.2 * len(layers), 14)), 2.6)
    epochs = [epoch for epoch, _ in snapshots]
    shared = None
    for place, name in enumerate(layers, 1):
        axes = figure.add_subplot(1, len(layers), place, sharey=shared)
        shared = shared or axes
        values = np.stack([values[name].float().numpy() for _, values in snapshots])
        axes.plot(epochs, values, color=BLUE, linewidth=0.6, alpha=0.5)
        axes.axhline(0, color=RED, linewidth=0.5)
        recruited = int((values[-1] != 0).sum())
        axes.set_title(f"layer {place}: {recruited} of {values.shape[1]}", fontsize=9)
        axes.set_xlabel("epoch")
        if place > 1:
            axes.tick_params(labelleft=False)
    figure.axes[0].set_ylabel("eigenvalue")
    return figure
