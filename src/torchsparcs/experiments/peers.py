"""The networks that a spectral network is compared with."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from torchsparcs.spectral.network import SpectralNetwork


class BlockNetwork(SpectralNetwork):
    """The same network with every W_ij formed as the paper writes it, each by itself."""

    def forward(self, input: Tensor) -> Tensor:
        if self.bias:
            input = torch.cat([input, input.new_ones(()).expand(*input.shape[:-1], 1)], dim=-1)
        activities = [input]
        for target in range(1, len(self.widths)):
            heard = (a @ self.weight_block(target, j).mT for j, a in enumerate(activities))
            pre = reduce(add, heard)
            activities.append(self.activation(pre))
        return pre


class DirectNetwork(nn.Module):
    """An MLP with an independent weight on every skip connection, without biases."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.last = len(widths) - 1
        self.blocks = nn.ModuleDict(
            {
                f"{j} to {i}": nn.Linear(widths[j], widths[i], bias=False)
                for i in range(1, len(widths))
                for j in range(i)
            }
        )

    def forward(self, input: Tensor) -> Tensor:
        activities = [input]
        for i in range(1, self.last + 1):
            pre = reduce(add, (self.blocks[f"{j} to {i}"](a) for j, a in enumerate(activities)))
            activities.append(torch.relu(pre))
        return pre


def recruited(network: SpectralNetwork) -> SpectralNetwork:
    """Draw hidden eigenvalues away from zero, so that no signal is a row of zeros."""
    for eigenvalues in network.hidden_eigenvalues:
        nn.init.normal_(eigenvalues, std=0.5)
    return network
