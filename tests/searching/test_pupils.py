"""Pupils: networks that are trained to what somebody's teacher, or boosting, says."""

import numpy as np
import pytest
from outcomes import digest

from torchsparcs import SearchConfig, search
from torchsparcs.fitting import boosting, lesson, second_order
from torchsparcs.fitting.second_order import SecondOrder
from torchsparcs.parallel.processes import ProcessesEngine
from torchsparcs.parallel.steps import Steps
from torchsparcs.report.choices import choices

CONFIG = SearchConfig(steps=120, longest=120, path=1, ways=("asleep",), shrink=0.3)
QUICK = SearchConfig(steps=60, longest=60, path=1, ways=("asleep",))
OPTIONS = {"widths": (64, 32), "validation": 2, "device": "cpu", "progress": False}
DRAW = np.random.default_rng(0)
X = DRAW.uniform(-1, 1, size=(400, 3))
BENT = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2]
NOISY = BENT + 0.7 * DRAW.normal(size=400)
LINE = X @ [1.0, 2.0, -1.0] + 0.1 * DRAW.normal(size=400)
FRESH = DRAW.uniform(-1, 1, size=(400, 3))


def stairs(rows):
    return np.floor(4 * rows[:, 0]) % 2 + 2 * (np.floor(3 * rows[:, 1]) % 2)


STEPS = stairs(X)


def knows(rows):
    return np.sin(4 * rows[:, 0]) + rows[:, 1] * rows[:, 2]


@pytest.fixture(autouse=True)
def less_work(monkeypatch):
    monkeypatch.setattr(second_order, "PUPIL_STEPS", 1500)
    monkeypatch.setattr(lesson, "TIMES", 8)


@pytest.fixture
def trained(monkeypatch):
    """The sizes of what is trained to a teacher, one list for each search."""
    found, pupils = [], SecondOrder.pupils

    def seen(self, rungs, seed):
        found.append([rung.parameters for rung in rungs])
        return pupils(self, rungs, seed)

    monkeypatch.setattr(SecondOrder, "pupils", seen)
    return found


def test_somebody_who_knows_teaches_more_than_noisy_labels(trained):
    taught = search(X, NOISY, teacher=knows, config=CONFIG, **OPTIONS)
    alone = search(X, NOISY, config=CONFIG, **OPTIONS)
    errors = [
        np.square(one.predict(FRESH, "best") - knows(FRESH)).mean() for one in (taught, alone)
    ]
    assert errors[0] < 0.7 * errors[1]
    assert [round(size, -2) for size in trained[0]] == [200, 1000, 4000]
    judged = {each.parameters for each in taught.attempts}
    assert judged >= {*trained[0]}


def test_the_largest_that_is_allowed_is_among_them_and_what_is_cut_to_it(trained):
    search(X, NOISY, teacher=knows, max_parameters=400, config=CONFIG, **OPTIONS)
    small, allowed, cut = trained[0]
    assert small < 300 < allowed <= 400 < cut < 1200
    search(X, NOISY, teacher=knows, max_parameters=2000, config=CONFIG, **OPTIONS)
    assert 1900 < max(trained[1]) <= 2000


def test_where_no_network_is_so_small_there_is_none(trained):
    wide = DRAW.normal(size=(120, 60))
    search(wide, wide[:, 0], teacher=lambda X: X[:, 0], max_parameters=8, config=CONFIG, **OPTIONS)
    assert not trained


def test_boosting_teaches_where_it_is_better(trained):
    result = search(X, STEPS, config=CONFIG, **OPTIONS)
    assert len(trained) == 1
    assert result.settings["taught_by_boosting"]
    assert "--no-boosting" in choices(result)["boosting"]
    without = SearchConfig(**{**vars(CONFIG), "boosting": False})
    alone = search(X, STEPS, config=without, **OPTIONS)
    assert len(trained) == 1
    assert not alone.settings["taught_by_boosting"]
    assert choices(alone)["boosting"] is None
    truth = stairs(FRESH)
    errors = [np.square(one.predict(FRESH, "best") - truth).mean() for one in (result, alone)]
    assert errors[0] < errors[1]


def test_nobody_teaches_a_line(trained):
    result = search(X, LINE, config=CONFIG, **OPTIONS)
    assert not trained
    assert not result.settings["taught_by_boosting"]


def test_a_quick_look_does_not_ask(monkeypatch):
    def asked(*_):
        raise AssertionError

    monkeypatch.setattr(boosting, "leads", asked)
    search(X, STEPS, config=QUICK, **OPTIONS)


def test_of_somebody_s_teacher_a_quick_look_has_small_pupils(trained):
    search(X, NOISY, teacher=knows, config=QUICK, **OPTIONS)
    assert len(trained[0]) == 2
    assert max(trained[0]) < 1200


def test_the_same_again_by_several_processes_and_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(second_order, "PUPIL_STEPS", 100)
    options = {**OPTIONS, "config": CONFIG, "seed": 1}
    known = {
        digest(search(X, STEPS, **options)),
        digest(search(X, STEPS, **options, engine=ProcessesEngine(2))),
    }
    keep, kept = Steps.keep, []

    def keep_and_stop(steps, name, found):
        keep(steps, name, found)
        if name in ("teacher", "lesson", "pupils"):
            kept.append(name)
            raise KeyboardInterrupt

    monkeypatch.setattr(Steps, "keep", keep_and_stop)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            search(X, STEPS, **options, checkpoint=tmp_path, resume="auto")
    assert kept == ["teacher", "lesson", "pupils"]
    known.add(digest(search(X, STEPS, **options, checkpoint=tmp_path, resume=True)))
    assert len(known) == 1
