"""What does a spectral network cost beside a plain MLP, and beside its blocks formed?

Forward and backward, one script run, networks of the same widths and no bias:
    mlp        a plain MLP without skip connections
    spectral   SpectralNetwork as it is
    blocks     the same function with every W_ij formed as the paper writes it, each by itself
    folded     the same with the products that the blocks share formed once
    skips      an MLP with an independent weight on every skip connection
    recursion  (narrow-ended shapes) the same function with every z formed

    python benchmarks/forward_cost.py                  # CPU, eager
    python benchmarks/forward_cost.py --device cuda    # compiled, and captured as CUDA graphs
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import SpectralNetwork
from torchsparcs.experiments.peers import BlockNetwork, DirectNetwork, recruited
from torchsparcs.experiments.scaling import (
    captured,
    keep_page_faults_out,
    kept_bytes,
    median_seconds,
    peak_bytes,
)
from torchsparcs.spectral import equations as spectral

DEPTHS = [3, 4, 6, 8, 10, 14, 18]  # layers, input and output counted
NARROW = [
    ([20, 200, 200, 20], 64),
    ([20, 200, 200, 20], 1024),
    ([784, 500, 500, 10], 64),
    ([784, 500, 500, 10], 1024),
]


def plain_mlp(widths: Sequence[int]) -> nn.Module:
    """An MLP without skip connections and without biases."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out, bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Anchored(SpectralNetwork):
    """The same network with the choice of where to fold taken away from it."""

    anchors: tuple[int, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        transfers, eigenvalues = list(self.transfers), self.eigenvalues
        return spectral.feedforward(
            x, transfers, eigenvalues, self.activation, anchors=self.anchors, input_is_silent=True
        )


def recursion(widths: list[int]) -> nn.Module:
    network = recruited(Anchored(widths, bias=False))
    network.anchors = tuple(range(1, len(widths) - 1))
    return network


NETWORKS: dict[str, Callable[[list[int]], nn.Module]] = {
    "mlp": plain_mlp,
    "spectral": lambda widths: recruited(SpectralNetwork(widths, bias=False)),
    "blocks": lambda widths: recruited(BlockNetwork(widths, bias=False)),
    "skips": DirectNetwork,
    "recursion": recursion,
    "folded": lambda widths: recruited(Anchored(widths, bias=False)),
}


def measure(widths: list[int], batch: int, names: list[str], device: str, seconds: float) -> dict:
    """Median seconds of a step and activation memory of each network, the networks taking turns."""
    x = torch.randn(batch, widths[0], device=device)
    steps, memory = {}, {}
    for name in names:
        torch.manual_seed(0)
        forward = network = NETWORKS[name](widths).to(device)
        if device == "cuda":
            torch._dynamo.reset()
            forward = torch.compile(network, fullgraph=True)
        gradient = torch.randn(batch, widths[-1], device=device)

        def step(forward=forward, network=network, gradient=gradient) -> None:
            network.zero_grad(set_to_none=True)
            forward(x).backward(gradient)

        for _ in range(3):
            step()
        # compiled graphs do not show what they keep, so on CUDA the peak of a step is told
        if device == "cuda":
            memory[name] = {"peak_bytes": peak_bytes(step)}
            steps[name] = captured(step)
        else:
            memory[name] = {"saved_bytes": kept_bytes(network, x)["activations"]}
            steps[name] = step
    times = median_seconds(steps, seconds)
    return {name: {"seconds": taken, **memory[name]} for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=4.0, help="time spent on each shape")
    parser.add_argument("--layers", type=int, nargs="*", default=DEPTHS)
    parser.add_argument("--precision", default="highest", choices=["highest", "high"])
    parser.add_argument(
        "--quick", action="store_true", help="two depths, one narrow shape, small layers"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = arguments.device
    keep_page_faults_out()
    width, batch = (256, 1024) if device == "cpu" else (1024, 4096)
    depths, narrow = arguments.layers, NARROW
    if arguments.quick:
        width, batch, depths, narrow = 64, 64, [3, 6], NARROW[:1]
    torch.set_float32_matmul_precision(arguments.precision)

    depth_rows = []
    for layers in depths:
        names = ["mlp", "spectral", "skips", "blocks", "folded"]
        if device == "cuda" and layers > 10:
            names = names[:2]  # the others take minutes to compile
        row = measure([width] * layers, batch, names, device, arguments.seconds)
        depth_rows.append({"layers": layers, "width": width, "batch": batch, **row})
        ratio = {name: row[name]["seconds"] / row["mlp"]["seconds"] for name in names}
        key = next(key for key in row["mlp"] if key != "seconds")
        memory = row["spectral"][key] / row["mlp"][key]
        shown = ", ".join(f"{name} {value:.2f}x" for name, value in ratio.items())
        print(f"{layers} layers: {shown}; memory {memory:.2f}x", flush=True)
    narrow_rows = []
    for widths, rows in narrow:
        names = ["mlp", "spectral", "recursion", "folded", "blocks"]
        row = measure(widths, rows, names, device, arguments.seconds)
        narrow_rows.append({"widths": widths, "batch": rows, **row})
        others = ("recursion", "blocks", "folded")
        fastest = min(row[name]["seconds"] for name in others)
        print(
            f"{widths} batch {rows}: spectral {row['spectral']['seconds'] / fastest:.2f}x of the "
            "fastest of recursion, blocks and folded",
            flush=True,
        )
    threads = torch.get_num_threads()
    results = {"threads": threads, "precision": arguments.precision}
    if len(depth_rows) > 1:
        # at most linear: the cost of one more layer does not grow with the depth
        per_layer = {
            row["layers"]: row["spectral"]["seconds"] / (2 * row["layers"] - 4)
            for row in depth_rows
            if row["layers"] >= 4
        }
        results["seconds_per_product"] = per_layer
        print("seconds per product:", {k: f"{v:.3g}" for k, v in per_layer.items()})
    results |= {"depth": depth_rows, "narrow": narrow_rows}
    suffix = "" if arguments.precision == "highest" else "_tf32"
    print(record("forward_cost", device + suffix, results, arguments.out))


if __name__ == "__main__":
    main()
