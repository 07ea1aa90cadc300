"""Spectral networks whose transfers are any linear maps: convolutions, above all."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.spectral.activations import Activation
from torchsparcs.spectral.layer_kinds import WEIGHTED
from torchsparcs.spectral.linear_maps import along, checked_maps, products, reset_weight_
from torchsparcs.spectral.network import SpectralModule, check_input, checked_widths
from torchsparcs.spectral.norm import ChannelNorm
from torchsparcs.spectral.pooled import Pooled


class SpectralChain(SpectralModule):
    """A network with every skip connection whose transfers φₖ are linear maps, one after the other.

    With z₀ = x, and L₀ = 0,

        uₖ = φₖ zₖ + bₖ,   preₖ₊₁ = φₖ (Lₖ ⊙ zₖ) − Lₖ₊₁ ⊙ uₖ,   zₖ₊₁ = f(preₖ₊₁) − uₖ,

    and the output is the last pre. Each layer has one eigenvalue for each channel. As long as the
    hidden ones are zero it is one linear map, the composition of all transfers.

    >>> maps = [nn.Conv1d(2, 8, 3, bias=False), nn.Conv1d(8, 8, 3, bias=False), Pooled(8, 5, 1)]
    >>> SpectralChain(maps)(torch.zeros(4, 2, 20)).shape
    torch.Size([4, 5])

    Args:
        maps: modules without a bias: convolutions, transposed ones, Linears, :class:`Pooled`, an
            embedding as the first, or any other linear module that says its ``in_channels``,
            ``out_channels`` and ``channel_axis``, counted from the end.
        activation: a name from ``ACTIVATIONS`` or any callable; not applied to the output.
        bias: a constant bₖ for each channel of each layer, which starts at zero.
        normalise: bring each channel of each hidden zₖ to mean 0 and variance 1, those of the batch
            in training and running ones later. Then it is a factor and a constant: extraction folds
            it into the layers, and without hidden eigenvalues all is one affine map still. The
            transfers but the last bear a strong decay with it.
        example: an input to try the maps on; only needed where they are of unknown kinds and
            particular about their input.

    Shape:
        - input as the first map takes it, output as the last gives it
        - ``hidden_eigenvalues[k]`` and ``biases[k]`` (channels that ``maps[k]`` gives,)
    """

    def __init__(
        self,
        maps: Sequence[nn.Module],
        *,
        activation: str | Activation = "relu",
        bias: bool = True,
        normalise: bool = False,
        example: Tensor | None = None,
    ):
        super().__init__()
        channels = checked_maps(maps, example)
        self.channels = (channels[0].count_in, *(one.count_out for one in channels))
        self.axes = (channels[0].axis_in, *(one.axis_out for one in channels))
        self.set_activation(activation)
        self.maps = nn.ModuleList(maps)
        like = next((p for one in maps for p in one.parameters()), torch.empty(0))
        options: Any = {"device": like.device, "dtype": like.dtype}
        counts = self.channels[1:]
        zeros = [torch.zeros(count, **options) for count in counts[:-1]]
        self.hidden_eigenvalues = nn.ParameterList(zeros)
        self.output_eigenvalues = nn.Parameter(torch.ones(counts[-1], **options))
        zeros = [torch.zeros(count, **options) for count in counts]
        self.biases = nn.ParameterList(zeros) if bias else None
        norms = [
            ChannelNorm(count, axis, **options)
            for count, axis in zip(counts[:-1], self.axes[1:-1], strict=True)
        ]
        self.norms = nn.ModuleList(norms) if normalise else None

    def reset_parameters(self) -> None:
        """Go back to one linear map, its weights drawn anew; embeddings and unknown maps stay."""
        for one in self.maps:
            reset_weight_(one)
        for values in self.hidden_eigenvalues:
            nn.init.zeros_(values)
        nn.init.ones_(self.output_eigenvalues)
        for bias in self.biases or ():
            nn.init.zeros_(bias)
        for norm in self.normalisation:
            norm.reset()

    @property
    def transfer_parameters(self) -> list[nn.Parameter]:
        return list(self.maps.parameters())

    @property
    def bias(self) -> bool:
        """Whether the layers have constants bₖ."""
        return self.biases is not None

    @property
    def normalise(self) -> bool:
        """Whether hidden channels are brought to mean 0 and variance 1."""
        return self.norms is not None

    @property
    def normalisation(self) -> list[ChannelNorm]:
        """The normalisation of each hidden layer, or none at all."""
        return [norm for norm in self.norms or () if isinstance(norm, ChannelNorm)]

    def forward(self, input: Tensor) -> Tensor:
        if type(self.maps[0]) in (*WEIGHTED, Pooled):
            check_input(input, self.channels[0], self.axes[0])
        z, last = input, len(self.maps) - 1
        eigenvalues = [None, *self.hidden_eigenvalues, self.output_eigenvalues]
        for k, (source, target) in enumerate(pairwise(eigenvalues)):
            axes = self.axes[k], self.axes[k + 1]
            inflow, image = products(self.maps[k], z, source, target, axes, both=k < last)
            pre = self._with_bias(k, inflow, -target)
            if image is not None:
                active = self.activation(pre)
                if self.norms is None:
                    z = active - self._with_bias(k, image)
                else:  # which no constant in z would outlast
                    z = self.norms[k](active - image)
        return pre

    def _with_bias(self, k: int, signal: Tensor, scale: Tensor | None = None) -> Tensor:
        """``signal`` after map k with its constants, times ``scale`` where given."""
        if self.biases is None:
            return signal
        constants = self.biases[k] if scale is None else scale * self.biases[k]
        return signal + along(constants, self.axes[k + 1])

    def extra_repr(self) -> str:
        return self.described(self.channels)


class SpectralCNN(SpectralChain):
    """A convolutional network that starts as a linear classifier and grows channels and layers.

    >>> network = SpectralCNN([3, 32, 64, 64, 128, 10])
    >>> network
    SpectralCNN(3 → 32 → 64 → 64 → 128 → 10, relu, recruited 0 of 32, 0 of 64, 0 of 64, 0 of 128)
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])

    Args:
        channels: of the images, of each convolution, and how many outputs there are.
        kernel_size: odd; the padding keeps the size of an image.
        strides: of each convolution. By default 2 where the channels grow, past the first.
        normalise: as in :class:`SpectralChain`, and by default.

    A fresh network keeps the size of signals and gradients at any depth, normalised or not.

    Shape:
        - input (..., channels[0], height, width), output (..., channels[-1])
    """

    def __init__(
        self,
        channels: Sequence[int],
        *,
        kernel_size: int = 3,
        strides: Sequence[int] | None = None,
        activation: str | Activation = "relu",
        bias: bool = True,
        normalise: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        if len(channels) < 3:
            raise ValueError(
                "Expected channels of the images, of at least one convolution, and how many "
                f"outputs there are. Got {list(channels)!r}."
            )
        *sizes, outputs = checked_widths(channels)
        pairs = list(pairwise(sizes))
        if strides is None:
            strides = [1, *(2 if there > here else 1 for here, there in pairs[1:])]
        whole = all(isinstance(stride, Integral) and stride > 0 for stride in strides)
        if len(strides) != len(pairs) or not whole:
            raise ValueError(f"Expected {len(pairs)} strides. Got {list(strides)!r}.")
        if not isinstance(kernel_size, Integral) or kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"Expected an odd kernel_size. Got {kernel_size!r}.")
        options: Any = {"bias": False, "device": device, "dtype": dtype}
        maps: list[nn.Module] = [
            nn.Conv2d(here, there, kernel_size, stride=stride, padding=kernel_size // 2, **options)
            for (here, there), stride in zip(pairs, strides, strict=True)
        ]
        pooled = Pooled(sizes[-1], outputs, device=device, dtype=dtype)
        super().__init__([*maps, pooled], activation=activation, bias=bias, normalise=normalise)
        self.kernel_size, self.strides = int(kernel_size), tuple(map(int, strides))
        self.reset_parameters()
