"""The pictures of docs/tables.md: a dot for each table, the curves, and critical differences."""

import math
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from by_size.measures import BUDGETS, BYTES

STYLES = {  # safe for colour-blind readers (Okabe and Ito)
    "ours": ("torchsparcs", "#0072B2"),
    "lbfgs": ("MLPs, L-BFGS", "#000000"),
    "adamw": ("MLPs, AdamW", "#E69F00"),
    "linear": ("linear, L1", "#D55E00"),
    "lassonet": ("LassoNet", "#CC79A7"),
    "boosting": ("boosting", "#009E73"),
}


def dots(found: dict, path: Path) -> None:
    """Ratio of sizes, best score and default pick beside the MLPs', a dot for each table."""
    tables = found["tables"]
    order = sorted(tables, key=lambda name: (tables[name]["ratio"] or 0, name))
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 0.8 + 0.24 * len(order)), sharey=True)
    for place, name in enumerate(order):
        table, style = tables[name], {"fmt": "o", "color": STYLES["ours"][1], "markersize": 4}
        if table["ratio"]:
            spread = math.exp(table["log_ratio_error"] or 0)
            ratio = table["ratio"]
            ends = [[ratio - ratio / spread], [ratio * spread - ratio]]
            axes[0].errorbar(ratio, place, xerr=ends, **style)
        for axis, (mean, error) in zip(
            axes[1:], (table["against_mlp"], table["pick"]["against_others"]), strict=True
        ):
            if mean is not None:
                axis.errorbar(mean, place, xerr=error or 0, **style)
    axes[0].set(xscale="log", xlabel="our parameters / MLPs', at equal score", xlim=(1 / 9, 9))
    axes[0].set_xticks([0.125, 0.25, 0.5, 1, 2, 4, 8], ["⅛", "¼", "½", "1", "2", "4", "8"])
    axes[0].minorticks_off()
    axes[0].set_yticks(range(len(order)), order)
    axes[1].set_xlabel("our best score − the best MLP's")
    axes[2].set_xlabel("default pick − MLP or linear of its size")
    for axis, level, better in zip(axes, (1, 0, 0), ("left", "right", "right"), strict=True):
        axis.axvline(level, color="#888888", linewidth=1)
        axis.set_title(f"{better} is better for us", fontsize=9)
        axis.grid(alpha=0.3, axis="x")
    save(figure, path)


def curves(found: dict, path: Path) -> None:
    """Test score against parameters on every table, mean and standard error over the splits."""
    tables, across = found["tables"], 4
    down = -(-len(tables) // across)
    size = (3 * across, 2.1 * down + 0.4)
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False)
    for axis, (name, table) in zip(axes.flat, tables.items(), strict=False):
        shown = []
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
            shown += means
        linear = table["parameters"][str(BUDGETS[-1])]["linear"][0]
        high = max(shown)
        low = min(linear, high) - 0.6 * max(high - linear, 0.02)  # what is far below is left out
        axis.set(xscale="log", ylim=(low, high + 0.1 * (high - low)))
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tables) :]:
        axis.axis("off")
    figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=6, loc="upper center", fontsize=9)
    figure.supxlabel("parameters (boosting: bytes / 4)", fontsize=9)
    figure.supylabel("test accuracy or R²", fontsize=9)
    save(figure, path, top=0.97)


def critical_differences(found: dict, path: Path) -> None:
    """Average ranks; what a bar joins does not differ at the level of 5 %."""
    shown = [("parameters", str(size)) for size in (64, 256, 1_024, 4_096)]
    shown += [("bytes", str(size)) for size in BYTES]
    figure, axes = plt.subplots(4, 2, figsize=(9, 8))
    for axis, (size, budget) in zip(axes.T.flat, shown, strict=True):
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
                bbox={"color": "white", "pad": 0.5},
            )
        joined = [(low, values[values <= low + row["critical_difference"]].max()) for low in values]
        joined = [
            (a, b) for a, b in joined if b > a and not any(c < a and d >= b for c, d in joined)
        ]
        for place, (a, b) in enumerate(joined):
            axis.plot([a, b], [0.5 + 0.5 * place] * 2, color="#888888", linewidth=3)
        axis.plot([1, len(ranks)], [0, 0], color="black", linewidth=1)
        axis.set(xlim=(0.9, len(ranks) + 0.9), ylim=(-2.2 - len(ranks), 3), yticks=[])
        axis.set_xticks(range(1, len(ranks) + 1))
        axis.tick_params(labelsize=7)
        axis.set_title(f"{int(budget):,} {size}", fontsize=9)
        axis.spines[["left", "right", "top", "bottom"]].set_visible(False)
    save(figure, path)


def save(figure: plt.Figure, path: Path, top: float = 1.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout(rect=(0, 0, 1, top))
    with plt.rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
