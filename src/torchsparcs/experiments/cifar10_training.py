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

from torchsparcs.cutting.eigenvalues import eigenvalue_gap, prune_eigenvalues
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
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluate, evaluation_mode
from torchsparcs.training.train import train

BATCH = 2000  # test images that are looked at together
SEEN = 5000  # training images that say which eigenvalues may go
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
    "linear": Head("linear head", plots.ORANGE, lambda hidden, classes: linear_head(classes)),
    "mlp": Head("plain MLP head", plots.GREY, mlp_head),
    "spectral": Head("spectral head", plots.BLUE, spectral_head),
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
    images = images_of(setting, work.device)
    results: Content = {"runs": {}, "configs": {}, "resources": {}}
    for key, recipe in RECIPES.items():
        config = replace(recipe.config(setting), capture=work.on_gpu)
        results["configs"][key] = asdict(config)
        results["runs"][key] = {
            name: work.part(
                f"{head.name}, {recipe.name}",
                partial(
                    trained_heads,
                    name,
                    f"{head.name}, {recipe.name}",
                    setting.seeds,
                    config,
                    setting,
                    work,
                    images,
                    dropout=recipe.dropout.get(name, 0.0),
                ),
            )
            for name, head in HEADS.items()
        }
    for name, head in HEADS.items():
        results["resources"][name] = work.part(
            f"time and memory, {head.name}", partial(resources_of, name, setting, work, images[0])
        )
    return results


def images_of(setting: Any, device: torch.device) -> Images:
    """Training and test images of the setting's ``data``, ``train_rows`` and ``test_rows``."""
    (x, y), (x_test, y_test) = load_images(setting.data).tensors(device)
    x, x_test = (part.contiguous(memory_format=layout_for(device)) for part in (x, x_test))
    rows, tested = setting.train_rows, setting.test_rows
    return (x[:rows], y[:rows]), (x_test[:tested], y_test[:tested])


def model_of(
    name: str, members: int, setting: Any, data: Pair, dropout: float = 0.0
) -> ConvMembers:
    """Members with one of the ``HEADS`` on an extractor of the setting's ``channels``."""
    images, labels = data
    classes = int(labels.max()) + 1
    model = ConvMembers(
        HEADS[name].build(setting.hidden, classes),
        members=members,
        channels=setting.channels,
        image=tuple(images.shape[1:]),
        dropout=[dropout],
    )
    return model.to(images.device, memory_format=layout_for(images.device))  # type: ignore[call-overload]


def trained_heads(
    name: str,
    part: str,
    members: int,
    config: TrainConfig,
    setting: Any,
    work: Work,
    images: Images,
    *,
    dropout: float = 0.0,
) -> Content:
    """All members of one head; of a spectral one also without its hidden neurons, epoch by epoch.

    They are taken out in two ways: ``removed`` is the skip connection as it is, without the neurons
    in direct space; ``zeroed`` has their eigenvalues set to zero, in the skip connection as well.
    """
    training, test = images
    torch.manual_seed(0)
    model = model_of(name, members, setting, training, dropout)
    none: dict[str, list] = {"removed": [], "zeroed": []}
    without = work.steps.recall(f"without, {part}") or none

    def look(history: History) -> None:
        for key, head in (("removed", without_hidden), ("zeroed", with_zero_eigenvalues)):
            del without[key][history.epochs - 1 :]  # of epochs that a resumed run repeats
            without[key].append(accuracies(model, test, head))
        work.steps.keep(f"without, {part}", without)

    on_epoch = look if name == "spectral" else None
    history = work.train(part, model, training, config, validation=test, on_epoch=on_epoch)
    found: Content = {
        "accuracy": history.validation_score,  # (epochs, seeds)
        "seconds": sum(history.seconds),
    }
    if isinstance(model.head, Population):
        found |= {**without, **_cut(model, images)}
    return found


def _cut(model: ConvMembers, images: Images) -> Content:
    """What the spectral heads became, cut and pruned; training images say what may go."""
    head, (training, test) = model.head, images
    assert isinstance(head, Population)
    gaps = [eigenvalue_gap(values) for values in head.hidden_eigenvalues[0]]
    some = training[0][:SEEN], training[1][:SEEN]
    seen, tested = (_features(model, pair) for pair in (some, test))
    pruned = []
    for index in range(head.members):
        member = head.member(index)
        small = prune_eigenvalues(member, (seen[0][index], seen[1]), TASK)
        assert isinstance(small, SpectralNetwork)
        score = evaluate(small, (tested[0][index], tested[1]), TASK).score
        pruned.append((small.recruited[0], score))
    compact = [extract(head.member(index)).eval() for index in range(head.members)]

    def cut_heads(_: nn.Module, features: Tensor) -> Tensor:
        pairs = zip(compact, features, strict=True)
        return torch.stack([network(own) for network, own in pairs])

    return {
        "recruited": [counts[0] for counts in head.recruited],
        "above_gap": [int(head.count_recruited(gap)[0][index]) for index, gap in enumerate(gaps)],
        "gaps": gaps,
        "pruned": [count for count, _ in pruned],
        "pruned_accuracy": [score for _, score in pruned],
        "compact_parameters": [network.size.parameters for network in compact],
        "compact_accuracy": accuracies(model, test, cut_heads),
        "hidden_eigenvalues": head.hidden_eigenvalues[0][0].detach().abs(),
        "output_eigenvalues": head.output_eigenvalues[0].detach().abs(),
    }


def _features(model: ConvMembers, data: Pair) -> tuple[Tensor, Tensor]:
    """What the heads are given for ``data``, (members, rows, N), and the labels."""
    with evaluation_mode(model):
        parts = [model.features(x) for x in data[0].split(BATCH)]
    return torch.cat(parts, dim=1), data[1]


def with_zero_eigenvalues(head: nn.Module, features: Tensor) -> Tensor:
    """The output of spectral heads whose hidden eigenvalues are zero: L₃ φ₂ φ₁ x, a linear head."""
    assert isinstance(head, Population)
    silent = [*head.eigenvalues[:1], torch.zeros_like(head.eigenvalues[1]), head.eigenvalues[2]]
    block = spectral.weight_block(list(head.transfers), silent, 2, 0)
    return features @ block[..., :-1].mT + block[..., -1].unsqueeze(-2)


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


def resources_of(name: str, setting: Any, work: Work, training: Pair) -> Content:
    """One model alone: seconds for an epoch, after one that warms up, and the peak of memory."""
    model = model_of(name, 1, setting, training)
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


def _peak(name: str, setting: Any, training: Pair) -> int:
    """Bytes that a step takes beside the images; not captured, which would hide what it frees."""
    before = torch.cuda.memory_allocated()
    model = model_of(name, 1, setting, training)
    images, labels = (part[: 10 * setting.batch_size] for part in training)
    config = TrainConfig.paper(epochs=2, **common_options(setting))

    def forget_the_start(history: History) -> None:
        """The first epoch, in which the images are checked."""
        if history.epochs == 1:
            torch.cuda.reset_peak_memory_stats()

    train(model, (images, labels), config, on_epoch=forget_the_start, progress=False)
    return torch.cuda.max_memory_allocated() - before
