"""The figure of the comparison: test score against parameters, task by task."""

from collections.abc import Mapping
from pathlib import Path

import drawing
from drawing import WIDE
from judging import curve, finished
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from records import Contest, runs_of, tasks_of

OURS = "torchsparcs"
LEGEND = 0.6  # inches


def draw(contest: Contest, path: Path, shown: Mapping[str, bytes] | None = None) -> None:
    """Ours beside all others; a task that nobody finished is left out."""
    tasks = [
        task
        for task in tasks_of(contest)
        if any(finished(runs_of(contest, name, task)) for name in contest)
    ]
    columns = min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    height = 2.6 * rows + LEGEND
    figure = Figure(figsize=(WIDE, height))
    axes = figure.subplots(rows, columns, squeeze=False)
    handles = {}
    for axis, task in zip(axes.flat, tasks, strict=False):
        for name in sorted(contest, key=lambda name: name == OURS):  # ours on top
            runs = finished(runs_of(contest, name, task))
            if not runs:
                continue
            sizes, scores, errors = zip(*curve(runs), strict=True)
            ours = name == OURS
            label = name if ours else "each neighbour (the tables below name them)"
            handles[label] = axis.errorbar(
                sizes,
                scores,
                yerr=errors if len(runs) > 1 else None,
                color=drawing.OURS if ours else drawing.MIDDLE,
                marker="o" if ours else ".",
                markersize=4 if ours else 3,
                linewidth=2 if ours else 0.8,
                elinewidth=0.6,
                zorder=3 if ours else 2,
            )
        axis.set(title=task, xscale="log", ylim=limits(contest, task))
        axis.set_xlabel("parameters", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.xaxis.set_minor_formatter(NullFormatter())  # within a decade they overlap
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tasks) :]:
        axis.axis("off")
    order = sorted(handles, key=lambda label: label != OURS)
    figure.legend([handles[label] for label in order], order, loc="upper center", fontsize=9)
    drawing.save(figure, path, shown or {}, top=1 - LEGEND / height)


def limits(contest: Contest, task: str) -> tuple[float, float]:
    """A little more than from the lower quartile of our scores to everybody's best.

    It begins lower where the best scores of others are lower, except for the lowest one.
    """
    curves = {name: curve(finished(runs_of(contest, name, task))) for name in contest}
    scores = {name: sorted(score for _, score, _ in points) for name, points in curves.items()}
    best = sorted(some[-1] for some in scores.values() if some)
    low = best[min(1, len(best) - 1)]
    if ours := scores[OURS]:
        low = min(low, ours[len(ours) // 4])
    room = max(best[-1] - low, 0.02)
    return low - 0.15 * room, best[-1] + 0.15 * room
