"""What every benchmark writes beside its numbers: how, with what and on what they were made."""

import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from resuming import code

from torchsparcs.files.provenance import provenance

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
EVERY = 30  # seconds until the next record of work that goes on
Found = TypeVar("Found")


def command() -> str:
    """What was typed, but for where folders lie on this machine."""
    return " ".join(["python", *told(sys.argv)])


def told(typed: Iterable[str]) -> list[str]:
    """Parts of a command without absolute paths: their names, or the place in this project.

    Where results went is left out where it is no place of the project.
    """
    parts: list[str] = []
    for one in typed:
        option, mark, value = one.rpartition("=")  # "", "" where there is no mark
        path = Path(value)
        if not path.is_absolute():
            parts.append(one)
        elif path.is_relative_to(ROOT):
            parts.append(f"{option}{mark}{path.relative_to(ROOT)}")
        elif not mark and parts[-1:] == ["--out"]:
            parts.pop()
        elif option != "--out":
            parts.append(f"{option}{mark}{path.name}")
    return parts


def record(name: str, device: str, results: dict, out: Path = RESULTS) -> Path:
    """Write ``out/name.json``; the part of another device in the same file is kept."""
    path = out / f"{name}.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    made = provenance(command(), device) | {"code": code()}
    content[device] = made | results | made  # a record that is gone on from has one of its own
    out.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)
    return path


def now_and_then(found: Iterable[Found], seconds: float = EVERY) -> Iterator[Found]:
    """Those of ``found`` that come so long after the one before, and the last one.

    Also where an error, or a limit of time, ends the work: what was found is told first.
    """
    told = time.monotonic()
    waiting: list[Found] = []
    end: BaseException | None = None
    work = iter(found)
    while True:
        try:
            waiting = [next(work)]
        except StopIteration:
            break
        except BaseException as error:
            end = error
            break
        if time.monotonic() > told + seconds:
            told = time.monotonic()
            yield waiting.pop()
    yield from waiting
    if end is not None:
        raise end


def end_with_what_was_begun() -> None:
    """SIGTERM, which is what a limit of time sends, ends as Ctrl-C does: no process stays."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
