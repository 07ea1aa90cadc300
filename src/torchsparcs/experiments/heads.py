"""The heads that are compared on CIFAR-10, and the recipes they are trained with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from torchsparcs.experiments import plots
from torchsparcs.experiments.recipes import paper_config
from torchsparcs.experiments.vision import linear_head, mlp_head, spectral_head
from torchsparcs.training.config import TrainConfig

TASK = "multiclass"


@dataclass(frozen=True)
class Setting:
    """The paper's protocol, with as many seeds as models trained side by side."""

    data: str = "cifar10"
    train_rows: int = 50_000
    test_rows: int = 10_000
    seeds: int = 5
    hidden: int = 526
    channels: tuple[int, int] = (8, 16)
    batch_size: int = 128
    epochs: int = 300
    own_epochs: int = 100
    timed_epochs: int = 5


QUICK = Setting(train_rows=3000, test_rows=1000, seeds=2, epochs=20, own_epochs=10, timed_epochs=1)


class Head(NamedTuple):
    """What stands on the features, and how it is drawn."""

    name: str
    colour: str
    build: Callable[[int, int], Callable[[int, int], nn.Module]]  # of hidden neurons and classes


class Recipe(NamedTuple):
    """How the whole model is trained, and how much of the features is dropped meanwhile."""

    name: str
    config: Callable[[Setting], TrainConfig]
    dropout: dict[str, float]


HEADS = {
    "linear": Head("linear head", plots.BLUE, lambda hidden, classes: linear_head(classes)),
    "mlp": Head("plain MLP head", plots.GREY, mlp_head),
    "spectral": Head("spectral head", plots.GREEN, spectral_head),
}
RECIPES = {
    "paper": Recipe(
        "the paper's recipe",
        lambda setting: paper_config(
            epochs=setting.epochs, penalty="l1", penalty_weight=1e-4, **common_options(setting)
        ),
        {},
    ),
    "own": Recipe(
        "our recipe",
        lambda setting: TrainConfig(
            epochs=setting.own_epochs, lr=3e-3, penalty_weight=3e-5, **common_options(setting)
        ),
        {"linear": 0.4, "mlp": 0.6, "spectral": 0.2},  # each its best in the sweep
    ),
}


def common_options(setting: Setting) -> dict[str, Any]:
    return {"task": TASK, "batch_size": setting.batch_size}
