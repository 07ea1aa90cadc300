"""Thirteen convolutions offered for a task that needs four: does the search find that out?

Rows of 24 numbers on a ring and three rounds: the larger of two neighbours, then the smaller of two
places that are two apart, then the larger of two that are three apart. Each round is an activation
with its pass-through, max(a, b) = b + relu(a − b): a channel that is active and one that is linear.
So four convolutions are enough, 1 → 1 + 1 → 1 + 1 → 1 + 1 → 1.

A chain of twelve hidden layers of eight channels is searched, trained once and cut rung by rung.
What counts is how deep the smallest network is whose R² on held-out rows is at least 0.999.

    python benchmarks/conv_depth.py
"""

import argparse
from itertools import pairwise
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import ChainCandidate, SpectralChain, TrainConfig, search

LAYERS, CHANNELS, PLACES = 12, 8, 24
ROUNDS = ((torch.maximum, 1), (torch.minimum, 2), (torch.maximum, 3))
ROWS, HELD_OUT = 5000, 1000
ENOUGH = 0.999


def rounds(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """x and y, (rows, 1, places), y standardised."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 1, PLACES, generator=generator)
    y = x
    for choose, apart in ROUNDS:
        y = choose(y, y.roll(apart, -1))
    return x, (y - y.mean()) / y.std()


def offered(seed: int) -> SpectralChain:
    torch.manual_seed(seed)
    maps = [
        nn.Conv1d(here, there, 3, padding=1, padding_mode="circular", bias=False)
        for here, there in pairwise([1, *[CHANNELS] * LAYERS, 1])
    ]
    chain = SpectralChain(maps)
    chain.reset_parameters()
    return chain


def row_of(found: ChainCandidate) -> dict:
    return {
        "architecture": found.architecture,
        "convolutions": len(found.network.layers),
        "kernels": [layer.kernel_size[0] for layer in found.network.layers],
        "parameters": found.parameters,
        "r2": found.score,
    }


def result_of(seed: int, epochs: int) -> dict:
    x, y = rounds(ROWS + HELD_OUT, seed)
    config = TrainConfig(
        epochs=epochs,
        batch_size=128,
        lr=3e-3,
        eigenvalue_lr_scale=10.0,
        transfer_weight_decay=0.1,
        penalty_weight=1e-3,
    )
    result = search(
        x[HELD_OUT:],
        y[HELD_OUT:],
        network=offered(seed),
        validation=(x[:HELD_OUT], y[:HELD_OUT]),
        config=config,
        seed=seed,
        device="cpu",
        progress=False,
    )
    good = [found for found in result.attempts if found.score >= ENOUGH]
    return {
        "seed": seed,
        "recruited": result.trained.recruited,
        "seconds": result.settings["seconds"],
        "smallest": row_of(good[-1]) if good else None,
        "rungs": [row_of(found) for found in result.attempts],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = {"layers": LAYERS, "channels": CHANNELS, "epochs": options.epochs, "runs": []}
    for seed in range(options.seeds):
        results["runs"].append(result_of(seed, options.epochs))
        print(results["runs"][-1], flush=True)
        record("conv_depth", "cpu", results, options.out)


if __name__ == "__main__":
    main()
