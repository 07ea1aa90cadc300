"""A spectral CNN searched from scratch on CIFAR-10, beside plain CNNs of several widths.

No augmentation. One spectral network is trained, extracted and cut rung by rung as ``search`` does
it; every rung is a point of its front. The plain networks have the same strides and a width each,
with and without batch normalisation (which folds away); they are trained for as many epochs as the
network of the search has seen when it has come down to their size. Recipes are chosen on held-out
training images, for each plain width and for the spectral network as trained; learning rates, and
how the cut networks are fine-tuned, were looked at before, on the same images. Test images decide
nothing.

    python benchmarks/cnn_front.py --data cifar10.npz --device cuda --workers 3
"""

import argparse
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path

import torch
from recording import RESULTS
from rounds import Job, Rounds
from torch import Tensor, nn

from torchsparcs import SpectralCNN, TrainConfig, evaluate, extract, train
from torchsparcs.cutting.model_ladder import HASTE, SHRINK, model_rungs
from torchsparcs.images.datasets import load_images
from torchsparcs.searching.network_search import tuning_of

OFFERED = (48, 96, 96, 192, 192)  # channels of the spectral network
WIDTHS = (32, 8, 16, 24)  # of the first layer of the plain ones
GROWTH = (1, 2, 2, 4, 4)  # of the layers after it
LARGEST = 300_000  # parameters that are asked for
SMALLEST = 17_000  # parameters at which the cutting ends
BATCH = 256
AT_ONCE = 1000  # images that are judged together
HELD_OUT = 5000

PLAIN = [  # choices
    (normalised, {"lr": 3e-3, "weight_decay": decay})
    for normalised, decays in ((False, (0.005, 0.05)), (True, (0.05, 0.2, 0.5, 1.0, 2.0)))
    for decay in decays
]
SPECTRAL = [
    {"normalise": normalise, "lr": 2e-3, "transfer_weight_decay": decay}
    for normalise, decay in ((False, 1.0), (True, 8.0), (True, 16.0), (True, 32.0))
]

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


def recipe_of(data: Pair, epochs: int, seed: int, **recipe: float) -> TrainConfig:
    return TrainConfig(
        task="multiclass",
        epochs=epochs,
        batch_size=BATCH,
        seed=seed,
        capture=data[0].is_cuda,
        **recipe,
    )


def trained(network: nn.Module, data: Pair, config: TrainConfig) -> nn.Module:
    layout = torch.channels_last if data[0].is_cuda else torch.contiguous_format
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

    def spectral(
        self, epochs: int, seed: int, normalise: bool, **recipe: float
    ) -> tuple[SpectralCNN, TrainConfig]:
        torch.manual_seed(seed)
        channels = [self.colours, *self.options.offered, self.classes]
        config = recipe_of(self.training, epochs, seed, **recipe)
        return trained(SpectralCNN(channels, normalise=normalise), self.training, config), config

    def plain_choice(self, width: int, normalised: bool, recipe: dict) -> Iterator[dict]:
        """Judged on held-out images."""
        network = self.plain(width, 0, normalised=normalised)
        config = recipe_of(self.training, self.options.choosing, 0, **recipe)
        score = accuracy(trained(network, self.training, config), self.held)
        yield {"width": width, "normalised": normalised, "recipe": recipe, "held_out": score}

    def spectral_choice(self, recipe: dict) -> Iterator[dict]:
        network, _ = self.spectral(self.options.choosing, 0, **recipe)
        score = accuracy(network, self.held)
        yield {"recipe": recipe, "held_out": score, "recruited": network.recruited}

    def spectral_front(self, seed: int, recipe: dict) -> Iterator[dict]:
        """Every rung, and how many epochs it has seen."""
        epochs, start = self.options.epochs, time.perf_counter()
        network, config = self.spectral(epochs, seed, **recipe)
        tuning = tuning_of(config, normalise=network.normalise)
        rungs = model_rungs(
            extract(network),
            self.training,
            self.held,
            tuning,
            normalise=network.normalise,
            through=LARGEST,
        )
        for place, rung in enumerate(rungs):
            yield {
                "seed": seed,
                "parameters": rung.parameters,
                "macs": rung.network.macs(self.held[0][:1]),
                "held_out": rung.judgement.score,
                "test": accuracy(rung.network, self.test),
                "epochs": epochs + place * tuning.epochs,
                "architecture": rung.network.architecture,
                "recruited": network.recruited,
                "seconds": time.perf_counter() - start,
            }
            if rung.parameters < self.options.smallest:
                return

    def plain_point(self, width: int, seed: int, normalised: bool, recipe: dict) -> Iterator[dict]:
        network = self.plain(width, seed, normalised=normalised)
        size = folded_count(network)
        own = self.options.epochs
        tuning = tuning_of(recipe_of(self.training, own, seed), normalise=True)
        epochs = own + rungs_to(size, self.whole_size()) * tuning.epochs
        config = recipe_of(self.training, epochs, seed, **recipe)
        trained(network, self.training, config)
        yield {
            "seed": seed,
            "width": width,
            "normalised": normalised,
            "recipe": recipe,
            "parameters": size,
            "macs": plain_macs(network, self.held[0][:1]),
            "held_out": accuracy(network, self.held),
            "test": accuracy(network, self.test),
            "epochs": epochs,
        }

    def whole_size(self) -> int:
        """Parameters of the spectral network extracted with every channel recruited."""
        network = SpectralCNN([self.colours, *self.options.offered, self.classes])
        for values in network.hidden_eigenvalues:
            nn.init.normal_(values)
        return extract(network).parameter_count


def rungs_to(parameters: int, size: float) -> int:
    """How many rungs a search from ``size`` takes to come down to so many parameters."""
    count = 0
    while size > parameters:
        size = max(LARGEST, HASTE * size) if size > LARGEST else SHRINK * size
        count += 1
    return count


def plain_macs(network: nn.Module, example: Tensor) -> int:
    """Multiply-adds for one image; normalisation is folded away."""
    found: list[int] = []

    def count(part: nn.Module, _: object, output: Tensor) -> None:
        found.append(part.weight.numel() * output.numel() // part.weight.shape[0])

    hooks = [
        part.register_forward_hook(count)
        for part in network.modules()
        if isinstance(part, (nn.Conv2d, nn.Linear))
    ]
    with torch.no_grad():
        network.eval()(example)
    for hook in hooks:
        hook.remove()
    return sum(found)


@lru_cache
def contest_of(options: tuple) -> Contest:
    """The contest, made once in each process."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    return Contest(argparse.Namespace(**dict(options)))


def settings_of(options: argparse.Namespace) -> dict:
    """What the rows depend on."""
    names = ("epochs", "choosing", "seeds", "rows", "offered", "widths", "smallest")
    recipes = {"plain_recipes": PLAIN, "spectral_recipes": SPECTRAL}
    return {**{name: getattr(options, name) for name in names}, **recipes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=30, help="of the spectral network")
    parser.add_argument("--choosing", type=int, default=20, help="epochs of a choice")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the device")
    parser.add_argument("--rows", type=int, help="of the training images, for a quick look")
    parser.add_argument("--offered", type=int, nargs="+", default=OFFERED)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--smallest", type=int, default=SMALLEST)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what is recorded already")
    options = parser.parse_args()
    shared = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in vars(options).items())
    rounds = Rounds(
        "cnn_front",
        contest_of,
        shared,
        device=options.device,
        settings=settings_of(options),
        out=options.out,
        workers=options.workers,
        resume=options.resume,
    )
    found = rounds.play(
        [Job("spectral_choices", "spectral_choice", (recipe,)) for recipe in SPECTRAL]
    )
    recipe = max(found["spectral_choices"], key=lambda one: one["held_out"])["recipe"]
    seeds = range(options.seeds)
    found = rounds.play(
        [Job("front", "spectral_front", (seed, recipe)) for seed in seeds]
        + [
            Job("plain_choices", "plain_choice", (width, *choice))
            for width, choice in product(options.widths, PLAIN)
        ]
    )
    points = []
    for width, normalised in product(options.widths, (False, True)):
        choices = [
            one
            for one in found["plain_choices"]
            if (one["width"], one["normalised"]) == (width, normalised)
        ]
        recipe = max(choices, key=lambda one: one["held_out"])["recipe"]
        points += [Job("plain", "plain_point", (width, seed, normalised, recipe)) for seed in seeds]
    rounds.play(points)


if __name__ == "__main__":
    main()
