"""Chains for tests: maps of several kinds, random numbers, some channels switched off."""

import torch
from torch import nn

from torchsparcs import Pooled, SpectralChain


def conv(n_in, n_out, size=3, **options):
    return nn.Conv2d(n_in, n_out, size, padding=size // 2, bias=False, **options)


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


class Mixed(nn.Module):
    """A stranger's linear map: a mean over places, a mixture of channels."""

    in_channels, out_channels, channel_axis = 4, 6, -2

    def __init__(self):
        super().__init__()
        self.mixture = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return self.mixture @ (x - x.mean(dim=-1, keepdim=True))


CHAINS = {
    "images": (
        lambda: [
            conv(3, 8),
            conv(8, 8, stride=2, groups=4),
            conv(8, 12, dilation=2),
            Pooled(12, 5),
        ],
        (2, 3, 12, 12),
    ),
    "series": (
        lambda: [nn.Conv1d(2, 4, 3, bias=False), Mixed(), Pooled(6, 5, 1), linear(5, 3)],
        (3, 2, 9),
    ),
    "transposed": (
        lambda: [
            conv(3, 6),
            nn.ConvTranspose2d(6, 4, 4, stride=2, groups=2, bias=False),
            nn.ConvTranspose2d(4, 2, 3, bias=False),
        ],
        (2, 3, 5, 5),
    ),
    "matrices": (lambda: [linear(4, 5), linear(5, 6), linear(6, 2)], (7, 4)),
    "words": (lambda: [nn.Embedding(11, 4), linear(4, 5), linear(5, 3)], None),
}


EXTRACTED = ("images", "transposed", "matrices")


def built(name, *, silent=0.0, **options):
    """A chain with random numbers everywhere, a share of its eigenvalues zero, and an input.

    A normalised one has seen some signals.
    """
    torch.manual_seed(0)
    make, shape = CHAINS[name]
    chain = SpectralChain(make(), **options).double()
    with torch.no_grad():
        for values in (*chain.hidden_eigenvalues, *(chain.biases or ())):
            values.normal_()
        chain.output_eigenvalues.normal_()
        for values in chain.hidden_eigenvalues:
            values[torch.rand(len(values)) < silent] = 0
    x = torch.randint(11, (3, 6)) if shape is None else torch.randn(shape, dtype=torch.float64)
    for _ in range(5 * chain.normalise):
        chain(x if shape is None else 1 + 2 * torch.randn_like(x))
    return chain.eval(), x
