"""Who competes, and how their runs are carried out side by side."""

import argparse
import os
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from contest import TASKS, Job, compete, said
from judging import best_of
from recording import RESULTS, command
from records import is_done, write_down
from resuming import code

from torchsparcs.files.provenance import provenance

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Entry(NamedTuple):
    """A contestant is ``function`` of ``module``.

    Attributes:
        packages: it is made of, whose versions are recorded.
        seconds: to expect on a table, on teacher_student and on MNIST, for the order of the jobs.
    """

    module: str
    function: str
    packages: tuple[str, ...]
    seconds: tuple[int, int, int]


CONTESTANTS = {
    "torchsparcs": Entry("sparcs", "sparcs", ("torchsparcs", "torch"), (40, 95, 70)),
    "scikit-learn": Entry(
        "scikit_learn", "scikit_learn", ("scikit-learn", "skl2onnx"), (25, 40, 120)
    ),
    "Optuna": Entry("optuna_search", "optuna_search", ("optuna", "torch"), (18, 35, 90)),
    "Torch-Pruning": Entry(
        "torch_pruning_mlp", "torch_pruning", ("torch-pruning", "torch"), (14, 27, 100)
    ),
    "GroMo": Entry("gromo_growing", "gromo", ("gromo", "torch"), (19, 17, 110)),
    "neat-python": Entry("neat_evolution", "neat_python", ("neat-python",), (30, 30, 90)),
    "OTO": Entry("oto_pruning", "oto", ("only_train_once", "torch"), (24, 42, 110)),
    "direct space": Entry("direct_space", "direct_space", ("torch",), (19, 36, 95)),
    "DARTS": Entry("darts_relaxation", "darts", ("torch",), (20, 42, 90)),
}


def expected_seconds(job: Job) -> int:
    seconds = CONTESTANTS[job.contestant].seconds
    return seconds[{"teacher_student": 1, "mnist": 2}.get(job.task, 0)]


def made_by(job: Job) -> dict:
    """How, with what and on what a run is made."""
    packages = {package: installed(package) for package in CONTESTANTS[job.contestant].packages}
    made = {**provenance(command(), job.device), "threads": 1, "packages": packages}
    return {**made, "code": digest} if (digest := code_of(job)) else made


def code_of(job: Job) -> str | None:
    """The code that a run is of, where that is ours: of other code it is made anew."""
    return code() if "torchsparcs" in CONTESTANTS[job.contestant].packages else None


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def alone(job: Job) -> dict:
    """A run in a fresh process; a process that dies is the failure of that run alone."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            return process.submit(compete, job).result()
        except BrokenProcessPool as error:
            return {"seed": job.seed, "error": said(error)}


def carry_out(jobs: list[Job], workers: int, out: Path) -> int:
    """So many runs at a time, those that take longest first; how many of them failed."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    failures = 0
    pool = ThreadPoolExecutor(workers)
    try:
        longest_first = sorted(jobs, key=expected_seconds, reverse=True)
        pending = {pool.submit(alone, job): job for job in longest_first}
        for ended in as_completed(pending):
            job, run = pending[ended], ended.result()
            write_down(out, job, {**run, "quick": job.quick, "provenance": made_by(job)})
            print(f"{job.contestant}, {job.task}, seed {job.seed}: {summary(run)}", flush=True)
            failures += "error" in run
    finally:
        pool.shutdown(cancel_futures=True)
    return failures


def summary(run: dict) -> str:
    if "error" in run:
        return f"failed: {run['error']}"
    best = best_of(run)
    return (
        f"{best['test']:.4f} with {best['parameters']} parameters ({best['architecture']}), "
        f"{len(run['found'])} networks, {run['trainings']} trainings, {run['seconds']:.0f} s, "
        f"{run['peak_memory_mb']:.0f} MB" + (f", ONNX: {run['onnx']}" if "onnx" in run else "")
    )


def asked(names: Collection[str], arguments: list[str] | None) -> argparse.Namespace:
    """The command line, checked; ``tasks`` are those that can be run."""
    parser = argparse.ArgumentParser(description=f"{', '.join(names)}: tasks of the comparison")
    parser.add_argument("--data", type=Path, help="MNIST as NPZ")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, help="by default all; mnist with data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--contestants", nargs="+", choices=names, default=list(names))
    parser.add_argument("--workers", type=int, default=1, help="processes, one core each")
    parser.add_argument("--quick", action="store_true", help="a test of the script, two seeds")
    parser.add_argument("--again", action="store_true", help="also what is recorded already")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers")
    options = parser.parse_args(arguments)
    if options.quick and options.out == RESULTS / "peers":
        parser.error("--quick needs --out: its numbers do not belong beside measured ones")
    if options.data is not None and not options.data.is_file():
        parser.error(f"expected --data to be an NPZ file. Got {options.data}")
    if options.data is None and "mnist" in (options.tasks or ()):
        parser.error("mnist needs --data, an NPZ file with train_x, train_y, test_x, test_y")
    if options.tasks is None:
        options.tasks = [task for task in TASKS if task != "mnist" or options.data]
        if options.data is None:
            print("mnist is left out: it needs --data")
    return options


def main(
    *names: str, on_device: Collection[str] | None = None, arguments: list[str] | None = None
) -> None:
    """The command line of one contestant's script, or of everybody's.

    Those of ``on_device``, by default all, use ``--device``; the others use the CPU.
    """
    options = asked(names, arguments)
    jobs = [
        Job(
            name,
            *CONTESTANTS[name][:2],
            task=task,
            seed=seed,
            device=options.device if on_device is None or name in on_device else "cpu",
            data=options.data,
            quick=options.quick,
        )
        for name in options.contestants
        for task in options.tasks
        for seed in range(2 if options.quick else options.seeds)
    ]
    new = [job for job in jobs if options.again or not is_done(options.out, job, code_of(job))]
    if len(new) < len(jobs):
        print(f"{len(jobs) - len(new)} of {len(jobs)} runs are recorded already")
    failures = carry_out(new, options.workers, options.out)
    print(f"{len(new)} runs, {failures} of them failed; see {options.out}")
