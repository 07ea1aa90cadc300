"""Normalisation of channels to mean 0 and variance 1: those of the batch, later running ones."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from torchsparcs.spectral.linear_maps import along

MOMENTUM = 0.1  # of a batch in the running numbers
EPSILON = 1e-5  # beside the variance


class ChannelNorm(nn.Module):
    """(x − mean) / √(variance + ε) for each channel.

    It is what ``nn.BatchNorm2d`` does, for any positions. Without parameters it keeps nothing for
    the backward pass but what it gives, which the map after it keeps anyway.

    Args:
        channels: how many there are.
        axis: where, counted from the end.
        affine: a ``gain`` and a ``shift`` for each channel, which are not decayed.

    Shape:
        - ``mean`` and ``variance``, the running ones, (channels,)
        - input (..., channels, positions...), output alike
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, channels: int, axis: int, *, affine: bool = False, **options: Any):
        super().__init__()
        self.axis = axis
        self.gain = nn.Parameter(torch.ones(channels, **options)) if affine else None
        self.shift = nn.Parameter(torch.zeros(channels, **options)) if affine else None
        self.register_buffer("mean", torch.zeros(channels, **options))
        self.register_buffer("variance", torch.ones(channels, **options))

    def reset(self) -> None:
        """Forget the running mean and variance."""
        self.mean.zero_()
        self.variance.fill_(1)

    @property
    def factor(self) -> Tensor:
        """The factor of each channel after training, in float64."""
        scale = (self.variance.double() + EPSILON).rsqrt()
        return scale if self.gain is None else scale * self.gain.double()

    @property
    def offset(self) -> Tensor:
        """The constant added to each channel after training, in float64."""
        centred = -self.factor * self.mean.double()
        return centred if self.shift is None else centred + self.shift.double()

    def forward(self, signal: Tensor) -> Tensor:
        rows = signal.reshape(-1, *signal.shape[self.axis :])
        # one number of a channel has no variance: what was seen before has to do
        of_the_batch = self.training and rows.numel() > len(self.mean)
        if not of_the_batch or torch.compiler.is_compiling():  # a compiler decides what to keep
            numbers = self.mean, self.variance, self.gain, self.shift
            out = F.batch_norm(rows, *numbers, of_the_batch, MOMENTUM, EPSILON)
            return out.view_as(signal)
        out = _OfTheBatch.apply(rows, self.mean, self.variance).view_as(signal)
        if self.gain is None or self.shift is None:
            return out
        scaled = along(self.gain, self.axis) * out + along(self.shift, self.axis)
        return scaled.to(out.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.mean)}, axis={self.axis}"


class _OfTheBatch(torch.autograd.Function):
    """Normalisation by the batch that keeps nothing but its output for the backward pass.

    With y = (x − m) / s, the gradient of x is (g − mean(g) − y mean(g y)) / s.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        out, _, scale = torch.native_batch_norm(
            rows, None, None, mean, variance, True, MOMENTUM, EPSILON
        )
        ctx.save_for_backward(out, scale)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        out, scale = ctx.saved_tensors
        zeros, ones = torch.zeros_like(scale), torch.ones_like(scale)
        # that of a normalisation of ``out``, whose mean is 0 and variance 1, times ``scale``
        slope, _, _ = torch.ops.aten.native_batch_norm_backward(
            gradient, out, scale, None, None, zeros, ones, True, EPSILON, [True, False, False]
        )
        return slope, None, None
