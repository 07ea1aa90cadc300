"""Does anything but an error of ours come of a damaged file, and does memory stay bounded?

Valid files of every kind that torchsparcs reads, networks, folders of searches, tables, images, are
damaged as ``tests/mutations.py`` does it, and read in a process that may take so many megabytes
more, and ten seconds for a file. It loads, or a ValueError or FileNotFoundError says what was
expected; all else (other errors, warnings, a dead process, a late answer) is counted and named.

    python benchmarks/fuzz.py
    python benchmarks/fuzz.py --kinds csv --first 4711 --files 1     # one of those named again
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch
from recording import RESULTS, record

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from specimens import kinds, outcome

SECONDS = 10  # for one file
STARTING = 300  # seconds until a process answers for the first time


class Reading(NamedTuple):
    """What came of one file; ``kilobytes`` is the most the process has had until then."""

    place: int
    kind: str
    outcome: str
    seconds: float
    kilobytes: int
    words: str = ""


def read_in_turn(names: list[str], first: int, stop: int, room: int, answers: Connection) -> None:
    """Sends a number before each file and a :class:`Reading` after it."""
    torch.set_num_threads(1)
    known = kinds()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + room * 2**20,) * 2)
    for place in range(first, stop):
        name = names[place % len(names)]
        with tempfile.TemporaryDirectory() as folder:
            known[name].write(Path(folder), Random(f"{name} {place}"))
            answers.send(place)
            start, words = time.perf_counter(), ""
            try:
                result = outcome(known[name], Path(folder))
            except Exception as error:
                cause = error.__cause__ if isinstance(error, AssertionError) else None
                result = f"unexpected {type(cause or error).__name__}"
                words = traceback.format_exc(limit=-2)
            seconds = time.perf_counter() - start
        answers.send(Reading(place, name, result, seconds, _most_kilobytes(), words))


def _most_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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
                    yield Reading(first, names[first % len(names)], "too slow", patience, 0)
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
            yield Reading(first, name, f"process ended with {process.exitcode}", 0, 0)
        first = max(first, (tried if tried is not None else first) + 1)
        process.kill()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--kinds", nargs="+", default=[], help="all by default")
    parser.add_argument("--megabytes", type=int, default=2048, help="that a process may take more")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.kinds or [*kinds()]
    counts: dict[str, Counter] = defaultdict(Counter)
    slowest: dict[str, float] = defaultdict(float)
    started, before, most = time.perf_counter(), 0, 0
    stop = arguments.first + arguments.files
    for reading in readings(names, arguments.first, stop, arguments.megabytes):
        counts[reading.kind][reading.outcome] += 1
        slowest[reading.kind] = max(slowest[reading.kind], reading.seconds)
        before, most = before or reading.kilobytes, max(most, reading.kilobytes)
        if reading.outcome not in ("loaded", "ValueError", "FileNotFoundError"):
            print(f"{reading.kind} {reading.place}: {reading.outcome}\n{reading.words}", flush=True)
        if (reading.place + 1) % 5000 == 0:
            print(f"{reading.place + 1:,} of {stop:,}", flush=True)
    known = ("loaded", "ValueError", "FileNotFoundError")
    total = sum(counts.values(), Counter())
    results = {
        "files": total.total(),
        "loaded": total["loaded"],
        "refused": total["ValueError"] + total["FileNotFoundError"],
        "anything_else": sum(count for name, count in total.items() if name not in known),
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "megabytes_before": before // 1024,
        "megabytes_at_most": most // 1024,
        "slowest_seconds": round(max(slowest.values()), 3),
        "kinds": {
            name: {
                "files": counts[name].total(),
                **dict(sorted(counts[name].items())),
                "slowest_seconds": round(slowest[name], 3),
            }
            for name in names
        },
    }
    print({name: value for name, value in results.items() if name != "kinds"})
    print(record("fuzz", "cpu", results, arguments.out))
    sys.exit(int(results["anything_else"] > 0))


if __name__ == "__main__":
    main()
