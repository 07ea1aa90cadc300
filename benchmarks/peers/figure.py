"""The figure of the comparison: test score against parameters, task by task."""

from pathlib import Path

import matplotlib
from judging import curve, finished
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from records import Contest, runs_of, tasks_of

OURS = "torchsparcs"
STYLES = {  # colours safe for colour-blind readers (Okabe and Ito), and a marker each
    OURS: ("#0072B2", "o"),
    "scikit-learn": ("#000000", "s"),
    "Optuna": ("#E69F00", "D"),
    "Torch-Pruning": ("#009E73", "v"),
    "GroMo": ("#D55E00", "^"),
    "neat-python": ("#999999", "x"),
    "OTO": ("#56B4E9", "P"),
    "direct space": ("#CC79A7", "<"),
    "DARTS": ("#8C6D1F", ">"),
}


def draw(contest: Contest, path: Path) -> None:
    """Write the figure; a task that nobody finished is left out."""
    tasks = [
        task
        for task in tasks_of(contest)
        if any(finished(runs_of(contest, name, task)) for name in contest)
    ]
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(max(7.5, 4.2 * columns), 3.4 * rows + 0.6))
    axes = figure.subplots(rows, columns, squeeze=False)
    handles = {}
    for axis, task in zip(axes.flat, tasks, strict=False):
        for name in contest:
            runs = finished(runs_of(contest, name, task))
            if not runs:
                continue
            sizes, scores, errors = zip(*curve(runs), strict=True)
            colour, marker = STYLES[name]
            handles[name] = axis.errorbar(
                sizes,
                scores,
                yerr=errors if len(runs) > 1 else None,
                color=colour,
                marker=marker,
                markersize=3.5,
                linewidth=2 if name == OURS else 1,
                elinewidth=0.6,
                zorder=3 if name == OURS else 2,
            )
        axis.set(title=task, xscale="log", xlabel="parameters", ylim=limits(contest, task))
        axis.xaxis.set_minor_formatter(NullFormatter())  # within a decade they overlap
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tasks) :]:
        axis.axis("off")
    top = 0.6 / figure.get_size_inches()[1]
    figure.legend(handles.values(), handles.keys(), ncols=5, loc="upper center", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - top))
    with matplotlib.rc_context({"svg.hashsalt": "peers"}):  # the same figure is the same file
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


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
