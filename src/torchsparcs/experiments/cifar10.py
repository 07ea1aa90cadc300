"""A spectral head on a minimal convolutional network, trained from scratch: does it grow?

Two 3x3 stages of 8 and 16 channels give 1,024 features; on them a linear head, a plain MLP of the
maximal size, or a spectral head that starts as the linear one. All seeds of a head are trained
side by side. Settings were chosen on validation images (``benchmarks/cifar10_sweep.py``); the test
images are looked at after every epoch, as in the paper, and decide nothing.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.cutting.extraction import extract
from torchsparcs.experiments.cifar10_page import draw, final, tell
from torchsparcs.experiments.experiment import Claim, Experiment
from torchsparcs.experiments.heads import (
    HEADS,
    QUICK,
    RECIPES,
    Recipe,
    Setting,
    common_options,
)
from torchsparcs.experiments.recipes import paper_config
from torchsparcs.experiments.vision import ConvMembers, fast_on_a_gpu, layout_for
from torchsparcs.experiments.work import Content, Work, read_json, write_json
from torchsparcs.images.datasets import load_images
from torchsparcs.spectral import equations as spectral
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluation_mode
from torchsparcs.training.train import train

PAPER_LINEAR = 0.682
BATCH = 2000  # test images that are looked at together


@fast_on_a_gpu()
def run(setting: Setting, work: Work) -> Content:
    training, test = _images(setting, work.device)
    results: Content = {"runs": {}, "configs": {}, "resources": {}}
    for key, recipe in RECIPES.items():
        config = replace(recipe.config(setting), capture=work.on_gpu)
        results["configs"][key] = asdict(config)
        results["runs"][key] = {
            name: work.part(
                f"{head.name}, {recipe.name}",
                partial(_trained, name, recipe, config, setting, work, training, test),
            )
            for name, head in HEADS.items()
        }
    for name, head in HEADS.items():
        results["resources"][name] = work.part(
            f"time and memory, {head.name}", partial(_resources, name, setting, work, training)
        )
    return results


def _images(setting: Setting, device: torch.device) -> tuple[Pair, Pair]:
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
    name: str,
    recipe: Recipe,
    config: TrainConfig,
    setting: Setting,
    work: Work,
    training: Pair,
    test: Pair,
) -> Content:
    """All seeds of one head; of a spectral one also without its hidden neurons, epoch by epoch."""
    torch.manual_seed(0)
    model = _model(name, setting.seeds, setting, training, recipe.dropout.get(name, 0.0))
    part = f"{HEADS[name].name}, {recipe.name}"
    removed_file = work.parts / f"removed_{name}_{config.epochs}.json"
    removed = read_json(removed_file)["removed"] if removed_file.exists() else []

    def look(history: History) -> None:
        del removed[history.epochs - 1 :]  # of epochs that a resumed run goes through again
        removed.append(accuracies(model, test, without_hidden))
        write_json(removed_file, {"removed": removed})

    history = work.train(
        part,
        model,
        training,
        config,
        validation=test,
        on_epoch=look if name == "spectral" else None,
    )
    removed_file.unlink(missing_ok=True)
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
    """Of each member with ``head(model.head, features)`` in the place of its own output."""
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
    config = paper_config(
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
    config = paper_config(epochs=2, **common_options(setting))

    def forget_the_start(history: History) -> None:
        """The first epoch, in which the images are checked."""
        if history.epochs == 1:
            torch.cuda.reset_peak_memory_stats()

    train(model, (images, labels), config, on_epoch=forget_the_start, progress=False)
    return torch.cuda.max_memory_allocated() - before


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    results, setting = content["results"], content["setting"]
    paper, own = results["runs"]["paper"], results["runs"]["own"]
    linear = final(paper["linear"]).mean()
    gains = {
        key: 100 * (np.mean(run["spectral"]["compact_accuracy"]) - linear)
        for key, run in results["runs"].items()
    }
    same = 100 * (np.mean(own["spectral"]["compact_accuracy"]) - final(own["linear"]).mean())
    recruited = own["spectral"]["recruited"]
    resources = results["resources"]
    time = resources["spectral"]["epoch_seconds"] / resources["linear"]["epoch_seconds"]
    found = [
        Claim(
            f"the linear head is within 1 point of the paper's {100 * PAPER_LINEAR:.1f} %",
            f"{100 * linear:.1f} %",
            bool(round(100 * abs(linear - PAPER_LINEAR), 1) <= 1),
        ),
        Claim(
            "the spectral head, the paper's recipe, cut: 5.7 points above it",
            f"{gains['paper']:+.1f}",
            bool(gains["paper"] >= 5.7),
        ),
        Claim(
            "the spectral head, our recipe, cut: 5.7 points above it",
            f"{gains['own']:+.1f} ({same:+.1f} above a linear head trained our way)",
            bool(gains["own"] >= 5.7),
        ),
        Claim(
            f"our recipe recruits fewer than {setting['hidden']} neurons",
            f"{min(recruited)} to {max(recruited)}",
            max(recruited) < setting["hidden"],
        ),
        Claim(
            "an epoch takes at most 1.25 times as long as with the linear head",
            f"{time:.2f} times",
            time <= 1.25,
        ),
    ]
    if "peak_bytes" in resources["spectral"]:
        seconds = 300 * resources["spectral"]["epoch_seconds"]
        linear_bytes, spectral_bytes = (resources[n]["peak_bytes"] for n in ("linear", "spectral"))
        images = resources["linear"]["image_bytes"]
        share = (spectral_bytes + images) / (linear_bytes + images)
        found += [
            Claim("300 epochs take at most 60 s", f"{seconds:.0f} s", seconds <= 60),
            Claim(
                "peak memory, with the images on the GPU, within 1.3 times",
                f"{share:.2f} times ({spectral_bytes / linear_bytes:.2f} without the images)",
                share <= 1.3,
            ),
        ]
    return found


CIFAR10 = Experiment(
    name="cifar10",
    shows="A spectral head on a convolutional network trained from scratch grows where that helps.",
    figures="Figures 16 and 17 and the resource table of the paper's CIFAR-10",
    cost="30 models: 10 min on a GPU; needs CIFAR-10 in the folder data",
    quick_cost="12 models on a part of the images: 5 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    tell=tell,
    claims=claims,
)
