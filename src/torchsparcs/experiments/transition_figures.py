"""The figures of the transition from a linear to a non-linear target."""

from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from torchsparcs.experiments import plots
from torchsparcs.experiments.writing import Content, Figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (plots.BLUE, plots.RED, plots.GREEN, plots.ORANGE)  # of β, in turn
INSETS = (0.1, 0.5, 0.9)  # α of the architectures and functions drawn above the curves


def of_beta(results: Content, beta: float) -> list[Content]:
    """The datasets of one β, by α."""
    return [row for row in results["datasets"] if row["beta"] == beta]


def draw(content: Content) -> Figures:
    results, hidden = content["results"], content["setting"]["hidden"]
    beta = betas_of(results)[0]
    smooth = of_beta(results, beta)
    fits = "output of model 0 (orange) and its error (green)"
    return {
        "transition": _draw_transition(results, smooth, hidden),
        "square_norm_of_mean_gamma": _draw_normalised(
            results, "square_norm_of_mean_gamma", None, "‖mean Γ‖², normalised"
        ),
        "eigenvalue_norm": _draw_eigenvalues(results),
        "datasets": _draw_points(results, smooth, f"β = {beta:g}: the datasets", _targets),
        "fits": _draw_points(results, smooth, f"β = {beta:g}: {fits}", _fits),
        "architectures": _draw_architectures(smooth, hidden),
    }


def betas_of(results: Content) -> list[float]:
    """Every β, in the order in which they were asked for."""
    return list(dict.fromkeys(row["beta"] for row in results["datasets"]))


def _draw_transition(results: Content, smooth: list[Content], hidden: int) -> "Figure":
    figure = plots.new_figure(8, 5)
    axes = figure.add_subplot()
    _draw_curves(axes, results, "gamma_mean", "gamma_std")
    top = max(row["gamma_mean"] + row["gamma_std"] for row in results["datasets"])
    axes.set(xlabel="α", ylabel="‖Γ‖, mean ± standard deviation of the models")
    axes.set_ylim(-0.03 * top, 1.75 * top)
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.1 * top])
    axes.legend(loc="center left", frameon=False)
    for place, alpha in enumerate(INSETS):
        row = min(smooth, key=lambda row: abs(row["alpha"] - alpha))
        left = 0.01 + 0.33 * place
        inset = axes.inset_axes((left, 0.66, 0.15, 0.26))
        plots.draw_architecture(inset, [3, hidden, 1], row["edges"])
        inset.set_title(
            f"β = {row['beta']:g}, α = {row['alpha']:g}: model 0, f(x)", fontsize=9, loc="left"
        )
        surface = axes.inset_axes((left + 0.14, 0.63, 0.18, 0.32), projection="3d")
        _draw_function(surface, results["shown_inputs"], row["shown_targets"])
    return figure


def _draw_function(axes: Any, inputs: Any, heights: Any) -> None:
    """The function to be learnt, over the square of its inputs."""
    x, y = np.array(inputs).T
    axes.plot_trisurf(x, y, np.array(heights), color=plots.GREY, linewidth=0, antialiased=False)
    axes.set(zlim=(-1, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[-1, 0, 1])
    axes.tick_params(labelsize=4, pad=-5)
    axes.patch.set_alpha(0)


def _draw_eigenvalues(results: Content) -> "Figure":
    """The text's quantity; beside it the one that the authors' code plots, where it is recorded."""
    measures = [("eigenvalues_mean", "eigenvalues_std", "mean of ‖(L₁, L₂)‖, over its largest")]
    if "size_mean" in results["datasets"][0]:
        measures.append(("size_mean", "size_std", "mean of |(L₁, L₂)|, over its largest"))
    figure = plots.new_figure(5.5 * len(measures), 3.8)
    panels: Any = figure.subplots(1, len(measures), squeeze=False)
    for axes, (key, spread, label) in zip(panels.flat, measures, strict=True):
        _draw_curves(axes, results, key, spread, max(row[key] for row in results["datasets"]))
        axes.set(xlabel="α", ylabel=label)
        axes.legend(frameon=False)
    return figure


def _draw_normalised(results: Content, key: str, spread: str | None, label: str) -> "Figure":
    """Curves divided by the largest value of all."""
    figure = plots.new_figure(5.5, 3.8)
    axes = figure.add_subplot()
    _draw_curves(axes, results, key, spread, max(row[key] for row in results["datasets"]))
    axes.set(xlabel="α", ylabel=label)
    axes.legend(frameon=False)
    return figure


def _draw_curves(
    axes: Any, results: Content, key: str, spread: str | None, unit: float = 1.0
) -> None:
    """A measure against α, in that unit, for each β; with a band where a spread is named."""
    for beta, colour in zip(betas_of(results), cycle(COLOURS), strict=False):
        own = of_beta(results, beta)
        mean = [row[key] / unit for row in own]
        std = [row[spread] / unit if spread else 0.0 for row in own]
        line = {"label": f"β = {beta:g}", "color": colour, "linewidth": 1.5}
        alphas = [row["alpha"] for row in own]
        plots.draw_band(axes, alphas, mean, std, marker="o", markersize=3.5, **line)


def _targets(row: Content) -> tuple[str, dict[str, Any]]:
    return f"α = {row['alpha']:g}", {plots.BLUE: row["shown_targets"]}


def _fits(row: Content) -> tuple[str, dict[str, Any]]:
    errors = np.subtract(row["shown_outputs"], row["shown_targets"])
    title = f"α = {row['alpha']:g}, |error| ≤ {np.abs(errors).max():.3f}"
    return title, {plots.RED: row["shown_outputs"], plots.GREEN: errors}


def _draw_points(
    results: Content,
    rows: list[Content],
    title: str,
    shown: Callable[[Content], tuple[str, dict[str, Any]]],
) -> "Figure":
    """Points of each dataset over the square of the inputs, one panel for each α."""
    figure, panels = plots.new_panels(len(rows), 2.1, projection="3d")
    inputs = np.array(results["shown_inputs"])
    for axes, row in zip(panels, rows, strict=True):
        name, layers = shown(row)
        for colour, heights in layers.items():
            axes.scatter(*inputs.T, heights, s=1, color=colour, rasterized=True, depthshade=False)
        axes.set_title(name, fontsize=8, pad=-4)
        axes.set(zlim=(-1, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[-1, 0, 1])
        axes.tick_params(labelsize=5, pad=-4)
    figure.suptitle(f"{title},\nover x₁ and x₂", fontsize=10)
    return figure


def _draw_architectures(rows: list[Content], hidden: int) -> "Figure":
    figure, panels = plots.new_panels(len(rows), 1.9)
    for axes, row in zip(panels, rows, strict=True):
        plots.draw_architecture(axes, [3, hidden, 1], row["edges"])
        axes.set_title(f"α = {row['alpha']:g}", fontsize=9)
        axes.set_rasterization_zorder(plots.LINES + 0.5)  # thousands of lines, and nothing else
    figure.suptitle(
        f"β = {rows[0]['beta']:g}: model 0, connections above the cut-off;\n"
        "blue through the hidden layer, orange past it,\n"
        "grey not part of a path from input to output",
        fontsize=10,
    )
    return figure
