"""The score of a choice is that on rows which had no part in it."""

import pytest
import torch

from torchsparcs.judging.correction import expected_scores
from torchsparcs.judging.scoring import scoring_of
from torchsparcs.tables.target import Target


def coins(networks: int, rows: int, seed: int, chance: float = 0.5) -> torch.Tensor:
    """Networks that are right by chance, as parts of their scores."""
    draw = torch.rand(networks, rows, generator=torch.Generator().manual_seed(seed))
    return (draw < chance).double() / rows


def test_where_there_is_no_choice_the_score_stays():
    (hits,) = coins(1, 101, 0, 0.7)
    assert expected_scores([hits], [9]) == {9: pytest.approx(hits.sum().item(), abs=1e-12)}
    worse = hits * (torch.arange(101) % 3 > 0)  # right where the other is, and not always
    both = expected_scores([hits, worse], [9, 4])
    assert both[9] == pytest.approx(hits.sum().item(), abs=1e-12)
    assert both[4] == pytest.approx(worse.sum().item(), abs=1e-12)


def test_the_best_of_many_coins_is_a_coin():
    claims, best = [], []
    for seed in range(40):
        hits = coins(100, 80, seed)
        best.append(hits.sum(dim=1).max().item())
        claims.append(expected_scores(hits, range(100))[99])
    claimed = torch.tensor(claims)
    assert min(best) > 0.57
    assert abs(claimed.mean().item() - 0.5) < 2 * claimed.std().item() / 40**0.5
    assert claimed.std().item() < 0.08


def test_each_size_chooses_among_what_is_no_larger():
    """With many rows the best of each size is known, whatever the order they come in."""
    hits = torch.cat([coins(1, 20_000, place, 0.6 + place / 20) for place in range(4)])
    order = [2, 0, 3, 1]
    found = expected_scores(hits[order], [10 * (place + 1) for place in order])
    assert [*found] == [10, 20, 30, 40]
    assert [*found.values()] == pytest.approx(hits.sum(dim=1).tolist(), abs=1e-9)
    falling = expected_scores(hits.flip(0), [10, 20, 30, 40])  # the smallest is the best
    assert [*falling.values()] == pytest.approx([hits[3].sum().item()] * 4, abs=1e-9)
    equal = expected_scores(hits, [7] * 4)
    assert equal == {7: pytest.approx(hits[3].sum().item(), abs=1e-9)}


def test_of_equal_ones_the_smallest_is_chosen():
    """Two that are right as often in every half, up to rounding."""
    first = coins(1, 400, 1)[0]
    twin = first * (1 + 1e-9)
    found = expected_scores([twin, first], [5, 3])
    assert found[5] == found[3] == pytest.approx(first.sum().item(), abs=1e-12)


def test_heavy_rows_count_for_more():
    """One network is right on the rows that weigh, the other on those that do not."""
    heavy = torch.arange(200) % 2 == 0
    share = torch.where(heavy, 9.0, 1.0)
    share /= share.sum()
    right = torch.rand(2, 200, generator=torch.Generator().manual_seed(2)) < 0.95
    found = expected_scores([share * heavy * right[0], share * ~heavy * right[1]], [1, 1])
    assert found[1] == pytest.approx((share * heavy * right[0]).sum().item(), abs=1e-6)
    assert found[1] > 0.8


def test_it_is_the_same_every_time_and_draws_nothing_from_others():
    hits, state = coins(50, 60, 3), torch.get_rng_state()
    assert expected_scores(hits, range(50)) == expected_scores(hits, range(50))
    assert torch.equal(state, torch.get_rng_state())


def test_what_diverged_is_never_chosen():
    hits = coins(2, 50, 4)
    hits[0, 7] = float("nan")
    bad = hits[0].clone().fill_(-float("inf"))
    found = expected_scores([bad, hits[0], hits[1]], [5, 5, 5])
    assert found[5] == pytest.approx(hits[1].sum().item(), abs=1e-12)
    assert expected_scores(hits[1:, :1], [1])[1] == hits[1, 0].item()  # a single row


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy"])
def test_the_best_of_many_rankings_at_random_is_one(name):
    """Of scores that are no means over rows as well, also where a class is rare."""
    claims, best = [], []
    for seed in range(25):
        generator = torch.Generator().manual_seed(seed)
        target = (torch.arange(150) % 5 == 0).float()
        outputs = torch.randn(40, 150, 1, generator=generator)
        scoring = scoring_of(name, Target.fit(["no", "yes"]))
        share = torch.full((150,), 1 / 150, dtype=torch.float64)
        parts = [share * scoring.values(output, target, share) for output in outputs]
        best.append(max(part.sum().item() for part in parts))
        claims.append(expected_scores(parts, range(40))[39])
    claimed = torch.tensor(claims)
    assert sum(best) / 25 > 0.57
    assert abs(claimed.mean().item() - 0.5) < 2 * claimed.std().item() / 5
