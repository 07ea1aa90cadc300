"""Which recipe is best for heads on a minimal convolutional network? Chosen on validation images.

CIFAR-10, the extractor of ``sparcs reproduce cifar10``, 45,000 images to train on and 5,000 to
judge by; the test images are not looked at. Members differ in penalty and dropout and are trained
side by side; learning rate, decay and head in turn.

    python benchmarks/cifar10_sweep.py --data cifar10.npz --device cuda
"""

import argparse
import json
from itertools import product
from pathlib import Path

import torch
from recording import RESULTS, record

from torchsparcs import TrainConfig, train
from torchsparcs.experiments.vision import ConvMembers, linear_head, mlp_head, spectral_head
from torchsparcs.images.datasets import load_images

HEADS = {"linear": linear_head(10), "mlp": mlp_head(526, 10), "spectral": spectral_head(526, 10)}


def judged(name: str, data: tuple, options: dict, penalties: list, dropouts: list) -> list[dict]:
    """One population: every penalty with every dropout."""
    training, validation = data
    pairs = list(product(penalties, dropouts))
    torch.manual_seed(0)
    model = ConvMembers(
        HEADS[name],
        members=len(pairs),
        image=tuple(training[0].shape[1:]),
        dropout=[rate for _, rate in pairs],
    )
    model.to(training[0].device)
    config = TrainConfig(
        task="multiclass", penalty_weight=tuple(weight for weight, _ in pairs), **options
    )
    history = train(model, training, config, validation=validation, progress=False)
    recruited = model.head.recruited if name == "spectral" else [[]] * len(pairs)
    return [
        {
            "head": name,
            **{key: options[key] for key in ("lr", "transfer_weight_decay", "eigenvalue_lr_scale")},
            "penalty_weight": weight,
            "dropout": rate,
            "accuracy": history.validation_score[-1][index],
            "best": max(scores[index] for scores in history.validation_score),
            "recruited": recruited[index],
            "seconds": sum(history.seconds),
        }
        for index, (weight, rate) in enumerate(pairs)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rows", type=int, help="of the training images, for a quick look")
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument(
        "--pairs", nargs="+", default=["1e-3,1", "1e-3,10", "3e-3,1"], help="learning rate,decay"
    )
    parser.add_argument("--dropouts", type=float, nargs="+", default=[0.0, 0.2, 0.4, 0.6])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = arguments.device
    (x, y), _ = load_images(arguments.data).tensors(device)
    x, y = x[: arguments.rows], y[: arguments.rows]
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).to(device)
    held_out, kept = order[: len(x) // 10], order[len(x) // 10 :]
    data = ((x[kept], y[kept]), (x[held_out], y[held_out]))
    fast = {"compile": True, "capture": True} if device == "cuda" else {}
    common = {"epochs": arguments.epochs, "batch_size": 128, "schedule": "cosine", **fast}
    pairs = [tuple(map(float, pair.split(","))) for pair in arguments.pairs]
    runs = [(head, 1e-3, 0.0, 1.0, [0.0]) for head in ("linear", "mlp") if head in arguments.heads]
    if "spectral" in arguments.heads:
        runs += [("spectral", lr, decay, 30.0, [1e-5, 3e-5, 1e-4]) for lr, decay in pairs]
    path = arguments.out / "cifar10_sweep.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    rows = earlier.get(device, {}).get("runs", [])  # another call goes on with them
    for name, lr, decay, scale, penalties in runs:
        options = {
            "lr": lr,
            "transfer_weight_decay": decay,
            "eigenvalue_lr_scale": scale,
            **common,
        }
        for row in judged(name, data, options, penalties, arguments.dropouts):
            rows.append(row)
            print(row, flush=True)
        results = {"epochs": arguments.epochs, "rows": len(kept), "runs": rows}
        record("cifar10_sweep", device, results, arguments.out)


if __name__ == "__main__":
    main()
