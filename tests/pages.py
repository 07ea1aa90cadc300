"""Code blocks of Markdown pages, to be run in the order in which they stand."""

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from shell import Outcome, sparcs

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
OURS = re.compile(r"sparcs [^|<>&;$`#]*$")
NOTE = re.compile(r"<!-- (not run: .+|checked) -->\n\Z")


class Block(NamedTuple):
    """What stands between two fences, its language, its first line and the note before it."""

    language: str
    text: str
    line: int
    note: str


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        note = NOTE.search(text, 0, found.start())
        line = text.count("\n", 0, found.start(2)) + 1
        yield Block(found[1], found[2], line, "" if note is None else note[1])


def run_page(page: Path) -> None:
    """Run the blocks of ``page`` in the current folder; what is marked as checked must be said."""
    names: dict[str, Any] = {"__name__": "__main__"}
    said = ""
    for block in blocks_of(page):
        if block.note.startswith("not run"):
            continue
        if block.language in RUNNERS:
            said = RUNNERS[block.language](block, page, names)
        elif block.note == "checked":
            lost = {*_lines(block.text)} - {*_lines(said)}
            assert not lost, f"{page}:{block.line}: not printed: {lost}, but\n{said}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def _run_python(block: Block, page: Path, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
    return said.getvalue()


def _run_bash(block: Block, page: Path, names: dict[str, Any]) -> str:
    """Plain commands of ours run in this process, which has loaded torch; bash runs the rest."""
    lines = block.text.replace("\\\n", " ").splitlines()
    said = ""
    for is_ours, group in itertools.groupby(lines, lambda line: bool(OURS.match(line))):
        for command in group if is_ours else ["\n".join(group)]:
            code, out, err = sparcs(*shlex.split(command)[1:]) if is_ours else _bash(command)
            assert code == 0, f"{page}:{block.line}\n{block.text}{out}{err}"
            said += out
    return said


def _bash(commands: str) -> Outcome:
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env={**os.environ, "PATH": here},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Outcome(run.returncode, run.stdout, run.stderr)


RUNNERS = {"python": _run_python, "bash": _run_bash}
