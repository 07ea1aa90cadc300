"""What the documents show runs."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("train", "test")


@pytest.mark.parametrize("document", ["README.md"])
def test_code_blocks_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), document, "exec"), {"__name__": "__main__"})


def test_links_lead_somewhere():
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert documents
    for document in documents:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_ci_runs_the_readme_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    finder = re.search(r"command=\$\((.*)\)", script)
    assert finder
    found = subprocess.run(
        ["bash", "-c", finder[1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip().endswith("&& pytest -n 2 --dist loadfile")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    out = capsys.readouterr().out
    expected = {"quickstart.py": "10 → 8 → 4"}
    assert expected[example.name] in out


def test_the_reproduction_page_is_that_of_the_recorded_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page = runpy.run_path(str(ROOT / "benchmarks" / "reproduction.py"))["page"]()
    assert page == (ROOT / "docs" / "reproduction.md").read_text()


BENCHMARKS = {
    "cifar10_sweep.py": [
        *("--data", "{folder}/images.npz", "--epochs", "1", "--rows", "40"),
        *("--heads", "linear", "spectral", "--pairs", "1e-3,1", "--dropouts", "0.2"),
    ],
    "forward_cost.py": ["--quick", "--seconds", "0.05"],
    "fuzz.py": ["--files", "60"],
    "fronts.py": ["--quick", "--tasks", "iris"],
    "latency.py": ["--seconds", "0.01"],
    "mnist_front.py": ["--quick", "--epochs", "1", "--seeds", "2", "--data", "{folder}/images.npz"],
    "plain_mlps.py": ["--quick", "--tasks", "iris"],
    "vit_front.py": [
        *("--data", "{folder}/images.npz", "--epochs", "1", "--seeds", "1", "--rows", "32"),
        *("--widths", "8", "--penalties", "1e-4"),
    ],
    "population.py": ["--members", "3", "--epochs", "1"],
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_run(name, tmp_path):
    draw = np.random.default_rng(0)
    images = {f"{part}_x": draw.integers(0, 256, (600, 28, 28), np.uint8) for part in PARTS}
    np.savez(tmp_path / "images.npz", **images, **{f"{p}_y": np.arange(600) % 10 for p in PARTS})
    options = [option.format(folder=tmp_path) for option in BENCHMARKS[name]]
    command = [sys.executable, str(ROOT / "benchmarks" / name), *options]
    run = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / f"{Path(name).stem}.json").exists()
