"""A picked network with its preprocessing, as one module to export."""

import copy
import json
import warnings

import torch
from torch import Tensor, nn

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.messages import quoted
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.version import __version__


class DeployedNetwork(nn.Module):
    """From encoded columns in their own units to probabilities, or to values in theirs.

    The encoded columns are ``preprocessing.inputs.encoded_names``: numbers as they are in the
    table, zeros and ones for text. The network is a copy: where this module goes, it goes alone.

    Shape:
        - input (rows, encoded columns); float64 where columns are far from zero for their spread,
          which float32, and so an ONNX file, does not resolve: a warning names them
        - output (rows, classes) for classification, (rows, outputs) for regression
    """

    def __init__(self, network: CompactNetwork, preprocessing: Preprocessing):
        super().__init__()
        self.network = copy.deepcopy(network)
        self.preprocessing = preprocessing
        inputs, target = preprocessing.inputs, preprocessing.target
        self.mean: Tensor
        self.scale: Tensor
        self.output_mean: Tensor
        self.output_scale: Tensor
        for name, values in (
            ("mean", inputs.mean),
            ("scale", inputs.scale),
            ("output_mean", target.mean),
            ("output_scale", target.scale),
        ):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        self._warn_of_coarse_columns()

    def _warn_of_coarse_columns(self) -> None:
        limits = torch.finfo(torch.float32)
        size = self.mean.abs() + 10 * self.scale
        coarse = (size * limits.eps > 1e-3 * self.scale) | (size > limits.max)
        large = self.output_mean.abs() + 10 * self.output_scale > limits.max
        inputs, target = self.preprocessing.inputs, self.preprocessing.target
        columns = [*zip(inputs.encoded_names, coarse.tolist(), strict=True)]
        columns += zip(target.names, large.tolist(), strict=False)  # classes have no scale
        if found := [name for name, is_coarse in columns if is_coarse]:
            warnings.warn(
                f"float32 is too coarse for {quoted(found, 3)}: the exported network answers less "
                "well than this one. Subtract a constant from such columns.",
                stacklevel=3,
            )

    def forward(self, input: Tensor) -> Tensor:
        output = self.network(((input.double() - self.mean) / self.scale).float())
        task = self.preprocessing.target.task
        if task == "regression":
            return (output.double() * self.output_scale + self.output_mean).float()
        if task == "binary":
            return torch.cat([-output, output], dim=-1).sigmoid()
        return output.softmax(dim=-1)

    @property
    def example(self) -> Tensor:
        """Two rows of encoded columns, (2, encoded columns): the mean, and one scale above it."""
        return torch.stack([self.mean, self.mean + self.scale]).float()

    @property
    def metadata(self) -> dict[str, str]:
        """What a file needs beside the network, as texts: lists are JSON."""
        target = self.preprocessing.target
        values = {
            "columns": self.preprocessing.inputs.encoded_names,
            "target": target.names,
            "task": target.task,
            "classes": target.classes,
            "version": f"torchsparcs {__version__}",
        }
        return {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in values.items()
        }
