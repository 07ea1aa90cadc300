"""Does one training find the teacher: one hidden layer of 20 neurons, offered two of 200?

The paper's second experiment: y = W₂ relu(W₁ x), W₁ and W₂ random rotations of 20 dimensions, x
uniform in [-1, 1]²⁰, 100,000 points, student 20-200-200-20. Teacher, data and student are drawn
anew for every seed. One training with the library's defaults, then ``extract`` with data; the
test set is looked at once, at the end.

    python benchmarks/teacher_student.py
"""

import argparse
import time
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor

from torchsparcs import SpectralNetwork, TrainConfig, extract, train
from torchsparcs.tasks import evaluate

DIMENSION = 20


def rotation(generator: torch.Generator) -> Tensor:
    """A uniformly random element of SO(20)."""
    q, r = torch.linalg.qr(torch.randn(DIMENSION, DIMENSION, generator=generator))
    q = q * r.diagonal().sign()
    q[0] *= torch.linalg.det(q).sign()
    return q


def dataset(points: int, seed: int, device: str) -> list[tuple[Tensor, Tensor]]:
    """Training, validation (a tenth of the points) and as large a test set; unit targets."""
    generator = torch.Generator().manual_seed(seed)
    w1, w2 = rotation(generator), rotation(generator)
    x = torch.rand(points + points // 10, DIMENSION, generator=generator) * 2 - 1
    y = torch.relu(x @ w1.T) @ w2.T
    y, x = (y / y.std()).to(device), x.to(device)
    sizes = [points - points // 10, points // 10, points // 10]
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def run(seed: int, points: int, epochs: int, device: str) -> dict:
    training, validation, test = dataset(points, seed, device)
    network = SpectralNetwork([DIMENSION, 200, 200, DIMENSION], bias=False)
    network.reset_parameters(torch.Generator().manual_seed(seed))
    network.to(device)
    start = time.perf_counter()
    config = TrainConfig(
        task="regression", epochs=epochs, batch_size=1024, seed=seed, capture=device == "cuda"
    )
    train(network, training, config, progress=False)
    trained = time.perf_counter()
    compact = extract(network, data=training, validation=validation, task="regression")
    return {
        "seed": seed,
        "r2_spectral": evaluate(network, test, "regression").score,
        "r2_compact": evaluate(compact, test, "regression").score,
        "recruited": network.recruited,
        "architecture": compact.architecture,
        "hidden_layers": len(compact.widths) - 2,
        "neurons": sum(compact.widths[1:-1]),
        "parameters": compact.size.parameters,
        "train_seconds": trained - start,
        "extract_seconds": time.perf_counter() - trained,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=180)
    parser.add_argument("--quick", action="store_true", help="one seed, a tenth of the data")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    seeds, points = (1, 10_000) if arguments.quick else (arguments.seeds, arguments.points)
    rows = []
    for seed in range(arguments.first_seed, arguments.first_seed + seeds):
        rows.append(run(seed, points, arguments.epochs, arguments.device))
        print(rows[-1], flush=True)
    found = [
        row["hidden_layers"] == 1 and row["neurons"] <= 24 and row["r2_compact"] >= 0.998
        for row in rows
    ]
    print(f"one hidden layer of at most 24 neurons with R² >= 0.998: {sum(found)} of {len(found)}")
    results = {"points": points, "epochs": arguments.epochs, "runs": rows}
    print(record("teacher_student", arguments.device, results, arguments.out))


if __name__ == "__main__":
    main()
