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

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
EVERY = 30  # seconds until the next record of work that goes on
Found = TypeVar("Found")


def command() -> str:
    """What was typed, but for where folders lie on this machine."""
    told = list(sys.argv)
    if "--out" in told:
        place = told.index("--out")
        if Path(told[place + 1]).is_absolute():  # tried, not recorded
            del told[place : place + 2]
    named = (Path(one).name if Path(one).is_absolute() else one for one in told)
    return " ".join(["python", *named])


def record(name: str, device: str, results: dict, out: Path = RESULTS) -> Path:
    """Write ``out/name.json``; the part of another device in the same file is kept."""
    path = out / f"{name}.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    made = provenance(command(), device) | {
        "code": code()
    }  # a record that is gone on from has one of its own
    content[device] = made | results | made
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
