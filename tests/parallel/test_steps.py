"""Work that is interrupted goes on where it was, and ends as if nothing had happened."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from outcomes import assert_same, differing, files_of

from torchsparcs import SearchConfig, load_result, search
from torchsparcs.command import jobs
from torchsparcs.command.console import open_console
from torchsparcs.command.jobs import PARTS, Job
from torchsparcs.files.checkpoint import load_checkpoint
from torchsparcs.parallel.steps import Steps, lock_steps, open_steps
from torchsparcs.tables.datasets import load_dataset

KILLS = 10
QUICK = SearchConfig(steps=20, longest=20, path=1, shrink=0.3)
OPTIONS = {"widths": (6,), "config": QUICK, "progress": False}
JOB = Job("iris", steps=20, widths=(8,))


def wine():
    table = load_dataset("wine")
    return table.X, table.y


class TestSteps:
    def test_a_step_is_not_done_twice(self, tmp_path):
        done = []

        def compute():
            done.append(1)
            return {"found": torch.ones(2)}

        for _ in range(2):
            assert torch.equal(Steps(tmp_path).step("a step", compute)["found"], torch.ones(2))
        assert done == [1]
        Steps().step("a step", compute)  # without a folder nothing is kept
        assert done == [1, 1]

    def test_the_time_before_counts(self, tmp_path):
        steps = Steps(tmp_path)
        steps._started -= 100
        steps.keep("a step", 1)
        again = Steps(tmp_path)
        assert again.recall("a step") == 1
        assert again.seconds >= 100

    def test_only_the_same_work_is_gone_on_with(self, tmp_path):
        with open_steps(tmp_path, {"seed": 0}, False) as steps:
            steps.keep("a step", 1)
        for resume in (True, "auto"):
            with open_steps(tmp_path, {"seed": 0}, resume) as steps:
                assert steps.recall("a step") == 1
        with pytest.raises(ValueError, match="Got other seed"):
            open_steps(tmp_path, {"seed": 1}, True).__enter__()
        with pytest.raises(ValueError, match="without unfinished"):
            open_steps(tmp_path, {}, False).__enter__()

    def test_all_that_differs_is_named(self, tmp_path):
        begun = {"seed": 0, "config": {"steps": 40, "lr": 0.1}, "rows": "a" * 64}
        with open_steps(tmp_path, begun, False) as steps:
            assert steps.recall("a step") is None
        other = {"seed": 1, "config": {"steps": 60, "lr": 0.1}, "rows": "b" * 64}
        words = r"Got other seed \(0 then, 1 now\), config \(steps \(40 then, 60 now\)\), rows\."
        with pytest.raises(ValueError, match=words):
            open_steps(tmp_path, other, True).__enter__()

    def test_other_threads_are_said_and_gone_on_with(self, tmp_path):
        with open_steps(tmp_path, {"threads": 4}, False) as steps:
            steps.keep("a step", 1)
        words = r"begun with other threads \(4 then, 2 now\)"
        other = {"threads": 2}
        with pytest.warns(UserWarning, match=words), open_steps(tmp_path, other, True) as steps:
            assert steps.recall("a step") == 1

    def test_a_folder_that_is_taken_away(self, tmp_path):
        folder = tmp_path / "parts"
        with lock_steps(folder) as steps:
            steps.keep("a step", 1)
            shutil.rmtree(folder)
            with pytest.raises(FileNotFoundError, match="It was removed meanwhile"):
                steps.keep("another", 2)
        assert not folder.exists()

    def test_what_is_not_ours_stays(self, tmp_path):
        steps = Steps(tmp_path / "parts")
        steps.keep("a step", 1)
        (tmp_path / "parts" / "mine.txt").write_text("kept")
        steps.remove()
        assert [path.name for path in (tmp_path / "parts").iterdir()] == ["mine.txt"]

    def test_nothing_to_go_on_with(self, tmp_path):
        with pytest.raises(ValueError, match="There is none in"):
            open_steps(tmp_path, {}, True).__enter__()
        with pytest.raises(ValueError, match="Got none"):
            open_steps(None, {}, True).__enter__()

    def test_a_second_process_is_refused_and_a_killed_one_leaves_the_place(self, tmp_path):
        fork = multiprocessing.get_context("fork")
        inside = fork.Event()

        def stay():
            with lock_steps(tmp_path):
                inside.set()
                time.sleep(60)

        other = fork.Process(target=stay)
        other.start()
        assert inside.wait(30)
        with pytest.raises(ValueError, match="Another process works in"), lock_steps(tmp_path):
            pass
        other.kill()
        other.join()
        with lock_steps(tmp_path):
            pass


@pytest.fixture(scope="module")
def whole():
    return search(*wine(), **OPTIONS)


class TestSearch:
    def test_interrupted_anywhere_it_goes_on(self, whole, tmp_path, monkeypatch):
        """Ctrl-C after every single step that was kept."""
        keep, kept = Steps.keep, []

        def keep_and_stop(steps, name, found):
            keep(steps, name, found)
            kept.append(name)
            raise KeyboardInterrupt

        monkeypatch.setattr(Steps, "keep", keep_and_stop)
        options = {**OPTIONS, "checkpoint": tmp_path, "resume": "auto"}
        for _ in range(100):
            try:
                result = search(*wine(), **options)
            except KeyboardInterrupt:
                continue
            break
        assert len(kept) == len(set(kept)) > 10
        assert_same(whole, result)

    def test_with_a_checkpoint_it_is_the_same_and_other_data_or_settings_are_refused(
        self, whole, tmp_path
    ):
        X, y = wine()
        options = {**OPTIONS, "checkpoint": tmp_path}
        assert_same(whole, search(X, y, **options))
        with pytest.raises(ValueError, match="without unfinished work"):
            search(X, y, **options)
        with pytest.raises(ValueError, match="Got other rows"):
            search(X.iloc[:-1], y.iloc[:-1], **options, resume=True)
        with pytest.raises(ValueError, match="Got other seed"):
            search(X, y, **options, resume=True, seed=1)
        with pytest.raises(ValueError, match="Got other config"):
            search(X, y, **{**options, "config": SearchConfig()}, resume=True)


# --- kill -9 ---


def run_job(folder: Path, resume: bool) -> None:
    torch.set_num_threads(1)
    JOB.run(folder, open_console(quiet=True), resume=resume)


def assert_nothing_half_written(folder: Path) -> None:
    """Every file can be read; what was being written has a name that begins with a dot."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix in (".safetensors", ".checkpoint") and path.parent.name == PARTS:
                load_checkpoint(path)
    if (folder / "settings.json").exists():
        load_result(folder)


@pytest.mark.usefixtures("brief_searches")
def test_killed_at_ten_moments(tmp_path, monkeypatch):
    """kill -9 at random: each time the run goes on, and ends with the same files, bit for bit."""
    monkeypatch.setattr(jobs, "to_onnx", lambda *_: None)  # slow, and not what this is about
    fork = multiprocessing.get_context("fork")
    whole = tmp_path / "whole"
    start = time.monotonic()
    first = fork.Process(target=run_job, args=(whole, False))
    first.start()
    first.join()
    assert first.exitcode == 0
    takes = time.monotonic() - start
    expected = files_of(whole)
    assert "networks/00.safetensors" in expected
    assert not any(name.startswith(PARTS) for name in expected)
    rng, kills, begun = random.Random(0), 0, 0
    while kills < KILLS:
        folder = tmp_path / f"run{begun}"
        begun += 1
        resume = False
        while True:
            process = fork.Process(target=run_job, args=(folder, resume))
            process.start()
            if kills < KILLS:
                process.join(rng.uniform(0, takes / 2))
                if process.is_alive():
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
            process.join()
            if process.exitcode == 0:
                break
            assert process.exitcode == -signal.SIGKILL
            assert_nothing_half_written(folder)
            resume = (folder / PARTS / "job.json").exists()
        assert differing(files_of(folder), expected) == []
        shutil.rmtree(folder)
