"""Does the same call give the same networks?

Twenty small tables of all kinds are searched again and again: in fresh processes, twice in each,
with one thread and with two. Below 10,000 rows the threads must not matter, so that half of the
searches have one and half have two; from there on all are made with one, and again with two. Each
process has another hash seed, other bytes in memory that nobody has set (glibc's MALLOC_PERTURB_),
its table at another place in memory, and neighbours that load the machine. What counts is a digest
of every network of the front, of every judged attempt and of the losses of the training.

One more process with the plainest instructions of the CPU stands for another machine, where sums
round otherwise: how often is the network that is picked another one then, or with two threads
instead of one?

    python benchmarks/repeats.py --repeats 20 --widths 16 8 --workers 16   # an hour of one core
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recording import RESULTS, record

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

Table = tuple[Any, Any, dict[str, Any]]  # X, y, options of the search
TWICE = 2  # searches in each process
LIMIT = 600  # seconds until a process is late; cores may be shared
ONE, TWO, OTHERS = "1 thread", "2 threads", "plain instructions"
ZEROS = 255  # for MALLOC_PERTURB_: memory is zero, as fresh pages are
THREES = 191  # and here full of threes (float32), or of 32.5 (float64)
PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}


# --- tables ---


def bent(draw: np.random.Generator, rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A few columns, and a number that bends in one of them."""
    X = draw.normal(size=(rows or draw.integers(50, 120), draw.integers(3, 8)))
    return X, np.abs(X[:, 0]) - X[:, 1] + 0.1 * draw.normal(size=len(X))


def classes(draw: np.random.Generator, count: int, rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same columns, and the number cut into ``count`` classes of about equal size."""
    X, y = bent(draw, rows)
    return X, np.searchsorted(np.quantile(y, np.arange(1, count) / count), y)


def weighted(draw: np.random.Generator, X: Any, y: Any) -> Table:
    """With weights, some of them zero."""
    weight = draw.uniform(0.1, 3, len(y)) * (draw.random(len(y)) > 0.1)
    return X, y, {"sample_weight": weight}


def collinear(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """With a copy of each column, and sums of two."""
    return np.hstack([X, X, X + np.roll(X, 1, axis=1)]), y, {}


def constant(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """With columns of a single value."""
    return np.hstack([np.full((len(X), 2), [0.0, 7.0]), X]), y, {}


def texts(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """With columns of text, one of which says something about the number."""
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    frame["sign"] = np.where(X[:, 0] > 0, "up", "down")
    frame["city"] = draw.choice(["Rome", "Oslo", "Lima", "Bern"], len(X))
    return frame, y, {}


def repeated(draw: np.random.Generator, X: np.ndarray, y: Any) -> Table:
    """Of every row a copy."""
    return np.vstack([X, X]), np.concatenate([y, y]), {}


def plain(draw: np.random.Generator, X: Any, y: Any) -> Table:
    return X, y, {}


MANY = 10_500  # rows: from 10,000 on a search uses all threads

TABLES: dict[str, Callable[[np.random.Generator], Table]] = {
    "numbers": lambda draw: plain(draw, *bent(draw)),
    "numbers, weights": lambda draw: weighted(draw, *bent(draw)),
    "numbers, collinear": lambda draw: collinear(draw, *bent(draw)),
    "numbers, constant columns": lambda draw: constant(draw, *bent(draw)),
    "numbers, text": lambda draw: texts(draw, *bent(draw)),
    "numbers, 9 rows": lambda draw: plain(draw, *bent(draw, 9)),
    "numbers, rows twice": lambda draw: repeated(draw, *bent(draw)),
    "numbers, more columns than rows": lambda draw: plain(
        draw, X := draw.normal(size=(30, 60)), X[:, 0] - X[:, 1]
    ),
    "numbers, large ones": lambda draw: plain(draw, *(1e8 * part for part in bent(draw))),
    "two targets": lambda draw: plain(
        draw, X := bent(draw)[0], np.column_stack([np.abs(X[:, 0]), X[:, 1] * X[:, 2]])
    ),
    "two classes": lambda draw: plain(draw, *classes(draw, 2)),
    "two classes, weights": lambda draw: weighted(draw, *classes(draw, 2)),
    "two classes, text": lambda draw: texts(draw, *classes(draw, 2)),
    "two classes, collinear": lambda draw: collinear(draw, *classes(draw, 2)),
    "two classes, noise alone": lambda draw: plain(draw, bent(draw, 60)[0], np.arange(60) % 2),
    "three classes": lambda draw: plain(draw, *classes(draw, 3)),
    "three classes, constant columns": lambda draw: constant(draw, *classes(draw, 3)),
    "five classes, weights": lambda draw: weighted(draw, *classes(draw, 5)),
    "many rows, numbers": lambda draw: plain(draw, *bent(draw, MANY)),
    "many rows, three classes": lambda draw: plain(draw, *classes(draw, 3, MANY)),
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


def search_twice(asked: argparse.Namespace) -> dict[str, Any]:
    """The digests of the same search made twice, and the network it picks."""
    import torch
    from outcomes import digest

    from torchsparcs import SearchConfig, search

    torch.set_num_threads(asked.threads)
    place = list(TABLES).index(asked.table)
    X, y, options = TABLES[asked.table](np.random.default_rng([asked.seed, place]))
    options |= {"widths": asked.widths, "seed": place, "progress": False}
    options["config"] = SearchConfig(steps=asked.steps, longest=asked.steps)
    digests = []
    for _ in range(TWICE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = search(displaced(X), displaced(y), **options)
        digests.append(digest(result))
    pick = result.smallest()
    keys = ("architecture", "parameters", "score", "standard_error")
    return {"digests": digests, "pick": {key: getattr(pick, key) for key in keys}}


def in_a_process(table: str, asked: argparse.Namespace, threads: int, **others: str) -> Any:
    """What a fresh process finds, with memory and hashes of its own."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait leave the core to their neighbours
        "PYTHONHASHSEED": str(random.randrange(2**32)),
        "MALLOC_PERTURB_": str(random.choice([ZEROS, THREES, random.randrange(1, ZEROS)])),
        **others,
    }
    options = {"table": [table], "threads": [threads], "widths": asked.widths or []}
    options |= {"seed": [asked.seed], "steps": [asked.steps]}
    words = [str(word) for name, values in options.items() for word in (f"--{name}", *values)]
    try:
        done = subprocess.run(
            [sys.executable, __file__, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{table}: Expected an end within {LIMIT} s.") from None
    if done.returncode != 0:
        raise RuntimeError(f"{table}: {done.stderr}")
    return json.loads(done.stdout)


# --- all of them ---


def processes_of(name: str, repeats: int) -> dict[str, tuple[int, dict[str, str], int]]:
    """By the setting: threads, what is in the environment, and how many processes there are."""
    shared = 1 if name.startswith("many rows") else 2
    count = -(-repeats // (TWICE * shared))
    return {ONE: (1, {}, count), TWO: (2, {}, count), OTHERS: (1, PLAIN, 1)}


def compared(name: str, found: dict[str, list[Any]]) -> dict[str, Any]:
    """Of one table: how many of how many searches found the same as the first one.

    And of each setting: whether its bits are others than those of the first setting, and what was
    picked.
    """
    digests = {
        setting: [each for process in processes for each in process["digests"]]
        for setting, processes in found.items()
    }
    together = [[ONE], [TWO]] if name.startswith("many rows") else [[ONE, TWO]]
    groups = [[each for setting in some for each in digests.get(setting, [])] for some in together]
    return {
        "same": [group.count(group[0]) for group in groups if group],
        "of": [len(group) for group in groups if group],
        "settings": {
            setting: {
                "searches": len(digests[setting]),
                "other_bits": digests[setting][0] != digests[ONE][0],
                "pick": processes[0]["pick"],
            }
            for setting, processes in found.items()
        },
    }


def counts(tables: dict[str, Any]) -> dict[str, Any]:
    """Of how many tables each of these is true."""
    rows = list(tables.values())
    settings = [setting for setting in (TWO, OTHERS) if all(setting in r["settings"] for r in rows)]
    return {
        "tables": len(rows),
        "all_the_same": sum(row["same"] == row["of"] for row in rows),
        "fewest_searches": min(min(row["of"]) for row in rows),
        **{
            setting: {
                "other_bits": sum(row["settings"][setting]["other_bits"] for row in rows),
                "another_pick": sum(
                    row["settings"][setting]["pick"]["architecture"]
                    != row["settings"][ONE]["pick"]["architecture"]
                    for row in rows
                ),
            }
            for setting in settings
        },
    }


def search_all(names: list[str], asked: argparse.Namespace) -> dict[str, Any]:
    """What the processes found, by table and setting: first one for each, then the next ones."""
    planned = {name: processes_of(name, asked.repeats) for name in names}
    tasks = [
        (place, name, setting)
        for name, settings in planned.items()
        for setting, (_, _, count) in settings.items()
        for place in range(count)
    ]
    # those of many rows take longest
    tasks.sort(key=lambda task: (task[0] > 0, not task[1].startswith("many rows"), task[0]))
    found: dict[str, Any] = {name: {} for name in names}
    start, done = time.monotonic(), 0
    with ThreadPoolExecutor(asked.workers) as pool:
        waiting = {}
        for _, name, setting in tasks:
            threads, others, _ = planned[name][setting]
            waiting[pool.submit(in_a_process, name, asked, threads, **others)] = name, setting
        try:
            for each in as_completed(waiting):
                if each.cancelled():
                    continue
                name, setting = waiting[each]
                found[name].setdefault(setting, []).append(each.result())
                done, seconds = done + 1, time.monotonic() - start
                if done % 10 == 0:
                    print(f"{done} of {len(tasks)} processes after {seconds:.0f} s", flush=True)
                if seconds > 60 * asked.minutes:
                    pool.shutdown(wait=False, cancel_futures=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return {
        name: {setting: some[setting] for setting in (ONE, TWO, OTHERS) if setting in some}
        for name, some in found.items()
        if ONE in some
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20, help="searches of each table")
    parser.add_argument("--steps", type=int, default=200, help="of the training of each search")
    parser.add_argument("--widths", type=int, nargs="*", help="of the hidden layers")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="until no more are begun")
    parser.add_argument("--seed", type=int, default=0, help="of the tables")
    parser.add_argument("--quick", action="store_true", help="three tables, tiny searches")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", help=argparse.SUPPRESS)  # this is one of the processes
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.widths = asked.widths or None
    if asked.table:
        print(json.dumps(search_twice(asked)))
        return
    names = list(TABLES)
    if asked.quick:
        names, asked.steps, asked.widths, asked.repeats = names[4::6], 20, [8], 2
    try:
        found = search_all(names, asked)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    tables = {name: compared(name, some) for name, some in found.items()}
    for name, one in tables.items():
        pairs = zip(one["same"], one["of"], strict=True)
        print(f"{name}: {', '.join(f'{same} of {count}' for same, count in pairs)} the same")
    results = {"steps": asked.steps, "widths": asked.widths, "counts": counts(tables)}
    print(record("repeats", "cpu", results | {"tables": tables}, asked.out))
    print(json.dumps(results["counts"], indent=1))
    others = [name for name, one in tables.items() if one["same"] != one["of"]]
    if others:
        raise SystemExit(f"Other networks were found in {len(others)} tables: {', '.join(others)}.")


if __name__ == "__main__":
    main()
