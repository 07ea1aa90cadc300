"""Feed-forward blocks of a small vision transformer: spectral, or plain of several widths?

CIFAR-10 from scratch, patches of 4 pixels, no augmentation. The plain models differ in the width of
their blocks; the spectral ones are offered the largest width and differ in the penalty, and are
counted after ``extract``. Learning rate and weight decay are chosen for the widest plain model on
held-out images, and then, for one penalty, how fast the eigenvalues learn and how much the
transfers decay. This goes beyond the paper.

    python benchmarks/vit_front.py --data cifar10.npz --device cuda
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from recording import RESULTS, record
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs import SpectralNetwork, TrainConfig, evaluate, extract, spectralize, train
from torchsparcs.images.datasets import load_images

WIDTHS = (16, 64, 128, 256)
PENALTIES = (3e-6, 1e-5, 3e-5, 1e-4)
RATES = ((1e-3, 0.05), (2e-3, 0.05), (2e-3, 0.5))  # learning rate, weight decay
PACES = ("eigenvalue_lr_scale", "transfer_weight_decay")
PACES_TRIED = ((30.0, 1.0), (30.0, 0.1), (10.0, 1.0), (10.0, 0.1), (3.0, 0.1), (3.0, 0.0))
MIDDLING = 1e-5
AT_ONCE = 1000  # images that are judged together


class Block(nn.Module):
    """Attention and a feed-forward block, each on a normalised copy of the signal."""

    def __init__(self, dimension: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.queries_keys_values = nn.Linear(dimension, 3 * dimension)
        self.projection = nn.Linear(dimension, dimension)
        self.mlp = nn.Sequential(
            nn.Linear(dimension, hidden), nn.GELU(), nn.Linear(hidden, dimension)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        split = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        x = x + self.projection(attended)
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    def __init__(
        self, image: torch.Size, classes: int, hidden: int, dimension: int = 96, depth: int = 4
    ):
        super().__init__()
        channels, height, width = image
        self.patches = nn.Conv2d(channels, dimension, 4, stride=4)
        places = (height // 4) * (width // 4)
        self.position = nn.Parameter(0.02 * torch.randn(1, places, dimension))
        self.blocks = nn.ModuleList(Block(dimension, 4, hidden) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dimension), nn.Linear(dimension, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(dim=1)))


class Recipe(NamedTuple):
    """How a model is trained; the last two are for spectral blocks."""

    lr: float
    weight_decay: float
    eigenvalue_lr_scale: float = 30.0
    transfer_weight_decay: float = 1.0


class Run(NamedTuple):
    kind: str  # "plain" or "spectral"
    hidden: int
    penalty_weight: float
    seed: int
    recipe: Recipe


def result_of(run: Run, data: tuple, epochs: int) -> dict:
    """Trained on the first pair, judged by the second after ``extract``."""
    training, judges = data
    torch.manual_seed(run.seed)
    images, labels = training
    model: nn.Module = Transformer(images.shape[1:], int(labels.max()) + 1, run.hidden)
    if run.kind == "spectral":
        model = spectralize(model, target="blocks.*.mlp", hidden=[run.hidden])
    config = TrainConfig(
        task="multiclass",
        epochs=epochs,
        batch_size=256,
        schedule="warm_cosine",
        penalty_weight=run.penalty_weight,
        seed=run.seed,
        capture=images.is_cuda,
        **run.recipe._asdict(),
    )
    train(model.to(images.device), training, config, progress=False)
    spectral = [part for part in model.modules() if isinstance(part, SpectralNetwork)]
    compact = extract(model) if spectral else model
    return {
        **run._asdict(),
        "recipe": run.recipe._asdict(),
        "recruited": [part.recruited[0] for part in spectral],
        "parameters": sum(p.numel() for p in compact.parameters()),
        "accuracy": evaluate(compact, judges, "multiclass", batch_size=AT_ONCE).score,
    }


def worked(run: Run, options: argparse.Namespace, chooses: bool) -> dict:
    """One run in this process; choices are made on the last training images, held out."""
    torch.set_float32_matmul_precision("high")
    (x, y), test = load_images(options.data).tensors(options.device)
    x, y = x[: options.rows], y[: options.rows]
    held = len(x) // 10
    data = ((x[:-held], y[:-held]), (x[-held:], y[-held:])) if chooses else ((x, y), test)
    return result_of(run, data, options.epochs)


def all_of(runs: list[Run], options: argparse.Namespace, chooses: bool = False) -> Iterator[dict]:
    """The runs, shared among the workers, as they are done."""
    one = partial(worked, options=options, chooses=chooses)
    pool = ProcessPoolExecutor(options.workers, get_context("spawn"))  # none starts before its task
    with pool:
        for result in (map if options.workers == 1 else pool.map)(one, runs):
            print(result, flush=True)
            yield result


def best_of(results: list[dict]) -> Recipe:
    return Recipe(**max(results, key=lambda result: result["accuracy"])["recipe"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the device")
    parser.add_argument("--choices", type=int, help="of each kind, for a quick look")
    parser.add_argument("--rows", type=int, help="of the training images, for a quick look")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--penalties", type=float, nargs="*", default=PENALTIES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    widest = max(options.widths)
    chosen = [
        *all_of(
            [Run("plain", widest, 0.0, 0, Recipe(*pair)) for pair in RATES[: options.choices]],
            options,
            True,
        )
    ]
    plain = best_of(chosen)
    paces = [
        plain._replace(**dict(zip(PACES, pair, strict=True)))
        for pair in PACES_TRIED[: options.choices]
    ]
    tried = [*all_of([Run("spectral", widest, MIDDLING, 0, one) for one in paces], options, True)]
    spectral = best_of(tried)
    runs = [
        run
        for seed in range(options.seeds)
        for run in (
            *(Run("plain", width, 0.0, seed, plain) for width in options.widths),
            *(Run("spectral", widest, weight, seed, spectral) for weight in options.penalties),
        )
    ]
    results = {"epochs": options.epochs, "chosen_on_held_out": chosen + tried, "runs": []}
    for result in all_of(runs, options):
        results["runs"].append(result)
        record("vit_front", options.device, results, options.out)


if __name__ == "__main__":
    main()
