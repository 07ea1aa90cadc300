"""A user's file: what mypy says of the types that come back. Nobody runs it."""

from pathlib import Path
from typing import Any, assert_type

import torch
from torch import nn

from torchsparcs import (
    CompactChain,
    CompactNetwork,
    ModelFront,
    SpectralCNN,
    SpectralNetwork,
    extract,
    extract_front,
    load,
    spectralize,
)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)


x = torch.zeros(2, 3)
assert_type(extract(SpectralNetwork([3, 4, 2])), CompactNetwork)
assert_type(extract(SpectralCNN([3, 4, 2])), CompactChain)
assert_type(extract(Model(), data=(x, x), validation=(x, x), task="regression"), Model)
front = extract_front(
    Model(), data=[({"x": x}, x)], validation=((x, x), x), task="regression", size="macs"
)
assert_type(front, ModelFront[Model])
assert_type(front.within(max_macs=9).model, Model)
assert_type(ModelFront.load("folder", into=Model()), ModelFront[Model])
assert_type(spectralize(Model(), target="head", hidden=[4]), Model)
assert_type(spectralize(Model(), target=["head"], hidden={"head": [4]}), Model)
assert_type(spectralize(nn.Linear(3, 2), target="", hidden=[4]), Any)
assert_type(load(Path("file"), into=Model()), Model)
