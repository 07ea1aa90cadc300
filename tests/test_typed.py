"""A user's file is clean under pyright as well; mypy reads it among the linters."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(shutil.which("pyright") is None, reason="needs pyright")
@pytest.mark.parametrize("wrong", [False, True])
def test_pyright_knows_what_comes_back(tmp_path, wrong):
    text = (ROOT / "tests" / "typed.py").read_text()
    claim = "assert_type(extract(SpectralNetwork([3, 4, 2])), CompactNetwork)"
    assert claim in text
    if wrong:
        text = text.replace(claim, claim.replace("CompactNetwork", "CompactChain"))
    (tmp_path / "typed.py").write_text(text)
    (tmp_path / "src").symlink_to(ROOT / "src")  # where pyright looks by itself
    command = ["pyright", "--pythonpath", sys.executable, "typed.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ("1 error" if wrong else "0 errors") in said.stdout
