"""Choice of the layers where the forward pass forms z; through others it folds, where cheaper.

``docs/maths.md`` derives the costs; the function computed is the same for every choice.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar


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
