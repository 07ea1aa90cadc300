"""Time and memory of a step, measured."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

REPEATS = 5  # of a step, timed together

Step = Callable[[], object]


def median_seconds(steps: Mapping[str, Step], device: str, seconds: float) -> dict[str, float]:
    """Of each step, the steps taking turns for about ``seconds`` in all."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, step in steps.items():
            times[name].append(_timed(step, device))
    return {name: sorted(taken)[len(taken) // 2] for name, taken in times.items()}


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


def _timed(step: Step, device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(REPEATS):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / REPEATS
