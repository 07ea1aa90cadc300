"""Plain networks with random weights, of several shapes and about any size."""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace


class Shape(NamedTuple):
    """Equal hidden layers, each of which hears the one before; ``skip``: outputs hear the inputs.

    No hidden layer and a skip is the linear model.
    """

    layers: int
    skip: bool = False

    def __str__(self) -> str:
        return f"{self.layers} hidden{', skip' * self.skip}"

    def width(self, inputs: int, outputs: int, parameters: float) -> int:
        """The width w at which a network has about so many ``parameters``, zero if none has.

        They are (L − 1) w² + (I + L + O) w + O, and I · O for a skip.
        """
        square, linear = self.layers - 1, inputs + self.layers + outputs
        left = parameters - outputs * (1 + self.skip * inputs)
        if left <= 0:
            return 0
        if not square:
            return round(left / linear)
        return round((math.sqrt(linear**2 + 4 * square * left) - linear) / (2 * square))


LINEAR = Shape(0, skip=True)
SHAPES = (Shape(1), Shape(1, skip=True), Shape(2))


def drawn(like: DirectSpace, shape: Shape, width: int, seed: int) -> DirectSpace:
    """A network with the inputs and outputs of ``like``, weights uniform at He's scale."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    inputs, outputs, hidden = like.inputs, like.outputs, shape.layers * width
    weights = torch.zeros(hidden + outputs, inputs + hidden, dtype=torch.float64)
    bias = torch.full((hidden + outputs,), 1e-3, dtype=torch.float64)
    heard = slice(0, inputs)
    for start in range(0, hidden, width or 1):
        rows, fan_in = slice(start, start + width), heard.stop - heard.start
        weights[rows, heard] = _uniform(generator, width, fan_in) * math.sqrt(2)
        bias[rows] = _uniform(generator, width, fan_in)[:, 0]
        heard = slice(inputs + start, inputs + start + width)
    if hidden:
        weights[hidden:, heard] = _uniform(generator, outputs, width)
    if shape.skip:
        weights[hidden:, :inputs] = _uniform(generator, outputs, inputs)
    layers = torch.arange(1, shape.layers + 1).repeat_interleave(width).to(like.layers.dtype)
    device = like.weights.device
    return replace(like, weights=weights.to(device), bias=bias.to(device), layers=layers.to(device))


def _uniform(generator: torch.Generator, rows: int, columns: int) -> Tensor:
    numbers = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return (2 * numbers - 1) * math.sqrt(3 / max(1, columns))
