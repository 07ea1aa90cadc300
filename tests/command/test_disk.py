"""A disk that is full, a folder that may not be written to: one line, and nothing is lost."""

import errno
import json
import multiprocessing
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from torchsparcs import SearchConfig, load_result, search
from torchsparcs.command import main
from torchsparcs.tables.datasets import load_dataset

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


@pytest.fixture
def run(tmp_path):
    table = load_dataset("iris")
    config = SearchConfig(steps=20, longest=20, path=2, shrink=0.4)
    result = search(table.X, table.y, widths=(8,), config=config, progress=False)
    result.save(tmp_path / "run")
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
        monkeypatch.setattr(
            "torchsparcs.parallel.executor._trained", None
        )  # nothing is trained again
        sparcs("search", "--resume", folder, capsys=capsys, code=0)
        load_result(folder)
        assert not (folder / "parts").exists()


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
