"""What the documents show runs."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("document", ["README.md"])
def test_code_blocks_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), document, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    out = capsys.readouterr().out
    expected = {"quickstart.py": "10 → 8 → 4"}
    assert expected[example.name] in out


BENCHMARKS = {
    "forward_cost.py": ["--quick", "--seconds", "0.05"],
    "latency.py": ["--seconds", "0.01"],
    "teacher_student.py": ["--quick", "--epochs", "2"],
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_run(name, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / name), *BENCHMARKS[name]]
    run = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / f"{Path(name).stem}.json").exists()
