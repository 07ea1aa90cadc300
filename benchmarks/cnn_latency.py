"""Is a convolutional network that was cut faster on the clock than what it was cut from?

Networks with the channels that benchmarks/cnn_front.py found under its first seed, untrained,
beside the spectral network they were cut from and plain CNNs of several widths: images of 32 by 32
on one core, in torch and in onnxruntime. Run it on a quiet machine.

    python benchmarks/cnn_latency.py
"""

import argparse
import json
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import torch
from cnn_front import GROWTH, OFFERED, WIDTHS, plain_cnn
from latency import microseconds, onnx_call
from recording import RESULTS, record
from torch import nn

from torchsparcs import CompactChain, Pooled, SpectralCNN

STRIDES = (1, 2, 1, 2, 1)
COLOURS, CLASSES = 3, 10


def compact(architecture: str) -> CompactChain:
    """Plain layers with so many active and linear channels.

    >>> compact("3 → 4 + 2 → 8 + 0 → 8 + 1 → 8 + 0 → 8 + 0 → 10").active
    (4, 8, 8, 8, 8, 0)
    """
    between = re.findall(r"(\d+) \+ (\d+)", architecture)
    active = [int(first) for first, _ in between]
    sizes = [COLOURS, *(int(first) + int(second) for first, second in between)]
    layers: list[nn.Module] = [
        nn.Conv2d(here, there, 3, stride=stride, padding=1)
        for (here, there), stride in zip(pairwise(sizes), STRIDES, strict=True)
    ]
    return CompactChain([*layers, Pooled(sizes[-1], CLASSES, bias=True)], [*active, 0])


def networks(front: list[dict], sizes: list[int]) -> dict[str, nn.Module]:
    spectral = SpectralCNN([3, *OFFERED, CLASSES], normalise=False)
    found: dict[str, nn.Module] = {"spectral, as trained": spectral}
    for size in sizes:
        row = min(front, key=lambda one: abs(one["parameters"] - size))
        found[f"cut, {row['parameters']:,} parameters"] = compact(row["architecture"])
    for width in sorted(WIDTHS):
        channels = (COLOURS, *(width * factor for factor in GROWTH))
        network = plain_cnn(channels, CLASSES, normalised=False)
        count = sum(p.numel() for p in network.parameters())
        found[f"plain, {count:,} parameters"] = network
    return found


@torch.inference_mode()
def times(network: nn.Module, batch: int, seconds: float, folder: Path) -> dict:
    x = torch.randn(batch, COLOURS, 32, 32)
    with torch.inference_mode(False):
        in_onnx = onnx_call(network, x, folder)
    return {
        "batch": batch,
        "torch": microseconds(lambda: network(x), seconds),
        "onnxruntime": microseconds(in_onnx, seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each number")
    parser.add_argument("--front", type=Path, default=RESULTS / "cnn_front.json")
    parser.add_argument("--sizes", type=int, nargs="+", default=[300_000, 150_000, 70_000, 50_000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    recorded = next(iter(json.loads(options.front.read_text()).values()))
    front = [one for one in recorded["front"] if one["seed"] == 0]
    results: dict = {"unit": "microseconds per call, median", "networks": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, network in networks(front, options.sizes).items():
            results["networks"][name] = [
                times(network.eval(), batch, options.seconds, Path(folder)) for batch in (1, 64)
            ]
            print(name, results["networks"][name], flush=True)
    record("cnn_latency", "cpu", results, options.out)


if __name__ == "__main__":
    main()
