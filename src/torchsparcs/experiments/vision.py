"""A minimal convolutional network with a head, for many members at once.

Members see the same batches and share nothing else: their channels stand side by side, grouped
convolutions keep them apart, and batch normalisation works channel by channel anyway.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.spectral.population import HasMembers, Population


@contextlib.contextmanager
def fast_on_a_gpu() -> Iterator[None]:
    """Matrix products in TF32, as convolutions are by default; convolutions by trying them out."""
    cudnn = torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), cudnn.benchmark
    torch.set_float32_matmul_precision("high")
    cudnn.benchmark = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        cudnn.benchmark = before[1]


def layout_for(device: torch.device) -> torch.memory_format:
    """The fastest layout of images, and of the convolutions that see them."""
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


class ConvMembers(nn.Module, HasMembers):
    """Per member conv-batchnorm-relu-maxpool stages, dropout, and a head on the features.

    Shape:
        - input (batch, channels, height, width), the same for all members
        - features (members, batch, N), output (members, batch, classes)
    """

    def __init__(
        self,
        head: Callable[[int, int], nn.Module],
        *,
        members: int,
        channels: Sequence[int] = (8, 16),
        image: tuple[int, int, int] = (3, 32, 32),
        dropout: Sequence[float] = (0.0,),
    ):
        super().__init__()
        self.members = members
        stages: list[nn.Module] = []
        before, groups = image[0], 1
        for count in channels:
            stages += [
                MemberConv(before * groups, count * members, 3, padding=1, groups=groups),
                nn.BatchNorm2d(count * members),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
            before, groups = count, members
        self.stages = nn.Sequential(*stages)
        self.dropout = MemberDropout(dropout) if any(dropout) else nn.Identity()
        size = 2 ** len(channels)
        self.width = channels[-1] * (image[1] // size) * (image[2] // size)
        self.head = head(members, self.width)

    def features(self, input: Tensor) -> Tensor:
        maps = self.stages(input)
        return maps.reshape(len(input), self.members, self.width).transpose(0, 1)

    def forward(self, input: Tensor) -> Tensor:
        return self.head(self.dropout(self.features(input)))


class MemberConv(nn.Conv2d):
    """A 3x3 convolution of stride 1 whose groups are members, on a GPU by their patches."""

    def forward(self, input: Tensor) -> Tensor:
        is_slow = self.groups > 1 and input.is_cuda  # five groups took eight times as long as one
        return self.by_patches(input) if is_slow else super().forward(input)

    def by_patches(self, input: Tensor) -> Tensor:
        """The same as patches times weights, one product for each member."""
        rows, members = len(input), self.groups
        height, width = input.shape[-2:]
        windows = F.pad(input, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)
        own = windows.unflatten(1, (members, -1)).permute(1, 0, 3, 4, 2, 5, 6)
        patches = own.reshape(members, rows * height * width, -1)  # (.., channels · 9)
        weights = self.weight.reshape(members, -1, patches.shape[-1])
        assert self.bias is not None
        maps = torch.baddbmm(self.bias.view(members, 1, -1), patches, weights.mT)
        split = maps.view(members, rows, height, width, -1)
        return split.permute(1, 2, 3, 0, 4).flatten(3).permute(0, 3, 1, 2)  # channels last


class MemberDropout(nn.Module):
    """Dropout with a rate for each member, on (members, batch, N); one rate serves for all."""

    def __init__(self, rates: Sequence[float]):
        super().__init__()
        self.keep: Tensor
        self.register_buffer("keep", 1 - torch.tensor(rates).view(-1, 1, 1), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        return input * (torch.rand_like(input) < self.keep) / self.keep


class MemberLinear(nn.Module):
    """``nn.Linear`` for each member, drawn as it is drawn: (members, batch, N) to (.., M)."""

    def __init__(self, members: int, n_in: int, n_out: int):
        super().__init__()
        bound = 1 / math.sqrt(n_in)
        self.weight = nn.Parameter(torch.empty(members, n_in, n_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, n_out).uniform_(-bound, bound))

    def forward(self, input: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, input, self.weight)


def linear_head(classes: int) -> Callable[[int, int], nn.Module]:
    return lambda members, width: MemberLinear(members, width, classes)


def mlp_head(hidden: int, classes: int) -> Callable[[int, int], nn.Module]:
    return lambda members, width: nn.Sequential(
        MemberLinear(members, width, hidden), nn.ReLU(), MemberLinear(members, hidden, classes)
    )


def spectral_head(hidden: int, classes: int) -> Callable[[int, int], nn.Module]:
    return lambda members, width: Population([width, hidden, classes], seeds=range(members))
