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
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor, nn

from torchsparcs import SpectralNetwork, spectral

DEPTHS = [3, 4, 6, 8, 10, 14, 18]  # layers, input and output counted
NARROW = [
    ([20, 200, 200, 20], 64),
    ([20, 200, 200, 20], 1024),
    ([784, 500, 500, 10], 64),
    ([784, 500, 500, 10], 1024),
]


def mlp(widths: list[int]) -> nn.Module:
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out, bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Skips(nn.Module):
    """An MLP with an independent weight on every skip connection."""

    def __init__(self, widths: list[int]):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(widths[j], widths[i], bias=False) for j in range(i))
            for i in range(1, len(widths))
        )

    def forward(self, x: Tensor) -> Tensor:
        activities = [x]
        for row in self.blocks:
            pre = sum(block(a) for block, a in zip(row, activities, strict=True))
            if row is not self.blocks[-1]:
                activities.append(torch.relu(pre))
        return pre


class Blocks(SpectralNetwork):
    """The same network, computed from the paper's eq. blocks_general_case, block by block."""

    def forward(self, x: Tensor) -> Tensor:
        activities = [x]
        for i in range(1, len(self.widths)):
            pre = sum(a @ self.weight_block(i, j).mT for j, a in enumerate(activities))
            if i < len(self.widths) - 1:
                activities.append(torch.relu(pre))
        return pre


class Anchored(SpectralNetwork):
    """The same network with the choice of where to fold taken away from it."""

    anchors: tuple[int, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        transfers, eigenvalues = list(self.transfers), self.eigenvalues
        return spectral.feedforward(
            x, transfers, eigenvalues, self.activation, anchors=self.anchors, input_is_silent=True
        )


def recruited(network: SpectralNetwork) -> SpectralNetwork:
    for eigenvalues in network.hidden_eigenvalues:
        nn.init.normal_(eigenvalues, std=0.5)
    return network


def recursion(widths: list[int]) -> nn.Module:
    network = recruited(Anchored(widths, bias=False))
    network.anchors = tuple(range(1, len(widths) - 1))
    return network


NETWORKS: dict[str, Callable[[list[int]], nn.Module]] = {
    "mlp": mlp,
    "spectral": lambda widths: recruited(SpectralNetwork(widths, bias=False)),
    "blocks": lambda widths: recruited(Blocks(widths, bias=False)),
    "skips": Skips,
    "recursion": recursion,
    "folded": lambda widths: recruited(Anchored(widths, bias=False)),
}


def measure(widths: list[int], batch: int, names: list[str], device: str, seconds: float) -> dict:
    """Median seconds of a step and activation memory of each network, the networks taking turns."""
    x = torch.randn(batch, widths[0], device=device)
    steps, memory = {}, {}
    for name in names:
        torch.manual_seed(0)
        torch._dynamo.reset()
        network = NETWORKS[name](widths).to(device)
        forward = torch.compile(network, fullgraph=True) if device == "cuda" else network
        gradient = torch.randn(batch, widths[-1], device=device)

        def step(forward=forward, network=network, gradient=gradient) -> None:
            network.zero_grad(set_to_none=True)
            forward(x).backward(gradient)

        for _ in range(3):
            step()
        memory[name] = activation_bytes(step, network, forward, x)
        steps[name] = captured(step) if device == "cuda" else step
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[names[0]]) < 5:
        for name, step in steps.items():
            times[name].append(timed(step, device))
    return {name: {"seconds": sorted(t)[len(t) // 2], **memory[name]} for name, t in times.items()}


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph, so that the GPU's work is timed and not the launching of it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(alive: Callable[[], None] = step) -> None:
        """``alive`` keeps the network whose memory the graph works on."""
        graph.replay()

    return replay


def timed(step: Callable[[], None], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    repeats = 5
    for _ in range(repeats):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def activation_bytes(step: Callable, network: nn.Module, forward: Callable, x: Tensor) -> dict:
    """What autograd keeps for the backward pass and, on CUDA, the peak of a whole step.

    Parameters and their gradients are not counted in either; compiled graphs do not show what
    they keep, so on CUDA only the peak is told.
    """
    if x.device.type == "cuda":
        step()  # leaves the gradients of the last step behind, which the next one replaces
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return {"peak_bytes": torch.cuda.max_memory_allocated() - before}
    own = {p.untyped_storage().data_ptr() for p in network.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and x.shape[0] in tensor.shape:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = forward(x)
    del output
    return {"saved_bytes": sum(kept.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=4.0, help="time spent on each shape")
    parser.add_argument("--layers", type=int, nargs="*", default=DEPTHS)
    parser.add_argument("--precision", default="highest", choices=["highest", "high"])
    parser.add_argument("--quick", action="store_true", help="two depths, one narrow shape")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = arguments.device
    # glibc hands freed memory back to the system until it has once freed a large block; without
    # this, page faults would be timed instead of arithmetic
    torch.empty(30 * 2**20, dtype=torch.uint8)
    width, batch = (256, 1024) if device == "cpu" else (1024, 4096)
    depths, narrow = ([3, 6], NARROW[:1]) if arguments.quick else (arguments.layers, NARROW)
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
