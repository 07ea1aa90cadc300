"""How much faster is a population than its members one after the other?

3-300-1 (two inputs and the bias neuron), batch 100, input eigenvalues trained and penalised, as in
the paper's first experiment. CPU: 100 members, steps of the population against the same steps of
one network a hundred times. GPU: 4,200 members, compiled and captured, 30,000 steps, against one
network captured.

    python benchmarks/population.py
    python benchmarks/population.py --device cuda
"""

import argparse
from pathlib import Path

import torch
from recording import RESULTS, record

from torchsparcs import Population, SpectralNetwork, TrainConfig, train
from torchsparcs.experiments.scaling import keep_page_faults_out

WIDTHS, BATCH, ROWS = [2, 300, 1], 100, 10_000


def config(epochs: int, **options: bool) -> TrainConfig:
    return TrainConfig(
        epochs=epochs,
        batch_size=BATCH,
        lr=1e-3,
        schedule="constant",
        eigenvalue_lr_scale=1.0,
        transfer_weight_decay=0.0,
        snapshot_every=epochs,
        **options,
    )


def seconds_per_step(module: torch.nn.Module, device: str, epochs: int, **options: bool) -> float:
    """After one epoch that compiles, captures and warms up."""
    x = torch.rand(ROWS, 2, device=device) * 2 - 1
    data = (x, x.square().mean(dim=1))
    history = train(module, data, config(epochs + 1, **options), progress=False)
    return sum(history.seconds[1:]) / (epochs * ROWS // BATCH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--members", type=int)
    parser.add_argument("--epochs", type=int, help="100 steps each")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = arguments.device
    members = arguments.members or (100 if device == "cpu" else 4_200)
    epochs = arguments.epochs or (3 if device == "cpu" else 300)
    options = {"compile": True, "capture": True} if device == "cuda" else {}
    keep_page_faults_out()
    population = Population(
        WIDTHS, seeds=range(members), train_input_eigenvalues=True, device=device
    )
    together = seconds_per_step(population, device, epochs, **options)
    single = SpectralNetwork(WIDTHS, train_input_eigenvalues=True, device=device)
    alone = seconds_per_step(single, device, min(epochs, 5), capture=device == "cuda")
    results = {
        "members": members,
        "batch": BATCH,
        "steps": epochs * ROWS // BATCH,
        "seconds_per_step": together,
        "seconds_per_step_of_one_network": alone,
        "throughput_ratio": alone * members / together,
        "seconds_for_30000_steps": together * 30_000,
    }
    if device == "cuda":
        results["peak_gigabytes"] = torch.cuda.max_memory_allocated() / 1e9
    print(results)
    print(record("population", device, results, arguments.out))


if __name__ == "__main__":
    main()
