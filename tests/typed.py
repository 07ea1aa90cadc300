"""A user's file: what mypy says of the types that come back. Nobody runs it."""

from pathlib import Path
from typing import Any, assert_type

import torch
from torch import nn

from torchsparcs import (
    CompactChain,
    CompactNetwork,
    SpectralCNN,
    SpectralNetwork,
    extract,
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
assert_type(spectralize(Model(), target="head", hidden=[4]), Model)
assert_type(spectralize(Model(), target=["head"], hidden={"head": [4]}), Model)
assert_type(spectralize(nn.Linear(3, 2), target="", hidden=[4]), Any)
assert_type(load(Path("file"), into=Model()), Model)
