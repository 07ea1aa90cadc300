"""What does each part of a search bring alone? Searches with that part left out, beside whole ones.

Of the training rows of the first split of each table three quarters are searched and the others
judge: the test rows of `tables.py` are not touched. A network of a budget is the one that the
search itself expects most of. Differences are paired by table.

    python benchmarks/ablation.py --tables FOLDER --workers 2 [--resume]

`measured.py` writes what was found into docs/concepts/recipe.md.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from by_size.preparing import judged, listed, load, prepared
from recording import RESULTS
from sharing import measured_units
from sklearn.model_selection import train_test_split

from torchsparcs import SearchConfig, SearchResult, search
from torchsparcs.searching import finishing, table_search
from torchsparcs.searching.finishing import LINEAR, PLAIN, Finishing

BUDGETS = (16, 64, 256, 1024, 4096)
MOST_ROWS = 5_000
WHOLE = "whole"


@dataclass(frozen=True)
class Part:
    """A part of a search: what is left out of it, by names of ``finishing``, or the settings."""

    words: str
    names: dict[str, Any] = field(default_factory=dict)
    ways: tuple[str, ...] = SearchConfig.ways
    has_connections: bool = True
    has_trained: bool = True


def _nobody(*_: object) -> None:
    """No lessons."""


PARTS = {
    WHOLE: Part("nothing is left out"),
    "trained": Part(
        "networks that were trained with eigenvalues", {"CONTENDERS": 0}, has_trained=False
    ),
    "plain": Part("plain networks, drawn at random and fitted", {"SHAPES": ()}),
    "connections": Part("the removal of single connections", has_connections=False),
    "dropout": Part("training with input dropout too", ways=("asleep",)),
    "forest": Part("a forest as a teacher", {"lessons": _nobody}),
    "turns": Part("more turns where rows are many", {"DEEP_ROWS": math.inf}),
}


def _only_drawn(own: Callable) -> Callable:
    """An outcome that forgets what was trained."""

    def outcome(self: Any, rungs: list, *rest: Any) -> Any:
        return own(self, [rung for rung in rungs if rung.group in (LINEAR, PLAIN)], *rest)

    return outcome


def without(part: Part) -> ExitStack:
    """Inside of it that part of a search is left out."""
    stack = ExitStack()
    for name, value in part.names.items():
        stack.enter_context(mock.patch.object(finishing, name, value))
    if not part.has_connections:
        stack.enter_context(mock.patch.object(Finishing, "_cut", return_value=[]))
    if not part.has_trained:
        own = table_search.TableSearch._outcome
        stack.enter_context(
            mock.patch.object(table_search.TableSearch, "_outcome", _only_drawn(own))
        )
    return stack


def measured(folder: Path, unit: str) -> dict:
    """Scores by budget and the seconds of one core of a search of TABLE without PART."""
    torch.set_num_threads(1)
    name, part = unit.split(" ")
    table = load(folder, name)
    split = prepared(table, 0, MOST_ROWS)
    is_timeless = table.time is None  # else the later rows judge
    own, others = train_test_split(
        np.arange(len(split.y)),
        test_size=0.25,
        random_state=0 if is_timeless else None,
        shuffle=is_timeless,
        stratify=split.y if split.classes and is_timeless else None,
    )
    started = time.process_time()
    with without(PARTS[part]):
        result = search(
            split.x[own].astype(np.float32),
            split.y[own],
            task="classification" if split.classes else "regression",
            scoring="accuracy" if split.classes else "r2",
            config=SearchConfig(ways=PARTS[part].ways),
            device="cpu",
            engine="local",
            progress=False,
        )
    seconds = time.process_time() - started
    scores = [score_within(result, budget, split, others) for budget in BUDGETS]
    return {"seconds": round(seconds, 2), "scores": scores}


def score_within(result: SearchResult, budget: int, split: Any, rows: np.ndarray) -> float | None:
    """Of the network within the budget that most is expected of, on ``rows``; None without one."""
    within = [each for each in result.front if each.parameters <= budget]
    if not within:
        return None
    best = max(within, key=lambda each: each.expected)
    answer = result.outputs if split.classes else result.predict
    outputs = np.asarray(answer(split.x[rows].astype(np.float32), best))
    return round(judged(outputs, split.y[rows], split.classes)[0], 6)


def compared(units: dict[str, dict]) -> Iterator[tuple[str, list[str]]]:
    """For each part, what a search with it has more than one without: mean ± standard error."""
    tables = sorted({unit.split(" ")[0] for unit in units})
    for part in PARTS:
        pairs = [
            (units[f"{name} {WHOLE}"], units[f"{name} {part}"])
            for name in tables
            if f"{name} {part}" in units and f"{name} {WHOLE}" in units
        ]
        if part == WHOLE or not pairs:
            continue
        cells = []
        for place in range(len(BUDGETS)):
            both = [(a["scores"][place], b["scores"][place]) for a, b in pairs]
            more = np.array([a - b for a, b in both if a is not None and b is not None])
            error = more.std(ddof=1) / math.sqrt(len(more)) if len(more) > 1 else math.nan
            cells.append(f"{more.mean():+.3f} ± {error:.3f}" if len(more) else "–")
        ratios = [math.log(a["seconds"] / b["seconds"]) for a, b in pairs]
        yield PARTS[part].words, [*cells, f"{math.exp(np.mean(ratios)):.2f}"]


def table_of_parts(record: dict) -> str:
    """What each part brings, in Markdown."""
    tables = {unit.split(" ")[0] for unit in record["units"]}
    rows = [f"| {words} | {' | '.join(cells)} |" for words, cells in compared(record["units"])]
    budgets = " | ".join(f"{budget:,}" for budget in BUDGETS)
    return "\n".join(
        [
            f"Accuracy or R² with the part less that without it, within so many parameters: mean ± "
            f"standard error over {len(tables)} tables, one split each; and the time of a search, "
            "where without the part it takes 1.",
            "",
            f"| part | {budgets} | time |",
            "| --- |" + " --- |" * (len(BUDGETS) + 1),
            *rows,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder of tables")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these tables")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="do only what is not recorded")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.only or list(listed(arguments.tables))
    units = measured_units(
        "ablation",
        [f"{name} {part}" for name in names for part in arguments.parts],
        partial(measured, arguments.tables),
        out=arguments.out,
        workers=arguments.workers,
        resume=arguments.resume,
        about={"most_rows": MOST_ROWS, "budgets": BUDGETS},
    )
    for words, cells in compared(units):
        print(f"{words}: {', '.join(cells)}")


if __name__ == "__main__":
    main()
