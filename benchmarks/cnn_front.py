"""A spectral CNN searched from scratch on CIFAR-10, beside plain CNNs of several widths.

No augmentation. One spectral network is trained, extracted and cut rung by rung; every rung is a
point of its front. The plain networks have the same strides and a width each; they are trained for
as many epochs as the cut network of their size has seen, with or without batch normalisation (which
folds away). Recipes are chosen on held-out training images, for a middling plain width and for the
spectral network as trained; test images decide nothing.

    python benchmarks/cnn_front.py --data cifar10.npz --device cuda
"""

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import SpectralCNN, TrainConfig, evaluate, extract, train
from torchsparcs.chain_refinement import rungs
from torchsparcs.images import load_images

OFFERED = (48, 96, 96, 192, 192)  # channels of the spectral network
WIDTHS = (8, 12, 16, 24, 32)  # of the first layer of the plain ones
GROWTH = (1, 2, 2, 4, 4)  # of the layers after it
SMALLEST = 15_000  # parameters at which the cutting ends
BATCH = 256
AT_ONCE = 1000  # images that are judged together
HELD_OUT = 5000

PLAIN = [  # recipes to choose from
    {"lr": lr, "weight_decay": decay} for lr, decay in product((1e-3, 3e-3), (0.05, 0.5))
]
SPECTRAL = [
    {"lr": 2e-3, "eigenvalue_lr_scale": 10.0, "transfer_weight_decay": decay, "penalty_weight": rho}
    for decay, rho in product((0.3, 1.0), (1e-5, 1e-4))
]
TUNING = {"lr": 1e-3, "weight_decay": 0.05, "schedule": "warm_cosine"}

Pair = tuple[Tensor, Tensor]


def plain_cnn(channels: tuple[int, ...], classes: int, *, normalised: bool) -> nn.Module:
    layers: list[nn.Module] = []
    for place, (here, there) in enumerate(pairwise(channels)):
        stride = 2 if place and there > here else 1
        conv = nn.Conv2d(here, there, 3, stride=stride, padding=1, bias=not normalised)
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        layers += [conv, nn.BatchNorm2d(there)] if normalised else [conv]
        layers.append(nn.ReLU())
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], classes)
    )


def folded_count(network: nn.Module) -> int:
    """Parameters with each batch normalisation folded into the convolution before it."""
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]
    return sum(p.numel() for p in network.parameters()) - sum(n.num_features for n in norms)


def trained(network: nn.Module, data: Pair, epochs: int, seed: int, **recipe: float) -> nn.Module:
    on_gpu = data[0].is_cuda
    layout = torch.channels_last if on_gpu else torch.contiguous_format
    config = TrainConfig(
        task="multiclass", epochs=epochs, batch_size=BATCH, seed=seed, capture=on_gpu, **recipe
    )
    network = network.to(data[0].device, memory_format=layout)
    train(network, data, config, progress=False)
    return network


def accuracy(network: nn.Module, data: Pair) -> float:
    return evaluate(network, data, "multiclass", batch_size=AT_ONCE).score


class Contest:
    """The images, and what both kinds of network are trained with."""

    def __init__(self, options: argparse.Namespace):
        (x, y), (x_test, y_test) = load_images(options.data).tensors(options.device)
        if x.is_cuda:
            x, x_test = (part.contiguous(memory_format=torch.channels_last) for part in (x, x_test))
        x, y = x[: options.rows], y[: options.rows]
        held = min(HELD_OUT, len(x) // 10)
        self.training, self.held = (x[:-held], y[:-held]), (x[-held:], y[-held:])
        self.test = x_test, y_test
        self.colours, self.classes = x.shape[1], int(y.max()) + 1
        self.options = options

    def plain(self, width: int, seed: int, *, normalised: bool) -> nn.Module:
        torch.manual_seed(seed)
        channels = (self.colours, *(width * factor for factor in GROWTH))
        return plain_cnn(channels, self.classes, normalised=normalised)

    def spectral(self, seed: int) -> SpectralCNN:
        torch.manual_seed(seed)
        return SpectralCNN([self.colours, *self.options.offered, self.classes])

    def plain_choices(self) -> Iterator[dict]:
        """A middling width with each recipe, judged on held-out images."""
        width = self.options.widths[len(self.options.widths) // 2]
        for normalised, recipe in product((False, True), PLAIN):
            network = self.plain(width, 0, normalised=normalised)
            trained(network, self.training, self.options.choosing, 0, **recipe)
            score = accuracy(network, self.held)
            yield {"normalised": normalised, "recipe": recipe, "held_out": score}

    def spectral_choices(self) -> Iterator[dict]:
        for recipe in SPECTRAL:
            network = trained(self.spectral(0), self.training, self.options.choosing, 0, **recipe)
            yield {
                "recipe": recipe,
                "held_out": accuracy(network, self.held),
                "recruited": network.recruited,
            }

    def spectral_front(self, seed: int, recipe: dict) -> Iterator[dict]:
        """Every rung, and how many epochs it has seen."""
        epochs, start = self.options.epochs, time.perf_counter()
        network = trained(self.spectral(seed), self.training, epochs, seed, **recipe)
        tuning = TrainConfig(
            task="multiclass",
            epochs=self.options.tuning,
            batch_size=BATCH,
            seed=seed,
            capture=self.training[0].is_cuda,
            **TUNING,
        )
        for place, rung in enumerate(rungs(extract(network), self.training, self.held, tuning)):
            yield {
                "seed": seed,
                "parameters": rung.parameters,
                "held_out": rung.score,
                "test": accuracy(rung.network, self.test),
                "epochs": epochs + place * self.options.tuning,
                "architecture": repr(rung.network),
                "recruited": network.recruited,
                "seconds": time.perf_counter() - start,
            }
            if rung.parameters < SMALLEST:
                return

    def plain_points(self, seed: int, choice: dict, front: list[dict]) -> Iterator[dict]:
        """Each width, for as many epochs as the cut network of its size has seen."""
        for width in self.options.widths:
            network = self.plain(width, seed, normalised=choice["normalised"])
            size = folded_count(network)
            epochs = next(
                (p["epochs"] for p in front if p["parameters"] <= size), front[-1]["epochs"]
            )
            trained(network, self.training, epochs, seed, **choice["recipe"])
            yield {
                "seed": seed,
                "width": width,
                "parameters": size,
                "held_out": accuracy(network, self.held),
                "test": accuracy(network, self.test),
                "epochs": epochs,
            }

    def cost(self, network: nn.Module) -> dict:
        """Seconds of an epoch after the first; on a GPU also the peak of memory, not captured."""
        on_gpu = self.training[0].is_cuda
        config = TrainConfig(task="multiclass", epochs=4, batch_size=BATCH, capture=on_gpu)
        layout = torch.channels_last if on_gpu else torch.contiguous_format
        network = network.to(self.training[0].device, memory_format=layout)
        history = train(network, self.training, config, progress=False)
        found = {"epoch_seconds": sorted(history.seconds[1:])[1]}
        if on_gpu:
            found["peak_bytes"] = peak_of_a_step(network, self.training)
        return found


def peak_of_a_step(network: nn.Module, data: Pair) -> int:
    """Bytes beside the images and what was there before."""
    few = data[0][: 4 * BATCH], data[1][: 4 * BATCH]
    before = torch.cuda.memory_allocated()
    config = TrainConfig(task="multiclass", epochs=2, batch_size=BATCH)

    def forget_the_start(history: object) -> None:
        if history.epochs == 1:  # type: ignore[attr-defined]
            torch.cuda.reset_peak_memory_stats()

    train(network, few, config, on_epoch=forget_the_start, progress=False)
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=30, help="of the spectral network")
    parser.add_argument("--tuning", type=int, default=5, help="epochs on each rung")
    parser.add_argument("--choosing", type=int, default=12, help="epochs of a choice")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of the training images, for a quick look")
    parser.add_argument("--offered", type=int, nargs="+", default=OFFERED)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    contest = Contest(options)
    results: dict = {name: [] for name in ("plain_choices", "spectral_choices", "front", "plain")}
    results["epochs"] = options.epochs

    def keep(name: str, rows: Iterator[dict]) -> list[dict]:
        """All of them, recorded one by one."""
        for row in rows:
            print(name, row, flush=True)
            results[name].append(row)
            record("cnn_front", options.device, results, options.out)
        return results[name]

    choice = max(keep("plain_choices", contest.plain_choices()), key=lambda one: one["held_out"])
    recipe = max(keep("spectral_choices", contest.spectral_choices()), key=lambda o: o["held_out"])
    widest = tuple(options.offered)
    colours = contest.colours
    results["cost"] = {
        "plain": contest.cost(plain_cnn((colours, *widest), contest.classes, normalised=False)),
        "spectral": contest.cost(contest.spectral(0)),
    }
    for seed in range(options.seeds):
        front = [
            one
            for one in keep("front", contest.spectral_front(seed, recipe["recipe"]))
            if one["seed"] == seed
        ]
        keep("plain", contest.plain_points(seed, choice, front))


if __name__ == "__main__":
    main()
