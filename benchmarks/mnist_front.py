"""How few parameters does MNIST need: one hidden layer of at most 200, against tuned MLPs?

SPARCS: one training of a population (a path of penalty weights x seeds, input dropout 0.1); for
each parameter budget, fixed beforehand, the smallest member that exceeds it is cut to it by path
strength and fine-tuned. MLP: every width with the learning rate, weight decay and dropout that are
best on 10,000 validation images. Dropout, learning rates and epochs of SPARCS were chosen on the
same validation images, in some forty settings before this script was written; ``validation`` in the
results holds the accuracies there after training on the other 50,000. Both then train on all 60,000
with the same settings, and only these networks meet the test set. MNIST comes as an NPZ file with
train_x, train_y, test_x, test_y.

    python benchmarks/mnist_front.py --data mnist.npz --device cuda
"""

import argparse
import itertools
import math
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import Population, TrainConfig, extract, pruning_curve, train
from torchsparcs.training.step import CapturedStep
from torchsparcs.training.tasks import evaluate

TARGETS = {0.973: 20_000, 0.980: 33_000, 0.984: 60_000}  # test accuracy: parameters
BUDGETS = [12_000, 16_000, 20_000, 26_000, 33_000, 45_000, 60_000, 80_000, 120_000]
PATH = [float(weight) for weight in np.geomspace(2e-5, 1e-3, 14)]  # of penalty weights
DROPOUT = 0.1
WIDTHS = [8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 100, 128, 160, 200]
GRID = [
    {"lr": lr, "weight_decay": decay, "dropout": dropout}
    for lr, decay, dropout in itertools.product((5e-4, 1e-3, 2e-3, 4e-3), (0.0, 0.1, 1.0), (0, 0.1))
]
Pair = tuple[Tensor, Tensor]


def mnist(path: Path, device: str) -> tuple[Pair, Pair, Pair]:
    """Training (50,000), validation (10,000) and test data, standardised as one."""
    arrays = np.load(path)

    def pair(name: str) -> Pair:
        x = torch.from_numpy(arrays[f"{name}_x"]).to(device).flatten(1).float() / 255
        return (x - 0.1307) / 0.3081, torch.from_numpy(arrays[f"{name}_y"]).to(device).long()

    x, y = pair("train")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).to(device)
    fit, held = order[: len(x) * 5 // 6], order[len(x) * 5 // 6 :]
    return (x[fit], y[fit]), (x[held], y[held]), pair("test")


def spectral_front(training: Pair, judge: Pair, seeds: int, epochs: int, device: str) -> list[dict]:
    """Budget by budget and seed by seed: the network cut from the next larger member."""
    path = [(penalty, seed) for penalty in PATH for seed in range(seeds)]
    population = Population([784, 200, 10], seeds=[seed for _, seed in path], device=device)
    config = TrainConfig(
        task="multiclass",
        epochs=epochs,
        eigenvalue_lr_scale=100.0,
        penalty_weight=tuple(penalty for penalty, _ in path),
        capture=device == "cuda",
        snapshot_every=epochs,
    )
    train(nn.Sequential(nn.Dropout(DROPOUT), population), training, config, progress=False)
    rows = []
    for seed in range(seeds):
        mine = [index for index, (_, s) in enumerate(path) if s == seed]
        networks = [population.member(index) for index in mine]
        for budget in BUDGETS:
            fits = [n for n in networks if n.recruited[0] * 795 + 7_850 >= budget]
            source = min(fits, key=lambda n: n.recruited[0]) if fits else networks[0]
            size = (budget - 7_850) // 795  # neurons with 784 + 1 + 10 weights, beside the skip
            sample = (training[0][:1_000], training[1][:1_000])
            curve = pruning_curve(source, sample, "multiclass", points=[size])
            small = extract(source, keep=curve.masks(curve.points[0]))
            tuning = TrainConfig(
                task="multiclass",
                epochs=max(1, epochs // 5),
                lr=1e-3,
                weight_decay=0.1,
                seed=seed,
                capture=device == "cuda",
            )
            train(nn.Sequential(nn.Dropout(DROPOUT), small), training, tuning, progress=False)
            rows.append(
                {
                    "budget": budget,
                    "seed": seed,
                    "neurons": sum(small.widths[1:-1]),
                    "parameters": small.size.parameters,
                    "accuracy": evaluate(small, judge, "multiclass").score,
                }
            )
    return rows


class PlainMLPs(nn.Module):
    """Many MLPs 784-h-10 side by side, padded to the widest; each with its own dropout."""

    def __init__(self, widths: list[int], seeds: list[int], dropout: list[float], device: str):
        super().__init__()
        widest = max(widths)
        first, last = [], []
        for width, seed in zip(widths, seeds, strict=True):
            torch.manual_seed(seed)
            one, two = nn.Linear(784, width), nn.Linear(width, 10)
            first.append(
                nn.functional.pad(
                    torch.cat([one.weight, one.bias[:, None]], 1).detach(),
                    (0, 0, 0, widest - width),
                )
            )
            last.append(nn.functional.pad(two.weight.detach(), (0, widest - width)))
        self.first = nn.Parameter(torch.stack(first).to(device))  # (members, widest, 785)
        self.last = nn.Parameter(torch.stack(last).to(device))  # (members, 10, widest)
        self.bias = nn.Parameter(torch.zeros(len(widths), 1, 10, device=device))
        # padding needs no mask: a neuron without weights and without bias stays at zero
        self.register_buffer("dropout", torch.tensor(dropout, device=device).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            kept = torch.rand_like(x) >= self.dropout
            x = x * kept / (1 - self.dropout)
        hidden = torch.relu(x @ self.first[..., :-1].mT + self.first[..., -1].unsqueeze(1))
        return hidden @ self.last.mT + self.bias


def train_mlps(
    settings: list[dict], training: Pair, judges: list[Pair], epochs: int, device: str
) -> list[list[float]]:
    """Accuracies of every setting {width, seed, lr, weight_decay, dropout} on each judge."""
    column = {key: [setting[key] for setting in settings] for key in settings[0]}
    mlps = PlainMLPs(column["width"], column["seed"], column["dropout"], device)
    lr, decay = (
        torch.tensor(column[key], device=device).view(-1, 1, 1) for key in ("lr", "weight_decay")
    )
    pace, count = torch.ones((), device=device), torch.zeros((), device=device)
    parameters = list(mlps.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))

    def step(x: Tensor, y: Tensor) -> Tensor:
        """AdamW with a learning rate and a decay for each member."""
        output = mlps(x)
        target = y.expand(len(settings), -1).flatten()
        loss = nn.functional.cross_entropy(output.flatten(0, 1), target) * len(settings)
        gradients = torch.autograd.grad(loss, parameters)
        count.add_(1)
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                m.lerp_(g, 0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                update = (m / (1 - 0.9**count)) / ((v / (1 - 0.999**count)).sqrt() + 1e-8)
                p.sub_(pace * lr * (update + decay * p))
        return loss.detach()

    generator = torch.Generator().manual_seed(0)
    steps, done = epochs * math.ceil(len(training[0]) / 256), 0
    take_step = CapturedStep(step) if device == "cuda" else step
    for _ in range(epochs):
        order = torch.randperm(len(training[0]), generator=generator).to(device)
        for rows in order.split(256):
            pace.fill_((1 + math.cos(math.pi * done / steps)) / 2)
            take_step(training[0][rows], training[1][rows])
            done += 1
    mlps.eval()
    with torch.no_grad():
        return [
            torch.cat(
                [
                    mlps(x).argmax(-1) == y
                    for x, y in zip(inputs.split(2_000), targets.split(2_000), strict=True)
                ],
                1,
            )
            .float()
            .mean(1)
            .tolist()
            for inputs, targets in judges
        ]


def mlp_front(
    training: Pair, validation: Pair, whole: Pair, test: Pair, seeds: int, epochs: int, device: str
) -> list[dict]:
    """For each width the setting that is best on validation, then that setting on all the data."""
    grid = [{"width": w, "seed": s, **setting} for w in WIDTHS for setting in GRID for s in (0, 1)]
    (scores,) = train_mlps(grid, training, [validation], epochs, device)
    chosen = []
    for width in WIDTHS:
        mean = {
            index: statistics.mean(
                score
                for setting, score in zip(grid, scores, strict=True)
                if setting["width"] == width and {k: setting[k] for k in choice} == choice
            )
            for index, choice in enumerate(GRID)
        }
        chosen.append(GRID[max(mean, key=mean.__getitem__)])
    final = [
        {"width": width, "seed": 100 + seed, **choice}
        for width, choice in zip(WIDTHS, chosen, strict=True)
        for seed in range(seeds)
    ]
    (tests,) = train_mlps(final, whole, [test], epochs, device)
    return [
        {**setting, "parameters": 795 * setting["width"] + 10, "accuracy": score}
        for setting, score in zip(final, tests, strict=True)
    ]


def means(rows: list[dict], key: str) -> list[dict]:
    """Mean ± std of the accuracy over seeds."""
    groups = [
        list(g)
        for _, g in itertools.groupby(sorted(rows, key=lambda r: r[key]), key=lambda r: r[key])
    ]
    return [
        {
            key: group[0][key],
            "parameters": statistics.mean(row["parameters"] for row in group),
            "accuracy": statistics.mean(row["accuracy"] for row in group),
            "std": statistics.stdev(row["accuracy"] for row in group) if len(group) > 1 else 0.0,
        }
        for group in groups
    ]


def smallest(front: list[dict], accuracy: float) -> float | None:
    reached = [row["parameters"] for row in front if row["accuracy"] >= accuracy]
    return min(reached) if reached else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="two penalties, a budget, two MLPs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.quick:
        for values in (PATH, BUDGETS, WIDTHS, GRID):
            del values[2:]
    torch.set_float32_matmul_precision("high")
    device, seeds, epochs = arguments.device, arguments.seeds, arguments.epochs
    training, validation, test = mnist(arguments.data, device)
    whole = tuple(torch.cat(parts) for parts in zip(training, validation, strict=True))

    start = time.perf_counter()
    tried = spectral_front(training, validation, seeds, epochs, device)
    seconds_search = time.perf_counter() - start
    final = spectral_front(whole, test, seeds, epochs, device)
    ours = means(final, "budget")
    start = time.perf_counter()
    mlp_rows = mlp_front(training, validation, whole, test, seeds, epochs, device)
    seconds_mlp = time.perf_counter() - start
    plain = means(mlp_rows, "width")

    for row in ours:
        print(
            f"SPARCS {row['parameters']:8.0f} parameters: {row['accuracy']:.4f} ± {row['std']:.4f}"
        )
    for row in plain:
        print(
            f"MLP    {row['parameters']:8.0f} parameters: {row['accuracy']:.4f} ± {row['std']:.4f}"
        )
    targets = []
    for accuracy, budget in TARGETS.items():
        row = {
            "test_accuracy": accuracy,
            "parameters_allowed": budget,
            "sparcs": smallest(ours, accuracy),
            "mlp": smallest(plain, accuracy),
        }
        targets.append(row)
        print(row)
    results = {
        "seeds": seeds,
        "epochs": epochs,
        "seconds": {"sparcs, 50,000 images": seconds_search, "mlp, tuning and final": seconds_mlp},
        "targets": targets,
        "sparcs": {"mean": ours, "runs": final, "validation": means(tried, "budget")},
        "mlp": {"mean": plain, "runs": mlp_rows},
    }
    print(record("mnist_front", device, results, arguments.out))


if __name__ == "__main__":
    main()
