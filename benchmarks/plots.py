"""Draw the figures of docs/results.md from the recorded numbers, and the README's of a training.

python benchmarks/plots.py
"""

import json

import matplotlib
import torch

matplotlib.use("svg")
import matplotlib.pyplot as plt
from recording import RESULTS

from torchsparcs import SpectralNetwork, TrainConfig, evaluate, extract, train

FIGURES = RESULTS.parent / "figures"
COLOURS = {  # safe for colour-blind readers (Okabe and Ito)
    "spectral": "#0072B2",
    "mlp": "#000000",
    "skips": "#E69F00",
    "folded": "#CC79A7",
    "blocks": "#D55E00",
}
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
    figure, axes = plt.subplots(1, len(content), figsize=(4.6 * len(content), 3.6), squeeze=False)
    for axis, (device, result) in zip(axes[0], content.items(), strict=True):
        for name, colour in COLOURS.items():
            rows = [row for row in result["depth"] if name in row]
            layers = [row["layers"] for row in rows]
            ratio = [row[name]["seconds"] / row["mlp"]["seconds"] for row in rows]
            axis.plot(layers, ratio, "o-", color=colour, label=NAMES[name], markersize=4)
        row = result["depth"][0]
        axis.set_title(f"{device}: width {row['width']}, batch {row['batch']}", fontsize=10)
        axis.set(xlabel="layers", yscale="log", yticks=[1, 2, 5, 10, 20])
        axis.set_yticklabels(["1", "2", "5", "10", "20"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("time of a step, plain MLP = 1")
    figure.legend(*axes[0][0].get_legend_handles_labels(), fontsize=8, ncols=3, loc="upper center")
    save(figure, "forward_cost", top=0.86)


def mnist_front() -> None:
    """Test accuracy against parameters."""
    result = recorded("mnist_front")
    figure, axis = plt.subplots(figsize=(5.5, 3.8))
    for key, label, colour in (
        ("sparcs", "SPARCS, one training", COLOURS["spectral"]),
        ("mlp", "plain MLPs, tuned width by width", COLOURS["mlp"]),
    ):
        rows = result[key]["mean"]
        axis.errorbar(
            [row["parameters"] for row in rows],
            [100 * row["accuracy"] for row in rows],
            yerr=[100 * row["std"] for row in rows],
            fmt="o-",
            color=colour,
            label=label,
            markersize=4,
            capsize=2,
        )
    axis.set(xscale="log", xlabel="parameters", ylabel="MNIST test accuracy, %")
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=9)
    save(figure, "mnist_front")


def cnn_front() -> None:
    """Test accuracy against parameters and multiply-adds, each seed of the search a line."""
    result = recorded("cnn_front")
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True)
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
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy, %")
    axes[1].legend(fontsize=8, loc="lower right")
    save(figure, "cnn_front")


def text_front() -> None:
    """Loss on test text against parameters, each seed a line."""
    result = recorded("text_front")
    figure, axis = plt.subplots(figsize=(5.5, 3.8))
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
    save(figure, "text_front")


def recorded(name: str) -> dict:
    """The results of a benchmark on the one device it was run on."""
    return next(iter(json.loads((RESULTS / f"{name}.json").read_text()).values()))


def growing() -> None:
    """The README's first training as it goes: who was recruited, and what is left after the cut."""
    torch.manual_seed(0)
    x = torch.rand(6000, 10) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).long()
    training, validation = (x[:5000], y[:5000]), (x[5000:], y[5000:])
    network = SpectralNetwork([10, 100, 100, 2])
    config = TrainConfig(task="multiclass", epochs=30, penalty_weight=1e-3, snapshot_every=1)
    history = train(network, training, config, validation=validation, progress=False)
    small = extract(network, data=training, validation=validation, task="multiclass")
    stops = (0, 2, 5, 30)
    figure, axes = plt.subplots(1, len(stops) + 1, figsize=(11, 2.9), sharey=True)
    for axis, (epoch, values) in zip(
        axes, [history.snapshots[stop] for stop in stops], strict=False
    ):
        layers = [torch.ones(10), *values.values(), torch.ones(2)]
        draw_layers(axis, [layer.abs() / layer.abs().max().clamp_min(1e-9) for layer in layers])
        counts = "–".join(str(int(layer.count_nonzero())) for layer in values.values())
        score = f"{100 * history.validation_score[epoch - 1]:.1f} %" if epoch else "a perceptron"
        axis.set_title(f"epoch {epoch}: {score}\nrecruited {counts}", fontsize=9)
    draw_layers(axes[-1], [torch.ones(width) for width in small.widths])
    score = evaluate(small, validation, "multiclass").score
    axes[-1].set_title(f"cut: {100 * score:.1f} %\n{'–'.join(map(str, small.widths))}", fontsize=9)
    save(figure, "growing")


def draw_layers(axis: plt.Axes, layers: list[torch.Tensor]) -> None:
    """A column for each layer: grey dots sleep, the others are as large as their eigenvalue."""
    for place, layer in enumerate(layers):
        across = max(1, -(-len(layer) // 20))
        index = torch.arange(len(layer))
        down = -(-len(layer) // across)
        left = place + 0.09 * (index // down - (across - 1) / 2)
        height = (index % down) - (down - 1) / 2
        axis.scatter(left, height, s=3, color="#BBBBBB", linewidths=0)
        awake = layer > 0
        size = 6 + 30 * layer[awake]
        axis.scatter(left[awake], height[awake], s=size, color=COLOURS["spectral"], linewidths=0)
    axis.set(xlim=(-0.5, len(layers) - 0.5), ylim=(-11, 11))
    axis.axis("off")


def save(figure: plt.Figure, name: str, top: float = 1.0) -> None:
    FIGURES.mkdir(exist_ok=True)
    path = FIGURES / f"{name}.svg"
    figure.tight_layout(rect=(0, 0, 1, top))
    figure.savefig(path, metadata={"Date": None})
    print(path)


if __name__ == "__main__":
    forward_cost()
    mnist_front()
    cnn_front()
    text_front()
    growing()
