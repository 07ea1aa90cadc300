"""Matplotlib figures for the paper. Every function draws numbers on axes that it is given."""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from torchsparcs.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE = figures.COLOURS
GREY, LIGHT = figures.GREYS
PANELS_IN_A_ROW = 3
LINES = 1  # where those of an architecture lie: below its neurons and words


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure in inches that takes care of its own margins."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures for print need Matplotlib: pip install 'torchsparcs[plot]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def new_panels(count: int, height: float, **options: Any) -> "tuple[Figure, list[Any]]":
    """A figure of that many axes in rows of three, each two inches wide."""
    rows = -(-count // PANELS_IN_A_ROW)
    figure = new_figure(2 * PANELS_IN_A_ROW, height * rows)
    places = range(1, count + 1)
    return figure, [figure.add_subplot(rows, PANELS_IN_A_ROW, n, **options) for n in places]


def draw_band(axes: "Axes", x: Any, mean: Any, std: Any, **line: Any) -> None:
    """A line with its standard deviation as a band around it."""
    (drawn,) = axes.plot(x, mean, **line)
    low, high = np.subtract(mean, std), np.add(mean, std)
    axes.fill_between(x, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)


def histograms(lines: Sequence[Sequence[tuple[str, Any, str]]]) -> "Figure":
    """|λ| in lines of panels three inches wide, each of a title, the values and a colour.

    The largest, and those that are exactly zero, are told in words. Two panels in a line can still
    be read on a phone.
    """
    figure = new_figure(3 * len(lines[0]), 2.4 * len(lines))
    grid: Any = figure.subplots(len(lines), len(lines[0]), squeeze=False)
    for axes, (title, values, colour) in zip(grid.flat, chain(*lines), strict=True):
        sizes = np.abs(np.asarray(values, dtype=float))
        top, zeros = sizes.max(), int((sizes == 0).sum())
        counts, *_ = axes.hist(sizes, bins=40, range=(0, max(top, 1e-12)), color=colour)
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, 5 * np.max(counts))  # the words stand above the bars
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel("|eigenvalue|")
        text = f"largest {top:.2g}" + f"\n{zeros} of {len(sizes)} exactly zero" * (zeros > 0)
        axes.text(0.97, 0.95, text, transform=axes.transAxes, ha="right", va="top", fontsize=8)
        axes.set_title(title, fontsize=9)
    return figure


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
        axes.text(0, tolerance, f"{100 * tolerance:g} %", va="bottom", fontsize=8, color=GREY)
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    axes.set_ylabel("relative increase of the loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_architecture(
    axes: "Axes", widths: Sequence[int], edges: Sequence[tuple[int, int, int, int, float]]
) -> None:
    """Layers as columns, connections as lines as opaque as they are strong.

    ``edges`` are (source layer, its neuron, target layer, its neuron, weight). Blue ones lie on a
    path from the input to the output; orange arcs are those that skip layers; grey ones are not
    part of such a path.
    """
    from matplotlib.collections import LineCollection

    last = len(widths) - 1
    heights = [(np.arange(n) + 0.5) / n for n in widths]
    strongest = max((abs(edge[4]) for edge in edges), default=1.0)
    working = on_a_path(edges, last)
    lines: dict[str, list] = {LIGHT: [], BLUE: [], ORANGE: []}
    shades: dict[str, list[float]] = {LIGHT: [], BLUE: [], ORANGE: []}
    for source, i, target, j, weight in edges:
        works = {(source, i), (target, j)} <= working
        colour = LIGHT if not works else BLUE if target == source + 1 else ORANGE
        start, end = (source, heights[source][i]), (target, heights[target][j])
        lines[colour].append(_arc(start, end) if target > source + 1 else [start, end])
        shades[colour].append(0.15 + 0.85 * abs(weight) / strongest if works else 0.25)
    for colour in filter(lines.get, lines):
        alphas, width = np.array(shades[colour]), 1.6 if colour == ORANGE else 0.4
        axes.add_collection(
            LineCollection(
                lines[colour], colors=colour, alpha=alphas, linewidths=width, zorder=LINES
            )
        )
    for layer, height in enumerate(heights):
        works_here = np.array([(layer, i) in working for i in range(len(height))])
        size = 3 if len(height) < 30 else 1
        for colour, mask in ((LIGHT, ~works_here), ("black", works_here)):
            axes.plot(np.full(mask.sum(), layer), height[mask], "o", color=colour, markersize=size)
    axes.set(xlim=(-0.15, last + 0.15), ylim=(-0.5 if last > 1 else -0.05, 1.05))
    axes.axis("off")


def on_a_path(edges: Sequence[tuple], last: int) -> set[tuple[int, int]]:
    """The neurons that a path from layer 0 to layer ``last`` leads through."""
    steps = sorted(((source, i), (target, j)) for source, i, target, j, _ in edges)
    back = sorted(((end, start) for start, end in steps), reverse=True)
    return _reached(steps, 0) & _reached(back, last)


def _reached(steps: Sequence[tuple], origin: int) -> set[tuple[int, int]]:
    """The neurons that steps, in the order of the layers they start from, lead to."""
    reached = {start for start, _ in steps if start[0] == origin}
    for start, end in steps:
        if start in reached:
            reached.add(end)
    return reached


def _arc(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """A line that bends below the layers in between."""
    along = np.linspace(0, 1, 20)
    x = start[0] + along * (end[0] - start[0])
    y = start[1] + along * (end[1] - start[1]) - 0.6 * np.sin(np.pi * along)
    return list(zip(x, y, strict=True))
