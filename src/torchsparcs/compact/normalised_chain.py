"""A compact chain while it is fine-tuned with its signals normalised."""

import math

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.stages import scaled_stage
from torchsparcs.spectral.norm import ChannelNorm

AT_ONCE = 256  # rows
TINY = 1e-12  # weights of a channel that are smaller stay as they are


class NormalisedChain(nn.Module):
    """A compact chain with a normalisation after each layer but the last, for fine-tuning.

    Gains and shifts start as what ``rows`` show, so that nothing changes at first. The size of the
    weights of a layer but the last no longer matters; they start at He's √(2 / inputs).

    Shape:
        - input and output as those of the chain
    """

    @torch.no_grad()
    def __init__(self, chain: CompactChain, rows: Tensor):
        super().__init__()
        like, stages, norms = next(chain.parameters()), chain.stages(), []
        for k, (mean, variance) in enumerate(_moments(chain, rows)):
            weight = stages[k].weight.flatten(1)
            size = weight.square().mean(dim=1).sqrt()
            factor = torch.where(size > TINY, math.sqrt(2 / weight.shape[1]) / size, 1.0)
            norm = ChannelNorm(len(mean), chain.axes[k], affine=True)
            norm = norm.to(rows.device, torch.float64)
            norm.mean.copy_(factor * (mean - stages[k].bias))
            norm.variance.copy_(factor.square() * variance)
            starts = ((norm.gain, 1 / (factor * norm.factor)), (norm.shift, mean))
            for parameter, value in starts:
                assert parameter is not None
                parameter.copy_(value)
            norms.append(norm.to(like.dtype))
            stages[k] = scaled_stage(stages[k], factor, torch.zeros_like(mean))
        self.chain, self.norms = chain.with_stages(stages), nn.ModuleList(norms)

    def forward(self, input: Tensor) -> Tensor:
        signal = self.chain.layers[0](input)
        for k, (norm, layer) in enumerate(zip(self.norms, self.chain.layers[1:], strict=True)):
            signal = layer(self.chain.activated(k, norm(signal)))
        return signal

    @torch.no_grad()
    def folded(self) -> CompactChain:
        """A compact chain that computes the same after training, without normalisation."""
        stages = self.chain.stages()
        for k, norm in enumerate(self.norms):
            assert isinstance(norm, ChannelNorm)
            stages[k] = scaled_stage(stages[k], norm.factor, norm.offset)
        return self.chain.with_stages(stages)


def _moments(chain: CompactChain, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Mean and variance of the output channels of each layer but the last, (out,) each."""
    totals = [torch.zeros(3, count).double().to(rows.device) for count in chain.channels[1:-1]]
    for some in rows.split(AT_ONCE):
        for total, axis, given in zip(totals, chain.axes, chain.signals(some), strict=False):
            values = given.double().movedim(axis, 0).flatten(1)
            count = torch.full_like(values[:, 0], values.shape[1])
            total += torch.stack([count, values.sum(dim=1), values.square().sum(dim=1)])
    means = [(total[1] / total[0], total[2] / total[0]) for total in totals]
    return [(mean, (square - mean.square()).clamp_min(0)) for mean, square in means]
