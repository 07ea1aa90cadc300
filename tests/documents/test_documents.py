"""What the documents point to is there, and the benchmarks run."""

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.utils import canonicalize_name
from pages import FENCE

ROOT = Path(__file__).parents[2]
PARTS = ("train", "test")


def test_links_lead_somewhere():
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert documents
    for document in documents:
        text = FENCE.sub("", document.read_text())
        links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
        for target in [*links, *re.findall(r'<img src="([^":]+)"', text)]:
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_ci_runs_the_readme_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    finder = re.search(r"command=\$\((.*)\)", script)
    assert finder
    found = subprocess.run(
        ["bash", "-c", finder[1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert " --require-hashes -r requirements.lock " in found.stdout
    assert found.stdout.strip().endswith("&& pytest -n 2 --dist loadfile")


def test_the_lock_holds_what_was_tested_and_all_that_is_brought_along():
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^(\S+)==(\S+) \\\n    --hash=sha256:", lock, re.MULTILINE))
    assert "://" not in lock
    pins = (line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    tested = {canonicalize_name(name): version for name, version in pins if name != "torch"}
    assert tested.items() <= locked.items()
    page = (ROOT / "docs" / "licences.md").read_text()
    brought = dict(re.findall(r"^\| (\S+) \| (\d\S*) \|", page, re.MULTILINE))
    assert locked == {name: version for name, version in brought.items() if name != "torch"}


def test_the_reproduction_page_is_that_of_the_recorded_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    writer = runpy.run_path(str(ROOT / "benchmarks" / "reproduction.py"))
    page = (ROOT / "docs" / "reproduction.md").read_text()
    assert writer["page"]() == page
    others = writer["begun"]()  # verdicts are of full runs; the page says which others there are
    assert page.count("**Not the full protocol**") == len(others)
    verdicts = ROOT / "src" / "torchsparcs" / "experiments" / "verdicts.json"
    assert writer["verdicts"]() == verdicts.read_text()


def test_a_run_under_other_settings_has_a_page_where_there_is_no_full_one(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    writer = runpy.run_path(str(ROOT / "benchmarks" / "reproduction.py"))
    record = (ROOT / "docs" / "results" / "student.json").read_text()
    monkeypatch.setitem(writer["page"].__globals__, "RESULTS", tmp_path)
    (tmp_path / "student-narrow.json").write_text(record)
    alone = writer["page"]()
    assert "\n## student\n" in alone
    assert "(figures/student-narrow/transition.svg)" in alone
    (tmp_path / "student.json").write_text(record)
    both = writer["page"]()
    assert "(figures/student/transition.svg)" in both
    assert "\n### student-narrow\n" in both
    assert "figures/student-narrow" not in both


@pytest.mark.parametrize("kind", ["chips", "reliability"])
def test_pages_say_what_was_recorded(kind, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    writer = runpy.run_path(str(ROOT / "benchmarks" / f"{kind}.py"))
    named = set()
    for path in writer.get("PAGES") or [writer["PAGE"]]:
        text = path.read_text()
        assert writer["page"](path) == text, f"run {kind}.py"
        assert not re.search(rf"^[ -]*<!-- {kind}: \w+ -->[^\n]", text, re.MULTILINE)
        named |= {*re.findall(rf"<!-- {kind}: (\w+) -->", text)}
    assert named == {*writer["SENTENCES"]}


def test_pages_say_what_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    writer = runpy.run_path(str(ROOT / "benchmarks" / "measured.py"))
    named = set()
    for path in writer["PAGES"]:
        text = path.read_text()
        assert writer["page"](path) == text, "run measured.py"
        assert not re.search(r"^[ -]*<!-- measured: \w+ -->[^\n]", text, re.MULTILINE)
        named |= {*re.findall(r"<!-- measured: (\w+) -->", text)}
    assert named == {*writer["SENTENCES"]}
    changed = writer["Records"](growing={"cpu": {"cut": CUT}})
    assert writer["SENTENCES"]["growing"](changed).startswith(
        "2 → 1 → 1 neurons with 4 of 9 parameters, which get 50.0 %"
    )
    units = {"a .csv": {"search": 1}, "b .csv": dict.fromkeys(("search", "predict"), 0)}
    units["b .csv"] |= {"untrue": ["x"], "onnx_differs_by": None, "estimator_differs_by": 0.5}
    options = {"most_rows": None, "steps": None, "command": "python x.py", "date": "2026-01-01"}
    changed = writer["Records"](as_they_are={"cpu": {"units": units, **options}})
    said = writer["SENTENCES"]["as_they_are"](changed)
    assert said.startswith("1 of 2 files are searched (all rows of each, with no option)")
    for words in ("all but 1 counts", "by 0.0e+00 at most", "by 5.0e-01", "(`x.py`, 2026-01-01)"):
        assert words in said


CUT = {"widths": [2, 1, 1], "parameters": 4, "of_parameters": 9, "score": 0.5}
WRITTEN = re.compile(r"<!-- (?:tables|measured|peers|chips): \w+ -->.*?<!-- end -->", re.DOTALL)


def test_numbers_of_the_readme_come_from_records():
    text = (ROOT / "README.md").read_text()
    section = text.split("\n## What was measured\n")[1].split("\n## Citation")[0]
    answers = re.findall(r"^\| [^|]+\? \| (.*) \|$|^\| [^|]+ \| (<.*) \|$", section, re.MULTILINE)
    assert len(answers) == 10
    for answer in map("".join, answers):
        assert WRITTEN.fullmatch(answer), answer
    said = WRITTEN.sub("", text.split("\n## Thirty lines")[0])
    said = re.sub(r"```.*?```|\]\([^)]*\)|<[^>]+>|`[^`]*`|\[!\[.*", "", said, flags=re.DOTALL)
    numbers = {*re.findall(r"\d[\d.,]*\d|\d", said)}
    assert numbers <= {"0", "1"}, "numbers are written by a script"  # 0 and 1: sides of the plot


@pytest.mark.parametrize("name", ["block_cost", "block_cuts", "block_memory"])
def test_the_page_has_the_tables_that_were_recorded(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    writer = runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))
    assert writer["page"]() == (ROOT / "docs" / "results.md").read_text(), f"{name}.py --page"


BENCHMARKS: dict[str, list[str]] = {
    "block_cost.py": ["--quick", "--seconds", "0.01"],
    "block_cuts.py": ["--quick", "--model", "vit", "--data", "{folder}/images.npz"],
    **({"block_memory.py": ["--quick"]} if sys.platform == "linux" else {}),  # reads /proc
    "cifar10_sweep.py": [
        *("--data", "{folder}/images.npz", "--epochs", "1", "--rows", "40"),
        *("--heads", "linear", "spectral", "--pairs", "1e-3,1", "--dropouts", "0.2"),
    ],
    "c_latency.py": ["--seconds", "0.01", "--cases", "digits"],
    "cnn_cost.py": ["--rows", "64", "--offered", "4", "8"],
    "cnn_front.py": [
        *("--data", "{folder}/images.npz", "--rows", "60", "--seeds", "1", "--epochs", "1"),
        *("--choosing", "1", "--offered", "4", "4", "--widths", "2"),
        *("--smallest", "100000"),
    ],
    "cnn_macs.py": ["--quick", "--data", "{folder}/images.npz"],
    "equal_starts.py": ["--epochs", "1"],
    "families.py": ["--only", "MLP-Mixer"],
    "forward_cost.py": ["--quick", "--seconds", "0.05"],
    "growing.py": ["--epochs", "1"],
    "house.py": ["--runs", "1", "--starts", "torch and torchsparcs"],
    "products.py": [],
    "relevance.py": ["--tables", "wine", "--seeds", "1", "--steps", "20"],
    "latency.py": ["--seconds", "0.01", "--cases", "digits"],
    "mnist_front.py": ["--quick", "--epochs", "1", "--seeds", "2", "--data", "{folder}/images.npz"],
    "text_front.py": [
        *("--rows", "20", "--seeds", "1", "--epochs", "2", "--choices", "1", "--widths", "6", "4"),
    ],
    "vit_front.py": [
        *("--data", "{folder}/images.npz", "--epochs", "1", "--seeds", "1", "--rows", "32"),
        *("--widths", "8", "--penalties", "1e-4", "--choices", "1"),
    ],
    "population.py": ["--members", "3", "--epochs", "1"],
    "honesty.py": ["--quick"],
}


@pytest.fixture
def run_benchmark(monkeypatch, capsys):
    """Runs a benchmark in this process, which is left as it was; what it prints."""
    precision, known = torch.get_float32_matmul_precision(), {*sys.modules}
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)

    def run(name, *options):
        monkeypatch.setattr(sys, "argv", [name, *options])
        importlib.import_module(Path(name).stem).main()
        return capsys.readouterr().out

    yield run
    torch.set_float32_matmul_precision(precision)
    for name in {*sys.modules} - known:
        if str(ROOT / "benchmarks") in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.mark.usefixtures("brief_searches")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_run(name, run_benchmark, tmp_path):
    draw = np.random.default_rng(0)
    images = {f"{part}_x": draw.integers(0, 256, (600, 28, 28), np.uint8) for part in PARTS}
    np.savez(tmp_path / "images.npz", **images, **{f"{p}_y": np.arange(600) % 10 for p in PARTS})
    options = [option.format(folder=tmp_path) for option in BENCHMARKS[name]]
    said = run_benchmark(name, *options, "--out", str(tmp_path))
    assert [*tmp_path.glob(f"{Path(name).stem}*.json")]
    if name == "text_front.py":  # a contest: what is recorded is not done again
        assert run_benchmark(name, *options, "--out", str(tmp_path), "--resume") == ""
        assert said.count("runs ") > 2
