"""Probabilities that hold: one temperature for a network, and how often what it says comes true.

A network is too sure, or not sure enough, of rows that it was not fitted to. Its outputs are
divided by the temperature T that minimises the log loss of what was said of such rows (C. Guo,
G. Pleiss, Y. Sun and K. Weinberger, *On calibration of modern neural networks*, ICML 2017). No
label changes.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.sparse import SparseLinear
from torchsparcs.training.tasks import LossFunction

WIDEST = 8.0  # the temperature, or one divided by it, at most
TURNS = 18  # of a golden section
MOST_ROWS = 5000  # that are looked at
BINS, DIGITS = 10, 4  # of probabilities
GOLDEN = (math.sqrt(5) - 1) / 2


def temperature(
    output: Tensor, target: Tensor, share: Tensor, losses: LossFunction, times: float = 1.0
) -> float:
    """T for what was said, (n, k), of rows that count by ``share`` (n,); 1 where that will do.

    Each row is there so many ``times``.

    One row more is thought to have come up with its classes all alike: where every row is right, no
    network is infinitely sure (as J. Platt has it for sigmoids, 1999). The gain must be worth a
    number, by Akaike's criterion: more than 1 in the sum over all rows.
    """
    stride = math.ceil(len(output) / MOST_ROWS)
    rows = 1 / share.square().sum().item() / times
    output, target = output[::stride], target[::stride]
    share = share[::stride] / share[::stride].sum()

    logits = F.pad(output, (1, 0)) if output.shape[1] == 1 else output

    def loss(power: float) -> float:
        degree = WIDEST**power
        alike = (logits / degree).logsumexp(dim=1) - logits.mean(dim=1) / degree
        each = losses(output / degree, target).double()
        return (share @ (each + alike.double() / rows)).item()

    low, high = -1.0, 1.0
    inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    left, right = loss(inner), loss(outer)
    for _ in range(TURNS):
        if left < right:
            high, outer, right = outer, inner, left
            inner = high - GOLDEN * (high - low)
            left = loss(inner)
        else:
            low, inner, left = inner, outer, right
            outer = low + GOLDEN * (high - low)
            right = loss(outer)
    best = (low + high) / 2
    gain = rows * (loss(0.0) - loss(best))
    return WIDEST**best if gain > 1 else 1.0


def reliability(output: Tensor, target: Tensor, share: Tensor) -> Tensor:
    """By probability, share of the rows, mean probability and how often it is so, (bins, 3).

    The probability is that of the second of two classes; of several, of the one that is said. Bins
    without rows are left out.
    """
    if output.shape[1] == 1:
        said, is_so = output[:, 0].double().sigmoid(), target > 0.5
    else:
        said, place = output.double().softmax(dim=1).max(dim=1)
        is_so = place == target
    bins = (said * BINS).long().clamp(max=BINS - 1)
    each = share[:, None] * torch.stack([torch.ones_like(said), said, is_so], dim=1)
    sums = said.new_zeros(BINS, 3).index_add(0, bins, each)
    sums = sums[sums[:, 0] > 0]
    bins_of = torch.cat([sums[:, :1], sums[:, 1:] / sums[:, :1]], dim=1)
    return bins_of.round(decimals=DIGITS).cpu()


@torch.no_grad()
def cool_(network: CompactNetwork, temperature: float) -> CompactNetwork:
    """Divide what ``network`` puts out by the temperature: weights and biases of its outputs."""
    last = len(network.widths) - 1
    for target, source in network.connections:
        if target == last:
            block = network.block(target, source)
            numbers = [block.values] if isinstance(block, SparseLinear) else [*block.parameters()]
            for each in numbers:
                each.div_(temperature)
    return network
