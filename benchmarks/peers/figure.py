"""The figure of the comparison: test score against parameters, task by task, two lines each."""

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
BEST = "the best of all neighbours at each size"


def draw(contest: Contest, path: Path, shown: Mapping[str, bytes] | None = None) -> None:
    """Ours beside the best of all others; a task that nobody finished is left out."""
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
        for is_ours, label, points in (
            (False, BEST, best_of_others(contest, task)),
            (True, OURS, curve(finished(runs_of(contest, OURS, task)))),
        ):
            if not points:
                continue
            sizes, scores, errors = zip(*points, strict=True)
            handles[label] = axis.errorbar(
                sizes,
                scores,
                yerr=errors if any(errors) else None,
                color=drawing.OURS if is_ours else drawing.ORANGE,
                drawstyle="default" if is_ours else "steps-post",
                linestyle="-" if is_ours else "--",
                marker="o" if is_ours else "s",
                markersize=4 if is_ours else 3,
                linewidth=2 if is_ours else 1.2,
                elinewidth=0.6,
                zorder=3 if is_ours else 2,
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


def best_of_others(contest: Contest, task: str) -> list[tuple[float, float, float]]:
    """Of the neighbours' mean points those that score higher than all smaller ones."""
    others = (curve(finished(runs_of(contest, name, task))) for name in contest if name != OURS)
    found: list[tuple[float, float, float]] = []
    for point in sorted((point for points in others for point in points), key=lambda p: p[:2]):
        if not found or point[1] > found[-1][1]:
            found.append(point)
    return found


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
