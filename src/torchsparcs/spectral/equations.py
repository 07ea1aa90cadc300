"""The spectral parametrisation as pure functions; nothing here owns a parameter.

A network has layers 0..B of widths N₀..N_B. Its adjacency matrix is A = Φ Λ Φ⁻¹, where Φ is the
identity plus the transfers φₖ : layer k → k+1 below the diagonal, and Λ holds the eigenvalues.

Shapes, everywhere in this file:
    transfers[k]    (..., N_{k+1}, N_k),  k = 0..B-1
    eigenvalues[k]  (..., N_k),           k = 0..B
    activities      (..., N_k)
Leading dimensions of the parameters are independent networks and broadcast against the
activities. ``docs/maths.md`` derives every formula used here.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from torchsparcs.spectral.activations import Activation

NARROW = 4  # in compiled populations on a GPU, products this narrow are taken entry by entry


# --- blocks of the adjacency matrix ---------------------------------------------------------------


def adjacent_block(transfer: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """W_{k+1,k} = φₖ Lₖ − Lₖ₊₁ φₖ, that is φₖ ⊙ (Lₖ − Lₖ₊₁) entry by entry."""
    return transfer * (source.unsqueeze(-2) - target.unsqueeze(-1))


def weight_block(
    transfers: Sequence[Tensor], eigenvalues: Sequence[Tensor], target: int, source: int
) -> Tensor:
    """W_{target,source} = W_{target,target-1} · Π (−φ), from layer ``target``-1 down to ``source``.

    Returns the (..., N_target, N_source) block of A below its diagonal.
    """
    if not 0 <= source < target < len(eigenvalues):
        raise ValueError(
            f"Expected layers 0 <= source < target <= {len(eigenvalues) - 1}. "
            f"Got target {target} and source {source}."
        )
    head = adjacent_block(transfers[target - 1], eigenvalues[target - 1], eigenvalues[target])
    return list(unrolled(head, transfers, target - 1, source))[-1]


def unrolled(
    head: Tensor,
    transfers: Sequence[Tensor],
    last: int,
    first: int,
    *,
    plain: Sequence[Tensor] | None = None,
) -> Iterator[Tensor]:
    """The matrices that carry a_last, a_{last-1}, .., z_first through ``head`` · z_last.

    z_k = a_k − φ_{k-1} z_{k-1}, so each step back to an earlier layer multiplies by −φ. ``plain``
    are neurons of each hidden layer, (N_k,) bool, whose z is their activity alone.
    """
    yield head
    for layer in range(last - 1, first - 1, -1):
        if plain is None:
            head = -(head @ transfers[layer])
        else:
            others = ~plain[layer]
            head = -(head[:, others] @ transfers[layer][others])
        yield head


# --- the forward pass -----------------------------------------------------------------------------


def feedforward(
    x: Tensor,
    transfers: Sequence[Tensor],
    eigenvalues: Sequence[Tensor],
    activation: Activation,
    *,
    anchors: Sequence[int],
    bias: bool = False,
    input_is_silent: bool = False,
    has_few_rows: bool = False,
) -> Tensor:
    """The update rule of the paper: a_i = f(Σ_{j<i} W_ij a_j), without f on the output.

    No W_ij needs to be formed. With z = Φ⁻¹a, found by forward substitution,

        pre_{k+1} = W_{k+1,k} z_k,   a_{k+1} = f(pre_{k+1}),   z_{k+1} = a_{k+1} − φ_k z_k.

    ``anchors`` are the hidden layers whose z is really formed; through every other layer the
    blocks are folded instead (``folding.py`` says where that is cheaper). The result is
    the same for any choice: all hidden layers give the recursion, none gives the paper's blocks.

    Args:
        x: input, (..., N₀), without the bias neuron.
        bias: the last column of ``transfers[0]`` belongs to a constant unit of layer 0.
        input_is_silent: the eigenvalues of layer 0 are known to be zero, which saves a product.
        has_few_rows: of a silent input, fewer than it has columns: its transfer is larger than the
            batch, and is not gone through to negate. The numbers are the same, bit for bit.
    """
    last = len(transfers)
    # What is known of the signal since the last anchor: z there, the activities a after it.
    sources, first = [x], 0
    for k in range(last):
        # v = −φ_k z_k: with the sign on the transfer, sums need no pass over the batch to negate.
        if k == 0 and input_is_silent and has_few_rows:
            u = _apply(transfers[0], x, affine=bias)
            pre = _scale(u, -eigenvalues[1])
        elif k == 0 and input_is_silent:
            v = _apply(-transfers[0], x, affine=bias)
            pre = _scale(v, eigenvalues[1])
        else:
            head = adjacent_block(transfers[k], eigenvalues[k], eigenvalues[k + 1])
            pre = _apply_folded(head, transfers, sources, first, bias)
            if k + 1 in anchors:
                v = _apply_folded(-transfers[k], transfers, sources, first, bias)
        if k + 1 == last:
            return pre
        a = activation(pre)
        if k + 1 in anchors:
            is_u = k == 0 and input_is_silent and has_few_rows
            sources, first = [a - u if is_u else a + v], k + 1
        else:
            sources.append(a)
    raise AssertionError("a network has at least one transfer")


def iterated(
    x: Tensor,
    transfers: Sequence[Tensor],
    eigenvalues: Sequence[Tensor],
    activation: Activation,
    *,
    bias: bool = False,
) -> Tensor:
    """The paper's other rule: a ← f(A a) on the whole activity vector, B times, no f at the end.

    Self-loops are part of A. An application is one sweep, (A a)_k = L_k a_k + W_{k,k-1} z_{k-1}.
    """
    last = len(transfers)
    if bias:
        x = torch.cat([x, x.new_ones(()).expand(*x.shape[:-1], 1)], dim=-1)
    blocks = [adjacent_block(transfers[k], eigenvalues[k], eigenvalues[k + 1]) for k in range(last)]

    def image(k: int) -> Tensor:
        """(A a)_k; a layer that has no activity yet is at rest."""
        inflow = _apply(blocks[k - 1], z[k - 1])
        return inflow if k >= len(activities) else _scale(activities[k], eigenvalues[k]) + inflow

    activities = [x]
    for _ in range(last - 1):
        z = _substituted(activities, transfers)
        images = [_scale(activities[0], eigenvalues[0]), *map(image, range(1, last + 1))]
        activities = [activation(pre) for pre in images]
    z = _substituted(activities, transfers)
    return image(last)


def _substituted(activities: Sequence[Tensor], transfers: Sequence[Tensor]) -> list[Tensor]:
    """z = Φ⁻¹a of layers 0..B-1 by forward substitution; layers without activity are at rest."""
    z = [activities[0]]
    for k in range(1, len(transfers)):
        v = _apply(-transfers[k - 1], z[-1])
        z.append(v if k >= len(activities) else activities[k] + v)
    return z


def _apply_folded(
    head: Tensor, transfers: Sequence[Tensor], sources: Sequence[Tensor], first: int, bias: bool
) -> Tensor:
    """``head`` · z_k from the sources z_first, a_{first+1}, .., a_k."""
    k = first + len(sources) - 1
    total = None
    for offset, block in enumerate(unrolled(head, transfers, k, first)):
        layer = k - offset
        term = _apply(block, sources[layer - first], affine=bias and layer == 0)
        total = term if total is None else total + term
    assert total is not None
    return total


def _apply(matrix: Tensor, activity: Tensor, affine: bool = False) -> Tensor:
    """``matrix`` · activity; with ``affine`` the last column of the matrix meets a constant 1."""
    weight, offset = (matrix[..., :-1], matrix[..., -1]) if affine else (matrix, None)
    if matrix.dim() == 2:
        return F.linear(activity, weight, offset)
    if activity.is_cuda and torch.compiler.is_compiling() and min(weight.shape[-2:]) <= NARROW:
        # the compiler fuses this into its neighbours: the wide side never goes through memory
        product = (activity.unsqueeze(-2) * weight.unsqueeze(-3)).sum(dim=-1)
    else:
        product = activity @ weight.mT
    return product if offset is None else product + offset.unsqueeze(-2)


def _scale(activity: Tensor, eigenvalues: Tensor) -> Tensor:
    """L ⊙ a, in the precision of the activity (autocast makes that the lower one)."""
    scale = eigenvalues.to(activity.dtype)
    return activity * (scale if scale.dim() == 1 else scale.unsqueeze(-2))


# --- the whole matrices ---------------------------------------------------------------------------


def eigenvector_matrix(transfers: Sequence[Tensor]) -> Tensor:
    """Φ: the identity plus each φₖ below the diagonal, (..., ΣN, ΣN)."""
    widths = _widths(transfers)
    phi = _identity(transfers).clone()
    for k, transfer in enumerate(transfers):
        rows, columns = _span(widths, k + 1), _span(widths, k)
        phi[..., rows, columns] = transfer
    return phi


def inverse_by_blocks(transfers: Sequence[Tensor]) -> Tensor:
    """Φ⁻¹ block by block: (Φ⁻¹)_ij = (−1)^{i−j} φ_{i−1} ··· φ_j  (eq. preRelPhiInv)."""
    widths = _widths(transfers)
    inverse = _identity(transfers).clone()
    for target in range(1, len(widths)):
        blocks = unrolled(-transfers[target - 1], transfers, target - 1, 0)
        for source, block in zip(range(target - 1, -1, -1), blocks, strict=True):
            inverse[..., _span(widths, target), _span(widths, source)] = block
    return inverse


def adjacency(transfers: Sequence[Tensor], eigenvalues: Sequence[Tensor]) -> Tensor:
    """A = Φ Λ Φ⁻¹, (..., ΣN, ΣN): the eigenvalues on its diagonal, every W_ij below it."""
    spectrum = torch.cat(list(eigenvalues), dim=-1)
    scaled = spectrum.unsqueeze(-1) * inverse_by_blocks(transfers)
    return eigenvector_matrix(transfers) @ scaled


def _widths(transfers: Sequence[Tensor]) -> list[int]:
    return [transfers[0].shape[-1]] + [transfer.shape[-2] for transfer in transfers]


def _span(widths: Sequence[int], layer: int) -> slice:
    start = sum(widths[:layer])
    return slice(start, start + widths[layer])


def _identity(transfers: Sequence[Tensor]) -> Tensor:
    size = sum(_widths(transfers))
    like = transfers[0]
    eye = torch.eye(size, dtype=like.dtype, device=like.device)
    return eye.expand(*like.shape[:-2], size, size)


# --- counting -------------------------------------------------------------------------------------


def spectral_parameter_count(widths: Sequence[int]) -> int:
    """Σ N_k N_{k+1} + Σ N_k: the transfers and every eigenvalue (the paper's figure 8)."""
    return sum(a * b for a, b in pairwise(widths)) + sum(widths)


def direct_parameter_count(widths: Sequence[int]) -> int:
    """Σ_{j<i} N_i N_j: an independent weight on every connection, skips included."""
    return (sum(widths) ** 2 - sum(n * n for n in widths)) // 2


def recursion_cost(widths: Sequence[int], *, input_is_silent: bool = False) -> int:
    """Multiply-adds of the recursion for one row: every product twice, but the last (and first)."""
    products = [a * b for a, b in pairwise(widths)]
    once = products[-1] + (products[0] if input_is_silent and len(products) > 1 else 0)
    return 2 * sum(products) - once


def choose_anchors(
    widths: Sequence[int], batch: int, *, input_is_silent: bool = False, overhead: int = 0
) -> tuple[int, ...]:
    """The hidden layers whose z is worth forming, for a batch of ``batch`` rows.

    Between two consecutive anchors s < t every z is unrolled back to z_s. In multiply-adds, a
    product into layer i then costs Σ_{j=s}^{i-1} N_i N_j · batch to apply and N_i N_{j+1} N_j for
    each fold, once per step; the cheapest chain of segments is a shortest path over the layers.

    ``widths`` counts the bias neuron. A silent input makes z₁ free, so layer 1 is then an anchor.
    ``overhead`` is what starting any product costs, in multiply-adds.
    """
    last = len(widths) - 1
    costs = _segment_costs(widths, batch, overhead)
    if input_is_silent:
        costs[0] = [0, batch * widths[0] * widths[1] + overhead]
    # of the cheapest way up to each layer: its cost, minus the anchors formed, the anchor before
    # it; at equal cost form more z: folding also costs memory for the blocks
    best = [(0, 0, 0)]
    for t in range(1, last + 1):
        sources = (s for s in range(t) if t < len(costs[s]))
        best.append(min((best[s][0] + costs[s][t], best[s][1] - 1, s) for s in sources))
    anchors, t = [], best[last][2]
    while t > 0:
        anchors.append(t)
        t = best[t][2]
    return tuple(reversed(anchors))


def _segment_costs(widths: Sequence[int], batch: int, overhead: int) -> list[list[int]]:
    """costs[s][t]: multiply-adds from anchor s to the next anchor t, or to the output."""
    last = len(widths) - 1
    # into[i][s]: one product into layer i, with z_{i-1} unrolled back to z_s
    into = [[0] * (i + 1) for i in range(last + 1)]
    for i in range(1, last + 1):
        for s in range(i - 1, -1, -1):
            applied = batch * widths[i] * widths[s] + overhead
            folded = widths[i] * widths[s + 1] * widths[s] + overhead if s < i - 1 else 0
            into[i][s] = into[i][s + 1] + applied + folded
    costs = []
    for s in range(last):
        sums = accumulate(into[t][s] for t in range(s + 1, last + 1))
        twice = [*(into[t][s] for t in range(s + 1, last)), 0]  # an anchor takes another product
        costs.append([0] * (s + 1) + [both + more for both, more in zip(sums, twice, strict=True)])
    return costs


class AnchorTable:
    """:func:`choose_anchors` for every batch size, decided at each power of two.

    Starting a product takes a few microseconds, which a GPU could fill with far more arithmetic
    than a CPU: there, small networks fold less. Many members share a start.

    >>> table = AnchorTable([20, 200, 200, 20], input_is_silent=True)
    >>> table[1, "cpu"], table[1024, "cpu"], table[1024, "cuda"]
    ((1, 2), (1,), (1, 2))
    """

    overhead: ClassVar = {"cpu": 200_000, "cuda": 100_000_000}
    deepest = 128  # with more layers than that it is always the recursion

    def __init__(self, widths: Sequence[int], *, input_is_silent: bool = False, members: int = 1):
        # for each kind of device: (smallest batch, anchors) in ascending order
        self._rows: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        for device, overhead in self.overhead.items():
            rows = self._rows[device] = [(1, tuple(range(1, len(widths) - 1)))]
            if len(widths) > self.deepest:
                continue
            for batch in (2**power for power in range(21)):
                anchors = choose_anchors(
                    widths, batch, input_is_silent=input_is_silent, overhead=overhead // members
                )
                if anchors != rows[-1][1]:
                    rows.append((batch, anchors))

    def __getitem__(self, key: tuple[int, str]) -> tuple[int, ...]:
        batch, device = key
        rows = self._rows["cpu" if device == "cpu" else "cuda"]
        for smallest, anchors in reversed(rows[1:]):
            if batch >= smallest:
                return anchors
        return rows[0][1]

    def for_large_batches(self) -> tuple[int, ...]:
        """The anchors for a batch size that is not known."""
        return self._rows["cpu"][-1][1]
