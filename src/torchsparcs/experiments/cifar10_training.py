"""Heads on a minimal convolutional network, trained on CIFAR-10 in the paper's way and in ours.

Two 3x3 stages of 8 and 16 channels give 1,024 features; on them a linear head, a plain MLP of the
maximal size, or a spectral head that starts as the linear one. All seeds of a head are trained
side by side. Settings were chosen on validation images (``benchmarks/cifar10_sweep.py``); the test
images are looked at after every epoch, as in the paper, and decide nothing.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.cutting.extraction import extract
from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Work
from torchsparcs.experiments.vision import (
    ConvMembers,
    fast_on_a_gpu,
    layout_for,
    linear_head,
    mlp_head,
    spectral_head,
)
from torchsparcs.experiments.writing import Content
from torchsparcs.images.datasets import load_images
from torchsparcs.spectral import equations as spectral
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluation_mode
from torchsparcs.training.train import train

BATCH = 2000  # test images that are looked at together
TASK = "multiclass"
Images = tuple[Pair, Pair]  # to train on, to test on


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
    """A module on the features, and how it is drawn."""

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
        lambda setting: TrainConfig.paper(
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


@fast_on_a_gpu()
def run(setting: Setting, work: Work) -> Content:
    images = _images(setting, work.device)
    results: Content = {"runs": {}, "configs": {}, "resources": {}}
    for key, recipe in RECIPES.items():
        config = replace(recipe.config(setting), capture=work.on_gpu)
        results["configs"][key] = asdict(config)
        results["runs"][key] = {
            name: work.part(
                f"{head.name}, {recipe.name}",
                partial(_trained, name, recipe, config, setting, work, images),
            )
            for name, head in HEADS.items()
        }
    for name, head in HEADS.items():
        results["resources"][name] = work.part(
            f"time and memory, {head.name}", partial(_resources, name, setting, work, images[0])
        )
    return results


def _images(setting: Setting, device: torch.device) -> Images:
    (x, y), (x_test, y_test) = load_images(setting.data).tensors(device)
    x, x_test = (part.contiguous(memory_format=layout_for(device)) for part in (x, x_test))
    rows, tested = setting.train_rows, setting.test_rows
    return (x[:rows], y[:rows]), (x_test[:tested], y_test[:tested])


def _model(name: str, members: int, setting: Setting, data: Pair, dropout: float) -> ConvMembers:
    images, labels = data
    classes = int(labels.max()) + 1
    model = ConvMembers(
        HEADS[name].build(setting.hidden, classes),
        members=members,
        channels=setting.channels,
        image=tuple(images.shape[1:]),  # type: ignore[arg-type]
        dropout=[dropout],
    )
    return model.to(images.device, memory_format=layout_for(images.device))  # type: ignore[call-overload]


def _trained(
    name: str, recipe: Recipe, config: TrainConfig, setting: Setting, work: Work, images: Images
) -> Content:
    """All seeds of one head; of a spectral one also without its hidden neurons, epoch by epoch."""
    training, test = images
    torch.manual_seed(0)
    model = _model(name, setting.seeds, setting, training, recipe.dropout.get(name, 0.0))
    part = f"{HEADS[name].name}, {recipe.name}"
    removed = work.steps.recall(f"removed, {part}") or []

    def look(history: History) -> None:
        del removed[history.epochs - 1 :]  # of epochs that a resumed run goes through again
        removed.append(accuracies(model, test, without_hidden))
        work.steps.keep(f"removed, {part}", removed)

    on_epoch = look if name == "spectral" else None
    history = work.train(part, model, training, config, validation=test, on_epoch=on_epoch)
    found: Content = {
        "accuracy": history.validation_score,  # (epochs, seeds)
        "seconds": sum(history.seconds),
    }
    if isinstance(model.head, Population):
        found |= {"removed": removed, **_cut(model, test)}
    return found


def _cut(model: ConvMembers, test: Pair) -> Content:
    """What the spectral heads became."""
    head = model.head
    assert isinstance(head, Population)
    compact = [extract(head.member(index)).eval() for index in range(head.members)]

    def cut_heads(_: nn.Module, features: Tensor) -> Tensor:
        pairs = zip(compact, features, strict=True)
        return torch.stack([network(own) for network, own in pairs])

    return {
        "recruited": [counts[0] for counts in head.recruited],
        "compact_parameters": [network.size.parameters for network in compact],
        "compact_accuracy": accuracies(model, test, cut_heads),
        "hidden_eigenvalues": head.hidden_eigenvalues[0][0].detach().abs(),
        "output_eigenvalues": head.output_eigenvalues[0].detach().abs(),
    }


def without_hidden(head: nn.Module, features: Tensor) -> Tensor:
    """The output of spectral heads whose hidden neurons are removed: W₂₀ x alone."""
    assert isinstance(head, Population)
    block = spectral.weight_block(list(head.transfers), head.eigenvalues, 2, 0)
    return features @ block[..., :-1].mT + block[..., -1].unsqueeze(-2)


def accuracies(
    model: ConvMembers, data: Pair, head: Callable[[nn.Module, Tensor], Tensor]
) -> list[float]:
    """Accuracy of each member with ``head(model.head, features)`` in place of its own output."""
    images, labels = data
    hits = torch.zeros(model.members, device=images.device)
    with evaluation_mode(model):
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            output = head(model.head, model.features(x))
            hits += (output.argmax(dim=-1) == y).sum(dim=-1)
    return (hits / len(images)).tolist()


def _resources(name: str, setting: Setting, work: Work, training: Pair) -> Content:
    """One model alone: seconds for an epoch, after one that warms up, and the peak of memory."""
    model = _model(name, 1, setting, training, 0.0)
    config = TrainConfig.paper(
        epochs=setting.timed_epochs + 1, capture=work.on_gpu, **common_options(setting)
    )
    history = train(model, training, config, progress=False)
    found: Content = {
        "epoch_seconds": float(np.median(history.seconds[1:])),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    if work.on_gpu:
        found["image_bytes"] = training[0].nbytes
        found["peak_bytes"] = _peak(name, setting, training)
    return found


def _peak(name: str, setting: Setting, training: Pair) -> int:
    """Bytes that a step takes beside the images; not captured, which would hide what it frees."""
    before = torch.cuda.memory_allocated()
    model = _model(name, 1, setting, training, 0.0)
    images, labels = (part[: 10 * setting.batch_size] for part in training)
    config = TrainConfig.paper(epochs=2, **common_options(setting))

    def forget_the_start(history: History) -> None:
        """The first epoch, in which the images are checked."""
        if history.epochs == 1:
            torch.cuda.reset_peak_memory_stats()

    train(model, (images, labels), config, on_epoch=forget_the_start, progress=False)
    return torch.cuda.max_memory_allocated() - before
