"""Is a network that was searched with a teacher better than one without, and how much of it stays?

On each table of a folder and two outer splits, scikit-learn's gradient boosting is tuned on folds
of the training rows and is the teacher (`teacher_fit`: refitted so that it answers no row that it
has seen). Searches with and without it meet the test rows once; they have their defaults, but
boosting teaches neither unasked. Of each front the network that expects the best score within 256
bytes, 1, 4 and 16 kB of float32 numbers is compared: with the other, and on the way from the linear
model to the teacher. Both clocks are of one thread and of the same process: the teacher as
scikit-learn answers, the network as ONNX and as Python answers.

Work is done split by split, those tables first where boosting leads; after `--minutes` it ends,
whatever is under way, and `--resume` goes on: with what was made by the code that fits and searches
as it is now, while units of another code are made again.

    python benchmarks/teachers.py --tables FOLDER --minutes 45 --resume
    python benchmarks/teachers.py --page
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from by_size.boosting import boosted, tuned
from by_size.preparing import Split, listed, load, prepared
from latency import microseconds
from recording import RESULTS, record
from sharing import THREADS, known_units
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from teachers_page import page, summary

import torchsparcs
from torchsparcs import Candidate, SearchConfig, SearchResult, search, to_onnx

NAME = "teachers"
FIRST = ("phoneme", "computers", "wine_white", "churn")
FIRST += ("insurance", "chicago", "segment", "stackoverflow")  # where boosting leads
SPLITS = 2
MOST_ROWS = 5_000  # to train on
BUDGETS = (64, 256, 1_024, 4_096)  # numbers of four bytes
ROOMS = ("compact", "fitting", "searching")  # whose code decides what a pupil becomes
BATCHES = (1, 1024)
SECONDS = 0.5  # for each clock


def searched(split: Split, teacher_fit: Any) -> SearchResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search(
            split.x.astype(np.float32),
            split.y,
            task="classification" if split.classes else "regression",
            scoring="accuracy" if split.classes else "r2",
            teacher_fit=teacher_fit,
            config=SearchConfig(boosting=False),  # nobody teaches but the teacher
            seed=split.seed,
            device="cpu",
            engine="local",
            progress=False,
        )


def row_scores(said: np.ndarray, split: Split) -> np.ndarray:
    """What each test row adds to accuracy or R², (rows,): their mean is the score."""
    if split.classes:
        return (said == split.y_test).astype(float)
    return 1 - np.square(said.ravel() - split.y_test) / np.var(split.y_test)


def paired(one: np.ndarray, other: np.ndarray) -> list[float]:
    """The mean difference over test rows, and its standard error."""
    less = one - other
    return [float(less.mean()), float(less.std(ddof=1) / len(less) ** 0.5)]


def clocks(answer: Callable[[np.ndarray], object], rows: np.ndarray) -> list[float]:
    """Microseconds of a call with 1 and with 1,024 rows."""
    batches = [np.resize(rows, (batch, rows.shape[1])) for batch in BATCHES]
    return [round(microseconds(partial(answer, batch), SECONDS), 1) for batch in batches]


def onnx_answer(result: SearchResult, pick: Candidate, folder: Path) -> Callable[[np.ndarray], Any]:
    """The network as onnxruntime answers, preprocessing inside."""
    path = folder / "model.onnx"
    to_onnx(result.deployed(pick), path, encoded=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda rows: session.run(None, {name: rows})


def speeds(result: SearchResult, pick: Candidate, teacher: Any, split: Split) -> dict:
    """Microseconds of both, at both batches."""
    rows = split.x_test.astype(np.float32)
    told = "predict_proba" if split.classes else "predict"
    with tempfile.TemporaryDirectory() as folder:
        return {
            "teacher": clocks(getattr(teacher, told), rows),
            "onnx": clocks(onnx_answer(result, pick, Path(folder)), rows),
            "python": clocks(partial(getattr(result, told), pick=pick), rows),
        }


def measured(folder: Path, unit: str) -> tuple[str, dict]:
    """Everything about one split of a table."""
    torch.set_num_threads(1)
    name, place = unit.split()
    split = prepared(load(folder, name), int(place), MOST_ROWS)
    rows, begun = split.x_test.astype(np.float32), time.process_time()
    validation, options = tuned(split)
    teacher = boosted(split, split.x, split.y, **options)
    teacher_rows = row_scores(teacher.predict(rows), split)
    seconds = {"teacher": time.process_time() - begun}
    kind = HistGradientBoostingClassifier if split.classes else HistGradientBoostingRegressor
    results = {}
    for way, fit in (("plain", None), ("taught", kind(random_state=split.seed, **options))):
        begun = time.process_time()
        results[way] = searched(split, fit)
        seconds[way] = time.process_time() - begun
    plain, taught = results["plain"], results["taught"]
    linear = row_scores(plain.predict(rows, "linear"), split)
    found: dict[str, Any] = {
        "task": "classification" if split.classes else "regression",
        "rows": len(split.y),
        "test_rows": len(split.y_test),
        "teacher": {"options": options, "validation": validation, "test": teacher_rows.mean()},
        "linear": linear.mean(),
        "teacher_less_linear": paired(teacher_rows, linear),
        "teacher_less_plain": paired(teacher_rows, row_scores(plain.predict(rows, "best"), split)),
        "seconds": {way: round(spent, 1) for way, spent in seconds.items()},
        "budgets": {},
    }
    smallest = max(each.front[0].parameters for each in results.values())
    for budget in (each for each in BUDGETS if each >= smallest):
        picks = {way: each.within(budget) for way, each in results.items()}
        scores = {w: row_scores(each.predict(rows, picks[w]), split) for w, each in results.items()}
        kept = {w: each.fidelity(teacher, rows, None, picks[w]) for w, each in results.items()}
        found["budgets"][str(4 * budget)] = {
            **{
                way: {
                    "test": scores[way].mean(),
                    "expected": pick.expected,
                    "parameters": pick.parameters,
                    "agreement": kept[way].agreement,
                }
                for way, pick in picks.items()
            },
            "gain": paired(scores["taught"], scores["plain"]),
        }
    found["microseconds"] = speeds(taught, taught.within(BUDGETS[-1]), teacher, split)
    return unit, json.loads(json.dumps(found, default=float))


def in_time(folder: Path, units: list[str], workers: int, end: float) -> Iterator[tuple[str, dict]]:
    """Units as they are done, until the end: what is under way then is given up."""
    for name in THREADS:  # of the processes that are started
        os.environ[name] = "1"
    with multiprocessing.get_context("spawn").Pool(workers) as pool:  # left, it ends them
        work = pool.imap_unordered(partial(measured, folder), units)
        for _ in units:
            try:
                yield work.next(timeout=max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                return


def commit() -> str | None:
    """Of which state of the repository it is; None outside of one."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def code() -> str:
    """What tells the code of ``ROOMS`` from any other."""
    root = Path(torchsparcs.__file__).parent
    files = sorted(path for room in ROOMS for path in (root / room).glob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of tables, to run")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--minutes", type=float, default=45, help="after which it ends")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="do only what is not recorded")
    parser.add_argument("--page", action="store_true", help="run nothing, write the section")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.tables is None and not arguments.page:
        parser.error("expected --tables FOLDER, or --page of what is recorded")
    return arguments


def main() -> None:
    arguments = parsed()
    if not arguments.page:
        end, made = time.monotonic() + 60 * arguments.minutes, {"commit": commit(), "code": code()}
        there = listed(arguments.tables)
        first = [name for name in FIRST if name in there]
        names = arguments.only or [*first, *(name for name in there if name not in first)]
        if unknown := [name for name in names if name not in there]:
            raise SystemExit(f"expected tables of {arguments.tables}. Got {', '.join(unknown)}")
        known = known_units(NAME, arguments.out, resume=arguments.resume)
        found = {name: unit for name, unit in known.items() if unit.get("code") == made["code"]}
        wanted = [f"{name} {split}" for split in range(arguments.splits) for name in names]
        todo = [unit for unit in wanted if unit not in found]
        about = {"most_rows": MOST_ROWS, "threads": 1, "wanted": wanted}
        for unit, result in in_time(arguments.tables, todo, arguments.workers, end):
            found[unit] = result | made
            units = dict(sorted(found.items()))
            record(NAME, "cpu", {**about, "units": units}, arguments.out)
            print(unit, json.dumps(result["budgets"]), file=sys.stderr, flush=True)
        if missing := [unit for unit in wanted if unit not in found]:
            print(f"not done in {arguments.minutes:g} minutes: {', '.join(missing)}")
    path = arguments.out / f"{NAME}.json"
    if not path.is_file():
        raise SystemExit(f"nothing is recorded in {path}")
    recorded = json.loads(path.read_text())["cpu"]
    print(json.dumps(summary(recorded["units"]), indent=1))
    if arguments.page:
        page(recorded, RESULTS.parent / "results.md")


if __name__ == "__main__":
    main()
