"""What does the search among all architectures of a depth cost, spectral and direct?

Layers of one width, every skip connection allowed. The paper counts parameters; here the time and
the memory of a training step are measured as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Claim, Experiment
from torchsparcs.experiments.measuring import (
    Step,
    captured,
    keep_page_faults_out,
    kept_bytes,
    median_seconds,
    peak_bytes,
)
from torchsparcs.experiments.peers import BlockNetwork, DirectNetwork, recruited
from torchsparcs.experiments.work import Content, Work
from torchsparcs.report.document import markdown_table
from torchsparcs.spectral.equations import direct_parameter_count, spectral_parameter_count
from torchsparcs.spectral.network import SpectralNetwork

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Setting:
    """The paper's width; ``measured`` are the depths at which steps are timed."""

    width: int = 100
    counted: tuple[int, ...] = tuple(range(2, 21))
    measured: tuple[int, ...] = (2, 3, 4, 6, 8, 10, 14, 18)
    batch: int = 1024
    seconds: float = 6.0  # spent on each depth


QUICK = Setting(measured=(2, 3, 4, 6, 10), seconds=3.0)


class Peer(NamedTuple):
    """A way to hold the network, and how it is drawn."""

    name: str
    colour: str
    build: Callable[[Sequence[int]], nn.Module]


PEERS = {
    "spectral": Peer(
        "spectral", plots.ORANGE, lambda widths: recruited(SpectralNetwork(widths, bias=False))
    ),
    "direct": Peer("direct, every connection a weight", plots.BLUE, DirectNetwork),
    "blocks": Peer(
        "spectral, blocks formed as in the paper",
        plots.PURPLE,
        lambda widths: recruited(BlockNetwork(widths, bias=False)),
    ),
}


def run(setting: Setting, work: Work) -> Content:
    counts = [
        {
            "layers": layers,
            "spectral": spectral_parameter_count([setting.width] * layers),
            "direct": direct_parameter_count([setting.width] * layers),
        }
        for layers in setting.counted
    ]
    keep_page_faults_out()
    measured = [
        work.part(f"{layers} layers", partial(_measured, layers, setting, work))
        for layers in setting.measured
    ]
    return {"counts": counts, "measured": measured, "device": work.device.type}


def _measured(layers: int, setting: Setting, work: Work) -> Content:
    device = work.device.type
    x = torch.randn(setting.batch, setting.width, device=device)
    target = torch.randn(setting.batch, setting.width, device=device)
    steps: dict[str, Step] = {}
    row: Content = {"layers": layers}
    for name, peer in PEERS.items():
        torch.manual_seed(0)
        network = peer.build([setting.width] * layers).to(device)
        optimizer = torch.optim.Adam(network.parameters(), capturable=work.on_gpu)

        def step(network: nn.Module = network, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad(set_to_none=True)
            (network(x) - target).square().mean().backward()
            optimizer.step()

        step()
        state = 4 * sum(p.numel() * p.element_size() for p in network.parameters())
        row[name] = {
            "parameters": sum(p.numel() for p in network.parameters()),
            "state_bytes": state,  # parameters, gradients, both moments of Adam
            "kept_bytes": sum(kept_bytes(network, x).values()),
        }
        if work.on_gpu:
            row[name]["peak_bytes"] = peak_bytes(step)
        steps[name] = captured(step) if work.on_gpu else step
    for name, seconds in median_seconds(steps, device, setting.seconds).items():
        row[name]["seconds"] = seconds
    return row


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    counts, measured = (content["results"][key] for key in ("counts", "measured"))
    two = counts[0]
    ratios = [row["direct"] / row["spectral"] for row in counts]
    last = measured[-1]
    time = last["direct"]["seconds"] / last["spectral"]["seconds"]
    memory = _memory(last["direct"]) / _memory(last["spectral"])
    faster, leaner = (
        _from_layer(measured, measure) for measure in (lambda row: row["seconds"], _memory)
    )
    return [
        Claim(
            "with two layers direct has slightly fewer parameters",
            f"{two['direct']:,} against {two['spectral']:,}",
            two["layers"] == 2 and two["direct"] < two["spectral"] < 1.1 * two["direct"],
        ),
        Claim(
            "from three layers on spectral has fewer, the deeper the more",
            f"{ratios[-1]:.1f} times fewer at {counts[-1]['layers']}",
            ratios[1] > 1 and all(b > a for a, b in pairwise(ratios)),
        ),
        Claim(
            f"measured at {last['layers']} layers, spectral takes less time and memory",
            f"{time:.1f} times less time (less {faster}), {memory:.1f} times less memory (less "
            f"{leaner})",
            time > 1 and memory > 1,
        ),
    ]


def _from_layer(rows: list[Content], measure: Callable[[Content], float]) -> str:
    """From which depth on spectral is below direct in every row."""
    below = [measure(row["spectral"]) < measure(row["direct"]) for row in rows]
    first = next((i for i in range(len(rows)) if all(below[i:])), None)
    return "at no depth" if first is None else f"from {rows[first]['layers']} layers on"


def _memory(row: Content) -> int:
    """Of a step: the state and, on top, the peak on a GPU or what autograd keeps on a CPU."""
    return row["state_bytes"] + row.get("peak_bytes", row["kept_bytes"])


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> "dict[str, Figure]":
    return {"parameters": _draw_counts(content), "measured": _draw_measured(content)}


def _draw_counts(content: Content) -> "Figure":
    rows = content["results"]["counts"]
    figure = plots.new_figure(5.5, 3.8)
    axes = figure.add_subplot()
    layers = [row["layers"] for row in rows]
    for name in ("spectral", "direct"):
        counts = [row[name] for row in rows]
        axes.plot(layers, counts, "o-", color=PEERS[name].colour, label=name, markersize=4)
    axes.set(xlabel="layers", ylabel="parameters", yscale="log", xticks=layers[::2])
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    return figure


def _draw_measured(content: Content) -> "Figure":
    rows = content["results"]["measured"]
    layers = [row["layers"] for row in rows]
    figure = plots.new_figure(10, 3.8)
    panels: Any = figure.subplots(1, 2)
    for peer_name, peer in PEERS.items():
        seconds = [1000 * row[peer_name]["seconds"] for row in rows]
        memory = [_memory(row[peer_name]) / 2**20 for row in rows]
        for axes, values in zip(panels, (seconds, memory), strict=True):
            axes.plot(layers, values, "o-", color=peer.colour, label=peer.name, markersize=4)
    panels[0].set(xlabel="layers", ylabel="time of a training step, ms", yscale="log")
    panels[1].set(xlabel="layers", ylabel="memory of a training step, MiB")
    panels[0].legend(frameon=False, fontsize=8)
    for axes in panels:
        axes.set_xticks(layers)
        axes.grid(alpha=0.3)
    return figure


# --- the page -------------------------------------------------------------------------------------

MEANS = {
    "cpu": "Memory is parameters, gradients, Adam's moments and what autograd keeps.",
    "cuda": (
        "Steps are replayed as CUDA graphs, their kernels as PyTorch has them, not compiled. "
        "Memory is parameters, gradients and Adam's moments, and the peak of a step on top."
    ),
}


def tell(content: Content) -> dict[str, Any]:
    results, setting = content["results"], content["setting"]
    two = results["counts"][0]
    rows = [
        [
            row["layers"],
            *(f"{row[name]['parameters']:,}" for name in ("spectral", "direct")),
            *(f"{1000 * row[name]['seconds']:.2f}" for name in PEERS),
            *(f"{_memory(row[name]) / 2**20:.1f}" for name in PEERS),
        ]
        for row in results["measured"]
    ]
    head = ["layers", "parameters, spectral", "direct"]
    for unit in ("ms", "MiB"):
        head += [f"{unit}, spectral", "direct", "blocks formed"]
    return {
        "width": setting["width"],
        "batch": setting["batch"],
        "direct_two": f"{two['direct']:,}",
        "spectral_two": f"{two['spectral']:,}",
        "means": MEANS[results["device"]],
        "numbers": markdown_table(head, rows),
    }


SCALING = Experiment(
    name="scaling",
    shows="Searching among all skip connections, spectral against a weight on every connection.",
    figures="Figure 8 of the paper",
    cost="1 min on a GPU or on two cores",
    quick_cost="half a minute",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    tell=tell,
    claims=claims,
)
