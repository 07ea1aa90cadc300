"""The time of a search: budgets, Ctrl-C that keeps the front, and the clock that is shown."""

import io
import os
import re
import signal
import time

import numpy as np
import pytest
from rich.console import Console

from tests.outcomes import digest
from torchsparcs import (
    SearchConfig,
    SparcsRegressor,
    SpectralNetwork,
    TrainConfig,
    load_result,
    search,
)
from torchsparcs.parallel.executor import Executor
from torchsparcs.parallel.steps import Steps
from torchsparcs.searching import clock as clocks
from torchsparcs.searching import network_search, paper_search, progress, table_search
from torchsparcs.searching.clock import STOPPED, STOPPING, Clock
from torchsparcs.searching.finishing import Finishing
from torchsparcs.training.deadline import Deadline

X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
Y = np.abs(X[:, 0])
CONFIG = SearchConfig(steps=20, epochs=1, path=2, ways=("asleep",))
QUICK = {
    "config": CONFIG,
    "widths": (16,),
    "penalty_weights": (1e-3,),
    "validation": 2,
    "device": "cpu",
    "engine": "local",
    "progress": False,
}


def pressed(monkeypatch, place, name, on, times=1):
    """Ctrl-C is pressed when the method ``name`` of ``place`` is called for a step named so."""
    method = getattr(place, name)

    def press(self, *arguments, **options):
        if on in (None, *arguments[:1]):
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return method(self, *arguments, **options)

    monkeypatch.setattr(place, name, press)


@pytest.fixture(scope="module")
def plain() -> str:
    """What a search finds that nobody interrupts."""
    return digest(search(X, Y, **QUICK))


class TestBudget:
    def test_without_any_time_there_is_the_linear_model(self, tmp_path):
        y = np.where(X[:, 0] > 0, "a", "b")
        result = search(X, y, **QUICK, time_budget=1e-3)
        assert result.settings["time_budget"] == 1e-3
        assert result.settings["ended"] == "budget"
        assert result.front
        assert result.linear is not None
        assert result.linear.score > 0.9  # and it is fitted
        assert all(candidate.architecture == "3 → 1" for candidate in result.front)
        result.save(tmp_path / "run")
        result.report(tmp_path / "run/report.html")
        page = (tmp_path / "run/report.html").read_text()
        assert "by the time budget of 0 s" in page
        known = load_result(tmp_path / "run")
        assert (known.predict(X) == result.predict(X)).all()
        assert known.settings["ended"] == "budget"

    def test_a_long_search_ends_in_time_with_all_stages(self):
        long = SearchConfig(steps=100_000, longest=100_000, epochs=1, path=2)
        options = {**QUICK, "config": long, "penalty_weights": "auto"}
        x = np.random.default_rng(0).uniform(-1, 1, (4000, 3))  # a minute's work
        started = time.time()
        result = search(x, np.abs(x[:, 0]), **options, time_budget=4.0)
        assert time.time() - started < 20  # on a busy machine
        assert result.settings["ended"] == "budget"
        assert result.linear.score < result.best().score
        assert any(attempt.cut > 1 for attempt in result.attempts)

    def test_a_budget_that_is_not_needed_changes_nothing(self, plain):
        timed = search(X, Y, **QUICK, time_budget=10_000)
        assert timed.settings["ended"] is None
        assert digest(timed) == plain

    def test_time_before_an_interruption_counts(self, tmp_path):
        search(X, Y, **QUICK, time_budget=10_000, checkpoint=tmp_path)
        steps = Steps(tmp_path)
        done = steps.recall("linear")
        steps._before = 20_000.0
        steps.keep("linear", done)
        (tmp_path / "connections.safetensors").unlink()
        options = {"checkpoint": tmp_path, "resume": True, "time_budget": 10_000}
        result = search(X, Y, **QUICK, **options)
        assert result.settings["seconds"] > 20_000
        assert result.settings["ended"] == "budget"

    @pytest.mark.parametrize("nonsense", [0, -1, float("nan"), float("inf"), "5m", True])
    def test_nonsense_is_refused(self, nonsense):
        with pytest.raises(ValueError, match=r"time_budget in seconds, above 0\. Got"):
            search(X, Y, **QUICK, time_budget=nonsense)

    def test_estimators_have_one(self):
        model = SparcsRegressor(steps=20, widths=(8,), validation=2, time_budget=1e-3)
        model.fit(X, Y)
        assert model.result_.settings["ended"] == "budget"
        assert model.predict(X).shape == (200,)

    def test_other_processes_end_in_time(self):
        long = SearchConfig(steps=100_000, longest=100_000, epochs=1, path=2)
        options = {**QUICK, "config": long, "engine": "processes"}
        started = time.time()
        result = search(X, Y, **options, time_budget=4.0)
        assert time.time() - started < 20
        assert result.settings["ended"] == "budget"

    def test_a_network_ends_in_time(self):
        network, config = SpectralNetwork([3, 16, 1]), TrainConfig(task="regression", epochs=10**6)
        x, y = X.astype(np.float32), Y.astype(np.float32)[:, None]
        started = time.time()
        result = search(x, y, network=network, config=config, time_budget=5.0, progress=False)
        assert time.time() - started < 12
        assert result.settings["ended"] == "budget"
        assert len(result.attempts) > 1


class TestCtrlC:
    def test_it_keeps_the_front_and_goes_on_from_there(self, monkeypatch, tmp_path, capsys, plain):
        options = {**QUICK, "checkpoint": tmp_path}
        with monkeypatch.context() as patch:
            pressed(patch, Executor, "train", "tuning 2")
            with pytest.warns(UserWarning, match=STOPPED):
                result = search(X, Y, **options)
        assert capsys.readouterr().err == f"{STOPPING}\n"
        assert result.settings["ended"] == "interrupt"
        assert max(attempt.cut for attempt in result.attempts) == 1
        again = search(X, Y, **options, resume=True)
        assert again.settings["ended"] is None
        assert digest(again) == plain

    @pytest.mark.parametrize("name", ["linear", "run"])
    def test_fits_that_were_cut_short_are_not_kept(self, monkeypatch, tmp_path, name, plain):
        options = {**QUICK, "checkpoint": tmp_path}
        with monkeypatch.context() as patch:
            pressed(patch, Finishing, name, None)
            with pytest.warns(UserWarning, match=STOPPED):
                result = search(X, Y, **options)
        assert result.settings["ended"] == "interrupt"
        assert digest(search(X, Y, **options, resume=True)) == plain

    def test_the_second_one_aborts(self, monkeypatch):
        pressed(monkeypatch, Executor, "train", "training asleep", times=2)
        with pytest.raises(KeyboardInterrupt):
            search(X, Y, **QUICK)

    def test_other_processes_hear_of_it(self, monkeypatch):
        long = SearchConfig(steps=100_000, longest=100_000, epochs=1, path=2)
        pressed(monkeypatch, Executor, "train", "training asleep")
        started = time.time()
        with pytest.warns(UserWarning, match=STOPPED):
            result = search(X, Y, **{**QUICK, "config": long, "engine": "processes"})
        assert time.time() - started < 60
        assert result.settings["ended"] == "interrupt"


class TestClock:
    def test_what_is_left_is_told_by_what_was_done(self, monkeypatch):
        now = [1000.0]
        monkeypatch.setattr(clocks.time, "time", lambda: now[0])
        clock = Clock(Executor(), {"first": 0.25, "then": 0.5, "last": 0.25})
        with clock.stage("first", "beginning"):
            assert clock.remaining() is None
            assert str(clock) == "beginning: 0 s"
            now[0] += 10
        with clock.stage("then", "half", 2):
            assert clock.remaining() == pytest.approx(30)
            now[0] += 4
            assert str(clock) == "half: 14 s, about 26 s left"
            now[0] += 100  # longer than it should: the later stages are still to come
            assert clock.remaining() == pytest.approx(20)
        with clock.stage("last", "end"):
            assert clock.remaining() == pytest.approx(114 / 3)  # what was left out is done

    def test_the_time_to_the_deadline_is_shared_out(self):
        executor = Executor()
        clock = Clock(executor, {"first": 0.25, "then": 0.75}, Deadline(time.time() + 100))
        with clock.stage("first", ""):
            assert executor.deadline.left == pytest.approx(25, abs=1)
        with clock.stage("then", "", 2):
            assert executor.deadline.left == pytest.approx(50, abs=1)
        assert executor.deadline is None
        assert clock.ended is None
        assert clock.remaining() < 100

    def test_a_file_has_a_line_now_and_then(self, monkeypatch, capsys):
        monkeypatch.setattr(progress, "SINCE", 0.0)
        search(X, Y, **{**QUICK, "progress": True})
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("the linear model: 0 s")
        assert any(line.startswith("cutting single connections: ") for line in lines)
        assert re.fullmatch(
            r"([a-z -]+ [0-9]+ s, )*[a-z -]+( [0-9]+ s)?: ([0-9]+ (min|s) ?)+", lines[-1]
        )

    def test_a_terminal_has_all_stages(self, monkeypatch):
        now = [1000.0]
        monkeypatch.setattr(clocks.time, "time", lambda: now[0])
        clock = Clock(Executor(), {"training": 0.25, "cutting": 0.25, "last": 0.5})
        console = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())

        def screen() -> list[str]:
            with console.capture() as captured:
                console.print(progress._table(clock))
            return [line.rstrip() for line in captured.get().splitlines()]

        with clock.stage("training", "training asleep", 2):
            now[0] += 5
        with clock.stage("training", "training dropout"):
            now[0] += 5
        with clock.stage("cutting", "cutting to 9 parameters"):
            now[0] += 2
            lines = screen()
        assert [" ".join(line.split()) for line in lines[:-1]] == [
            "training 10 s",
            "cutting 2 s cutting to 9 parameters",
        ]
        assert " 30 % " in lines[-1]  # 12 of 40 s
        assert lines[-1].endswith("12 s  about 28 s left")
        assert lines[-1].count("█") == 7
        assert max(map(len, lines)) <= 80
        assert progress.totals(clock) == "training 10 s, cutting 2 s: 12 s"

    def test_every_stage_has_a_name(self):
        assert {*table_search.SHARES, *network_search.SHARES, *paper_search.SHARES} == (
            {*progress.STAGES}
        )

    def test_a_terminal_keeps_one_line(self, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        clock = Clock(Executor(), {"linear": 1.0})
        with progress.shown(clock, True), clock.stage("linear", "the linear model"):
            clock._part_started = clock._started = clock._started - 3
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.endswith("linear model 3 s: 3 s")

    def test_a_short_search_says_nothing_in_a_file(self, capsys):
        search(X, Y, **{**QUICK, "progress": True})
        assert "\x1b" not in capsys.readouterr().out
