"""A picked network with its preprocessing, as one module to export."""

import copy
import json
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.reading import quoted
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.version import __version__


class DeployedNetwork(nn.Module):
    """From encoded columns in their own units to probabilities, or to values in theirs.

    The encoded columns are ``preprocessing.inputs.supplied_names``: numbers as they are in the
    table, NaN where they are missing, zeros and ones for text, the parts of dates. The network is
    a copy: where this module goes, it goes alone.

    Args:
        about: lines on how the network was found, for the comments of generated code.

    Shape:
        - input (rows, supplied columns); float64 where columns are far from zero for their spread,
          which float32 does not resolve
        - output (rows, classes) for classification, (rows, outputs) for regression
    """

    def __init__(
        self, network: CompactNetwork, preprocessing: Preprocessing, about: Sequence[str] = ()
    ):
        super().__init__()
        self.network = copy.deepcopy(network)
        self.preprocessing = preprocessing
        self.about = tuple(about)
        inputs, target = preprocessing.inputs, preprocessing.target
        self.mean: Tensor
        self.scale: Tensor
        self.output_mean: Tensor
        self.output_scale: Tensor
        self.least: Tensor  # that is answered, where it is bounded
        self.most: Tensor
        self.sources: Tensor  # of what tells that a number is missing, its supplied column
        self.order: Tensor  # of the network's inputs: supplied columns, then what tells
        told = [*inputs.indicators]
        numbers = [place for place in range(len(inputs.mean)) if place not in inputs.indicators]
        self.register_buffer("sources", torch.tensor([*inputs.indicators.values()]).long())
        self.register_buffer("order", torch.tensor([*numbers, *told]).argsort())
        for name, values in (
            ("mean", inputs.mean),
            ("scale", inputs.scale),
            ("output_mean", target.mean),
            ("output_scale", target.scale),
            ("least", target.low),
            ("most", target.high),
        ):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        self._warn_of_large_targets()

    def _warn_of_large_targets(self) -> None:
        large = self.output_mean.abs() + 10 * self.output_scale > torch.finfo(torch.float32).max
        names = self.preprocessing.target.names
        _warn([name for name, is_large in zip(names, large.tolist(), strict=False) if is_large])

    def warn_of_coarse_columns(self) -> None:
        """Warn of columns that float32 does not resolve, for files that take them so."""
        limits = torch.finfo(torch.float32)
        size = self.mean.abs() + 10 * self.scale
        coarse = (size * limits.eps > 1e-3 * self.scale) | (size > limits.max)
        names = self.preprocessing.inputs.encoded_names
        _warn([name for name, is_coarse in zip(names, coarse.tolist(), strict=True) if is_coarse])

    def forward(self, input: Tensor) -> Tensor:
        values = input.double()
        if len(self.sources):
            told = values[:, self.sources].isnan().double()
            values = torch.cat([values, told], dim=1)[:, self.order]
        standard = (values - self.mean) / self.scale
        output = self.network(standard.masked_fill(values.isnan(), 0.0).float())
        task = self.preprocessing.target.task
        if task == "regression":
            values = output.double() * self.output_scale + self.output_mean
            return (values.clamp(self.least, self.most) if len(self.least) else values).float()
        if task == "binary":
            return torch.cat([-output, output], dim=-1).sigmoid()
        return output.softmax(dim=-1)

    @property
    def example(self) -> Tensor:
        """Rows of supplied columns, (3, supplied): the mean, one scale above it, all missing."""
        is_supplied = self.order < len(self.order) - len(self.sources)
        mean, scale = self.mean[is_supplied], self.scale[is_supplied]
        return torch.stack([mean, mean + scale, torch.full_like(mean, torch.nan)]).float()

    @property
    def metadata(self) -> dict[str, str]:
        """What a file needs beside the network, as texts: lists are JSON."""
        target = self.preprocessing.target
        values = {
            "columns": self.preprocessing.inputs.supplied_names,
            "target": target.names,
            "task": target.task,
            "classes": target.classes,
            "version": f"torchsparcs {__version__}",
        }
        return {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in values.items()
        }


def _warn(names: list[str]) -> None:
    if names:
        warnings.warn(
            f"float32 is too coarse for {quoted(names, 3)}: the exported network answers less "
            "well than this one. Subtract a constant from such columns.",
            stacklevel=4,
        )
