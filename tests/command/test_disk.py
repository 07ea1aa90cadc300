"""A disk that is full, a folder that may not be written to: one line, and nothing is lost."""

import errno
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchsparcs import SearchConfig, load_result, search
from torchsparcs.command import main
from torchsparcs.parallel.steps import Steps, lock_steps
from torchsparcs.tables.datasets import load_dataset

pytestmark = pytest.mark.usefixtures("brief_searches")
FORK = multiprocessing.get_context("fork")
QUICK = ("--steps", "20", "--widths", "8")


def sparcs(*arguments, capsys, code=1) -> str:
    """The line on stderr."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert exit.value.code == code, captured
    return captured.err


def in_a_child(work) -> tuple[int, str]:
    """The exit code and stderr of a child process, whose limits are its own."""
    read, write = os.pipe()

    def run():
        os.dup2(write, 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        work()

    child = FORK.Process(target=run)
    child.start()
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    child.join()
    return child.exitcode, text


@pytest.fixture(scope="module")
def found():
    table = load_dataset("iris")
    return search(table.X, table.y, widths=(8,), config=SearchConfig(), progress=False)


@pytest.fixture
def run(found, tmp_path):
    found.save(tmp_path / "run")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class TestFull:
    @pytest.mark.parametrize("limit", [100, 300, 20_000])
    def test_a_search_stops_with_one_line_and_goes_on(self, tmp_path, limit, capsys):
        """The kernel's own refusal, at a file size."""
        folder = tmp_path / "run"

        def search_with_a_limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            main(["search", "iris", *QUICK, "--out", str(folder), "--quiet"])

        code, text = in_a_child(search_with_a_limit)
        assert code == 1
        assert len(text.splitlines()) == 1
        assert f"File too large: '{folder}/" in text
        assert not list(tmp_path.rglob("*.partial"))
        begun = (folder / "parts" / "job.json").exists()
        assert begun == (limit > 1000)
        rest = ("--resume", folder) if begun else ("iris", *QUICK, "--out", folder)
        sparcs("search", *rest, "--quiet", capsys=capsys, code=0)
        load_result(folder)

    def test_no_space_left(self, run, tmp_path, capsys, monkeypatch):
        before = contents(run)

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        for command in (
            ("report", run),
            ("export", run, "--format", "safetensors"),
            ("predict", run, "iris", "-o", tmp_path / "said.csv"),
            ("search", "iris", *QUICK, "--out", tmp_path / "other"),
        ):
            text = sparcs(*command, capsys=capsys)
            assert "No space left on device" in text
            assert len(text.splitlines()) == 1, text
        assert contents(run) == before
        assert not (tmp_path / "other").exists()
        assert not (tmp_path / "said.csv").exists()

    def test_a_full_disk_at_the_end_loses_nothing(self, tmp_path, capsys, monkeypatch):
        """The search is done, and its result cannot be written: resuming writes it."""
        folder, real = tmp_path / "run", os.fsync

        def full_in_the_folder_itself(descriptor):
            if "/parts/" not in os.readlink(f"/proc/self/fd/{descriptor}"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full_in_the_folder_itself)
            text = sparcs("search", "iris", *QUICK, "--out", folder, capsys=capsys)
            assert "No space left on device" in text
        assert not (folder / "settings.json").exists()
        kept = contents(folder / "parts")
        assert json.loads(kept[str(folder / "parts" / "job.json")])["data"] == "iris"
        monkeypatch.setattr("torchsparcs.parallel.executor.train", None)  # nothing is trained again
        sparcs("search", "--resume", folder, capsys=capsys, code=0)
        load_result(folder)
        assert not (folder / "parts").exists()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 160 kB of its own; ``remount`` changes it."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")

    mount("size=160k")
    yield place, lambda *options: mount("remount", *options)
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
class TestSmallDisk:
    def test_a_search_that_does_not_fit_goes_on_where_there_is_room(self, small_disk, capsys):
        place, remount = small_disk
        folder, stuffing = place / "run", place / "stuffing"
        stuffing.write_bytes(bytes(120_000))
        text = sparcs("search", "iris", *QUICK, "--out", folder, "--quiet", capsys=capsys)
        assert "No space left on device" in text
        assert len(text.splitlines()) == 1, text
        assert not list(place.rglob("*.partial"))
        assert not (folder / "settings.json").exists()
        assert (folder / "parts" / "job.json").exists()
        remount("size=16m")
        sparcs("search", "--resume", folder, "--quiet", capsys=capsys, code=0)
        load_result(folder)

    def test_what_is_read_only_is_read(self, run, small_disk, capsys):
        place, remount = small_disk
        remount("size=16m")
        shutil.copytree(run, place / "run")
        Steps(place / "run" / "parts").keep("left", 1)
        remount("ro")
        text = sparcs("search", "iris", *QUICK, "--out", place / "other", capsys=capsys)
        assert "is read-only" in text
        text = sparcs("report", place / "run", capsys=capsys)
        assert "Read-only file system" in text
        assert len(text.splitlines()) == 1, text
        assert sparcs("show", place / "run", capsys=capsys, code=0) == ""


class TestMeanwhile:
    def test_a_folder_that_is_removed(self, tmp_path, capsys, monkeypatch):
        """In mid-search: one line, and no half of a folder comes back."""
        folder, real, kept = tmp_path / "run", Steps.keep, []

        def keep_and_remove(steps, name, found):
            real(steps, name, found)
            kept.append(name)
            if len(kept) == 3:
                shutil.rmtree(folder)

        monkeypatch.setattr(Steps, "keep", keep_and_remove)
        text = sparcs("search", "iris", *QUICK, "--out", folder, capsys=capsys)
        assert "to stay. It was removed meanwhile" in text
        assert len(text.splitlines()) == 1, text
        assert len(kept) == 3
        assert not folder.exists()

    def test_a_folder_that_another_search_works_in(self, tmp_path, capsys):
        folder = tmp_path / "run"
        with lock_steps(folder / "parts"):
            for rest in ((), ("--force",)):
                text = sparcs("search", "iris", *QUICK, "--out", folder, *rest, capsys=capsys)
                assert "Another process works in" in text
                assert len(text.splitlines()) == 1, text
        assert [path.name for path in (folder / "parts").iterdir()] == [".lock"]


class TestLeftovers:
    """A search was killed while it took its parts away: the next command does."""

    @pytest.fixture
    def left(self, run):
        steps = Steps(run / "parts")
        steps.keep("training 0-8", 1)
        for name in (".lock", "cut 0.checkpoint", ".training 0-8.safetensors.7-7.partial"):
            (run / "parts" / name).write_bytes(b"")
        return run

    @pytest.mark.parametrize(
        "command",
        [
            ("show", "{run}"),
            ("report", "{run}"),
            ("export", "{run}", "--format", "safetensors"),
            ("predict", "{run}", "iris"),
            ("search", "--resume", "{run}"),
        ],
    )
    def test_any_command_removes_them(self, left, command, capsysbinary):
        with pytest.raises(SystemExit) as exit:
            main([word.format(run=left) for word in command])
        assert exit.value.code == 0
        assert not (left / "parts").exists()
        load_result(left)

    def test_a_search_that_was_killed_at_once_leaves_the_folder_free(self, tmp_path, capsys):
        parts = tmp_path / "run" / "parts"
        parts.mkdir(parents=True)
        for name in (".lock", ".job.json.7-7.partial"):
            (parts / name).write_bytes(b"{")
        sparcs("search", "iris", *QUICK, "--out", tmp_path / "run", capsys=capsys, code=0)
        load_result(tmp_path / "run")
        assert not parts.exists()

    def test_those_of_a_search_that_works_or_is_not_finished_stay(self, left, capsys):
        def names():
            return sorted(path.name for path in (left / "parts").iterdir())

        before = names()
        with lock_steps(left / "parts"):
            sparcs("show", left, capsys=capsys, code=0)
        assert names() == before
        (left / "parts" / "job.json").write_text("{}")
        sparcs("show", left, capsys=capsys, code=0)
        assert names() == sorted([*before, "job.json"])


class TestNotAllowed:
    def test_a_folder_that_refuses_files(self, run, tmp_path, capsys, monkeypatch):
        """The system's own refusal, whoever runs the tests: the superuser may write anywhere."""
        real = Path.open

        def refuse(path, mode="r", *rest, **more):
            if "w" in mode and "locked" in str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, mode, *rest, **more)

        monkeypatch.setattr(Path, "open", refuse)
        for command in (
            ("report", run, "--out", tmp_path / "locked.html"),
            ("search", "iris", *QUICK, "--out", tmp_path / "locked"),
        ):
            text = sparcs(*command, capsys=capsys)
            assert "Permission denied" in text
            assert len(text.splitlines()) == 1, text

    @pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
    def test_a_read_only_folder(self, tmp_path, capsys):
        (tmp_path / "locked").mkdir(mode=0o500)
        text = sparcs("search", "iris", "--out", tmp_path / "locked" / "run", capsys=capsys)
        assert "is read-only" in text
        assert len(text.splitlines()) == 1
