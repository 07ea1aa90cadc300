"""Do the estimators pass all checks of scikit-learn as they are, and how long does that take?

Each check of ``sklearn.utils.estimator_checks`` runs once for either estimator, with its default
settings. A check that fails, or is late, is named, and then the end is an error. Skipped is only
what scikit-learn itself skips; seconds are those of the processor.

    python benchmarks/estimator_checks.py --workers 16
    python benchmarks/estimator_checks.py --checks check_fit1d check_classifiers_one_label
"""

import argparse
import os
import signal
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import SkipTest

import torch
from recording import RESULTS, record
from sklearn.utils.estimator_checks import estimator_checks_generator

from torchsparcs import SparcsClassifier, SparcsRegressor

ESTIMATORS = {"SparcsClassifier": SparcsClassifier, "SparcsRegressor": SparcsRegressor}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1, help="checks at a time")
    parser.add_argument("--checks", nargs="+", default=[], help="by name; all by default")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    tasks = [
        (estimator, place)
        for estimator in ESTIMATORS
        for place, (_, check) in enumerate(checks_of(estimator))
        if not asked.checks or check.func.__name__ in asked.checks
    ]
    found, start = [], time.monotonic()
    with ProcessPoolExecutor(asked.workers, get_context("spawn")) as pool:
        waiting = [pool.submit(checked, *task) for task in tasks]
        for done in as_completed(waiting):
            found.append(one := done.result())
            words = f"\n{one['words']}" if one["outcome"] == "failed" else ""
            named = f"{one['estimator']}, {one['check']}: {one['outcome']}"
            print(f"{len(found)} of {len(tasks)}: {named}, {one['seconds']} s{words}", flush=True)
    minutes = (time.monotonic() - start) / 60
    counts = {
        outcome: sum(one["outcome"] == outcome for one in found)
        for outcome in ("passed", "skipped", "failed")
    }
    results = {
        **counts,
        "workers": asked.workers,
        "minutes": round(minutes, 1),
        "processor_minutes": round(sum(one["seconds"] for one in found) / 60, 1),
        "checks": sorted(found, key=lambda one: -one["seconds"]),
    }
    print(record("estimator_checks", "cpu", results, asked.out))
    print({name: value for name, value in results.items() if name != "checks"})
    if counts["failed"]:
        raise SystemExit(f"{counts['failed']} checks failed: see above.")


if __name__ == "__main__":
    main()
