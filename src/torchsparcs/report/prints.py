"""Matplotlib figures for print. Every function draws numbers on axes that it is given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Safe for colour-blind readers (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
GREY, LIGHT = "#666666", "#CCCCCC"


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure in inches that takes care of its own margins."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures for print need Matplotlib: pip install 'torchsparcs[plot]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_band(
    axes: "Axes", x: Sequence[float], mean: Sequence[float], std: Sequence[float], **line: Any
) -> None:
    """A line with its standard deviation as a band around it."""
    low, high = np.subtract(mean, std), np.add(mean, std)
    (drawn,) = axes.plot(x, mean, marker="o", markersize=3.5, linewidth=1.5, **line)
    axes.fill_between(x, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)


def draw_histogram(axes: "Axes", values: Sequence[float], *, colour: str, bins: int = 40) -> None:
    """|λ|; those that are exactly zero are counted in words, since no bin shows them apart."""
    sizes = np.abs(np.asarray(values, dtype=float))
    zeros = int((sizes == 0).sum())
    axes.hist(sizes, bins=bins, range=(0, max(sizes.max(initial=0), 1e-12)), color=colour)
    axes.set(yscale="symlog", xlabel="|eigenvalue|")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    if zeros:
        text = f"{zeros} of {len(sizes)}\nexactly zero"
        axes.text(0.97, 0.95, text, transform=axes.transAxes, ha="right", va="top", fontsize=8)


def draw_pruning_curve(
    axes: "Axes",
    kept: Sequence[int],
    increase: Sequence[float],
    *,
    tolerance: float | None = None,
    **line: Any,
) -> None:
    """The relative increase of the validation loss against what is kept, and what is tolerated."""
    from matplotlib.ticker import MaxNLocator

    axes.plot(kept, np.maximum(increase, 0), **line)
    if tolerance is not None:
        axes.axhline(tolerance, color=GREY, linewidth=2, alpha=0.6)
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set(xlabel="neurons kept", ylabel="relative increase of the loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_architecture(
    axes: "Axes",
    widths: Sequence[int],
    edges: Sequence[tuple[int, int, int, int, float]],
    *,
    node: float = 3.0,
    least: float = 0.15,
) -> None:
    """Layers as columns, connections as lines as opaque as they are strong.

    ``edges`` are (source layer, its neuron, target layer, its neuron, weight). Blue ones lie on a
    path from the input to the output; skip connections are orange arcs; grey ones lead from
    neurons that nothing reaches, or to neurons that reach nothing.
    """
    from matplotlib.collections import LineCollection

    last = len(widths) - 1
    heights = [np.linspace(0.5 / n, 1 - 0.5 / n, n) if n > 1 else np.array([0.5]) for n in widths]
    reached, heard = _reached(edges, last), _heard(edges, last)
    strongest = max((abs(edge[4]) for edge in edges), default=1.0)
    lines: dict[str, list] = {LIGHT: [], BLUE: [], ORANGE: []}
    shades: dict[str, list[float]] = {LIGHT: [], BLUE: [], ORANGE: []}
    for source, i, target, j, weight in edges:
        works = (source, i) in reached and (target, j) in heard
        colour = LIGHT if not works else BLUE if target == source + 1 else ORANGE
        start, end = (source, heights[source][i]), (target, heights[target][j])
        lines[colour].append(_arc(start, end) if target > source + 1 else [start, end])
        shade = least + (1 - least) * abs(weight) / strongest
        shades[colour].append(0.25 if colour == LIGHT else shade)
    for colour in filter(lines.get, lines):
        alphas, width = np.array(shades[colour]), 1.6 if colour == ORANGE else 0.4
        axes.add_collection(
            LineCollection(lines[colour], colors=colour, alpha=alphas, linewidths=width)
        )
    for layer, height in enumerate(heights):
        works_here = [(layer, i) in reached and (layer, i) in heard for i in range(len(height))]
        size = node if len(height) < 30 else node / 3
        for colour, mask in ((LIGHT, ~np.array(works_here)), ("black", np.array(works_here))):
            axes.plot(np.full(mask.sum(), layer), height[mask], "o", color=colour, markersize=size)
    axes.set(xlim=(-0.15, last + 0.15), ylim=(-0.5 if last > 1 else -0.05, 1.05))
    axes.axis("off")


def _arc(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """A line that bends below the layers in between."""
    along = np.linspace(0, 1, 20)
    dip = 0.6 * np.sin(np.pi * along)
    x = start[0] + along * (end[0] - start[0])
    y = start[1] + along * (end[1] - start[1]) - dip
    return list(zip(x, y, strict=True))


def _reached(edges: Sequence[tuple], last: int) -> set[tuple[int, int]]:
    """Neurons that a signal from the input arrives at; edges lead to later layers only."""
    reached = {(0, i) for source, i, *_ in edges if source == 0}
    for source, i, target, j, _ in sorted(edges):
        if (source, i) in reached:
            reached.add((target, j))
    return reached


def _heard(edges: Sequence[tuple], last: int) -> set[tuple[int, int]]:
    """Neurons whose signal arrives at the output."""
    heard = {(target, j) for _, _, target, j, _ in edges if target == last}
    for source, i, target, j, _ in sorted(edges, key=lambda edge: -edge[2]):
        if (target, j) in heard:
            heard.add((source, i))
    return heard
