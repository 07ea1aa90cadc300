"""The pictures of docs/tables.md: a dot for each table, the curves, and critical differences."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from drawing import GREEN, INK, MIDDLE, ORANGE, OURS, PURPLE, RED, WIDE, save

from by_size.measures import BUDGETS, BYTES

Shown = Mapping[str, bytes]
STYLES = {
    "ours": ("torchsparcs", OURS),
    "lbfgs": ("MLPs, L-BFGS", INK),
    "adamw": ("MLPs, AdamW", ORANGE),
    "linear": ("linear, L1", RED),
    "lassonet": ("LassoNet", PURPLE),
    "boosting": ("boosting", GREEN),
}
LETTER, HEIGHT = 4.6, 9  # points of a name beside its dot
# What is drawn of each table: its label, where we are level, and which side is better.
DOTS = {
    "ratio": ("our parameters / MLPs', at equal score", 1, "left"),
    "best": ("our best score − the best MLP's", 0, "right"),
    "pick": ("default pick − MLP or linear model of its size", 0, "right"),
}


def beside_mlps(found: dict, path: Path, shown: Shown) -> None:
    """The picture of the README: how large and how good beside plain MLPs, a dot for each table."""
    tables = {name: table for name, table in found["tables"].items() if table["ratio"]}
    figure, axis = plt.subplots(figsize=(WIDE, 5))
    for table in tables.values():
        ratio, (mean, error) = table["ratio"], table["against_mlp"]
        spread = math.exp(table["log_ratio_error"] or 0)
        ends = [[ratio - ratio / spread], [ratio * spread - ratio]]
        style = {"color": OURS, "elinewidth": 0.6, "alpha": 0.45}
        axis.errorbar(ratio, mean, xerr=ends, yerr=error or 0, fmt="none", **style)
        axis.plot(ratio, mean, "o", color=OURS, markersize=6)
    axis.axvline(1, color=MIDDLE, linewidth=1)
    axis.axhline(0, color=MIDDLE, linewidth=1)
    axis.axvline(found["ratio"], color=OURS, linewidth=1, linestyle="--")
    axis.set(
        xscale="log", xlim=(1 / 10, 1.35), xlabel="our parameters / best plain MLP's, same score"
    )
    axis.set_ylabel("our best test score − best MLP's")
    axis.set_xticks([0.125, 0.25, 0.5, 1], ["⅛", "¼", "½", "1"])
    axis.minorticks_off()
    axis.set_title(
        f"{len(tables)} of {len(found['tables'])} tables: those where an MLP beats the linear "
        "model\na dot each; further left is smaller, higher is better",
        fontsize=10,
    )
    beside = {"fontsize": 8, "transform": axis.get_xaxis_transform()}
    axis.text(found["ratio"], 0.03, f" mean {found['ratio']:.2f}", color=OURS, **beside)
    axis.text(1, 0.96, "same size ", ha="right", va="top", **beside)
    without = [name for name in found["tables"] if name not in tables]
    axis.set_xlabel(f"{axis.get_xlabel()}\n\n{absent(without)}")
    name_dots(
        axis, {name: (table["ratio"], table["against_mlp"][0]) for name, table in tables.items()}
    )
    save(figure, path, shown)
    plt.close(figure)


def absent(names: list[str]) -> str:
    """Which tables have no dot."""
    told = f"no dot, as no MLP beats the linear model: {', '.join(names)}" if names else ""
    return textwrap.fill(told, 62)


def name_dots(axis: plt.Axes, dots: dict[str, tuple[float, float]]) -> None:
    """Write each name where it hides no dot and no other name, as far as there is such a place."""
    axis.figure.tight_layout()
    scale = 72 / axis.figure.dpi
    at = {name: axis.transData.transform(dot) * scale for name, dot in dots.items()}
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in at.values()]
    for name, (x, y) in sorted(at.items(), key=lambda pair: -pair[1][1]):
        width = LETTER * len(name)
        boxes = [
            (x + left, y + low, x + left + width, y + low + HEIGHT)
            for left in (6, -6 - width, -width / 2)
            for low in (3, -HEIGHT - 2, 10, -HEIGHT - 9, -HEIGHT / 2)
        ]
        free = min(boxes, key=lambda box: sum(hits(box, other) for other in taken))
        taken.append(free)
        offset = (free[0] - x, free[1] - y)
        axis.annotate(name, dots[name], offset, textcoords="offset points", fontsize=8)


def hits(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def dots(found: dict, folder: Path, shown: Shown) -> None:
    """Ratio of sizes, best score and default pick beside the MLPs', a dot for each table."""
    tables = found["tables"]
    order = sorted(tables, key=lambda name: (tables[name]["ratio"] or 0, name))
    for part, (label, level, better) in DOTS.items():
        figure, axis = plt.subplots(figsize=(WIDE, 0.9 + 0.22 * len(order)))
        style = {"fmt": "o", "color": OURS, "markersize": 5}
        for place, name in enumerate(order):
            table = tables[name]
            if part == "ratio":
                ratio, spread = table["ratio"], math.exp(table["log_ratio_error"] or 0)
                if ratio:
                    ends = [[ratio - ratio / spread], [ratio * spread - ratio]]
                    axis.errorbar(ratio, place, xerr=ends, **style)
            else:
                of = table["against_mlp"] if part == "best" else table["pick"]["against_others"]
                if of[0] is not None:
                    axis.errorbar(of[0], place, xerr=of[1] or 0, **style)
        if part == "ratio":
            axis.set(xscale="log", xlim=(1 / 9, 9))
            axis.set_xticks([0.125, 0.25, 0.5, 1, 2, 4, 8], ["⅛", "¼", "½", "1", "2", "4", "8"])
            axis.minorticks_off()
        axis.set_yticks(range(len(order)), order)
        axis.set_xlabel(label)
        axis.axvline(level, color=MIDDLE, linewidth=1)
        axis.set_title(f"{better} is better for us", fontsize=10)
        axis.grid(alpha=0.3, axis="x")
        save(figure, folder / f"tables_{part}.svg", shown)
        plt.close(figure)


def curves(found: dict, path: Path, shown: Shown) -> None:
    """Test score against parameters on every table, mean and standard error over the splits."""
    tables, across = found["tables"], 2
    down = -(-len(tables) // across)
    size = (WIDE, 2.2 * down + 0.9)
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False)
    for axis, (name, table) in zip(axes.flat, tables.items(), strict=False):
        scores: list[float] = []
        for method, (label, colour) in STYLES.items():
            key, sizes = ("bytes", BYTES) if method == "boosting" else ("parameters", BUDGETS)
            rows = [(size, table[key][str(size)].get(method, [None, None])) for size in sizes]
            rows = [(size, *pair) for size, pair in rows if pair[0] is not None]
            if not rows:
                continue
            at = [size / 4 if key == "bytes" else size for size, _, _ in rows]
            means, errors = ([row[place] or 0 for row in rows] for place in (1, 2))
            style = {"color": colour, "label": label, "markersize": 3, "linewidth": 1}
            axis.errorbar(at, means, yerr=errors, fmt=":s" if key == "bytes" else "-o", **style)
            scores += means
        linear = table["parameters"][str(BUDGETS[-1])]["linear"][0]
        high = max(scores)
        low = min(linear, high) - 0.6 * max(high - linear, 0.02)  # what is far below is left out
        axis.set(xscale="log", ylim=(low, high + 0.1 * (high - low)))
        axis.set_title(name, fontsize=12)
        axis.set_xticks([10, 1_000, 100_000], ["10", "1,000", "100,000"])
        axis.minorticks_off()
        axis.locator_params(axis="y", nbins=4)
        axis.tick_params(labelsize=10)
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tables) :]:
        axis.axis("off")
    figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=3, loc="upper center", fontsize=11)
    figure.supxlabel("parameters (boosting: bytes / 4)", fontsize=11)
    figure.supylabel("test accuracy or R²", fontsize=11)
    save(figure, path, shown, top=1 - 0.7 / size[1])
    plt.close(figure)


def critical_differences(found: dict, path: Path, shown: Shown) -> None:
    """Average ranks; what a bar joins does not differ at the level of 5 %."""
    budgets = [("parameters", str(size)) for size in (64, 256, 1_024, 4_096)]
    budgets += [("bytes", str(size)) for size in BYTES]
    figure, axes = plt.subplots(len(budgets), figsize=(WIDE, 1.9 * len(budgets)))
    for axis, (size, budget) in zip(axes, budgets, strict=True):
        row = found["ranks"][size][budget]
        ranks = sorted(row["ranks"].items(), key=lambda pair: pair[1])
        values = np.array([rank for _, rank in ranks])
        for place, (method, rank) in enumerate(ranks):
            label, colour = STYLES[method]
            axis.plot([rank, rank], [0, -1 - place], color=colour, linewidth=1)
            axis.text(
                rank,
                -1.2 - place,
                f"{label} {rank:.1f}",
                color=colour,
                fontsize=8,
                va="top",
                bbox={"facecolor": "white", "pad": 0.5, "edgecolor": "none"},
            )
        joined = [(low, values[values <= low + row["critical_difference"]].max()) for low in values]
        joined = [
            (a, b) for a, b in joined if b > a and not any(c < a and d >= b for c, d in joined)
        ]
        for place, (a, b) in enumerate(joined):
            axis.plot([a, b], [0.5 + 0.5 * place] * 2, color=MIDDLE, linewidth=3)
        axis.plot([1, len(ranks)], [0, 0], color=INK, linewidth=1)
        axis.set(xlim=(0.9, len(ranks) + 0.9), ylim=(-2.2 - len(ranks), 3), yticks=[])
        axis.set_xticks(range(1, len(ranks) + 1))
        axis.tick_params(labelsize=7)
        axis.set_title(f"{int(budget):,} {size}", fontsize=9)
        axis.spines[["left", "right", "top", "bottom"]].set_visible(False)
    save(figure, path, shown)
    plt.close(figure)
