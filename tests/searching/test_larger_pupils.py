"""Pupils of somebody's own teacher get larger than labels alone let networks be."""

import math
from dataclasses import replace

import numpy as np
import pytest

from torchsparcs import SearchConfig, search
from torchsparcs.fitting.second_order import SecondOrder
from torchsparcs.searching import finishing

ROWS, OPTIONS = 120, {"widths": (64,), "validation": 2, "device": "cpu", "progress": False}
CONFIG = SearchConfig(steps=120, longest=120, path=1, ways=("asleep",), shrink=0.3)
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, 3))
TRUE = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
NOISY = TRUE + DRAW.normal(size=ROWS)


def knows(rows):
    return np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2]


@pytest.fixture
def begun(monkeypatch):
    """What is fitted to the end, by the names of the fits."""
    found, gone_on = {}, SecondOrder.gone_on

    def seen(self, name, some):
        found[name] = some
        return gone_on(self, name, some)

    monkeypatch.setattr(SecondOrder, "gone_on", seen)
    return found


def test_larger_ones_are_fitted_to_the_teacher_and_made_rows(begun, monkeypatch):
    """There are 120 rows of their own, and 480 that were made; none is clearly worse."""
    monkeypatch.setattr(finishing, "CLEARLY", 0.0)
    result = search(X, NOISY, teacher=knows, config=CONFIG, **OPTIONS)
    larger = [one for name, one in begun.items() if name.startswith("taught to")]
    low = ROWS
    for (pupil,) in larger:
        assert pupil.band[0] == pytest.approx(low)
        low = pupil.band[1]
        assert pupil.band[0] < pupil.rung.parameters <= low
        assert (pupil.recipe.taught, pupil.recipe.made) == (0.5, 1)
    assert len(larger) == 2
    judged = {each.parameters for each in result.attempts}
    assert judged >= {pupil.rung.parameters for (pupil,) in larger}


def test_none_where_they_would_be_too_large_or_there_is_nobody_to_teach_them(begun):
    search(X, NOISY, config=CONFIG, **OPTIONS)
    assert [*begun] == ["fits", "taught"]
    begun.clear()
    search(X, NOISY, teacher=knows, max_parameters=200, config=CONFIG, **OPTIONS)
    assert [*begun] == ["fits", "taught"]


def test_a_quick_look_tries_none(begun):
    quick = replace(CONFIG, steps=80, longest=80)
    search(X, NOISY, teacher=knows, config=quick, **OPTIONS)
    assert [*begun] == ["fits", "taught"]


def test_what_diverged_before_them_does_not_end_it(begun, monkeypatch):
    """It has no loss that another could be compared with."""
    monkeypatch.setattr(finishing, "CLEARLY", 0.0)
    gone_on = SecondOrder.gone_on

    def first_diverged(self, name, some):
        found = gone_on(self, name, some)
        if name == "fits":
            ((rung, recipe), start), *others = found
            lost = replace(rung, judgement=rung.judgement._replace(loss=math.nan))
            found = [((lost, recipe), start), *others]
        return found

    monkeypatch.setattr(SecondOrder, "gone_on", first_diverged)
    search(X, NOISY, teacher=knows, config=CONFIG, **OPTIONS)
    assert len([name for name in begun if name.startswith("taught to")]) == 2


def test_clearly_worse_ones_end_it(begun, monkeypatch):
    monkeypatch.setattr(finishing, "CLEARLY", 1e9)
    search(X, NOISY, teacher=knows, config=CONFIG, **OPTIONS)
    assert [*begun] == ["fits", "taught", "taught to 221"]
