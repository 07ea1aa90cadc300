"""Does the same call give the same networks?

Twenty small tables of all kinds are searched again and again, twenty times with one thread and
twenty times with two: in fresh processes, four times in each, and now and then with a second
process that does part of the work. Each has another hash seed, other bytes in memory that nobody
has set (glibc's MALLOC_PERTURB_), its table at another place in memory, and neighbours that load
the machine. What counts is a digest of every network of the front, of every judged attempt and of
the losses of the training: all forty are the same, or this ends with an error.

One more process with the plainest instructions of the CPU stands for another machine, where sums
round otherwise: how often is the network that is picked another one then?

What was found so far is recorded now and then: of every table about as much. What time was not
enough for is done by another call with ``--resume``.

    python benchmarks/repeats.py --workers 16 --minutes 8    # about 90 minutes of a core
    python benchmarks/repeats.py --workers 16 --minutes 8 --resume
    python benchmarks/repeats.py --quick                     # three tables, to see that it runs
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from recording import RESULTS, end_with_what_was_begun, now_and_then, record
from resuming import code, gone_on_from
from sharing import shared_out
from small_tables import TABLES

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

TIMES = 4  # searches in each process
LIMIT = 600  # seconds until a process is late; cores may be shared
ONE, TWO, OTHERS = "1 thread", "2 threads", "plain instructions"
ZEROS = 255  # for MALLOC_PERTURB_: memory is zero, as fresh pages are
THREES = 191  # and here full of threes (float32), or of 32.5 (float64)
DIGITS = 16  # of a digest that are kept
PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}


def displaced(X: Any) -> Any:
    """An array at another place in memory, wherever that falls in a cache line."""
    if not isinstance(X, np.ndarray):
        return X
    room = np.zeros(X.size + 8, dtype=X.dtype)
    start = random.randrange(8)
    there = room[start : start + X.size].reshape(X.shape)
    there[...] = X
    return there


# --- one process ---


class Asked(NamedTuple):
    """What a process is to do."""

    table: str
    seed: int
    steps: int
    widths: list[int]
    threads: int
    times: int
    is_shared: bool = False  # the last search, with a process beside


def search_again(asked: Asked) -> dict[str, Any]:
    """The digests of the same search made several times, and the network it picks."""
    import torch
    from outcomes import digest

    from torchsparcs import SearchConfig, search
    from torchsparcs.parallel.processes import ProcessesEngine

    torch.set_num_threads(asked.threads)
    place = list(TABLES).index(asked.table)
    X, y, options = TABLES[asked.table](np.random.default_rng([asked.seed, place]))
    options |= {"widths": asked.widths, "seed": place, "progress": False}
    options["config"] = SearchConfig(steps=asked.steps, longest=asked.steps)
    engines: list[Any] = ["local"] * asked.times
    if asked.is_shared:
        engines[-1] = ProcessesEngine(2)
    digests = []
    for engine in engines:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = search(displaced(X), displaced(y), **options, engine=engine)
        digests.append(digest(result)[:DIGITS])
    pick = result.smallest()
    keys = ("architecture", "parameters", "score", "standard_error")
    return {"digests": digests, "pick": {key: getattr(pick, key) for key in keys}}


def in_the_setting(setting: str, asked: Asked) -> dict[str, Any]:
    """What a fresh process finds, with memory and hashes of its own, and what was asked of it."""
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "",  # the bits of CPUs are asked for
        "OMP_NUM_THREADS": str(asked.threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait leave the core to their neighbours
        "PYTHONHASHSEED": str(random.randrange(2**32)),
        "MALLOC_PERTURB_": str(random.choice([ZEROS, THREES, random.randrange(1, ZEROS)])),
        **(PLAIN if setting == OTHERS else {}),
    }
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--asked", json.dumps(asked._asdict())],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{asked.table}: Expected an end within {LIMIT} s.") from None
    if done.returncode != 0:
        raise RuntimeError(f"{asked.table}: {done.stderr}")
    return {"setting": setting, **asked._asdict(), **json.loads(done.stdout)}


# --- all of them ---


def planned(names: list[str], options: argparse.Namespace) -> list[tuple[str, Asked]]:
    """What each process is to do and the setting it belongs to, those that take longest first.

    Of every table as much is done as of the others.
    """
    tasks: list[tuple[int, str, Asked]] = []
    for name in names:
        common = (name, options.seed, options.steps, options.widths)
        tasks.append((0, OTHERS, Asked(*common, threads=1, times=1)))
        for threads, setting in ((1, ONE), (2, TWO)):
            for place, start in enumerate(range(0, options.repeats, TIMES)):
                times = min(TIMES, options.repeats - start)
                tasks.append((place, setting, Asked(*common, threads, times, place == 0)))
    tasks.sort(key=lambda task: (not task[2].table.startswith("many rows"), task[0]))
    return [task[1:] for task in tasks]


def compared(processes: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one table: how many of how many searches found the same as the first one.

    And of each setting: whether its bits are others than those of the first setting, and what was
    picked.
    """
    digests = {
        setting: [each for one in processes if one["setting"] == setting for each in one["digests"]]
        for setting in (ONE, TWO, OTHERS)
    }
    together = digests[ONE] + digests[TWO]
    return {
        "same": together.count(together[0]),
        "of": len(together),
        "settings": {
            setting: {
                "searches": len(digests[setting]),
                "other_bits": digests[setting][0] != together[0],
                "pick": next(one["pick"] for one in processes if one["setting"] == setting),
            }
            for setting in digests
            if digests[setting]
        },
    }


def counts(tables: dict[str, Any]) -> dict[str, Any]:
    """Of how many tables each of these is true."""
    rows = list(tables.values())
    plain_rows = [row["settings"] for row in rows if {ONE, OTHERS} <= {*row["settings"]}]
    return {
        "tables": len(rows),
        "all_the_same": sum(row["same"] == row["of"] for row in rows),
        "searches": sum(row["of"] for row in rows),
        "fewest_searches": min((row["of"] for row in rows), default=0),
        OTHERS: {
            "tables": len(plain_rows),
            "other_bits": sum(row[OTHERS]["other_bits"] for row in plain_rows),
            "another_pick": sum(
                row[OTHERS]["pick"]["architecture"] != row[ONE]["pick"]["architecture"]
                for row in plain_rows
            ),
        },
    }


def search_all(
    names: list[str], options: argparse.Namespace, found: list[dict[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """What the processes found so far, those of an earlier call among them."""
    if found:
        yield found
    known = Counter((one["setting"], *_hashable(one).values()) for one in found)
    tasks = []
    for setting, asked in planned(names, options):
        key = (setting, *_hashable(asked._asdict()).values())
        if not known[key]:
            tasks.append((setting, asked))
        known[key] -= known[key] > 0  # several processes are asked for the same
    start, pool = time.monotonic(), ThreadPoolExecutor(options.workers)
    for done, one in enumerate(shared_out(pool, in_the_setting, tasks, options.minutes), 1):
        found = [*found, one]
        print(f"{done} of {len(tasks)} after {time.monotonic() - start:.0f} s", flush=True)
        yield found


def _hashable(asked: dict[str, Any]) -> dict[str, Any]:
    """What a process was asked, in the order of ``Asked``."""
    return {key: tuple(v) if isinstance(v := asked[key], list) else v for key in Asked._fields}


def summed_up(names: list[str], found: list[dict[str, Any]]) -> dict[str, Any]:
    """The tables by name, as far as they were searched, and what they are together."""
    by_table = {name: [one for one in found if one["table"] == name] for name in names}
    tables = {
        name: compared(some)
        for name, some in by_table.items()
        if any(one["setting"] == ONE for one in some)
    }
    return {"counts": counts(tables), "tables": tables, "processes": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=20, help="searches with 1 and with 2 threads"
    )
    parser.add_argument("--steps", type=int, default=30, help="of the training of each search")
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 8], help="of hidden layers")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="until no more are begun")
    parser.add_argument("--seed", type=int, default=0, help="of the tables")
    parser.add_argument("--quick", action="store_true", help="three tables, tiny searches")
    parser.add_argument("--resume", action="store_true", help="go on with what is recorded")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--asked", help=argparse.SUPPRESS)  # this is one of the processes
    options = parser.parse_args()
    if options.asked:
        print(json.dumps(search_again(Asked(**json.loads(options.asked)))))
        return
    end_with_what_was_begun()
    names = list(TABLES)
    if options.quick:
        names, options.steps, options.widths, options.repeats = names[4::6], 20, [8], 2
    asked = ("repeats", "steps", "widths", "seed")
    settings = {name: getattr(options, name) for name in asked} | {"names": names}
    known = gone_on_from("repeats", settings, options.out, resume=options.resume)
    processes = search_all(names, options, known.get("processes", []))
    try:
        for found in now_and_then(processes):
            results = {**settings, "code": code(), **summed_up(names, found)}
            path = record("repeats", "cpu", results, options.out)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    tables = results["tables"]
    for name, one in tables.items():
        print(f"{name}: {one['same']} of {one['of']} the same")
    print(path)
    print(json.dumps(results["counts"], indent=1))
    others = [name for name, one in tables.items() if one["same"] != one["of"]]
    if others:
        raise SystemExit(f"Other networks were found in {len(others)} tables: {', '.join(others)}.")


if __name__ == "__main__":
    main()
