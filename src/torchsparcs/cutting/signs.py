"""Changes of the signs of neurons that take a block over; the function stays."""

from dataclasses import replace

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, activities, layer_slices

FLIPPABLE = ("relu", "gelu", "silu")  # f(h) = h + f(−h)


def reoriented(direct: DirectSpace, inputs: Tensor, target: int, source: int) -> DirectSpace:
    """Make the block (target, source) as small as flips of neurons can; the function stays.

    Where f(h) = h + f(−h), a neuron that hears ``source`` alone may hear its negative instead if
    its listeners take over its linear part: W_rj w_j is added to each of their rows. The flips
    minimise the mean square of what the block carries.
    """
    if direct.activation not in FLIPPABLE:
        return direct
    rows, columns = layer_slices(direct)
    cut, listeners = columns[source], rows[target - 1]
    elsewhere = direct.weights[: direct.hidden].clone()
    elsewhere[:, cut] = 0
    can_flip = (elsewhere == 0).all(dim=1) & (direct.outgoing[listeners] != 0).any(dim=0)
    neurons = can_flip.nonzero().squeeze(1)
    if not len(neurons):
        return direct
    signal = activities(direct, inputs)[0]
    signal = signal[:, cut] if source == 0 else signal[:, cut.start + 1 : cut.stop + 1]
    moments = signal.T @ signal / len(signal)
    incoming = direct.weights[neurons][:, cut]
    outgoing = direct.outgoing[listeners][:, neurons]
    block = direct.weights[listeners, cut]
    # ‖block + Σ_j flip_j v_j w_jᵀ‖² in the metric of the moments, a quadratic form in the flips
    quadratic = (outgoing.T @ outgoing) * (incoming @ moments @ incoming.T)
    linear = ((outgoing.T @ block @ moments) * incoming).sum(dim=1)
    flips = _best_flips(quadratic, linear)
    flipped = torch.zeros(direct.hidden, dtype=direct.weights.dtype, device=direct.weights.device)
    flipped[neurons] = flips
    taken_over = direct.outgoing * flipped  # (H + O, H)
    weights = direct.weights + taken_over @ direct.weights[: direct.hidden]
    bias = direct.bias + taken_over @ direct.bias[: direct.hidden]
    sign = torch.cat([1 - 2 * flipped, flipped.new_ones(direct.outputs)])
    return replace(direct, weights=weights * sign[:, None], bias=bias * sign)


def _best_flips(quadratic: Tensor, linear: Tensor) -> Tensor:
    """Minimise flipsᵀ Q flips + 2 linear · flips over {0, 1}, roughly: round, then flip one by one.

    The pseudo-inverse of the symmetric Q, not ``lstsq``: its default driver on a CPU pivots by
    memory that nobody has set, so equal calls round differently.
    """
    damped = quadratic + 1e-9 * quadratic.diagonal().diag_embed()
    flips = -(torch.linalg.pinv(damped, hermitian=True) @ linear).round().clamp(-1, 0)
    for _ in range(10 * len(flips)):
        # the change of the objective if one flip is undone or made
        change = (1 - 2 * flips) * 2 * (quadratic @ flips + linear) + quadratic.diagonal()
        best = change.argmin()
        if change[best] >= 0:
            break
        flips[best] = 1 - flips[best]
    return flips
