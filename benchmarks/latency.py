"""Is the compact network faster on the clock than what it was cut from?

Inference on one core at batch 1 and 1024, in torch and in onnxruntime, for networks with a given
number of recruited neurons: the compact network, the maximal spectral network and a plain MLP of
the maximal widths.

    python benchmarks/latency.py
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import onnxruntime
import torch
from recording import RESULTS, record
from torch import nn

from torchsparcs import SpectralNetwork, extract, to_onnx

CASES = {  # maximal widths, neurons recruited in the last hidden layer
    "digits": ([64, 200, 10], 14),
    "mnist": ([784, 200, 10], 30),
    "teacher-student": ([20, 200, 200, 20], 20),
}


def recruited(widths: list[int], neurons: int) -> SpectralNetwork:
    """A network with ``neurons`` recruited in its last hidden layer."""
    network = SpectralNetwork(widths)
    nn.init.normal_(network.hidden_eigenvalues[-1][:neurons])
    return network.eval()


def mlp(widths: list[int]) -> nn.Module:
    layers = [m for n, k in pairwise(widths) for m in (nn.Linear(n, k), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).eval()


def microseconds(
    call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Of a call, the median, for which the ``clock`` goes on by so many seconds."""
    for _ in range(20):
        call()
    times = []
    end = clock() + seconds
    while clock() < end:
        start = clock()
        for _ in range(10):
            call()
        times.append((clock() - start) / 10)
    return statistics.median(times) * 1e6


def onnx_session(module: nn.Module, width: int, folder: Path) -> onnxruntime.InferenceSession:
    path = folder / "model.onnx"
    to_onnx(module, path, example=torch.randn(2, width))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@torch.inference_mode()
def measure(widths: list[int], neurons: int, seconds: float, folder: Path) -> list[dict]:
    torch.manual_seed(0)
    network = recruited(widths, neurons)
    compact, plain = extract(network), mlp(widths)
    with torch.inference_mode(False):
        sessions = {
            f"onnx_{name}": onnx_session(module, widths[0], folder)
            for name, module in (("compact", compact), ("spectral", network), ("mlp", plain))
        }
    rows = []
    for batch in (1, 1024):
        x = torch.randn(batch, widths[0])
        given = {"input": x.numpy()}
        row = {
            "batch": batch,
            "architecture": compact.architecture,
            "compact": microseconds(lambda x=x: compact(x), seconds),
            "spectral": microseconds(lambda x=x: network(x), seconds),
            "mlp": microseconds(lambda x=x: plain(x), seconds),
            **{
                name: microseconds(lambda run=session.run, given=given: run(None, given), seconds)
                for name, session in sessions.items()
            },
        }
        print({k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each number")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        results = {
            name: measure(*CASES[name], arguments.seconds, Path(folder)) for name in arguments.cases
        }
    note = {"unit": "microseconds per call, median", "threads": torch.get_num_threads()}
    print(record("latency", "cpu", {**note, "cases": results}, arguments.out))


if __name__ == "__main__":
    main()
