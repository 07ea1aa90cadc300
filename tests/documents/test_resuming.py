"""Benchmarks that go on with their record: with one of the same code and settings, and no other."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SETTINGS = {"steps": 30, "widths": (16, 8)}


@pytest.fixture
def benchmark(monkeypatch):
    """A script of the benchmarks as a module, which is gone afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    known = {*sys.modules}
    yield importlib.import_module
    for name in {*sys.modules} - known:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


def test_what_is_recorded_is_gone_on_with(benchmark, tmp_path):
    resuming, recording = benchmark("resuming"), benchmark("recording")
    assert resuming.gone_on_from("digests", SETTINGS, tmp_path, resume=True) == {}
    results = {**SETTINGS, "code": resuming.code(), "found": [1, 2]}
    recording.record("digests", "cpu", results, tmp_path)
    assert resuming.gone_on_from("digests", SETTINGS, tmp_path, resume=False) == {}
    assert resuming.gone_on_from("digests", SETTINGS, tmp_path, resume=True)["found"] == [1, 2]


@pytest.mark.parametrize("key", ["code", "hardware", "versions", "steps"])
def test_what_differs_is_named(key, benchmark, tmp_path):
    resuming, recording = benchmark("resuming"), benchmark("recording")
    path = recording.record("digests", "cpu", {**SETTINGS, "code": resuming.code()}, tmp_path)
    content = json.loads(path.read_text())
    content["cpu"][key] = "another"
    path.write_text(json.dumps(content))
    with pytest.raises(SystemExit, match=rf"Got {key} 'another', now "):
        resuming.gone_on_from("digests", SETTINGS, tmp_path, resume=True)


def test_a_process_that_is_done_is_not_planned_again(benchmark, monkeypatch):
    repeats = benchmark("repeats")
    asked = []

    def find(setting, one):
        asked.append((setting, one))
        return {"setting": setting, **one._asdict(), "digests": ["a"] * one.times, "pick": {}}

    class Options:
        seed, steps, widths, repeats, workers, minutes = 0, 5, [2], 6, 1, 10.0

    monkeypatch.setattr(repeats, "in_the_setting", find)
    *_, whole = repeats.search_all(["numbers"], Options, [])
    assert len(asked) == len(whole) == 5  # 4 and 2 searches with each number of threads, one plain
    *_, again = repeats.search_all(["numbers"], Options, whole[:3])
    assert len(asked) == 7
    assert sorted(map(str, again)) == sorted(map(str, whole))
    assert repeats.compared(whole)["of"] == 12


def test_a_record_does_not_tell_where_folders_lie(benchmark, monkeypatch):
    recording = benchmark("recording")
    script = str(BENCHMARKS.resolve() / "tables.py")
    for typed, told in (
        (
            ["benchmarks/tables.py", "--out", "docs/results"],
            "benchmarks/tables.py --out docs/results",
        ),
        ([script, "--quick", "--out", "/some/where"], "benchmarks/tables.py --quick"),
        ([script, "--out=/some/where", "--data=/a/b.npz"], "benchmarks/tables.py --data=b.npz"),
        (
            [script, "--data", "/a/b.npz", "--out=here"],
            "benchmarks/tables.py --data b.npz --out=here",
        ),
    ):
        monkeypatch.setattr(sys, "argv", typed)
        assert recording.command() == f"python {told}"


def test_no_record_tells_where_folders_lay(benchmark):
    told = benchmark("recording").told
    for path in (BENCHMARKS.parent / "docs" / "results").rglob("*.json"):
        for command in set(re.findall(r'"command": "([^"]*)"', path.read_text())):
            parts = command.split(" ")
            assert told(parts) == parts, path.name
