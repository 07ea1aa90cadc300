"""A picked network with its preprocessing, as one module that needs nothing of this library."""

import torch
from torch import Tensor, nn

from torchsparcs.compact import CompactNetwork
from torchsparcs.preprocessing import Preprocessing


class DeployedNetwork(nn.Module):
    """From encoded columns in their own units to probabilities, or to values in theirs.

    The encoded columns are ``preprocessing.inputs.encoded_names``: numbers as they are in the
    table, zeros and ones for text.

    Shape:
        - input (rows, encoded columns)
        - output (rows, classes) for classification, (rows, outputs) for regression
    """

    def __init__(self, network: CompactNetwork, preprocessing: Preprocessing):
        super().__init__()
        self.network = network
        self.task = preprocessing.target.task
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
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32))

    def forward(self, input: Tensor) -> Tensor:
        output = self.network((input - self.mean) / self.scale)
        if self.task == "regression":
            return output * self.output_scale + self.output_mean
        if self.task == "binary":
            return torch.cat([-output, output], dim=-1).sigmoid()
        return output.softmax(dim=-1)
