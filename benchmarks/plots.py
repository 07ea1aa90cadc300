"""Draw the figures of docs/results.md from the recorded numbers.

python benchmarks/plots.py
"""

import json
from math import sqrt

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from drawing import FIGURES, INK, ORANGE, OURS, PURPLE, RED, WIDE, records, save
from recording import RESULTS

COLOURS = {"spectral": OURS, "mlp": INK, "skips": ORANGE, "folded": PURPLE, "blocks": RED}
NAMES = {
    "spectral": "SpectralNetwork",
    "mlp": "plain MLP",
    "skips": "MLP with every skip",
    "folded": "blocks formed, products shared",
    "blocks": "blocks formed as in the paper",
}


def forward_cost() -> None:
    """Time of a step against depth, relative to the plain MLP."""
    content = json.loads((RESULTS / "forward_cost.json").read_text())
    figure, axes = plt.subplots(len(content), figsize=(WIDE, 3.2 * len(content)), squeeze=False)
    for axis, (device, result) in zip(axes.flat, content.items(), strict=True):
        for name, colour in COLOURS.items():
            rows = [row for row in result["depth"] if name in row]
            layers = [row["layers"] for row in rows]
            ratio = [row[name]["seconds"] / row["mlp"]["seconds"] for row in rows]
            axis.plot(layers, ratio, "o-", color=colour, label=NAMES[name], markersize=4)
        row = result["depth"][0]
        axis.set_title(f"{device}: width {row['width']}, batch {row['batch']}", fontsize=10)
        axis.set(xlabel="layers", ylabel="time of a step, plain MLP = 1")
        axis.set(yscale="log", yticks=[1, 2, 5, 10, 20])
        axis.set_yticklabels(["1", "2", "5", "10", "20"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    figure.legend(*axes[0][0].get_legend_handles_labels(), fontsize=9, ncols=2, loc="upper center")
    save(figure, FIGURES / "forward_cost.svg", records("forward_cost"), top=0.88)


def mnist_front() -> None:
    """Test accuracy against parameters."""
    result = recorded("mnist_front")
    figure, axis = plt.subplots(figsize=(WIDE, 3.8))
    for key, label, colour in (
        ("sparcs", "SPARCS, one training", COLOURS["spectral"]),
        ("mlp", "plain MLPs, tuned width by width", COLOURS["mlp"]),
    ):
        rows = result[key]["mean"]
        axis.errorbar(
            [row["parameters"] for row in rows],
            [100 * row["accuracy"] for row in rows],
            yerr=[100 * row["std"] / sqrt(result["seeds"]) for row in rows],
            fmt="o-",
            color=colour,
            label=label,
            markersize=4,
            capsize=2,
        )
    axis.set(xscale="log", xlabel="parameters", ylabel="MNIST test accuracy, %")
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=9)
    save(figure, FIGURES / "mnist_front.svg", records("mnist_front"))


def cnn_front() -> None:
    """Test accuracy against parameters and multiply-adds, each seed of the search a line."""
    result = recorded("cnn_front")
    figure, axes = plt.subplots(2, figsize=(WIDE, 7), sharey=True)
    for axis, size in zip(axes, ("parameters", "macs"), strict=True):
        for seed in sorted({row["seed"] for row in result["front"]}):
            rows = [row for row in result["front"] if row["seed"] == seed]
            label = None if seed else "spectral, cut (a line for each seed)"
            axis.plot(
                [row[size] for row in rows],
                [100 * row["test"] for row in rows],
                "o-",
                color=COLOURS["spectral"],
                label=label,
                markersize=3,
                alpha=0.8,
            )
        for normalised, label, marker in (
            (False, "plain, no normalisation", "s"),
            (True, "plain, batch normalisation", "^"),
        ):
            rows = [row for row in result["plain"] if row["normalised"] == normalised]
            axis.plot(
                [row[size] for row in rows],
                [100 * row["test"] for row in rows],
                marker,
                color=COLOURS["mlp"] if normalised else COLOURS["skips"],
                label=label,
                markersize=4,
                alpha=0.7,
            )
        axis.set(xscale="log", xlabel="multiply-adds" if size == "macs" else size)
        axis.set_ylabel("test accuracy, %")
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="lower right")
    save(figure, FIGURES / "cnn_front.svg", records("cnn_front"))


def text_front() -> None:
    """Loss on test text against parameters, each seed a line."""
    result = recorded("text_front")
    figure, axis = plt.subplots(figsize=(WIDE, 3.8))
    for kind, label, colour in (
        ("spectral", "spectral blocks, cut", COLOURS["spectral"]),
        ("cut", "plain blocks, cut in the same way", COLOURS["skips"]),
        ("plain", "plain blocks of each width", COLOURS["mlp"]),
    ):
        rows = [row for row in result["runs"] if row["kind"] == kind]
        for seed in sorted({row["seed"] for row in rows}):
            mine = sorted((r for r in rows if r["seed"] == seed), key=lambda r: r["parameters"])
            axis.plot(
                [row["parameters"] for row in mine],
                [row["test"] for row in mine],
                "o-",
                color=colour,
                label=None if seed else f"{label} (a line for each seed)",
                markersize=3,
                alpha=0.8,
            )
    axis.set(xscale="log", xlabel="parameters of the model", ylabel="nats a character, test text")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    save(figure, FIGURES / "text_front.svg", records("text_front"))


def recorded(name: str) -> dict:
    """The results of a benchmark on the one device it was run on."""
    return next(iter(json.loads((RESULTS / f"{name}.json").read_text()).values()))


if __name__ == "__main__":
    forward_cost()
    mnist_front()
    cnn_front()
    text_front()
