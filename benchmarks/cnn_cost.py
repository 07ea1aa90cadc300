"""What it costs to train a spectral CNN, beside plain CNNs of the same widths.

Images of 32 by 32 at random: neither time nor memory depends on what they show. Seconds are those
of an epoch after the first, on a GPU with the step captured; memory is the peak of a step beside
the images, not captured.

    python benchmarks/cnn_cost.py --device cuda
"""

import argparse
import statistics
from itertools import product
from pathlib import Path

import torch
from cnn_front import BATCH, OFFERED, plain_cnn
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import History, SpectralCNN, TrainConfig, train

COLOURS, CLASSES = 3, 10

Pair = tuple[Tensor, Tensor]


def images(rows: int, device: str) -> Pair:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, COLOURS, 32, 32, generator=generator)
    y = torch.randint(CLASSES, (rows,), generator=generator)
    return x.to(device, memory_format=torch.channels_last), y.to(device)


def cost(network: nn.Module, data: Pair) -> dict:
    on_gpu = data[0].is_cuda
    config = TrainConfig(task="multiclass", epochs=5, batch_size=BATCH, capture=on_gpu)
    network = network.to(data[0].device, memory_format=torch.channels_last)
    history = train(network, data, config, progress=False)
    found = {"epoch_seconds": statistics.median(history.seconds[1:])}
    if on_gpu:
        found["peak_bytes"] = peak_of_a_step(network, data)
    return found


def peak_of_a_step(network: nn.Module, data: Pair) -> int:
    """Bytes beside the images and what was there before."""
    few = data[0][: 4 * BATCH], data[1][: 4 * BATCH]
    before = torch.cuda.memory_allocated()

    def forget_the_start(history: History) -> None:
        if history.epochs == 1:
            torch.cuda.reset_peak_memory_stats()

    config = TrainConfig(task="multiclass", epochs=2, batch_size=BATCH)
    train(network, few, config, on_epoch=forget_the_start, progress=False)
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--offered", type=int, nargs="+", default=OFFERED)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    data, channels = images(options.rows, options.device), (COLOURS, *options.offered)
    networks = {
        "plain": lambda: plain_cnn(channels, CLASSES, normalised=False),
        "plain, normalised": lambda: plain_cnn(channels, CLASSES, normalised=True),
        "spectral": lambda: SpectralCNN([*channels, CLASSES], normalise=False),
        "spectral, normalised": lambda: SpectralCNN([*channels, CLASSES], normalise=True),
    }
    results: dict = {"rows": options.rows, "channels": channels, "batch_size": BATCH}
    for name, build in networks.items():
        torch.manual_seed(0)
        results[name] = cost(build(), data)
        print(name, results[name], flush=True)
    for kind, measure in product(("", ", normalised"), results["plain"]):
        ratio = results[f"spectral{kind}"][measure] / results[f"plain{kind}"][measure]
        results[f"spectral_to_plain{kind}_{measure}".replace(", ", "_")] = ratio
    record("cnn_cost", options.device, results, options.out)
    print({name: round(value, 2) for name, value in results.items() if "_to_" in name})


if __name__ == "__main__":
    main()
