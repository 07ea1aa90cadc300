"""The moving picture of the README: a network recruits neurons in training, and is cut.

    python benchmarks/growing.py

Which of ten columns matter, and how, is that of the README's example of a loop. The training is
recorded in docs/results/growing.json, and drawn from there to docs/figures/growing.svg.
"""

import argparse
import json
from pathlib import Path

import torch
from drawing import FIGURES, records
from recording import RESULTS, record

from torchsparcs import SpectralNetwork, TrainConfig, evaluate, extract, train
from torchsparcs.experiments.schemes import follow_scheme
from torchsparcs.files.atomic import write_atomically

NAME = "growing"
EPOCHS = 30
SHOWN = (0, 1, 2, 3, 5, 8, 12, 20, 30)  # epochs
SECONDS = 1.0  # of each of them; the cut is shown for four
WIDTH, HEIGHT, TOP = 720, 400, 84
ACROSS, STEP = 5, 14  # hidden neurons beside each other, and their distance


def trained(epochs: int = EPOCHS) -> dict:
    """Eigenvalues epoch by epoch, scores, and what is left after the cut."""
    torch.manual_seed(0)
    x = torch.rand(6000, 10) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).long()
    training, validation = (x[:5000], y[:5000]), (x[5000:], y[5000:])
    network = SpectralNetwork([10, 100, 100, 2])
    config = TrainConfig(task="multiclass", epochs=epochs, penalty_weight=1e-3, snapshot_every=1)
    history = train(network, training, config, validation=validation, progress=False)
    small = extract(network, data=training, validation=validation, task="multiclass")
    return {
        "widths": list(network.widths),
        "epochs": [
            {
                "epoch": epoch,
                "score": history.validation_score[epoch - 1] if epoch else None,
                "eigenvalues": [
                    {place: abs(value) for place, value in enumerate(layer.tolist()) if value}
                    for layer in values.values()
                ],
            }
            for epoch, values in history.snapshots
        ],
        "cut": {
            "widths": list(small.widths),
            "parameters": small.size.parameters,
            "of_parameters": network.size.parameters,
            "score": evaluate(small, validation, "multiclass").score,
            "blocks": [
                {
                    "from": source,
                    "to": target,
                    "weights": small.block(target, source).weight.tolist(),
                }
                for target, source in sorted(small.connections)
            ],
        },
    }


def drawn(found: dict) -> str:
    """The picture: a frame for each epoch over the sleeping neurons, and one for the cut."""
    epochs = {row["epoch"]: row for row in found["epochs"]}
    frames = [epochs[epoch] for epoch in SHOWN if epoch in epochs]
    places = [_places(width, layer, found["widths"]) for layer, width in enumerate(found["widths"])]
    total = SECONDS * len(frames) + 4
    parts = [_head(found["cut"], total, len(frames))]
    asleep = [_dot(x, y, 2.2) for layer in places[1:-1] for x, y in layer]
    parts.append(f'<g class="all"><g fill="var(--asleep)">{"".join(asleep)}</g>')
    ends = [_dot(x, y, 5) for layer in (places[0], places[-1]) for x, y in layer]
    parts.append(f'<g fill="var(--ink)">{"".join(ends)}</g></g>')
    for number, row in enumerate(frames):
        parts.append(_frame(number, row, places))
    parts.append(_cut(found["cut"]))
    return "\n".join([*parts, "</svg>\n"])


def _head(cut: dict, total: float, frames: int) -> str:
    """Each frame has its share of the time; who wants no motion sees the end."""
    share = 100 * SECONDS / total
    rules = [
        f"@keyframes one{{0%,{share:.2f}%{{opacity:1}}{share + 0.5:.2f}%,99.5%{{opacity:0}}}}",
        f"@keyframes last{{0%,{4 * share:.2f}%{{opacity:1}}"
        f"{4 * share + 0.5:.2f}%,98%{{opacity:0}}}}",
        f"@keyframes all{{0%,{frames * share:.2f}%{{opacity:1}}"
        f"{frames * share + 2:.2f}%,98%{{opacity:0}}}}",
        ".frame{opacity:0}.all{opacity:0}",
        "@media(prefers-reduced-motion:no-preference){",
        f".frame{{animation:one {total:g}s linear infinite}}",
        f".cut{{animation:last {total:g}s linear infinite}}",
        f".all{{animation:all {total:g}s linear infinite}}",
        *(f".f{n}{{animation-delay:{n * SECONDS - total:g}s}}" for n in range(frames)),
        f".cut{{animation-delay:{frames * SECONDS - total:g}s}}}}",
    ]
    words = (
        f"A network offered two hidden layers recruits neurons as it trains and is cut to "
        f"{cut['parameters']} of {cut['of_parameters']:,} parameters"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        f"<title>{words}</title>\n<style>{''.join(rules)}\n"
        "text{font-size:23px;text-anchor:middle}.name{font-size:19px;fill:var(--grey)}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" style="fill: var(--paper)"/>\n'
        + "".join(
            f'<text class="name" x="{_left(layer, 4):.0f}" y="{HEIGHT - 14}">{name}</text>'
            for layer, name in enumerate(("columns", "hidden", "hidden", "classes"))
        )
    )


def _left(layer: int, layers: int) -> float:
    return 80 + (WIDTH - 160) * layer / (layers - 1)


def _places(width: int, layer: int, widths: list[int]) -> list[tuple[float, float]]:
    """Centres of the neurons of a layer: in one column, or in several."""
    hidden = 0 < layer < len(widths) - 1
    across, step = (ACROSS, STEP) if hidden else (1, 26)
    down = -(-width // across)
    middle = TOP + (HEIGHT - TOP - 36) / 2
    left = _left(layer, len(widths))
    return [
        (left + step * (n // down - (across - 1) / 2), middle + step * (n % down - (down - 1) / 2))
        for n in range(width)
    ]


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{radius:.1f}"/>'


def _words(text: str, second: str) -> str:
    return (
        f'<text x="{WIDTH / 2:.0f}" y="34" font-weight="600">{text}</text>'
        f'<text x="{WIDTH / 2:.0f}" y="64">{second}</text>'
    )


def _frame(number: int, row: dict, places: list[list[tuple[float, float]]]) -> str:
    """Who is awake: a circle as large as the eigenvalue."""
    awake = [
        _dot(*places[layer][int(place)], 3 + 5 * (value / max(values.values())) ** 0.5)
        for layer, values in enumerate(row["eigenvalues"], 1)
        for place, value in values.items()
    ]
    counts = " + ".join(str(len(values)) for values in row["eigenvalues"])
    score = "all asleep: a linear model" if row["score"] is None else _accuracy(row["score"])
    second = f"{counts} of 100 + 100 neurons recruited" if awake else "no hidden neuron takes part"
    words = _words(f"epoch {row['epoch']}: {score}", second)
    return f'<g class="frame f{number}"><g fill="var(--ours)">{"".join(awake)}</g>{words}</g>'


def _accuracy(score: float) -> str:
    return f"{100 * score:.1f} % right"


def _cut(cut: dict) -> str:
    """The network that is left, its weights as lines."""
    widths = cut["widths"]
    middle, layers = TOP + (HEIGHT - TOP - 36) / 2, len(widths)

    def place(layer: int, neuron: int) -> tuple[float, float]:
        step = 26 if layer == 0 else 46
        return _left(layer, layers), middle + step * (neuron - (widths[layer] - 1) / 2)

    lines = []
    for block in cut["blocks"]:
        most = max(abs(weight) for row in block["weights"] for weight in row)
        for target, row in enumerate(block["weights"]):
            for source, weight in enumerate(row):
                (x, y), (u, v) = place(block["from"], source), place(block["to"], target)
                strength = abs(weight) / most
                if strength > 0.02:  # thinner ones are not seen
                    path = f"M{x:.0f} {y:.0f}L{u:.0f} {v:.0f}"
                    lines.append(f'<path d="{path}" stroke-width="{0.3 + 2.7 * strength:.1f}"/>')
    dots = [
        _dot(*place(layer, n), 8) for layer in range(1, layers - 1) for n in range(widths[layer])
    ]
    ends = [_dot(*place(layer, n), 5) for layer in (0, layers - 1) for n in range(widths[layer])]
    size = f"{cut['parameters']} of {cut['of_parameters']:,} parameters"
    words = _words(f"cut: {_accuracy(cut['score'])}", f"{' → '.join(map(str, widths))}: {size}")
    return (
        '<g class="cut">'
        f'<g stroke="var(--ours)" stroke-opacity="0.6" fill="none">{"".join(lines)}</g>'
        f'<g fill="var(--ours)">{"".join(dots)}</g>'
        f'<g fill="var(--ink)">{"".join(ends)}</g>{words}</g>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    path = record(NAME, "cpu", trained(options.epochs), options.out)
    draw(path)


def draw(path: Path) -> None:
    """From a record to the figures of the same docs; for a record elsewhere, beside it."""
    svg = drawn(json.loads(path.read_text())["cpu"])
    at_home = path.parent == RESULTS
    figure = (FIGURES if at_home else path.parent) / "growing.svg"
    write_atomically(figure, follow_scheme(svg, records(NAME) if at_home else {}).encode())


if __name__ == "__main__":
    main()
