"""Small searches with awkward names, and made-up results that are hard to draw."""

import dataclasses
import os
import shutil
from functools import cache
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch

from torchsparcs import (
    Candidate,
    CompactChain,
    CompactNetwork,
    History,
    SearchConfig,
    SearchResult,
    SpectralChain,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    extract,
    search,
    train,
)
from torchsparcs.cutting.layers import with_fewer_channels
from torchsparcs.judging.judgement import ANSWERS
from torchsparcs.results.result import Attempt

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
COLUMN, LABEL = "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>"
DRAW = np.random.default_rng(0)
X = pd.DataFrame(DRAW.uniform(-1, 1, (150, 3)), columns=[COLUMN, "b & <b>b</b>", "c"])
Y = {
    "multiclass": np.array([LABEL, "two", "three"])[np.digitize(X[COLUMN] * X["c"], [-0.1, 0.2])],
    "binary": np.where(X["c"].abs() > 0.5, "yes", "no"),
    "regression": pd.DataFrame({"u": 500 + 10 * X["c"].abs(), "v": X[COLUMN] - 3 * X["c"]}),
}


SEEDS = {"multiclass": 11, "binary": 2, "regression": 3}  # the linear model is on no front


@cache
def small_result(task: str) -> SearchResult:
    config = SearchConfig(
        steps=60, epochs=1, lr=0.03, ways=("asleep",), shrink=0.4, tune_share=0.25
    )
    options = {"widths": (12, 6), "penalty_weights": (1e-3, 1e-4), "validation": 2}
    # without its end: what is on the pages is to be the same as ever
    with (
        patch("torchsparcs.searching.finishing.Finishing.run", lambda *_: []),
        patch("torchsparcs.searching.table_search.SMALLEST_CUT", 0),
    ):
        return search(
            X, Y[task], **options, config=config, seed=SEEDS[task], progress=False, device="cpu"
        )


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


def dense_result(count: int = 20) -> SearchResult:
    """Many candidates of nearly one size and score, the first two of them at one place."""
    small = small_result("multiclass")
    front = []
    for index in range(count):
        network = CompactNetwork([3, 40 + index, 3], [(1, 0), (2, 0), (2, 1)])
        score = 0.9 + 0.001 * index
        front.append(Candidate(network, score, 0.004, 0.1, 1e-4, small.best().member))
    front[0] = dataclasses.replace(front[1], score=front[1].score - 1e-9)
    scores = (0.95, 0.93, -0.5, 0.9)  # the third was cut to pieces
    attempts = tuple(
        Attempt(small.best().member, cut, 40 - cut, 300 - 20 * cut, score, 0.01, 0.1)
        for cut, score in enumerate(scores)
    )
    return dataclasses.replace(small, front=tuple(front), attempts=attempts)


def validated_result() -> SearchResult:
    """Trained with validation data, of which every epoch has a loss and a score."""
    small = small_result("binary")
    epochs, members = small.history.epochs, len(small.history.train_loss[0])
    history = dataclasses.replace(
        small.history,
        validation_loss=[[1 - 0.01 * epoch] * members for epoch in range(epochs)],
        validation_score=[[0.5 + 0.005 * epoch] * members for epoch in range(epochs)],
    )
    return dataclasses.replace(small, history=history)


def unjudged_result() -> SearchResult:
    """A regression whose linear model has no score."""
    small, nan = small_result("regression"), float("nan")
    unknown = dict.fromkeys(("score", "expected", "standard_error", "loss"), nan)
    linear = dataclasses.replace(small.linear, **unknown)
    return dataclasses.replace(small, linear=linear)


def labelled_result() -> SearchResult:
    """Of twenty classes whose long names differ at the end."""
    small = small_result("multiclass")
    labels = tuple(f"a class of things, number {index:03d}" for index in range(20))
    target = dataclasses.replace(small.preprocessing.target, classes=labels)
    preprocessing = dataclasses.replace(small.preprocessing, target=target)
    counts = torch.eye(20, dtype=torch.int64) * 10 + 1
    front = tuple(dataclasses.replace(found, answers=counts) for found in small.front)
    linear = dataclasses.replace(small.linear, answers=counts)
    return dataclasses.replace(small, front=front, linear=linear, preprocessing=preprocessing)


@cache
def chain_result(
    task: str = "multiclass",
    hidden: tuple[int, ...] = (6, 8),
    sizes: tuple[int, ...] = (200, 60),
) -> SearchResult:
    """A small CNN, trained for two epochs and cut to three sizes; what they answer is made up."""
    torch.manual_seed(0)
    images = torch.randn(60, 1, 6, 6)
    values = images.mean(dim=(1, 2, 3))
    y = values if task == "regression" else (values > 0).long() + (values > 0.2)
    trained = SpectralCNN([1, *hidden, 1 if task == "regression" else 3])
    config = TrainConfig(epochs=2, batch_size=20, task=task, eigenvalue_lr_scale=10)
    history = train(trained, (images, y), config, validation=(images, y), progress=False)
    network = extract(trained)
    sizes = (network.parameter_count, *sizes)
    cut = [with_fewer_channels(network, (images, y), task, size) for size in sizes]
    return network_result(trained, cut, (images, y), history, task)


@cache
def searched_dense_result() -> SearchResult:
    """A dense network of one's own, in the place of a table's."""
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    trained, y = SpectralNetwork([4, 5, 1]), (x[:, 0] > 0).float()
    history = train(
        trained, (x, y), TrainConfig(epochs=2, batch_size=20, task="binary"), progress=False
    )
    blocks = [(1, 0), (2, 0), (2, 1)]
    cut = [CompactNetwork([4, hidden, 1], blocks) for hidden in (5, 2)]
    return network_result(trained, cut, (x, y), history, "binary")


def network_result(
    trained: SpectralNetwork | SpectralChain,
    cut: list[CompactChain] | list[CompactNetwork],
    data: tuple[torch.Tensor, torch.Tensor],
    history: History,
    task: str,
) -> SearchResult:
    x, y = data
    widths = trained.channels if isinstance(trained, SpectralChain) else trained.widths
    settings = {
        "task": task,
        "widths": list(widths),
        "rows": 54,
        "judged_rows": len(x),
        "fits": 1,
        "seed": 3,
        "seconds": 1.5,
        "device": "cpu",
        "hardware": "a machine",
        "versions": {"torchsparcs": "0", "python": "3", "torch": "2"},
        "max_parameters": None,
        "config": {"epochs": 2, "lr": 0.001},
    }
    found = []
    for network, score in zip(cut, (0.9, 0.85, 0.6), strict=False):
        wrong = torch.arange(len(x)) >= score * len(x)
        said = {
            "multiclass": torch.nn.functional.one_hot((y.long() + wrong) % 3, 3),
            "binary": ((y + wrong) % 2 * 2 - 1)[:, None],
            "regression": y[:, None] + wrong[:, None] / 4,
        }
        answers, shape = ANSWERS[task](said[task].float(), y), tuple(x.shape[1:])
        found.append(Candidate(network, score, 0.07, 0.3, 1e-3, None, answers, shape))
    attempts = tuple(Attempt.of(each, place) for place, each in enumerate(found))
    return SearchResult(tuple(reversed(found)), None, None, history, settings, attempts, trained)
