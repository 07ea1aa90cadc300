"""What does the search among all architectures of a depth cost, spectral and direct?

Layers of one width, every skip connection allowed. The paper counts parameters; here the time and
the memory of a training step are measured as well.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median_high
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Claim, Experiment, Work
from torchsparcs.experiments.peers import BlockNetwork, DirectNetwork, recruited
from torchsparcs.experiments.writing import Content, Figures
from torchsparcs.spectral.equations import direct_parameter_count, spectral_parameter_count
from torchsparcs.spectral.network import SpectralNetwork

REPEATS = 5  # of a step, timed together

Step = Callable[[], object]


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
        "spectral", plots.BLUE, lambda widths: recruited(SpectralNetwork(widths, bias=False))
    ),
    "direct": Peer("direct, every connection a weight", plots.ORANGE, DirectNetwork),
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
    for name, taken in median_seconds(steps, setting.seconds).items():
        row[name]["seconds"] = taken
    return row


# --- time and memory of a step -------------------------------------------------------------------


def median_seconds(steps: Mapping[str, Step], seconds: float) -> dict[str, float]:
    """The median time of each step, the steps taking turns for about ``seconds`` in all."""
    timed = partial(Timer, "step()", num_threads=torch.get_num_threads())
    timers = {name: timed(globals={"step": step}) for name, step in steps.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, timer in timers.items():
            times[name].append(timer.timeit(REPEATS).median)
    return {name: median_high(taken) for name, taken in times.items()}


def captured(step: Step) -> Step:
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

    def replay(alive: Step = step) -> None:
        """``alive`` keeps the network whose memory the graph works on."""
        graph.replay()

    return replay


def peak_bytes(step: Step) -> int:
    """What a step needs at its peak on a GPU beyond what is there before it."""
    step()  # leaves the gradients of the last step behind, which the next one replaces
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def kept_bytes(network: nn.Module, x: Tensor) -> dict[str, int]:
    """What autograd keeps for the backward pass: activations, and weights that were formed.

    Told apart by their first dimension, so the batch must not be as large as a layer is wide.
    """
    own = {p.untyped_storage().data_ptr() for p in network.parameters()}
    kept: dict[str, dict[int, int]] = {"activations": {}, "weights": {}}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kind = "activations" if tensor.shape[:1] == x.shape[:1] else "weights"
            kept[kind][storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # as it is, it would keep the graph alive that keeps it

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = network(x)
    del output
    return {kind: sum(sizes.values()) for kind, sizes in kept.items()}


def keep_page_faults_out() -> None:
    """glibc hands freed memory back to the system until it has once freed a large block.

    Without this, page faults would be timed instead of arithmetic.
    """
    torch.empty(30 * 2**20, dtype=torch.uint8)


# --- what was to be seen --------------------------------------------------------------------------


COUNTS = "Figure 8"


def claims(content: Content) -> list[Claim]:
    counts, measured = (content["results"][key] for key in ("counts", "measured"))
    two, last = counts[0], measured[-1]
    ratios = [row["direct"] / row["spectral"] for row in counts]
    less_time, less_memory = (
        measure(last["direct"]) / measure(last["spectral"]) for measure in (seconds, memory)
    )
    return [
        Claim(
            "with two layers direct has slightly fewer parameters",
            f"{two['direct']:,} against {two['spectral']:,}",
            two["layers"] == 2 and two["direct"] < two["spectral"] < 1.1 * two["direct"],
            (COUNTS,),
        ),
        Claim(
            "from three layers on spectral has fewer, the deeper the more",
            f"{ratios[-1]:.1f} times fewer at {counts[-1]['layers']}",
            ratios[1] > 1 and all(b > a for a, b in pairwise(ratios)),
            (COUNTS,),
        ),
        Claim(
            f"measured at {last['layers']} layers, spectral takes less time and memory",
            f"{less_time:.1f} times less time (less {_from_layer(measured, seconds)}), "
            f"{less_memory:.1f} times less memory (less {_from_layer(measured, memory)})",
            less_time > 1 and less_memory > 1,
        ),
    ]


def _from_layer(rows: list[Content], measure: Callable[[Content], float]) -> str:
    """The depth from which on spectral is below direct in every row, in words."""
    below = [measure(row["spectral"]) < measure(row["direct"]) for row in rows]
    first = next((i for i in range(len(rows)) if all(below[i:])), None)
    return "at no depth" if first is None else f"from {rows[first]['layers']} layers on"


def seconds(row: Content) -> float:
    """The time of a step."""
    return row["seconds"]


def memory(row: Content) -> float:
    """Bytes of a step: the state and the peak on a GPU, or what autograd keeps on a CPU."""
    return row["state_bytes"] + row.get("peak_bytes", row["kept_bytes"])


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> Figures:
    counts, measured = (content["results"][key] for key in ("counts", "measured"))
    parameters, steps = plots.new_figure(5.5, 3.8), plots.new_figure(5.5, 7)
    axes, (above, below) = parameters.add_subplot(), steps.subplots(2, 1)
    names = {"spectral": "spectral", "direct": "direct"}
    _draw_lines(axes, counts, names, int, ylabel="parameters", yscale="log")
    axes.set_xticks(axes.get_xticks()[::2])
    axes.legend(frameon=False)
    titles = {name: peer.name for name, peer in PEERS.items()}
    in_ms, in_mib = (lambda row: 1000 * seconds(row)), (lambda row: memory(row) / 2**20)
    _draw_lines(above, measured, titles, in_ms, ylabel="time of a training step, ms", yscale="log")
    _draw_lines(below, measured, titles, in_mib, ylabel="memory of a training step, MiB")
    above.legend(frameon=False, fontsize=8)
    return {"parameters": parameters, "measured": steps}


def _draw_lines(
    axes: Any,
    rows: list[Content],
    titles: Mapping[str, str],
    measure: Callable[[Any], float],
    **labels: str,
) -> None:
    """A line for each of the named peers, what is measured of it against the layers."""
    layers = [row["layers"] for row in rows]
    for name, title in titles.items():
        values = [measure(row[name]) for row in rows]
        axes.plot(layers, values, "o-", color=PEERS[name].colour, label=title, markersize=4)
    axes.set(xlabel="layers", xticks=layers, **labels)
    axes.grid(alpha=0.3)


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
    claims=claims,
    page_names={"peers": PEERS, "memory": memory},
)
