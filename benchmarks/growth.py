"""What does a training or a search cost as data, width, depth, members and processes grow?

Times of a training step for a spectral network of 32-128-128-10, batch 256, with one quantity
changed at a time; of whole searches on tables of growing length; and of the same work done by one
process, by two processes of torchrun, and by two workers of a Ray cluster on the same machine. The
outcomes are compared too: those of a search must be the same bits.

    python benchmarks/growth.py
"""

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from recording import RESULTS, record

from torchsparcs import (
    Population,
    SearchConfig,
    SearchResult,
    SpectralNetwork,
    TrainConfig,
    search,
    train,
)
from torchsparcs.experiments.scaling import keep_page_faults_out

BATCH, STEPS, REPEATS = 256, 20, 5
BASE = (32, 128, 128, 10)
SEARCHED = SearchConfig(steps=300, longest=300)


def step_ms(make: Callable[[], torch.nn.Module], batch: int = BATCH) -> float:
    """Median over epochs of ``STEPS`` steps, the first one left out."""
    module = make()
    inputs, outputs = module.widths[0], module.widths[-1]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch * STEPS, inputs, generator=generator)
    y = torch.randint(outputs, (len(x),), generator=generator)
    config = TrainConfig(task="multiclass", epochs=REPEATS + 1, batch_size=batch)
    history = train(module, (x, y), config, progress=False)
    return statistics.median(history.seconds[1:]) / STEPS * 1e3


def steps() -> dict[str, dict[int, float]]:
    def wide(width: int) -> SpectralNetwork:
        return SpectralNetwork([32, width, width, 10])

    def deep(layers: int) -> SpectralNetwork:
        return SpectralNetwork([32, *[128] * layers, 10])

    return {
        "width": {n: step_ms(lambda n=n: wide(n)) for n in (64, 128, 256, 512, 1024)},
        "hidden layers": {n: step_ms(lambda n=n: deep(n)) for n in (1, 2, 4, 8, 16, 30)},
        "members": {
            n: step_ms(lambda n=n: Population(BASE, seeds=range(n))) for n in (1, 4, 16, 64)
        },
        "batch": {
            n: step_ms(lambda: SpectralNetwork(BASE), batch=n) for n in (64, 256, 1024, 4096)
        },
    }


def table(rows: int, columns: int = 20) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(rows, columns))
    return x, np.abs(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * x[:, 3]


def searched(rows: int, columns: int = 20, **options: object) -> tuple[float, SearchResult]:
    x, y = table(rows, columns)
    start = time.perf_counter()
    result = search(x, y, progress=False, device="cpu", **options)
    return time.perf_counter() - start, result


def digest(result: SearchResult) -> str:
    """Of all weights on the front."""
    found = hashlib.sha256()
    for candidate in result.front:
        for parameter in candidate.network.parameters():
            found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()[:16]


# --- several processes ---


def one_of_several(rank: int, world: int, store: str, kind: str, answers: processes.Queue) -> None:
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    if kind == "training":
        torch.manual_seed(0)
        answer = (step_ms(lambda: SpectralNetwork([256, 512, 512, 10]), batch=2048), "")
    else:
        seconds, result = searched(1000, config=SEARCHED)
        answer = (seconds, digest(result))
    if rank == 0:
        answers.put(answer)
    if world > 1:
        dist.destroy_process_group()


def in_processes(kind: str, world: int) -> tuple[float, str]:
    answers = processes.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        processes.spawn(one_of_several, (world, store, kind, answers), nprocs=world)
    return answers.get()


def on_ray() -> tuple[float, str]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    searched(100, config=SearchConfig(steps=10, longest=10), engine="ray")  # workers start
    seconds, result = searched(1000, config=SEARCHED, engine="ray")
    ray.shutdown()
    return seconds, digest(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 3000, 10_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_page_faults_out()
    results: dict[str, object] = {"threads": 1, "step_ms": steps()}
    print(results)
    results["search_seconds"] = {
        "rows, defaults": {n: searched(n)[0] for n in arguments.rows},
        "columns, 1000 rows, 300 steps": {
            n: searched(1000, n, config=SEARCHED)[0] for n in arguments.columns
        },
    }
    print(results["search_seconds"])
    shared = {
        "training, ms a step, 256-512-512-10, batch 2048": {
            f"{n} processes": in_processes("training", n) for n in (1, 2)
        },
        "search, seconds, 1000 rows, 300 steps": {
            **{f"{n} processes": in_processes("search", n) for n in (1, 2)},
            "Ray, 2 workers": on_ray(),
        },
    }
    results["shared"] = {
        kind: {who: {"time": found, "digest": bits} for who, (found, bits) in each.items()}
        for kind, each in shared.items()
    }
    print(results["shared"])
    record("growth", "cpu", results, arguments.out)


if __name__ == "__main__":
    main()
