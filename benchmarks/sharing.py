"""Work of a benchmark that is shared out; units of it are recorded as they are done."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from recording import record

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Found = TypeVar("Found")


def shared_out(
    pool: Executor, work: Callable[..., Found], tasks: Iterable[tuple], minutes: float
) -> Iterator[Found]:
    """What ``work`` finds for each of ``tasks``, as it comes; after ``minutes`` none are begun."""
    end = time.monotonic() + 60 * minutes
    with pool:
        waiting = [pool.submit(work, *task) for task in tasks]
        try:
            for done in as_completed(waiting):
                if not done.cancelled():
                    yield done.result()
                if time.monotonic() > end:  # each by itself: a pool that is told tells nobody
                    for each in waiting:
                        each.cancel()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def known_units(name: str, out: Path, *, resume: bool) -> dict[str, dict]:
    """What is recorded already, by the names of the units; nothing unless ``resume``."""
    path = out / f"{name}.json"
    if not resume or not path.exists():
        return {}
    return json.loads(path.read_text()).get("cpu", {}).get("units", {})


def measured_units(
    name: str,
    units: Sequence[str],
    work: Callable[[str], dict],
    *,
    out: Path,
    workers: int,
    resume: bool,
    about: dict[str, Any],
) -> dict[str, dict]:
    """What ``work`` says of each unit, by name, recorded as ``name``; ``about`` stands beside."""
    found, begun = known_units(name, out, resume=resume), time.monotonic()
    todo = [unit for unit in units if unit not in found]
    for count, (unit, result) in enumerate(_results(todo, work, workers), 1):
        found[unit] = result
        record(name, "cpu", {**about, "threads": 1, "units": dict(sorted(found.items()))}, out)
        passed = (time.monotonic() - begun) / 60
        print(f"{count} of {len(todo)}: {unit}, {passed:.1f} min so far", file=sys.stderr)
    return {unit: found[unit] for unit in units}


def _results(
    units: list[str], work: Callable[[str], dict], workers: int
) -> Iterator[tuple[str, dict]]:
    for name in THREADS:  # of the processes that are started
        os.environ[name] = "1"
    if workers == 1:
        yield from ((unit, work(unit)) for unit in units)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(work, unit): unit for unit in units}
        try:
            for done in as_completed(pending):
                yield pending[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
