"""Processes beside this one: the same answers, errors as they were raised, nobody left behind."""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
from workers import where

from torchsparcs.parallel import processes
from torchsparcs.parallel.executor import engine_of
from torchsparcs.parallel.processes import ProcessesEngine, WorkerLostError


def answered(function, items, engine):
    return dict(engine.map(function, items))


@pytest.fixture(scope="module")
def engine():
    made = ProcessesEngine(2)
    both_take_part(made)
    yield made
    made.close()


def both_take_part(engine):
    deadline = time.monotonic() + 60
    while len({pid for _, pid, _ in answered(where, range(4), engine).values()}) < 2:
        assert time.monotonic() < deadline


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().split()[2] != "Z"


def test_all_take_part_with_one_thread_each(engine):
    found = answered(where, range(12), engine)
    assert [found[place][0] for place in range(12)] == [*range(12)]
    others = {pid for _, pid, _ in found.values()} - {os.getpid()}
    assert len(others) == 1
    assert all(threads == 1 for _, pid, threads in found.values() if pid in others)


def test_what_one_raises_is_raised(engine):
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        answered(math.sqrt, [1.0, 4.0, -1.0, -1.0, -1.0], engine)
    assert answered(abs, [-1, -2, -3], engine) == {0: 1, 1: 2, 2: 3}  # and it goes on


def test_what_is_printed_is_no_answer(engine, capfd):
    answered(partial(print, "a word"), [0] * 4, engine)
    assert answered(abs, [-1, -2], engine) == {0: 1, 1: 2}
    assert "a word" in "".join(capfd.readouterr())


def test_a_process_that_is_lost_is_told(engine):
    both_take_part(engine)
    pid = engine._others[0]._process.pid
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(WorkerLostError, match="was lost: killed, or out of memory"):
        answered(where, range(30), engine)
    assert len(answered(where, range(3), engine)) == 3  # by another one


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("ending", ["kill", "exit", "close"])
def test_nobody_is_left_behind(ending):
    code = (
        "import os, sys\n"
        "from torchsparcs.parallel.processes import ProcessesEngine\n"
        "engine = ProcessesEngine(2)\n"
        "dict(engine.map(abs, range(100)))\n"
        "print(engine._others[0]._process.pid, flush=True)\n"
        f"{'engine.close()' if ending == 'close' else ''}\n"
        f"{'os.kill(os.getpid(), 9)' if ending == 'kill' else ''}\n"
        f"{'sys.stdin.readline()' if ending == 'close' else ''}\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        pid = int(program.stdout.readline())
        if ending != "close":
            program.wait(30)
        deadline = time.monotonic() + 20
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_alive(pid)
        program.stdin.close()


class TestAuto:
    @pytest.mark.parametrize(
        ("cores", "running", "free"), [(4, 1, 4), (4, 2, 3), (4, 3, 2), (4, 9, 1), (64, 1, 8)]
    )
    @pytest.mark.parametrize("is_linux", [True, False])
    def test_takes_the_cores_that_are_free(
        self, monkeypatch, tmp_path, cores, running, free, is_linux
    ):
        monkeypatch.setattr(processes, "BETWEEN", 0)
        monkeypatch.setattr(processes, "LOAD", tmp_path / "loadavg")
        if is_linux:
            (tmp_path / "loadavg").write_text(f"7.00 7.00 7.00 {running}/234 5678")
        monkeypatch.setattr(processes.joblib, "cpu_count", lambda: cores)
        monkeypatch.setattr(os, "getloadavg", lambda: (running, 0, 0))
        assert processes.free_cores() == free

    def test_is_this_process_where_work_is_short_or_no_core_is_free(self, monkeypatch):
        monkeypatch.setattr("torchsparcs.parallel.executor.free_cores", lambda: 2)
        assert engine_of("auto").workers == 1
        several = engine_of("auto", is_long=True)
        assert several.workers == 2
        several.close()
        monkeypatch.setattr("torchsparcs.parallel.executor.free_cores", lambda: 1)
        assert engine_of("auto", is_long=True).workers == 1


class Unsendable(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def test_an_error_that_cannot_be_sent_is_told():
    is_done, error = pickle.loads(processes._pickled(Unsendable("why", 2)))
    assert not is_done
    assert "Unsendable: why" in str(error)


def test_nobody_is_started_before_there_is_work():
    engine = ProcessesEngine(2)
    assert not engine._others
    engine.close()


def test_a_worker_imports_nothing_from_the_folder_it_is_in(tmp_path, monkeypatch):
    (tmp_path / "joblib.py").write_text("raise SystemExit('taken from the folder')")
    monkeypatch.chdir(tmp_path)
    engine = ProcessesEngine(2)
    both_take_part(engine)
    engine.close()
