"""A spectral head on a strong network that was trained before: does it stay linear?

One epoch of fine-tuning the whole network on CIFAR-100, once with a linear head and once with a
spectral one. The features are good enough for a linear head, so nothing should be recruited.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from torchsparcs.cutting.extraction import extract
from torchsparcs.experiments import plots
from torchsparcs.experiments.backbones import BACKBONES, FineTuned
from torchsparcs.experiments.experiment import Claim, Experiment
from torchsparcs.experiments.recipes import paper_config
from torchsparcs.experiments.vision import fast_on_a_gpu, layout_for
from torchsparcs.experiments.work import Content, Work
from torchsparcs.images.datasets import load_images
from torchsparcs.report.document import markdown_table
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectralizing.spectralize import spectralize
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = "multiclass"
AT_ONCE = 500  # test images
HEADS = {"linear": "linear head", "spectral": "spectral head"}
COLOURS = {"hidden": plots.GREEN, "output": plots.BLUE}
PAPER = {"linear": (73.2, 138.8, 408.4), "spectral": (72.7, 139.5, 518.5)}  # %, seconds, MB


@dataclass(frozen=True)
class Setting:
    """The paper's protocol on a backbone whose weights can be had by pip."""

    data: str = "cifar100"
    backbone: str = "efficientnet-lite0"
    side: int = 160
    train_rows: int = 50_000
    test_rows: int = 10_000
    seeds: int = 3
    hidden: int = 526
    batch_size: int = 128
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.backbone not in BACKBONES:
            raise ValueError(
                f"Expected a backbone among {', '.join(BACKBONES)}. Got {self.backbone!r}."
            )


QUICK = Setting(side=64, train_rows=2000, test_rows=500, seeds=1)


def config_of(setting: Setting, seed: int, *, on_gpu: bool) -> TrainConfig:
    return paper_config(
        task=TASK,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        penalty="l1",
        penalty_weight=1e-4,
        seed=seed,
        capture=on_gpu,
    )


@fast_on_a_gpu()
def run(setting: Setting, work: Work) -> Content:
    model_of("linear", 0, 2, setting)  # without a backbone no data are asked for
    training, test, classes = _images(setting, work.device)
    runs: dict[str, list[Content]] = {name: [] for name in HEADS}
    for seed in range(setting.seeds):
        for name, title in HEADS.items():
            one = partial(_fine_tuned, name, seed, classes, setting, work, training, test)
            runs[name].append(work.part(f"{title}, seed {seed}", one))
    return {"runs": runs, "config": asdict(config_of(setting, 0, on_gpu=work.on_gpu))}


def _images(setting: Setting, device: torch.device) -> tuple[Pair, Pair, int]:
    """Pairs with pixel values from 0 to 1, and how many classes there are."""
    images = load_images(setting.data)
    pairs = (
        (images.train_x[: setting.train_rows], images.train_y[: setting.train_rows]),
        (images.test_x[: setting.test_rows], images.test_y[: setting.test_rows]),
    )
    training, test = ((x.to(device).float() / 255, y.to(device)) for x, y in pairs)
    return training, test, len(images.classes)


def model_of(name: str, seed: int, classes: int, setting: Setting) -> nn.Module:
    """The backbone with a new head, a linear one or a spectral one in its place."""
    torch.manual_seed(seed)
    backbone = BACKBONES[setting.backbone]
    model = FineTuned(backbone, classes, setting.side)
    if name == "linear":
        return model
    return spectralize(model, target=f"backbone.{backbone.head}", hidden=[setting.hidden])


def _fine_tuned(
    name: str, seed: int, classes: int, setting: Setting, work: Work, training: Pair, test: Pair
) -> Content:
    model = model_of(name, seed, classes, setting).to(
        work.device,
        memory_format=layout_for(work.device),  # type: ignore[call-overload]
    )
    if work.on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    config = config_of(setting, seed, on_gpu=work.on_gpu)
    history = work.train(f"{HEADS[name]}, seed {seed}", model, training, config)
    found: Content = {"seconds": sum(history.seconds)}
    if work.on_gpu:
        found["peak_bytes"] = torch.cuda.max_memory_allocated() - before
    found["accuracy"] = evaluate(model, test, TASK, batch_size=AT_ONCE).score
    if name == "spectral":
        head = next(part for part in model.modules() if isinstance(part, SpectralNetwork))
        removed = removed_hidden(model)
        found |= {
            "hidden_eigenvalues": head.hidden_eigenvalues[0].detach().abs(),
            "output_eigenvalues": head.output_eigenvalues.detach().abs(),
            "removed": evaluate(removed, test, TASK, batch_size=AT_ONCE).score,
        }
    return found


def removed_hidden(model: nn.Module) -> nn.Module:
    """A copy whose spectral heads have no hidden neurons any more, ordinary Linears."""
    name, head = next(
        (name, part) for name, part in model.named_modules() if isinstance(part, SpectralNetwork)
    )
    cut = extract(head, keep=[torch.zeros(width, dtype=torch.bool) for width in head.widths[1:-1]])
    without = extract(model)
    without.set_submodule(name, cut)
    return without.train(model.training)


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    runs = content["results"]["runs"]
    scores = {name: 100 * np.array([run["accuracy"] for run in runs[name]]) for name in HEADS}
    linear, spectral = (scores[name].mean() for name in ("linear", "spectral"))
    said = [f"{scores[name].mean():.1f} ± {scores[name].std():.1f}" for name in scores][::-1]
    removed = 100 * np.mean([run["removed"] for run in runs["spectral"]])
    ratio = min(
        np.median(run["output_eigenvalues"]) / max(run["hidden_eigenvalues"])
        for run in runs["spectral"]
    )
    return [
        Claim(
            "every hidden eigenvalue is at least ten times smaller than those of the output",
            f"{ratio:,.0f} times smaller (largest hidden, median of the output)",
            bool(ratio >= 10),
        ),
        Claim(
            "the spectral head is within 1 point of the linear head (paper: 72.7 and 73.2 %)",
            f"{' and '.join(said)} %",
            bool(abs(spectral - linear) <= 1),
        ),
        Claim(
            "nothing is lost when the hidden neurons are removed",
            f"{spectral - removed:.1f} points",
            bool(spectral - removed <= 0.5),
        ),
    ]


# --- figures and the page -------------------------------------------------------------------------


def draw(content: Content) -> "dict[str, Figure]":
    first = content["results"]["runs"]["spectral"][0]
    figure = plots.new_figure(8, 3)
    panels: Any = figure.subplots(1, 2)
    for axes, (layer, colour) in zip(panels, COLOURS.items(), strict=True):
        plots.draw_histogram(axes, first[f"{layer}_eigenvalues"], colour=colour)
        axes.set_title(f"{layer} layer, seed 0", fontsize=9)
    return {"eigenvalues": figure}


def tell(content: Content) -> dict[str, Any]:
    results, setting = content["results"], content["setting"]
    rows = []
    for name, title in HEADS.items():
        found = results["runs"][name]
        accuracy = 100 * np.array([run["accuracy"] for run in found])
        peaks = [run["peak_bytes"] / 1e6 for run in found if "peak_bytes" in run]
        score, seconds, memory = PAPER[name]
        rows.append(
            [
                title,
                f"{accuracy.mean():.2f} ± {accuracy.std():.2f}",
                score,
                f"{np.median([run['seconds'] for run in found]):.1f}",
                seconds,
                f"{np.median(peaks):.1f}" if peaks else "not measured",
                memory,
            ]
        )
    head = ["", "test accuracy, %", "the paper", "fine-tuning, s", "the paper"]
    config = results["config"]
    return {
        "backbone": setting["backbone"],
        "side": setting["side"],
        "hidden": setting["hidden"],
        "seeds": setting["seeds"],
        "numbers": markdown_table([*head, "peak memory, MB", "the paper"], rows),
        "hyperparameters": markdown_table(
            ["hyperparameter", "the paper", "here"],
            [
                ["backbone", "EfficientNetV2-S", setting["backbone"]],
                ["learning rate", "1e-3", config["lr"]],
                ["batch size", 128, config["batch_size"]],
                ["epochs", 1, config["epochs"]],
                ["hidden neurons, at most", 526, setting["hidden"]],
                ["optimizer", "Adam", "Adam (AdamW without decay)"],
                ["penalty, its weight", "L1, 1e-4", f"l1, {config['penalty_weight']:g}"],
                ["models", 100, setting["seeds"]],
            ],
        ),
    }


CIFAR100 = Experiment(
    name="cifar100",
    shows="A spectral head on a strong network that was trained before stays linear.",
    figures="Figure 18 and the resource table of the paper's CIFAR-100",
    cost="6 fine-tunings: 5 min on a GPU; needs CIFAR-100 in the folder data, and the extra vision",
    quick_cost="2 fine-tunings on a part of the images: 5 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    tell=tell,
    claims=claims,
)
