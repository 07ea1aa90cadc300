"""Small searches with awkward names, and a made-up network too large to draw neuron by neuron."""

import dataclasses
from functools import cache

import numpy as np
import pandas as pd
import torch

from torchsparcs import Candidate, CompactNetwork, History, SearchConfig, SearchResult, search

COLUMN, LABEL = "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>"
DRAW = np.random.default_rng(0)
X = pd.DataFrame(DRAW.uniform(-1, 1, (150, 3)), columns=[COLUMN, "b & <b>b</b>", "c"])
Y = {
    "multiclass": np.array([LABEL, "two", "three"])[np.digitize(X[COLUMN] * X["c"], [-0.1, 0.2])],
    "binary": np.where(X["c"].abs() > 0.5, "yes", "no"),
    "regression": pd.DataFrame({"u": 500 + 10 * X["c"].abs(), "v": X[COLUMN] - 3 * X["c"]}),
}


@cache
def small_result(task: str) -> SearchResult:
    config = SearchConfig(steps=60, epochs=1, lr=0.03, ways=("asleep",), shrink=0.4)
    options = {"widths": (12, 6), "penalty_weights": (1e-3, 1e-4), "validation": 2}
    return search(X, Y[task], **options, config=config, progress=False, device="cpu")


def huge_result(width: int = 2000, hidden: int = 4) -> SearchResult:
    """The largest candidate has ``hidden`` layers of ``width`` neurons; they grew evenly."""
    small = small_result("multiclass")
    widths = [3, *[width] * hidden, 3]
    pairs = [(target, source) for target in range(1, hidden + 2) for source in range(target)]
    network = CompactNetwork(widths, pairs)
    generator = torch.Generator().manual_seed(0)
    member, members = small.best().member, len(small.history.train_loss[0])
    snapshots = [
        (
            epoch,
            {
                f"hidden_eigenvalues.{layer}": torch.randn(members, width, generator=generator)
                * (torch.rand(members, width, generator=generator) < epoch / 40)
                for layer in range(hidden)
            },
        )
        for epoch in range(41)
    ]
    history = History(
        train_loss=[[1 / epoch] * members for epoch in range(1, 41)],
        recruited=[[[width * epoch // 40] * hidden] * members for epoch in range(1, 41)],
        snapshots=snapshots,
    )
    largest = Candidate(network, 0.999, 0.01, 0.1, 1e-4, member, small.best().answers)
    settings = {**small.settings, "widths": widths}
    front = (*small.front, largest)
    return dataclasses.replace(small, front=front, history=history, settings=settings)
