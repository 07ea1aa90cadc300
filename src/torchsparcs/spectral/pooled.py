"""A mean over positions and a dense map, between convolutions and Linears."""

import torch
from torch import Tensor, nn


class Pooled(nn.Module):
    """The mean over all positions, then a dense map; in a spectral network without a bias.

    >>> Pooled(8, 10)(torch.zeros(2, 8, 4, 4)).shape
    torch.Size([2, 10])

    Args:
        positions: how many axes are averaged over, 2 for images.

    Shape:
        - input (..., in_channels, positions...), output (..., out_channels)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        positions: int = 2,
        *,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.in_channels, self.out_channels, self.positions = in_channels, out_channels, positions
        self.dense = nn.Linear(in_channels, out_channels, bias, device=device, dtype=dtype)

    @property
    def channel_axis(self) -> tuple[int, int]:
        return -1 - self.positions, -1

    @property
    def bias(self) -> Tensor | None:
        return self.dense.bias

    def pooled(self, input: Tensor) -> Tensor:
        return input.mean(dim=tuple(range(-self.positions, 0)))

    def forward(self, input: Tensor) -> Tensor:
        return self.dense(self.pooled(input))
