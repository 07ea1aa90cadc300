"""Does anything but an error of ours come of a damaged file, and does memory stay bounded?

Valid files of every kind that torchsparcs reads, and whole folders of searches, of tables and of
networks, finished or not, are damaged as ``tests/mutations.py`` does it. They are read in a process
that may take so many megabytes more: folders by everything that reads one, ``load_result``, show,
report, export, predict and resume. They load, or a ValueError or FileNotFoundError says what was
expected; all else (other errors, warnings, a dead process, a late answer) is counted and named.
Time is that of the processor, and memory what is taken beyond that for an intact one; it is not
measured where the system does not let a process forget the most that it had. Whoever takes more
than 5 s or 200 MB is counted too. What was found so far is recorded every thousand readings.

    python benchmarks/fuzz.py --workers 16
    python benchmarks/fuzz.py --quick
    python benchmarks/fuzz.py --kinds csv --first 4711 --files 1     # one of those named again
"""

import argparse
import math
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any, NamedTuple

import torch
from recording import RESULTS, end_with_what_was_begun, record

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from specimens import FILES, Kind, kind_of, outcome, write_files

SECONDS = 60  # until an answer is late; cores may be shared
MOST_SECONDS, MOST_MEGABYTES = 5, 200  # of the processor; more than for an intact one
EVERY = 1000  # readings until the next record
STARTING = 300  # seconds until a process answers for the first time
KNOWN = ("loaded", "ValueError", "FileNotFoundError")
FORGET = Path("/proc/self/clear_refs")
MEASURES_MEMORY = os.access(FORGET, os.W_OK)
NEEDS = {"parquet": "pyarrow", "feather": "pyarrow", "xlsx": "openpyxl", "sqlite": "sqlalchemy"}
# A folder that goes on with a search takes longest: it is one of five.
FOLDERS = (*["folder of a table", "folder of a network"] * 2, "unfinished folder")


class Reading(NamedTuple):
    """What came of one file or folder; ``kilobytes``, if known, beyond those of an intact one."""

    place: int
    kind: str
    outcome: str
    seconds: float
    kilobytes: int | None
    words: str = ""


def read_in_turn(names: list[str], first: int, stop: int, room: int, answers: Connection) -> None:
    """Sends a number before each file and a :class:`Reading` after it."""
    torch.set_num_threads(1)
    intact = {name: _intact(kind_of(name)) for name in dict.fromkeys(names)}
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + room * 2**20,) * 2)
    for place in range(first, stop):
        name = names[place % len(names)]
        with tempfile.TemporaryDirectory() as folder:
            kind_of(name).write(Path(folder), Random(f"{name} {place}"))
            answers.send(place)
            start, before, words = time.process_time(), _kilobytes_now(), ""
            try:
                result = outcome(kind_of(name), Path(folder))
            except Exception as error:
                cause = error.__cause__ if isinstance(error, AssertionError) else None
                result = f"unexpected {type(cause or error).__name__}"
                words = traceback.format_exc(limit=-2)
            seconds = time.process_time() - start
            more = max(0, _most_kilobytes() - before - intact[name]) if MEASURES_MEMORY else None
        answers.send(Reading(place, name, result, seconds, more, words))


def _intact(intact: Kind) -> int:
    """Kilobytes that an intact one takes once all modules are loaded, the largest of them."""
    most = 0
    for base in [*intact.bases, *intact.bases]:
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), base)
            before = _kilobytes_now()
            assert outcome(intact, Path(folder)) == "loaded"
            most = max(most, _most_kilobytes() - before)
    return most


def _kilobytes_now() -> int:
    """What the process has; the most that it had is forgotten, where that can be."""
    if MEASURES_MEMORY:
        FORGET.write_text("5")
    return _status("VmRSS")


def _most_kilobytes() -> int:
    return _status("VmHWM") if MEASURES_MEMORY else 0


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def readings(names: list[str], first: int, stop: int, room: int) -> Iterator[Reading]:
    """One for each file, from a process that is started again where it ended or hung."""
    context = multiprocessing.get_context("spawn")
    while first < stop:
        answers, sender = context.Pipe(duplex=False)
        arguments = (names, first, stop, room, sender)
        process = context.Process(target=read_in_turn, args=arguments, daemon=True)
        process.start()
        sender.close()
        patience, tried = STARTING, None
        try:
            while first < stop:
                if not answers.poll(patience):
                    yield Reading(first, names[first % len(names)], "too slow", patience, None)
                    break
                answer = answers.recv()
                if isinstance(answer, Reading):
                    first = answer.place + 1
                    yield answer
                else:
                    patience, tried = SECONDS, answer
        except EOFError:
            process.join()
            if tried is None:
                raise RuntimeError("Expected a process that reads files. It ended.") from None
            name = names[first % len(names)]
            yield Reading(first, name, f"process ended with {process.exitcode}", 0, None)
        finally:  # nobody may want more of them
            process.kill()
            process.join()
        first = max(first, (tried if tried is not None else first) + 1)


def shared_readings(
    names: list[str], first: int, stop: int, room: int, workers: int, minutes: float
) -> Iterator[Reading]:
    """The readings of several processes, each of its own part, as they come."""
    came: SimpleQueue[Reading | BaseException | None] = SimpleQueue()
    is_over, size = threading.Event(), math.ceil((stop - first) / workers)
    end = time.perf_counter() + 60 * minutes

    def read(start: int) -> None:
        try:
            with closing(readings(names, start, min(start + size, stop), room)) as some:
                for reading in some:
                    came.put(reading)
                    if is_over.is_set() or time.perf_counter() > end:
                        return
        except Exception as error:
            came.put(error)
        finally:
            came.put(None)

    with ThreadPoolExecutor(workers) as pool:
        parts = [pool.submit(read, start) for start in range(first, stop, size)]
        left = len(parts)
        try:
            while left:
                reading = came.get()
                if isinstance(reading, BaseException):
                    raise reading
                if reading is None:
                    left -= 1
                else:
                    yield reading
        finally:
            is_over.set()


class Tally:
    """What came of those that were tried so far."""

    def __init__(self, names: list[str], first: int):
        self._names, self._first, self._started = names, first, time.perf_counter()
        self._counts: dict[str, Counter] = defaultdict(Counter)
        self._slowest: dict[str, float] = defaultdict(float)
        self._most: dict[str, int] = defaultdict(int)
        self._beyond = 0

    def add(self, reading: Reading) -> None:
        kind, megabytes = reading.kind, (reading.kilobytes or 0) // 1024
        self._counts[kind][reading.outcome] += 1
        self._slowest[kind] = max(self._slowest[kind], reading.seconds)
        self._most[kind] = max(self._most[kind], megabytes)
        is_beyond = reading.seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES
        self._beyond += is_beyond
        if reading.outcome not in KNOWN or is_beyond:
            spent = f"{reading.seconds:.1f} s, {megabytes} MB"
            named = f"{kind} {reading.place}: {reading.outcome}, {spent}"
            print(f"{named}\n{reading.words}", flush=True)

    def told(self) -> dict[str, Any]:
        total = sum(self._counts.values(), Counter())
        return {
            "first": self._first,
            "tried": total.total(),
            "loaded": total["loaded"],
            "refused": total["ValueError"] + total["FileNotFoundError"],
            "anything_else": sum(number for name, number in total.items() if name not in KNOWN),
            "beyond_seconds_or_megabytes": self._beyond,
            "minutes": round((time.perf_counter() - self._started) / 60, 1),
            "megabytes_more_at_most": self._megabytes(*self._most.values()),
            "slowest_seconds": round(max(self._slowest.values(), default=0), 3),
            "kinds": {
                name: {
                    "tried": self._counts[name].total(),
                    **dict(sorted(self._counts[name].items())),
                    "megabytes_more_at_most": self._megabytes(self._most[name]),
                    "slowest_seconds": round(self._slowest[name], 3),
                }
                for name in dict.fromkeys(self._names)
            },
        }

    def _megabytes(self, *values: int) -> int | None:
        return max(values, default=0) if MEASURES_MEMORY else None


def tried(
    names: list[str], first: int, count: int, room: int, workers: int, minutes: float
) -> Iterator[dict[str, Any]]:
    """What came of so many, or of as many as the minutes are enough for, told now and then."""
    tally, started = Tally(names, first), time.perf_counter()
    readings_of_all = shared_readings(names, first, first + count, room, workers, minutes)
    for number, reading in enumerate(readings_of_all, 1):
        tally.add(reading)
        if number % EVERY == 0:
            seconds = time.perf_counter() - started
            print(f"{number:,} of {count:,} after {seconds:.0f} s", flush=True)
            yield tally.told()
    yield tally.told()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folders", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="a hundredth of both")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--kinds", nargs="+", default=[], help="all by default")
    parser.add_argument("--megabytes", type=int, default=2048, help="that a process may take more")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="at most, for either")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    share = 100 if arguments.quick else 1
    end_with_what_was_begun()
    asked = arguments.kinds or [*FOLDERS, *FILES]
    for name in [name for name in asked if not find_spec(NEEDS.get(name, "torch"))]:
        asked.remove(name)
        print(f"{name} is left out: there is no {NEEDS[name]} here", flush=True)
    if not MEASURES_MEMORY:
        print(f"memory is not measured: {FORGET} cannot be written here", flush=True)
    groups = {
        "folders": ([name for name in asked if name in FOLDERS], arguments.folders // share),
        "files": ([name for name in asked if name not in FOLDERS], arguments.files // share),
    }
    limits = (arguments.megabytes, arguments.workers, arguments.minutes)
    results: dict[str, Any] = {}
    for group, (names, count) in groups.items():
        if not names or not count:
            continue
        for told in tried(names, arguments.first, count, *limits):
            results[group] = told
            path = record("fuzz", "cpu", results, arguments.out)
        print(group, {name: value for name, value in told.items() if name != "kinds"}, flush=True)
    print(path)
    for word in ("anything_else", "beyond_seconds_or_megabytes"):
        if others := sum(result[word] for result in results.values()):
            raise SystemExit(f"{others:,} came out otherwise than asked for ({word}): see above.")


if __name__ == "__main__":
    main()
