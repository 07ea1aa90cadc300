"""A batch-normalised CNN cut by what its channels cost, beside plain ones of as many multiply-adds.

The contest of ``cnn_front.py``, CIFAR-10 without augmentation, by multiply-adds of an image: a
plain CNN with batch normalisation is trained wide and cut rung by rung as ``extract_front(...,
size="macs")`` does it, itself the teacher of what is left; narrower ones of the same layers are
trained from scratch for as many epochs as it has seen when it has come down to their size. Recipes
are chosen at each width on held-out training images; test images decide nothing.

    python benchmarks/cnn_macs.py --data cifar10.npz --device cuda --workers 3
    python benchmarks/cnn_macs.py --data cifar10.npz --quick --out FOLDER  # does all of it run?
"""

import argparse
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import torch
from cnn_front import (
    PLAIN,
    Contest,
    accuracy,
    folded_count,
    plain_macs,
    recipe_of,
    trained,
)
from recording import RESULTS
from rounds import Job, Rounds
from torch import nn

from torchsparcs.cutting.ladder import RefineConfig
from torchsparcs.cutting.model_ladder import SHRINK, model_rungs
from torchsparcs.cutting.units import block_cuts

WIDEST = 48  # channels of the first layer of the one that is cut
WIDTHS = (40, 28, 20, 14, 10, 8)  # of the others
SMALLEST = 2_000_000  # multiply-adds at which the cutting ends
TUNING_SHARE = 6  # as many epochs of the training for the fine-tuning of a rung
RECIPES = [recipe for is_normalised, recipe in PLAIN if is_normalised]
QUICK = {"rows": 60, "seeds": 1, "epochs": 1, "choosing": 1, "widest": 4, "widths": [2]} | {
    "smallest": 10**5
}


class CutContest(Contest):
    """The images of ``cnn_front.py``, and networks that are cut by multiply-adds."""

    def __init__(self, options: argparse.Namespace):
        super().__init__(options)
        self.tuning = max(1, options.epochs // TUNING_SHARE)

    def choice(self, width: int, recipe: dict) -> Iterator[dict]:
        yield from self.plain_choice(width, True, recipe)

    def front(self, seed: int, recipe: dict) -> Iterator[dict]:
        """Every rung, and how many epochs it has seen."""
        epochs, images = self.options.epochs, self.held[0][:1]
        network = self.plain(self.options.widest, seed, normalised=True)
        network = trained(network, self.training, recipe_of(self.training, epochs, seed, **recipe))
        cuts = block_cuts(network, self.training, self.held, "multiclass", None, "macs")
        tuning = RefineConfig(epochs=self.tuning, batch_size=256, seed=seed).tuning(
            "multiclass", schedule="warm_cosine", weight_decay=recipe["weight_decay"]
        )
        teaching = RefineConfig().teaching
        rungs = model_rungs(network, self.training, self.held, tuning, cuts=cuts, teaching=teaching)
        for place, rung in enumerate(rungs):
            seen = epochs + place * self.tuning
            yield {"seed": seed, "epochs": seen, **self.judged(rung.network)}
            if plain_macs(rung.network, images) < self.options.smallest:
                return

    def narrow(self, width: int, seed: int, recipe: dict) -> Iterator[dict]:
        network, whole = (
            self.plain(each, seed, normalised=True) for each in (width, self.options.widest)
        )
        macs = [plain_macs(each, self.held[0][:1]) for each in (network, whole)]
        rungs = math.ceil(math.log(macs[0] / macs[1], SHRINK))
        epochs = self.options.epochs + rungs * self.tuning
        trained(network, self.training, recipe_of(self.training, epochs, seed, **recipe))
        yield {"seed": seed, "width": width, "epochs": epochs, **self.judged(network)}

    def judged(self, network: nn.Module) -> dict:
        return {
            "parameters": folded_count(network),
            "macs": plain_macs(network, self.held[0][:1]),
            "held_out": accuracy(network, self.held),
            "test": accuracy(network, self.test),
        }


@lru_cache
def contest_of(options: tuple) -> CutContest:
    """The contest, made once in each process."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    return CutContest(argparse.Namespace(**dict(options)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=30, help="of the network that is cut")
    parser.add_argument("--choosing", type=int, default=20, help="epochs of a choice")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the device")
    parser.add_argument("--rows", type=int, help="of the training images at most")
    parser.add_argument("--widest", type=int, default=WIDEST)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--smallest", type=int, default=SMALLEST)
    parser.add_argument("--quick", action="store_true", help="one seed, few and narrow networks")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what is recorded already")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
        if options.out == RESULTS:
            parser.error("--quick is no record: name another folder by --out")
    recipes = RECIPES[:1] if options.quick else RECIPES
    names = ("epochs", "choosing", "seeds", "rows", "widest", "widths", "smallest")
    rounds = Rounds(
        "cnn_macs",
        contest_of,
        tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in vars(options).items()),
        device=options.device,
        settings={**{name: getattr(options, name) for name in names}, "recipes": recipes},
        out=options.out,
        workers=options.workers,
        resume=options.resume,
    )
    widths, seeds = (options.widest, *options.widths), range(options.seeds)
    found = rounds.play(
        [Job("choices", "choice", (width, recipe)) for width, recipe in product(widths, recipes)]
    )
    best = {}
    for width in widths:
        choices = [one for one in found["choices"] if one["width"] == width]
        best[width] = max(choices, key=lambda one: one["held_out"])["recipe"]
    rounds.play(
        [Job("front", "front", (seed, best[options.widest])) for seed in seeds]
        + [
            Job("plain", "narrow", (width, seed, best[width]))
            for width, seed in product(options.widths, seeds)
        ]
    )


if __name__ == "__main__":
    main()
