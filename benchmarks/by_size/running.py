"""Units of work, a method on a split of a table, in processes of one thread; the longest first."""

import math
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from resuming import code

from by_size import records
from by_size.methods import DOUBLED, METHODS, PACKAGES
from by_size.preparing import Split, listed, load, prepared
from by_size.records import Unit
from torchsparcs.files.provenance import provenance

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
WEIGHTS = {"linear": 0.1, "boosting": 0.5, "unlimited boosting": 0.5, "lbfgs": 2, "adamw": 2}
WEIGHTS |= {"lassonet": 2, "tabm": 0.5}


class Place(NamedTuple):
    """Where the tables are, how many rows to train on, and the device of populations."""

    tables: Path
    most: int
    device: str


@lru_cache(maxsize=1)
def ready(place: Place, name: str, split: int) -> Split:
    return prepared(load(place.tables, name), split, place.most)._replace(device=place.device)


def work(unit: Unit, place: Place) -> dict:
    """What the method returns, and its seconds of one core."""
    torch.set_num_threads(1)
    split = ready(place, unit.table, unit.split)
    start = time.process_time()
    found = {**METHODS, **DOUBLED}[unit.method](split)
    return {
        "seconds": round(time.process_time() - start, 2),  # unless the method tells its own
        **found,
        "rows": len(split.y),
        "test_rows": len(split.y_test),
        "columns": split.x.shape[1],
        "outputs": split.outputs,
    }


def guessed(unit: Unit, known: dict[str, dict], tables: Path) -> float:
    """Seconds that a unit may take: as another split took, or as the file is large."""
    by_split = known.get(unit.table, {"units": {}})["units"].get(unit.method, {})
    taken = [done["seconds"] for done in by_split.values()]
    size = sum(path.stat().st_size for path in tables.glob(f"{unit.table}.*"))
    weight = WEIGHTS.get(unit.method, 4 if unit.method in DOUBLED else 1)
    return max(taken) if taken else weight * (20 + 20 * math.sqrt(min(size, 1e6) / 1e5))


def results(units: list[Unit], workers: int, place: Place) -> Iterator[tuple[Unit, dict]]:
    """As they are done."""
    if workers == 1:
        for unit in units:
            yield unit, work(unit, place)
        return
    for name in THREADS:  # of the processes that are started
        os.environ[name] = "1"
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        pending: dict[Future, Unit] = {pool.submit(work, unit, place): unit for unit in units}
        try:
            for done in as_completed(pending):
                yield pending[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def made_by(command: str, unit: Unit, device: str) -> dict:
    """How, with what and on what a unit was made: the device that its method used."""
    made = provenance(command, device) | {"threads": 1}
    packages = {name: version(name) for name in ("scikit-learn", *PACKAGES.get(unit.method, ()))}
    ours = {"code": code()} if unit.method == "ours" else {}
    return {**made, "versions": {**made["versions"], **packages}, **ours}


def run(
    place: Place, units: list[Unit], known: dict, out: Path, command: str, workers: int
) -> None:
    """Do the units and record each as soon as it is done."""
    code()  # as it is before the work
    for name, record in known.items():
        if record["most_rows"] != place.most:
            raise SystemExit(
                f"{name} is recorded with at most {record['most_rows']} rows to train on, not "
                f"{place.most}: give --rows {record['most_rows']}, or another --out"
            )
    seconds = {unit: guessed(unit, known, place.tables) for unit in units}
    units = sorted(units, key=lambda unit: -seconds[unit])
    tasks, begun = listed(place.tables), time.monotonic()
    total = left = sum(seconds.values())
    for count, (unit, found) in enumerate(results(units, workers, place), 1):
        about = {"task": tasks[unit.table], "most_rows": place.most}
        made = made_by(command, unit, found.get("device", "cpu"))
        records.add(out, about, unit, found, made)
        left -= seconds[unit]
        passed = time.monotonic() - begun
        print(
            f"{count} of {len(units)}: {unit.table} {unit.split} {unit.method}, "
            f"{found['seconds']:.0f} s; {passed / 60:.1f} min so far, about "
            f"{passed * left / (total - left) / 60:.0f} to go",
            file=sys.stderr,
            flush=True,
        )
