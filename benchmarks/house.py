"""How large is the house, and how far is the walk: code lines, modules and frames of one search.

Code lines have no blanks, comments or docstrings. A search of a small CSV passes a module where a
function of it runs; the frames are ours on the stack from ``main`` to the forward pass of a
network, at the deepest.

    python benchmarks/house.py
"""

import argparse
import ast
import contextlib
import importlib
import io
import pkgutil
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from recording import RESULTS, record

import torchsparcs
from torchsparcs.command import main as sparcs

HOME = Path(torchsparcs.__file__).parent
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
STARTS = {
    "sparcs --help": "from torchsparcs.command import main; main(['--help'])",
    "sparcs --version": "from torchsparcs.command import main; main(['--version'])",
    "torch": "import torch",
    "torch and torchsparcs": "import torch, torchsparcs",
    "torch and SpectralNetwork": "import torch; from torchsparcs import SpectralNetwork, train",
}


def code_lines(path: Path) -> int:
    text = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*SILENT, tokenize.ENDMARKER):
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            lines -= {*range(first.lineno, (first.end_lineno or 0) + 1)}
    return len(lines)


def rooms() -> dict[str, int]:
    """Code lines of each folder, and of the files beside them."""
    counts: dict[str, int] = {}
    for path in HOME.rglob("*.py"):
        room = path.relative_to(HOME).parts[0]
        counts[room] = counts.get(room, 0) + code_lines(path)
    return dict(sorted(counts.items()))


def walk(folder: Path) -> dict[str, Any]:
    """The modules that a search passes, and its deepest frames on the way to a forward pass."""
    for module in pkgutil.walk_packages([str(HOME)], "torchsparcs."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    passed: set[str] = set()
    deepest: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest
        if event != "call" or not frame.f_code.co_filename.startswith(str(HOME)):
            return
        passed.add(_name(frame))
        if frame.f_code.co_name == "forward":
            stack = _ours(frame)
            deepest = max(deepest, stack, key=len)

    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (120, 3))
    rows = np.column_stack([x, np.abs(x[:, 0])])
    np.savetxt(folder / "small.csv", rows, delimiter=",", header="a,b,c,y", comments="")
    command = ["search", str(folder / "small.csv"), "--target", "y", "--steps", "30"]
    sys.setprofile(look)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            sparcs([*command, "--out", str(folder / "run")])
    finally:
        sys.setprofile(None)
    return {
        "modules": len(passed),
        "frames": len(deepest),
        "passed": sorted(passed),
        "deepest": deepest,
    }


def _name(frame: FrameType) -> str:
    return str(Path(frame.f_code.co_filename).relative_to(HOME))


def _ours(frame: FrameType | None) -> list[str]:
    stack = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(str(HOME)):
            stack.append(f"{_name(frame)}: {frame.f_code.co_name}")
        frame = frame.f_back
    return stack[::-1]


def seconds(code: str, runs: int) -> float:
    """The median time of a fresh process, from its start to its end."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=5, help="of each start")
    options.add_argument("--starts", nargs="+", default=[*STARTS], choices=[*STARTS])
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    counts = rooms()
    with tempfile.TemporaryDirectory() as folder:
        results = {
            "code_lines": {"all": sum(counts.values()), **counts},
            "files": len([*HOME.rglob("*.py")]),
            "walk": walk(Path(folder)),
            "seconds": {name: seconds(STARTS[name], given.runs) for name in given.starts},
        }
    record("house", "cpu", results, given.out)


if __name__ == "__main__":
    main()
