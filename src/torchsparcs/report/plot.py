"""The front drawn with Matplotlib, on axes of one's own or new ones."""

import math
from typing import TYPE_CHECKING, Any

from torchsparcs.report.facts import rules_of, shown_of
from torchsparcs.report.figures import BLUE, GREY, ORANGE, RED
from torchsparcs.results.result import Candidate, SearchResult, is_same

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_front(
    result: SearchResult, pick: str | int | Candidate = "smallest", ax: "Axes | None" = None
) -> "Axes":
    """Score to be expected against size, with standard errors; the pick is orange.

    Dotted is what the best constant answer scores, where that is not far below.
    """
    axes = new_axes() if ax is None else ax
    picked, of, front = result.pick(pick), result.size.of, result.front
    sizes, scores = [of(found) for found in front], [_written(result, found) for found in front]
    times, _, unit = result.scoring.style
    errors = [abs(times) * found.standard_error for found in front]
    style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4, "capsize": 2}
    axes.errorbar(sizes, scores, yerr=errors, label="front", **style)
    if result.linear is not None and not any(is_same(result.linear, found) for found in front):
        at = [of(result.linear)], [_written(result, result.linear)]
        axes.plot(*at, "x", color=GREY, label="linear model")
    axes.plot([of(picked)], [_written(result, picked)], "o", color=ORANGE, markersize=8)
    for found in shown_of(result):
        if words := ", ".join(rules_of(result, found)):
            place = (of(found), _written(result, found))
            options: dict[str, Any] = {"textcoords": "offset points", "ha": "center"}
            axes.annotate(words, place, (0, -16), fontsize=9, **options)
    known = [score for score in scores if math.isfinite(score)]
    constant = result.scoring.constant
    if constant is not None and known:
        line = times * constant
        reach = max(known) - min(known)
        if min(known) - reach <= line <= max(known) + reach:
            axes.axhline(line, color=RED, linestyle=":", linewidth=1, label="one answer for all")
    axes.set_xscale("log")
    axes.set_xlabel(result.size.unit)
    axes.set_ylabel(f"expected {result.scoring.label}{f' in{unit}' * bool(unit)}")
    axes.legend(loc="best", fontsize=9)
    return axes


def new_axes() -> "Axes":
    """Axes of a figure that pyplot shows."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "A plot of the front needs Matplotlib: pip install 'torchsparcs[plot]'."
        ) from error
    _, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
    return axes


def _written(result: SearchResult, found: Candidate) -> float:
    """The score to be expected as people write it: shares in percent, losses above zero."""
    return result.scoring.style.times * found.told
