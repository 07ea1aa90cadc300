"""Would product neurons earn their place? Searches with products of two columns as further inputs.

SHONN (arXiv 2603.28420) lets a neuron hear products of two others as well, each behind an
eigenvalue, with eigenvectors that stay as they were drawn. Next to the inputs that can do no more
than what is tried here: every product of two columns, squares among them, is an input with weights
of its own, the search keeps those that it needs, and the product itself is not counted. At most
1,000 rows of a table are searched, by short searches, the same for all; the others judge.

    python benchmarks/products.py --tables FOLDER
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np
from by_size.preparing import Split, load, prepared
from recording import RESULTS, record
from sklearn.datasets import make_friedman1

from torchsparcs import SearchConfig, search

SHORT = SearchConfig(steps=100, longest=100, epochs=1)
MOST_ROWS = 1000
TABLES = ("phoneme", "wine_white", "pima", "insurance", "vowel", "contraceptive")
SIZES = (10, 30, 100, 300)  # parameters at most


def made() -> Split:
    """Friedman's function, in which the first two columns act by their product."""
    x, y = make_friedman1(400, 5, noise=0.5, random_state=0)
    return Split(x[:200], y[:200], x[200:], y[200:], 0, 0)


def with_products(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Columns, and all products of two of them, standardised by the rows that were ``seen``."""
    first, second = np.triu_indices(x.shape[1])
    here, there = (part[:, first] * part[:, second] for part in (x, seen))
    spread = there.std(axis=0)
    varied = spread > 0
    return np.hstack([x, ((here - there.mean(axis=0)) / np.where(varied, spread, 1))[:, varied]])


def scores(split: Split, *, products: bool) -> dict[int, float | None]:
    """The score on unseen rows of the best network of each size; None where there is none."""
    x, x_test = (
        with_products(part, split.x) if products else part for part in (split.x, split.x_test)
    )
    task = "classification" if split.classes else "regression"
    result = search(
        x, split.y, task=task, config=SHORT, seed=split.seed, engine="local", progress=False
    )
    smallest = min(candidate.parameters for candidate in result.front)
    return {
        size: None
        if size < smallest
        else float(result.score(x_test, split.y_test, result.within(size)))
        for size in SIZES
    }


def splits(arguments: argparse.Namespace) -> Iterator[tuple[str, Split]]:
    """Of the tables that are asked for, or of what is made up."""
    if arguments.tables is None:
        yield "friedman", made()
        return
    for name in arguments.names:
        table = load(arguments.tables, name)
        for place in range(arguments.splits):
            yield name, prepared(table, place, MOST_ROWS)


def compared(name: str, split: Split) -> dict:
    found = {kind: scores(split, products=kind == "products") for kind in ("columns", "products")}
    return {"table": name, "split": split.seed, "columns_of": split.x.shape[1], **found}


def summary(runs: list[dict]) -> dict[int, dict]:
    """Of each size: with products less without, over the tables that have both."""
    rows = {}
    for size in SIZES:
        gains: dict[str, list[float]] = {}
        for run in runs:
            pair = run["products"][size], run["columns"][size]
            if None not in pair:
                gains.setdefault(run["table"], []).append(pair[0] - pair[1])
        if gains:
            of_tables = {name: mean(values) for name, values in gains.items()}
            rows[size] = {"gain": mean(of_tables.values()), "tables": of_tables}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of tables; without it, one made up")
    parser.add_argument("--names", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--splits", type=int, default=2, help="of each table")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    runs: list[dict] = []
    for name, split in splits(arguments):
        runs.append(compared(name, split))
        print(runs[-1], flush=True)
        record("products", "cpu", {"summary": summary(runs), "runs": runs}, arguments.out)
    for size, row in summary(runs).items():
        print(f"up to {size} parameters: {row['gain']:+.4f}, mean of {len(row['tables'])} tables")


if __name__ == "__main__":
    main()
