"""Does a search survive kill -9 at any moment, and end with the same bits?

Tables are drawn at random, of numbers, text and constants, of one to five columns, for regression
of one or two outputs, two classes or several, with options drawn as well. Each is searched three
times, in processes of their own: left alone, killed at a random moment, and gone on with from
there. What is then in the folder is compared, bit for bit, with that of the search that was left
alone; only the times that it took may differ. A kill before there was anything to go on with, or
after the end, is counted apart, and another moment is drawn.

Then one small search is killed at every operation on files it makes, once each: before a file is
opened for writing, flushed, renamed or removed, or a folder made or removed. The ONNX file, which
takes seconds and is not compared, is left out. What was found so far is recorded now and then;
another call with ``--resume`` does what time was not enough for.

    python benchmarks/kills.py --workers 16 --minutes 4      # at most, for either
    python benchmarks/kills.py --quick
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from recording import RESULTS, end_with_what_was_begun, now_and_then, record
from resuming import code, gone_on_from
from sharing import shared_out

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from outcomes import differing, files_of

from torchsparcs.command.console import open_console
from torchsparcs.command.jobs import Job, clear_leftovers, is_finished, is_unfinished
from torchsparcs.results.folder import check_folder

SMALL = Job("iris", steps=5, widths=(4,), penalty_weights=(1e-3,), validation=0.2, device="cpu")
LIMIT = 300  # seconds until a search that is left alone is late; cores may be shared
FORK = multiprocessing.get_context("fork")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}  # as Python's audit calls them


# --- what is searched -----------------------------------------------------------------------------


def drawn_job(seed: int, place: Path) -> tuple[Job, dict[str, Any]]:
    """A table in a file and a search of it, and both in words."""
    draw = np.random.default_rng(seed)
    rows, columns = int(draw.integers(40, 160)), int(draw.integers(1, 6))
    kinds = [str(kind) for kind in draw.choice(["number", "whole", "text", "constant"], columns)]
    kinds[0] = "number"  # something that varies
    table = pd.DataFrame({f"{kind} {n}": _column(kind, rows, draw) for n, kind in enumerate(kinds)})
    signal_of = np.abs(table.iloc[:, 0].to_numpy()) + 0.1 * draw.normal(size=rows)
    task = str(draw.choice(["regression", "two outputs", "two classes", "several classes"]))
    targets = ["y"]
    if task == "two outputs":
        targets, table["y"], table["z"] = ["y", "z"], signal_of, -3 * signal_of + 1
    elif task == "regression":
        table["y"] = signal_of
    else:
        cuts = [0.5] if task == "two classes" else [0.33, 0.67]
        classes = np.digitize(signal_of, np.quantile(signal_of, cuts))
        table["y"] = np.array(["no", "yes", "perhaps"])[classes]
    ending = str(draw.choice([".csv", ".tsv", ".parquet"]))
    ending = ending if find_spec("pyarrow") else ".csv"
    path = place / f"table{ending}"
    if ending == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    validation = draw.choice([2, 3, 0.25])
    options = {
        "steps": int(draw.integers(5, 40)),
        "widths": tuple(int(width) for width in draw.integers(2, 8, draw.integers(1, 3))),
        "validation": float(validation) if validation < 1 else int(validation),
        "seed": int(draw.integers(0, 1000)),
        "penalty_weights": (1e-2, 1e-3) if draw.random() < 0.5 else None,
    }
    job = Job(str(path), target=targets[0] if len(targets) == 1 else tuple(targets), **options)
    return job, {
        "table": seed,
        "rows": rows,
        "columns": kinds,
        "target": task,
        "file": ending,
        **options,
    }


def _column(kind: str, rows: int, draw: np.random.Generator) -> Any:
    return {
        "number": lambda: draw.normal(size=rows),
        "whole": lambda: draw.integers(0, 9, rows),
        "text": lambda: draw.choice(["Rome", "Oslo", "Quito"], rows),
        "constant": lambda: np.ones(rows),
    }[kind]()


# --- killing --------------------------------------------------------------------------------------


def search_in(job: Job, folder: Path, fatal: int | None = None, counter: Any = None) -> None:
    """Begin, or go on; killed before the operation on files number ``fatal``."""
    torch.set_num_threads(1)
    is_resumed = is_unfinished(folder)
    if not is_resumed:
        check_folder(folder, force=False)
    if counter is not None:
        _watch(folder, counter, fatal)
    with patch("torchsparcs.command.jobs.to_onnx"):
        job.run(folder, open_console(quiet=True), resume=is_resumed)


def _watch(folder: Path, counter: Any, fatal: int | None) -> None:
    """Count the operations in ``folder``, and kill this process at the fatal one."""
    place, flush = str(folder), os.fsync

    def count() -> None:
        if counter.value == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        counter.value += 1

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and (arguments[2] or 0) & WRITING):
            path = os.fspath(arguments[0]) if not isinstance(arguments[0], int) else ""
            if str(path).startswith(place):
                count()

    def flush_and_count(descriptor: int) -> None:
        count()
        flush(descriptor)

    os.fsync = flush_and_count
    sys.addaudithook(hear)


def run(work: Callable[..., None], *arguments: Any, limit: float = LIMIT) -> int:
    """The exit code of a process of its own, killed after ``limit`` seconds."""
    process = FORK.Process(target=work, args=arguments)
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode or 0


def run_to_the_end(job: Job, folder: Path, counter: Any = None) -> None:
    """Begin, or go on, with nobody who kills."""
    code = run(search_in, job, folder, None, counter)
    if code:
        raise RuntimeError(
            f"Expected a search that ends within {LIMIT} s. It ended with {code}: {job}."
        )


def finished(job: Job, folder: Path) -> dict[str, bytes]:
    """The files once the search is gone on with, or the next command has cleared up after it."""
    if is_finished(folder):
        clear_leftovers(folder)
    else:
        run_to_the_end(job, folder)
    return files_of(folder)


def in_processes(
    work: Callable[..., dict[str, Any]], tasks: Iterable[tuple], workers: int, minutes: float
) -> Iterator[dict[str, Any]]:
    """What ``work`` finds for each of ``tasks``, as it comes; what is late is not begun."""
    return shared_out(ProcessPoolExecutor(workers, FORK), work, tasks, minutes)


def killed_table(number: int) -> dict[str, Any]:
    """One table, searched and left alone, killed at a random moment, and gone on with."""
    draw, early, late = random.Random(number), 0, 0
    with tempfile.TemporaryDirectory() as place:
        job, words = drawn_job(number, Path(place))
        whole, start = Path(place) / "whole", time.monotonic()
        run_to_the_end(job, whole)
        takes, expected = time.monotonic() - start, files_of(whole)
        while True:
            folder = Path(place) / "run"
            limit = draw.uniform(0, takes)
            run(search_in, job, folder, limit=limit)
            if is_unfinished(folder):
                break
            late, early = late + is_finished(folder), early + (not is_finished(folder))
            shutil.rmtree(folder, ignore_errors=True)
        wrong = differing(finished(job, folder), expected)
    moment = {"takes_seconds": round(takes, 2), "killed_after_seconds": round(limit, 2)}
    apart = {"killed_before_the_beginning": early, "killed_after_the_end": late}
    return {**words, **moment, **apart, "files": len(expected), "differing": wrong}


def killed_at_random(
    known: dict[str, Any], count: int, seed: int, workers: int, minutes: float
) -> Iterator[dict[str, Any]]:
    """A resume of each of ``count`` tables, or of as many as the minutes are enough for, so far.

    ``known`` is what was found of some of them earlier.
    """
    tables = known.get("tables", [])
    if tables:
        yield known
    done = {table["table"] for table in tables}
    tasks = [(number,) for number in range(seed, seed + count) if number not in done]
    for table in in_processes(killed_table, tasks, workers, minutes):
        tables.append(table)
        wrong = table["differing"] or "none"
        print(f"{len(tables)} of {count}: {table['target']}, differing: {wrong}", flush=True)
        apart = ("killed_before_the_beginning", "killed_after_the_end")
        yield {
            "resumed": len(tables),
            "identical": sum(not table["differing"] for table in tables),
            **{name: sum(table[name] for table in tables) for name in apart},
            "seed": seed,
            "tables": sorted(tables, key=lambda table: table["table"]),
        }


def killed_point(point: int, expected: dict[str, bytes]) -> dict[str, Any]:
    """The small search, killed before its operation number ``point``, and gone on with."""
    with tempfile.TemporaryDirectory() as place:
        folder, counter = Path(place) / "run", FORK.Value("i", 0, lock=False)
        code = run(search_in, SMALL, folder, point, counter)
        if code != -signal.SIGKILL or counter.value != point:
            raise RuntimeError(
                f"Expected a kill at operation {point}. Got {code} at {counter.value}."
            )
        return {"point": point, "differing": differing(finished(SMALL, folder), expected)}


def killed_everywhere(
    known: dict[str, Any], every: int, workers: int, minutes: float
) -> Iterator[dict[str, Any]]:
    """At each operation of one search, or at one in ``every``; what was found so far.

    ``known`` is what was found of some of them earlier.
    """
    with tempfile.TemporaryDirectory() as place:
        whole, counter = Path(place) / "whole", FORK.Value("i", 0, lock=False)
        run_to_the_end(SMALL, whole, counter)
        expected, total = files_of(whole), counter.value
    points, tried = range(0, total, every), known.get("points", [])
    wrong = {int(point): files for point, files in known.get("differing", {}).items()}
    if tried:
        yield known
    tasks = [(point, expected) for point in points if point not in tried]
    for found in in_processes(killed_point, tasks, workers, minutes):
        tried = [*tried, found["point"]]
        if found["differing"]:
            wrong[found["point"]] = found["differing"]
            print(f"operation {found['point']}: {found['differing']} differ", flush=True)
        if len(tried) % 50 == 0:
            print(f"{len(tried)} of {len(points)} operations", flush=True)
        yield {
            "operations": total,
            "killed_at": len(tried),
            "identical": len(tried) - len(wrong),
            "differing": wrong,
            "points": sorted(tried),
            "files": len(expected),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the first table, and the moments")
    parser.add_argument("--quick", action="store_true", help="a tenth of both")
    parser.add_argument("--workers", type=int, default=1, help="searches at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="at most, for either")
    parser.add_argument("--resume", action="store_true", help="go on with what is recorded")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    share, limits = 10 if arguments.quick else 1, (arguments.workers, arguments.minutes)
    end_with_what_was_begun()
    with tempfile.TemporaryDirectory() as place:  # what it imports, the others have from the start
        search_in(SMALL, Path(place))
    settings = {"kills": arguments.kills, "seed": arguments.seed, "one_in": share}
    known = gone_on_from("kills", settings, arguments.out, resume=arguments.resume)
    found = {name: known.get(name, {}) for name in ("at_random", "at_every_operation")}
    count = arguments.kills // share
    works = {
        "at_random": killed_at_random(found["at_random"], count, arguments.seed, *limits),
        "at_every_operation": killed_everywhere(found["at_every_operation"], share, *limits),
    }
    results: dict[str, Any] = {name: part for name, part in found.items() if part}
    for name, work in works.items():
        for results[name] in now_and_then(work):
            about = {**settings, "code": code()}
            path = record("kills", "cpu", about | results, arguments.out)
    print(path)
    for name, result in results.items():
        print(name, {key: value for key, value in result.items() if key != "tables"})
    others = sum(
        result.get("resumed", result.get("killed_at")) - result["identical"]
        for result in results.values()
    )
    if others:
        raise SystemExit(f"{others} of the resumed searches ended otherwise: see above.")


if __name__ == "__main__":
    main()
