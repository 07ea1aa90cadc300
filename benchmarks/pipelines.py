"""Beside pipelines made by hand: our search on raw tables, linear models and MLPs on prepared ones.

On each table of a folder that has text, dates or missing values, and three outer splits, our search
takes the columns as they are, with its defaults. A logistic or ridge regression, tuned on three
folds, and scikit-learn's MLP, of which twelve are tried on a fifth of the rows, sit behind a
`ColumnTransformer`: medians and indicators, one-hot, the parts of dates, a scaler. Each meets the
test rows once. Ours is asked for the score that is compared, accuracy or R².

    python benchmarks/pipelines.py --tables FOLDER --workers 15 --resume
    python benchmarks/pipelines.py --page

Tables of another folder get a record of their own: `--tables OTHER --name pipelines_other`.
"""

import argparse
import itertools
import json
import textwrap
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from by_size.preparing import Split, Table, listed, load, parts, prepared
from recording import RESULTS
from sharing import known_units, measured_units
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedShuffleSplit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from torchsparcs import search

NAME = "pipelines"
SPLITS = 3
MOST_ROWS = 5_000  # to train on
STRENGTHS = tuple(10.0**power for power in range(-3, 4))
HIDDEN, DECAYS = ((32,), (128,), (64, 32)), (1e-3, 0.1, 1.0, 10.0)
FOLDS = 3
PAGE = RESULTS.parent / "results.md"
BEGIN, END = "<!-- written by benchmarks/pipelines.py -->", "<!-- end of that -->"


class Raw(NamedTuple):
    """An outer split as it is in the table."""

    x: pd.DataFrame
    y: np.ndarray
    x_test: pd.DataFrame
    y_test: np.ndarray


def is_messy(table: Table) -> bool:
    """Whether it has text, dates or missing values."""
    kinds = (pd.api.types.is_numeric_dtype(table.x[name]) for name in table.x)
    return not all(kinds) or bool(table.x.isna().to_numpy().any())


def raw(table: Table, split: int) -> Raw:
    train, test = parts(table, split, MOST_ROWS)
    return Raw(table.x.iloc[train], table.y[train], table.x.iloc[test], table.y[test])


def ours(split: Split, rows: Raw) -> dict:
    """The best network and the default pick, what each claims and what it scores."""
    task, scoring = ("classification", "accuracy") if split.classes else ("regression", "r2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts that only test rows have
        result = search(
            rows.x,
            rows.y,
            task=task,
            scoring=scoring,
            seed=split.seed,
            device="cpu",
            engine="local",
            progress=False,
        )
        picks = {"best": result.best(), "pick": result.smallest()}
        return {
            name: {
                "test": result.score(rows.x_test, rows.y_test, found),
                "claimed": found.expected,
                "parameters": found.parameters,
            }
            for name, found in picks.items()
        }


def linear(split: Split, rows: Raw) -> dict:
    if split.classes:
        model, name = LogisticRegression(max_iter=2000), "C"
    else:
        model, name = Ridge(), "alpha"
    return tuned(model, {name: STRENGTHS}, FOLDS, split)


def mlp(split: Split, rows: Raw) -> dict:
    kind, held_out = (
        (MLPClassifier, StratifiedShuffleSplit) if split.classes else (MLPRegressor, ShuffleSplit)
    )
    model = kind(early_stopping=True, n_iter_no_change=20, max_iter=300, random_state=split.seed)
    grid = {"hidden_layer_sizes": HIDDEN, "alpha": DECAYS}
    return tuned(model, grid, held_out(1, test_size=0.2, random_state=split.seed), split)


def tuned(model: Any, grid: dict, folds: Any, split: Split) -> dict:
    """The best of a grid, fitted to all training rows: its choice and its score."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that could go on
        found = GridSearchCV(model, grid, cv=folds).fit(split.x, split.y)
    return {
        "test": float(found.score(split.x_test, split.y_test)),
        "chosen": str(found.best_params_),
    }


METHODS: dict[str, Callable[[Split, Raw], dict]] = {"ours": ours, "linear": linear, "mlp": mlp}


def measured(folder: Path, unit: str) -> dict:
    """A method on a split of a table, and its seconds of one core."""
    torch.set_num_threads(1)
    name, method, split = unit.split()
    table = load(folder, name)
    ready, rows = prepared(table, int(split), MOST_ROWS), raw(table, int(split))
    start = time.process_time()
    found = METHODS[method](ready, rows)
    return {**found, "seconds": round(time.process_time() - start, 1), "rows": len(ready.y)}


def units_of(name: str) -> list[str]:
    """Every method on every split of a table."""
    return [f"{name} {method} {split}" for method in METHODS for split in range(SPLITS)]


def summary(units: dict[str, dict]) -> dict[str, Any]:
    """By table the mean test scores, ours less the better of the others; then over the tables.

    A table that was not finished counts for nothing.
    """
    begun = dict.fromkeys(unit.split()[0] for unit in units)
    names = [name for name in begun if {*units_of(name)} <= {*units}]
    tables, gaps = {}, {"best": [], "pick": []}
    for name, splits in itertools.product(names, [range(SPLITS)]):
        each = {method: [units[f"{name} {method} {s}"] for s in splits] for method in METHODS}
        best = np.array([unit["best"]["test"] for unit in each["ours"]])
        others = np.array([[u["test"] for u in each[m]] for m in ("linear", "mlp")])
        less = best - others[others.mean(axis=1).argmax()]
        tables[name] = {
            "best": best.mean(),
            "pick": np.mean([unit["pick"]["test"] for unit in each["ours"]]),
            "parameters": [unit["pick"]["parameters"] for unit in each["ours"]],
            "linear": others[0].mean(),
            "mlp": others[1].mean(),
            "less_the_better_other": less.mean(),
            "standard_error": less.std(ddof=1) / len(less) ** 0.5,
        }
        for pick, known in gaps.items():
            known.append(np.mean([u[pick]["claimed"] - u[pick]["test"] for u in each["ours"]]))
    claimed = {
        pick: {"less_test": np.mean(gap), "standard_error": np.std(gap, ddof=1) / len(gap) ** 0.5}
        for pick, gap in gaps.items()
    }
    seconds = sum(units[unit]["seconds"] for name in names for unit in units_of(name))
    return {"tables": tables, "claimed": claimed, "core_minutes": seconds / 60}


def section(found: dict[str, Any]) -> str:
    """The part of the page, in Markdown."""
    tables, claimed = found["tables"], found["claimed"]
    rows = [
        f"| {name} | {row['best']:.3f} | {row['pick']:.3f} | {row['linear']:.3f} | "
        f"{row['mlp']:.3f} | {row['less_the_better_other']:+.3f} ± {row['standard_error']:.3f} |"
        for name, row in tables.items()
    ]
    below = [
        name
        for name, row in tables.items()
        if row["less_the_better_other"] < -row["standard_error"]
    ]
    missed = (
        f"Below by more than a standard error: {', '.join(below)}."
        if below
        else ("On no table is it below by more than a standard error.")
    )
    gap = claimed["best"]
    intro = (
        f"{len(tables)} tables with text, dates or missing values, three splits, at most "
        f"{MOST_ROWS:,} rows to train on. Ours takes the columns as they are; a tuned linear model "
        "and a tuned MLP of scikit-learn's sit behind a `ColumnTransformer` (imputer, one-hot, "
        "dates, scaler). Mean accuracy or R² on the test rows, and our best less the better of the "
        "two:"
    )
    verdict = (
        f"{missed} Claimed less test score of the best, over the tables: {gap['less_test']:+.3f} ± "
        f"{gap['standard_error']:.3f} (`benchmarks/pipelines.py`, "
        "[pipelines.json](results/pipelines.json)). The defaults of the search were chosen on "
        "tables of this folder, which flatters it."
    )
    head = ["| table | our best | our pick | linear | MLP | difference |", "|" + " --- |" * 6]
    parts = ["## Beside pipelines made by hand", wrapped(intro), "\n".join([*head, *rows])]
    return "\n\n".join([*parts, wrapped(verdict)])


def wrapped(text: str) -> str:
    return textwrap.fill(text, 116, break_long_words=False, break_on_hyphens=False)


def write_page(found: dict[str, Any]) -> None:
    """Put the section at the end of the page of results, in place of an earlier one."""
    text = PAGE.read_text()
    if BEGIN in text:
        text = text[: text.index(BEGIN)].rstrip() + text[text.index(END) + len(END) :]
    partial_page = PAGE.with_suffix(".partial")
    partial_page.write_text(f"{text.rstrip()}\n\n{BEGIN}\n{section(found)}\n{END}\n")
    partial_page.replace(PAGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of tables, to run")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="do only what is not recorded")
    parser.add_argument("--page", action="store_true", help="run nothing, write the section")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--name", default=NAME, help="of the record, for another folder")
    arguments = parser.parse_args()
    if arguments.tables is None and not arguments.page:
        parser.error("expected --tables FOLDER, or --page of what is recorded")
    if arguments.page and arguments.name != NAME:
        parser.error(f"expected the record {NAME} for the page. Got {arguments.name}")
    if arguments.page:
        units = known_units(NAME, arguments.out, resume=True)
    else:
        every = arguments.only or [*listed(arguments.tables)]
        names = [name for name in every if is_messy(load(arguments.tables, name))]
        wanted = [f"{n} {m} {s}" for m in METHODS for n in reversed(names) for s in range(SPLITS)]
        units = measured_units(
            arguments.name,
            wanted,
            partial(measured, arguments.tables),
            out=arguments.out,
            workers=arguments.workers,
            resume=arguments.resume,
            about={"most_rows": MOST_ROWS, "splits": SPLITS},
        )
    found = summary(units)
    print(json.dumps(found, indent=1, default=float))
    if arguments.page:
        write_page(found)


if __name__ == "__main__":
    main()
