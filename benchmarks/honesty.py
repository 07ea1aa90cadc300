"""What is claimed for a network beside what it scores on rows that nobody has seen.

Without signal (five normal columns, classes drawn by coins) the truth is one half. On the tables of
a folder at most 700 rows are searched and the others tell the truth. Searches are short ones, the
same for all; `--tables FOLDER` adds the tables.

    python benchmarks/honesty.py --workers 2 --tables FOLDER
"""

import argparse
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from by_size.preparing import load, prepared
from recording import RESULTS, record

from torchsparcs import SearchConfig, SearchResult, search

SHORT = SearchConfig(steps=100, longest=100, epochs=1)
ROWS = (100, 300)  # without signal
MOST_ROWS = 700
TABLES = ("pima", "phoneme", "insurance", "contraceptive", "saratoga", "churn")
PICKS = ("best", "smallest")


def coins(rows: int, seed: int) -> dict:
    """A search where there is nothing to be found."""
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=(rows, 5)), draw.integers(0, 2, rows)
    result = found(x, y, "classification", seed)
    return {
        "data": f"coins, {rows} rows",
        "seed": seed,
        **claims(result, dict.fromkeys(PICKS, 0.5)),
    }


def table(folder: Path, name: str, seed: int) -> dict:
    """A search of some rows of a table, judged by those of the split that are kept apart."""
    split = prepared(load(folder, name), seed, MOST_ROWS)
    task = "classification" if split.classes else "regression"
    result = found(split.x.astype(np.float32), split.y, task, seed)
    truth = {p: result.score(split.x_test.astype(np.float32), split.y_test, p) for p in PICKS}
    return {"data": "tables", "name": name, "seed": seed, **claims(result, truth)}


def found(x: np.ndarray, y: np.ndarray, task: str, seed: int) -> SearchResult:
    torch.set_num_threads(1)
    return search(x, y, task=task, config=SHORT, seed=seed, device="cpu", progress=False)


def claims(result: SearchResult, truth: dict[str, float]) -> dict:
    """Score and expected score of both picks, less the truth."""
    return {
        pick: {
            "score": result.pick(pick).score - truth[pick],
            "expected": result.pick(pick).expected - truth[pick],
        }
        for pick in PICKS
    }


def summary(runs: list[dict]) -> Iterator[dict]:
    """Mean and standard error for each kind of data, pick and claim."""
    for data in dict.fromkeys(run["data"] for run in runs):
        mine = [run for run in runs if run["data"] == data]
        for pick in PICKS:
            row = {"data": data, "pick": pick, "runs": len(mine)}
            for claim in ("score", "expected"):
                values = np.array([run[pick][claim] for run in mine])
                error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else None
                row[claim] = {"less_truth": values.mean(), "standard_error": error}
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of tables")
    parser.add_argument("--seeds", type=int, default=20, help="of coins")
    parser.add_argument("--quick", action="store_true", help="one seed of coins, no table")
    parser.add_argument("--splits", type=int, default=5, help="of each table")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    seeds = range(1 if arguments.quick else arguments.seeds)
    work = [partial(coins, rows, seed) for rows in ROWS for seed in seeds]
    if arguments.tables is not None and not arguments.quick:
        splits = range(arguments.splits)
        work += [partial(table, arguments.tables, name, seed) for name in TABLES for seed in splits]
    if arguments.workers == 1:
        runs = [each() for each in work]
    else:
        with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
            runs = [done.result() for done in [pool.submit(each) for each in work]]
    rows = list(summary(runs))
    for row in rows:
        told = (f"{c} {row[c]['less_truth']:+.4f}" for c in ("score", "expected"))
        print(f"{row['data']}, {row['pick']}, {row['runs']} runs:", ", ".join(told))
    record("honesty", "cpu", {"summary": rows, "runs": runs}, arguments.out)


if __name__ == "__main__":
    main()
