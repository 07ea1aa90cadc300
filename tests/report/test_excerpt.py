"""The few networks of a front that tell it."""

import dataclasses
import math

import pytest
from reports import chain_result, dense_result, small_result

from torchsparcs import CompactNetwork
from torchsparcs.report.excerpt import excerpt, layers_in_short


def front_of(*points: tuple[int, float], scores=None):
    """A result whose front has such parameters (in steps of four) and scores."""
    small = small_result("multiclass")
    front = []
    for size, score in points:
        network = CompactNetwork([size // 4 - 1, 4], [(1, 0)])
        found = dataclasses.replace(
            small.best(), network=network, score=score, expected=score, standard_error=0.001
        )
        front.append(found)
    return dataclasses.replace(small, front=tuple(front), linear=None)


def test_a_short_front_is_told_whole():
    result = front_of((8, 0.5), (80, 0.8), (800, 0.9))
    assert excerpt(result, most=3) == [0, 1, 2]


def test_what_goes_is_what_the_front_loses_least_by():
    steps = (8, 0.5), (80, 0.8), (84, 0.9), (88, 0.901), (800, 0.95)
    assert excerpt(front_of(*steps), most=4) == [0, 1, 2, 4]  # 0.901 is hardly more than 0.9
    assert excerpt(front_of(*steps), most=3) == [0, 2, 4]  # 4 parameters more are a tenth better


def test_the_last_percents_count_as_the_first_tens_do():
    steps = (8, 0.5), (80, 0.7), (84, 0.72), (800, 0.98), (2000, 0.99), (8000, 0.995)
    assert excerpt(front_of(*steps), most=5) == [0, 2, 3, 4, 5]


def test_what_is_no_better_than_a_constant_goes():
    worthless = small_result("multiclass").scoring.constant
    assert excerpt(front_of((8, worthless), (800, 0.7), (900, 0.8), (1000, 0.9)), most=3) == (
        [1, 2, 3]
    )


def test_picks_stay():
    result = dense_result()
    kept = excerpt(result, pick=7, most=3)
    places = [result.front.index(each) for each in (result.best(), result.smallest())]
    assert {7, *places} <= {*kept}
    assert kept == sorted(kept)
    assert len(excerpt(result, pick=7, most=1)) == len({7, *places})


def test_a_score_that_is_not_known_goes_first():
    result = front_of((8, 0.5), (80, 0.8), (800, 0.9))
    unknown = dataclasses.replace(result.front[0], expected=-math.inf)
    result = dataclasses.replace(result, front=(unknown, *result.front[1:]))
    assert excerpt(result, most=2) == [1, 2]


@pytest.mark.parametrize(
    ("widths", "pairs", "reads", "words"),
    [
        ([64, 10], [(1, 0)], None, "64 → 10"),
        ([5, 3, 2], [(1, 0), (2, 0), (2, 1)], (0, 2), "2 of 5 → 3 → 2, 1 skip"),
        ([6, 5, 4, 3], [(1, 0), (2, 0), (2, 1), (3, 0), (3, 2)], None, "6 → 5 → 4 → 3, 2 skips"),
    ],
)
def test_layers_in_short(widths, pairs, reads, words):
    network = CompactNetwork(widths, pairs, reads=reads)
    assert layers_in_short(dataclasses.replace(small_result("binary").best(), network=network)) == (
        words
    )


def test_layers_of_a_chain_are_as_they_are():
    found = chain_result().best()
    assert layers_in_short(found) == found.architecture
