"""Where the forward pass folds: nowhere would another choice be cheaper."""

from hypothesis import given, settings
from hypothesis import strategies as st

from torchsparcs.spectral.equations import AnchorTable, choose_anchors


def brute_force(widths, batch, silent):
    """The cheapest set of anchors by counting every product of every choice."""
    last = len(widths) - 1

    def cost(anchors):
        total, first = 0, 0
        for target in range(1, last + 1):
            if target == 1 and silent:
                total, first = total + batch * widths[0] * widths[1], 1
                continue
            for _ in range(1 + (target in anchors)):
                for source in range(first, target):
                    total += batch * widths[target] * widths[source]
                    if source < target - 1:
                        total += widths[target] * widths[source + 1] * widths[source]
            if target in anchors:
                first = target
        return total

    hidden = range(1, last)
    choices = [
        tuple(k for k in hidden if mask >> k & 1 or (k == 1 and silent))
        for mask in range(2 ** (last + 1))
    ]
    return min(map(cost, choices)), cost


@settings(max_examples=60, deadline=None)
@given(
    widths=st.lists(st.integers(1, 300), min_size=2, max_size=6),
    batch=st.integers(1, 4096),
    silent=st.booleans(),
)
def test_no_choice_is_cheaper(widths, batch, silent):
    cheapest, cost = brute_force(widths, batch, silent)
    chosen = choose_anchors(widths, batch, input_is_silent=silent)
    assert cost(chosen) == cheapest


def test_deep_networks_run_the_recursion():
    assert choose_anchors([256] * 10, 1024) == tuple(range(1, 9))


def test_narrow_ends_fold_when_the_batch_pays_for_it():
    table = AnchorTable([20, 200, 200, 20], input_is_silent=True)
    assert table[1, "cpu"] == (1, 2)
    assert table[1024, "cpu"] == table[10**9, "cpu"] == (1,)
    assert table[0, "cpu"] == table[1, "cpu"]


def test_a_gpu_folds_only_where_the_saving_is_worth_a_launch():
    table = AnchorTable([20, 200, 200, 20], input_is_silent=True)
    assert table[1024, "cuda"] == (1, 2)
    assert table[2**20, "cuda"] == (1,)
