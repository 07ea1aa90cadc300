"""Does a search survive kill -9 at any moment, and end with the same bits?

Tables are drawn at random, of numbers, text and constants, of one to five columns, for regression
of one or two outputs, two classes or several, with options drawn as well. Each is searched three
times, in processes of their own: left alone, killed at a random moment, and gone on with from
there. What is then in the folder is compared, bit for bit, with that of the search that was left
alone; only the times that it took may differ. A kill before there was anything to go on with, or
after the end, is counted apart, and another moment is drawn.

Then one small search is killed at every operation on files it makes, once each: before a file is
opened for writing, flushed, renamed or removed, or a folder made or removed. The ONNX file, which
takes seconds and is not compared, is left out.

    python benchmarks/kills.py
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
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from recording import RESULTS, record

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from outcomes import files_of

from torchsparcs.command.console import open_console
from torchsparcs.command.jobs import Job, clear_leftovers, is_finished, is_unfinished
from torchsparcs.searching.folder import check_folder

SMALL = Job("iris", steps=5, widths=(4,), penalty_weights=(1e-3,), validation=0.2, device="cpu")
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
    return job, {"table": seed, "rows": rows, "columns": kinds, "target": task, **options}


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


def run(work: Callable[..., None], *arguments: Any, limit: float | None = None) -> int:
    """The exit code of a process of its own, killed after ``limit`` seconds."""
    process = FORK.Process(target=work, args=arguments)
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode or 0


def finished(job: Job, folder: Path) -> dict[str, bytes]:
    """The files once the search is gone on with, or the next command has cleared up after it."""
    if is_finished(folder):
        clear_leftovers(folder)
    else:
        assert run(search_in, job, folder) == 0
    return files_of(folder)


def differing(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return [name for name in {*found, *expected} if found.get(name) != expected.get(name)]


def killed_at_random(count: int, seed: int, minutes: float) -> dict[str, Any]:
    """A resume of each of ``count`` tables, or of as many as the minutes are enough for."""
    end = time.monotonic() + 60 * minutes
    draw, tables, early, late = random.Random(seed), [], 0, 0
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as place:
            job, words = drawn_job(number, Path(place))
            whole, start = Path(place) / "whole", time.monotonic()
            assert run(search_in, job, whole) == 0, words
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
        tables.append({**words, **moment, "files": len(expected), "differing": wrong})
        print(
            f"{len(tables)} of {count}: {words['target']}, differing: {wrong or 'none'}", flush=True
        )
        if time.monotonic() > end:
            break
    same = sum(not table["differing"] for table in tables)
    apart = {"killed_before_the_beginning": early, "killed_after_the_end": late}
    return {"resumed": len(tables), "identical": same, **apart, "seed": seed, "tables": tables}


def killed_everywhere(every: int, minutes: float) -> dict[str, Any]:
    """At each operation of one search, or at one in ``every``."""
    job = SMALL
    with tempfile.TemporaryDirectory() as place:
        whole, counter = Path(place) / "whole", FORK.Value("i", 0, lock=False)
        assert run(search_in, job, whole, None, counter) == 0
        expected, total = files_of(whole), counter.value
        wrong, points, start = {}, range(0, total, every), time.monotonic()
        tried = 0
        for point in points:
            folder, counter.value = Path(place) / "run", 0
            code = run(search_in, job, folder, point, counter)
            assert code == -signal.SIGKILL, code
            if found := differing(finished(job, folder), expected):
                wrong[point] = found
                print(f"operation {point}: {found} differ", flush=True)
            shutil.rmtree(folder)
            tried += 1
            if tried % 50 == 0:
                print(f"{tried} of {len(points)} operations", flush=True)
            if time.monotonic() - start > 60 * minutes:
                break
    return {
        "operations": total,
        "killed_at": tried,
        "identical": tried - len(wrong),
        "differing": wrong,
        "files": len(expected),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the first table, and the moments")
    parser.add_argument("--quick", action="store_true", help="a tenth of both")
    parser.add_argument("--minutes", type=float, default=1e6, help="at most, for either")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    share = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory() as place:  # what it imports, the others have from the start
        search_in(SMALL, Path(place))
    results = {
        "at_random": killed_at_random(arguments.kills // share, arguments.seed, arguments.minutes),
        "at_every_operation": killed_everywhere(share, arguments.minutes),
    }
    print(record("kills", "cpu", results, arguments.out))
    for name, result in results.items():
        print(name, {key: value for key, value in result.items() if key != "tables"})
    is_same = all(
        result["identical"] == result.get("resumed", result.get("killed_at"))
        for result in results.values()
    )
    sys.exit(int(not is_same))


if __name__ == "__main__":
    main()
