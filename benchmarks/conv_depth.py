"""Twelve convolutions offered for a task that needs four: are the others found to be needless?

Rows of 24 numbers on a ring; the target at each place is the largest of eight neighbours,
y_i = max(x_{i−3}, .., x_{i+4}). To compare the two ends within one activation takes a reach of
eight places, and d kernels of three have one of 2d + 1: four hidden layers at least. Four are
enough: each takes the maximum of two places, max(a, b) = b + relu(a − b), with one active and one
linear channel.

A chain of twelve hidden layers of eight channels is trained, extracted and cut rung by rung. What
counts is the smallest network whose R² on held-out rows is at least 0.999.

    python benchmarks/conv_depth.py
"""

import argparse
import math
import time
from itertools import pairwise
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import SpectralChain, TrainConfig, evaluate, extract, train
from torchsparcs.chain_refinement import rungs

LAYERS, CHANNELS, PLACES = 12, 8, 24
ROWS, HELD_OUT = 6000, 1000
ENOUGH = 0.999


def windows(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """x and y, (rows, 1, places), y standardised."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 1, PLACES, generator=generator)
    y = torch.stack([x.roll(shift, -1) for shift in range(-4, 4)]).amax(dim=0)
    return x, (y - y.mean()) / y.std()


def offered(seed: int) -> SpectralChain:
    torch.manual_seed(seed)
    sizes = [1, *[CHANNELS] * LAYERS, 1]
    maps = [
        nn.Conv1d(here, there, 3, padding=1, padding_mode="circular", bias=False)
        for here, there in pairwise(sizes)
    ]
    for one in maps:
        pairs = math.sqrt(one.in_channels * one.out_channels)
        nn.init.normal_(one.weight, std=1 / math.sqrt(3 * pairs))
    return SpectralChain(maps)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Of targets with variance one: 1 − R²."""
    return (output - target).square().mean()


def result_of(seed: int, epochs: int) -> dict:
    x, y = windows(ROWS, seed)
    data, held = (x[HELD_OUT:], y[HELD_OUT:]), (x[:HELD_OUT], y[:HELD_OUT])
    network = offered(seed)
    start = time.perf_counter()
    config = TrainConfig(
        task=squared_error,
        epochs=epochs,
        batch_size=128,
        lr=3e-3,
        eigenvalue_lr_scale=10.0,
        transfer_weight_decay=0.1,
        penalty_weight=1e-3,
        seed=seed,
    )
    train(network, data, config, progress=False)
    tuning = TrainConfig(
        task=squared_error, epochs=6, batch_size=128, lr=2e-3, schedule="warm_cosine", seed=seed
    )
    found = [
        {
            "architecture": repr(rung.network),
            "hidden_layers": len(rung.network.layers) - 1,
            "active": list(rung.network.active[:-1]),
            "parameters": rung.parameters,
            "r2": 1 - rung.loss,
        }
        for rung in rungs(extract(network), data, held, tuning)
    ]
    return {
        "seed": seed,
        "trained_r2": 1 - evaluate(network, held, squared_error).loss,
        "recruited": network.recruited,
        "seconds": time.perf_counter() - start,
        "smallest": [one for one in found if one["r2"] >= ENOUGH][-1:],
        "rungs": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = {"layers": LAYERS, "channels": CHANNELS, "epochs": options.epochs, "runs": []}
    for seed in range(options.seeds):
        results["runs"].append(result_of(seed, options.epochs))
        print(seed, results["runs"][-1]["trained_r2"], results["runs"][-1]["smallest"], flush=True)
        record("conv_depth", "cpu", results, options.out)


if __name__ == "__main__":
    main()
