"""Feed-forward blocks of a small vision transformer: spectral, or plain of several widths?

CIFAR-10 from scratch, patches of 4 pixels, no augmentation, the same recipe for all. The plain
models differ in the width of their blocks; the spectral ones are offered the largest width and
differ in the penalty, and are counted after ``extract``. This goes beyond the paper.

    python benchmarks/vit_front.py --data cifar10.npz --device cuda
"""

import argparse
from pathlib import Path

import torch
from recording import RESULTS, record
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs import SpectralNetwork, TrainConfig, evaluate, extract, spectralize, train
from torchsparcs.images import load_images

WIDTHS = (16, 32, 64, 128, 256)
PENALTIES = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
AT_ONCE = 1000  # images that are judged together


class Block(nn.Module):
    """Attention and a feed-forward block, each on a normalised copy of the signal."""

    def __init__(self, dimension: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.queries_keys_values = nn.Linear(dimension, 3 * dimension)
        self.projection = nn.Linear(dimension, dimension)
        self.mlp = nn.Sequential(
            nn.Linear(dimension, hidden), nn.GELU(), nn.Linear(hidden, dimension)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        split = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        x = x + self.projection(attended)
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    def __init__(
        self, image: torch.Size, classes: int, hidden: int, dimension: int = 96, depth: int = 4
    ):
        super().__init__()
        channels, height, width = image
        self.patches = nn.Conv2d(channels, dimension, 4, stride=4)
        places = (height // 4) * (width // 4)
        self.position = nn.Parameter(0.02 * torch.randn(1, places, dimension))
        self.blocks = nn.ModuleList(Block(dimension, 4, hidden) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dimension), nn.Linear(dimension, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(dim=1)))


def judged(model: nn.Module, data: tuple, config: TrainConfig) -> dict:
    training, test = data
    history = train(model, training, config, progress=False)
    spectral = [part for part in model.modules() if isinstance(part, SpectralNetwork)]
    compact = extract(model) if spectral else model
    return {
        "recruited": [part.recruited[0] for part in spectral],
        "parameters": sum(p.numel() for p in compact.parameters()),
        "accuracy": evaluate(compact, test, "multiclass", batch_size=AT_ONCE).score,
        "seconds": sum(history.seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of the training images, for a quick look")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--penalties", type=float, nargs="*", default=PENALTIES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = arguments.device
    (x, y), (x_test, y_test) = load_images(arguments.data).tensors(device)
    data = ((x[: arguments.rows], y[: arguments.rows]), (x_test, y_test))
    image, classes = x.shape[1:], int(y.max()) + 1
    rows = []
    for seed in range(arguments.seeds):
        common = {
            "task": "multiclass",
            "epochs": arguments.epochs,
            "batch_size": 256,
            "lr": 1e-3,
            "weight_decay": 0.05,
            "seed": seed,
            "capture": device == "cuda",
        }
        runs = [("plain", width, 0.0) for width in arguments.widths]
        runs += [("spectral", max(arguments.widths), weight) for weight in arguments.penalties]
        for kind, hidden, weight in runs:
            torch.manual_seed(seed)
            model: nn.Module = Transformer(image, classes, hidden)
            if kind == "spectral":
                model = spectralize(model, target="blocks.*.mlp", hidden=[hidden])
            config = TrainConfig(penalty_weight=weight, **common)
            row = {"kind": kind, "hidden": hidden, "penalty_weight": weight, "seed": seed}
            rows.append({**row, **judged(model.to(device), data, config)})
            print(rows[-1], flush=True)
            results = {"epochs": arguments.epochs, "rows": len(data[0][0]), "runs": rows}
            record("vit_front", device, results, arguments.out)


if __name__ == "__main__":
    main()
