"""Do the estimators pass all checks of scikit-learn as they are, and how long does that take?

Each check of ``sklearn.utils.estimator_checks`` runs once for either estimator, with its default
settings, on the CPU. A check that fails, or is late, is named, and then the end is an error.
Skipped is only what scikit-learn itself skips; seconds are those of the processor. What was found
so far is recorded now and then, with the number of checks there are; another call with
``--resume`` does those that time was not enough for.

    python benchmarks/estimator_checks.py --workers 16 --minutes 4
    python benchmarks/estimator_checks.py --checks check_fit1d check_classifiers_one_label
"""

import argparse
import os
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import SkipTest

import torch
from recording import RESULTS, end_with_what_was_begun, now_and_then, record
from resuming import code, gone_on_from
from sharing import shared_out
from sklearn.utils.estimator_checks import estimator_checks_generator

from torchsparcs import SparcsClassifier, SparcsRegressor

ESTIMATORS = {"SparcsClassifier": SparcsClassifier, "SparcsRegressor": SparcsRegressor}
OUTCOMES = ("passed", "skipped", "failed")
LIMIT = 600  # seconds until a check is late


def names_of(check: Any) -> str:
    """The name of a check, with what it is given."""
    given = [f"{name}={value}" for name, value in check.keywords.items()]
    return ", ".join([check.func.__name__, *given])


def checks_of(estimator: str) -> list[tuple[Any, Any]]:
    """The estimators and their checks, in scikit-learn's order."""
    return list(estimator_checks_generator(ESTIMATORS[estimator](), mark=None))


def checked(estimator: str, place: int) -> dict[str, Any]:
    """What came of one check."""
    torch.set_num_threads(1)
    model, check = checks_of(estimator)[place]
    start, words, outcome = time.process_time(), "", "passed"
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LIMIT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(model)
        except SkipTest as skip:
            outcome, words = "skipped", str(skip)
        except Exception:
            outcome, words = "failed", traceback.format_exc(limit=-3)
        finally:
            signal.alarm(0)
    return {
        "estimator": estimator,
        "check": names_of(check),
        "outcome": outcome,
        "seconds": round(time.process_time() - start, 2),
        "words": words,
    }


def _stop(*_: Any) -> None:
    raise TimeoutError(f"Expected a check to end within {LIMIT} s.")


def all_checked(
    tasks: list[tuple[str, int]], workers: int, minutes: float, known: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What came of the checks so far; after ``minutes`` no more are begun.

    ``known`` is what an earlier call found of others.
    """
    found: list[dict[str, Any]] = known.get("checks", [])
    total, before = len(found) + len(tasks), 60 * known.get("minutes", 0)
    if found:
        yield known
    start = time.monotonic() - before
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    for one in shared_out(pool, checked, tasks, minutes):
        found.append(one)
        words = f"\n{one['words']}" if one["outcome"] == "failed" else ""
        named = f"{one['estimator']}, {one['check']}: {one['outcome']}, {one['seconds']} s"
        print(f"{len(found)} of {total}: {named}{words}", flush=True)
        outcomes = Counter(each["outcome"] for each in found)
        yield {
            "checks_of_all": total,
            **{outcome: outcomes[outcome] for outcome in OUTCOMES},
            "workers": workers,
            "minutes": round((time.monotonic() - start) / 60, 1),
            "processor_minutes": round(sum(one["seconds"] for one in found) / 60, 1),
            "checks": sorted(found, key=lambda one: -one["seconds"]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1, help="checks at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="until no more are begun")
    parser.add_argument("--checks", nargs="+", default=[], help="by name; all by default")
    parser.add_argument("--resume", action="store_true", help="go on with what is recorded")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    end_with_what_was_begun()
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    settings = {"names": asked.checks, "code": code()}
    known = gone_on_from("estimator_checks", settings, asked.out, resume=asked.resume)
    done = {(one["estimator"], one["check"]) for one in known.get("checks", [])}
    tasks = [
        (estimator, place)
        for estimator in ESTIMATORS
        for place, (_, check) in enumerate(checks_of(estimator))
        if not asked.checks or check.func.__name__ in asked.checks
        if (estimator, names_of(check)) not in done
    ]
    if not tasks and not done:
        raise SystemExit(f"Expected names of checks. Got {', '.join(asked.checks)}.")
    for results in now_and_then(all_checked(tasks, asked.workers, asked.minutes, known)):
        path = record("estimator_checks", "cpu", {**settings, **results}, asked.out)
    print(path)
    print({name: results[name] for name in ("checks_of_all", *OUTCOMES, "minutes")})
    if results["failed"]:
        raise SystemExit(f"{results['failed']} checks failed: see above.")


if __name__ == "__main__":
    main()
