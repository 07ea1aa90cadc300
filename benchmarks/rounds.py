"""A benchmark as jobs over several processes, its rows recorded as jobs are done, resumable."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from recording import record


class Job(NamedTuple):
    """A method of a contest that yields rows, its arguments, and the ``name`` to record them by."""

    name: str
    method: str
    arguments: tuple

    @property
    def key(self) -> str:
        return json.dumps(self)


def rows_of(contest_of: Callable[[Any], Any], options: Any, job: Job) -> list[dict]:
    rows = []
    for row in getattr(contest_of(options), job.method)(*job.arguments):
        print(job.name, row, flush=True)
        rows.append(row)
    return rows


class Rounds:
    """What a contest has found so far, in a file.

    Args:
        contest_of: makes the contest from ``options``, in each process; keep it in a cache.
        settings: what the rows depend on. A record with others is not gone on from.
        resume: leave out the jobs that the record has already.
    """

    def __init__(
        self,
        name: str,
        contest_of: Callable[[Any], Any],
        options: Any,
        *,
        device: str,
        settings: dict,
        out: Path,
        workers: int = 1,
        resume: bool = False,
    ):
        self.name, self.contest_of, self.options = name, contest_of, options
        self.device, self.out, self.workers = device, out, workers
        self.found: dict[str, Any] = {"settings": json.loads(json.dumps(settings)), "done": []}
        if resume:
            self.found |= self._recorded()

    def _recorded(self) -> dict:
        path = self.out / f"{self.name}.json"
        if not path.exists():
            raise SystemExit(f"Expected a record to go on from. There is none at {path}.")
        found, expected = json.loads(path.read_text())[self.device], self.found["settings"]
        if found["settings"] != expected:
            raise SystemExit(f"Expected a record of {expected}. Got one of {found['settings']}.")
        return found

    def play(self, jobs: Sequence[Job]) -> dict[str, Any]:
        """All rows by name, those of ``jobs`` among them."""
        left = [job for job in jobs if job.key not in self.found["done"]]
        for job, rows in self._done(left):
            self.found.setdefault(job.name, []).extend(rows)
            self.found["done"].append(job.key)
            record(self.name, self.device, self.found, self.out)
        return self.found

    def _done(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, list[dict]]]:
        """Jobs with their rows as they are done; a single worker is this process."""
        if self.workers == 1:
            yield from ((job, rows_of(self.contest_of, self.options, job)) for job in jobs)
            return
        with ProcessPoolExecutor(self.workers, get_context("spawn")) as pool:
            begun = {pool.submit(rows_of, self.contest_of, self.options, job): job for job in jobs}
            yield from ((begun[done], done.result()) for done in as_completed(begun))
