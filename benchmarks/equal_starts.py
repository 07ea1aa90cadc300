"""Do hidden neurons of equal weights stay equal in direct space, and if not, what parts them?

Section 5 of the paper says that they do. The network with a weight on every connection, the target
and the training are those of `sparcs reproduce remarks`, in single and in double precision. In
exact arithmetic equal neurons have equal gradients; what differs is how their sums are rounded.

    python benchmarks/equal_starts.py
"""

import argparse
from pathlib import Path

import torch
from recording import RESULTS, record

from torchsparcs.experiments.peers import DirectNetwork
from torchsparcs.experiments.remarks import TASK, Setting, apart, bent_data, network_of
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluate
from torchsparcs.training.train import train

PRECISIONS = {"single": torch.float32, "double": torch.float64}


def trained(precision: str, epochs: int) -> dict:
    """The largest distance of weights into hidden neurons after each epoch, and the last error."""
    setting, dtype = Setting(), PRECISIONS[precision]
    x, y = bent_data(setting.points)
    data = x.to(dtype), y.to(dtype)
    torch.manual_seed(0)
    network = network_of("equal", [3, setting.hidden, 1]).to(dtype)
    assert isinstance(network, DirectNetwork)
    distances: list[float] = []

    def look(history: History) -> None:
        distances.append(apart(network.blocks["0 to 1"].weight))

    config = TrainConfig.paper(
        task=TASK, epochs=epochs, batch_size=setting.batch_size, penalty_weight=0.0
    )
    train(network, data, config, on_epoch=look, progress=False)
    return {"apart": distances, "mse": evaluate(network, data, TASK).loss}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=Setting().epochs)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found = {}
    for precision in PRECISIONS:
        found[precision] = trained(precision, arguments.epochs)
        last, mse = found[precision]["apart"][-1], found[precision]["mse"]
        print(f"{precision} precision: at most {last:.1e} apart, mean squared error {mse:.1e}")
    record("equal_starts", "cpu", {"epochs": arguments.epochs, "runs": found}, arguments.out)


if __name__ == "__main__":
    main()
