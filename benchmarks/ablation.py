"""What does each part of a search bring alone? Searches with that part left out, beside whole ones.

And what would bring something? Searches with more, which the search does not have.

Of the training rows of the first split of each table three quarters are searched and the others
judge: the test rows of `tables.py` are not touched. A network of a budget is the one that the
search itself expects most of. Differences are paired by table.

    python benchmarks/ablation.py --tables FOLDER --workers 2 [--resume]
    python benchmarks/ablation.py --tables FOLDER --parts whole knots steps --name tried

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
from by_size.preparing import Array, judged, listed, load, prepared
from recording import RESULTS
from scipy.stats import skew as skewness
from sharing import measured_units
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import QuantileTransformer

from torchsparcs import SearchConfig, SearchResult, search
from torchsparcs.fitting.drawing import Shape
from torchsparcs.searching import finishing, table_search
from torchsparcs.searching.finishing import LINEAR, PLAIN, Finishing

BUDGETS = (16, 64, 256, 1024, 4096)
MOST_ROWS = 5_000
FEW_VALUES = 4  # of a column, up to which it is no column of numbers
SKEWED = 1.0  # of a target, from which on its logarithm is tried
WHOLE = "whole"
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Part:
    """A part of a search: what is left out of it, by names of ``finishing``, or the settings.

    Attributes:
        is_more: the search does not have it, and is changed to have it.
        columns: of the rows that are searched, how any rows get the columns that are searched.
        target: of the target that is searched, what is fitted in its place and the way back.
    """

    words: str
    names: dict[str, Any] = field(default_factory=dict)
    ways: tuple[str, ...] = SearchConfig.ways
    has_connections: bool = True
    has_trained: bool = True
    has_fits: bool = True
    boosts: bool = True
    is_more: bool = False
    columns: Callable[[Array], Callable[[Array], Array]] | None = None
    target: Callable[[Array], tuple[Function, Function]] | None = None


def knots(x: Array) -> Function:
    """Hinges max(0, x − t) at three quartiles t of each column of numbers, beside the columns."""
    places = [
        (column, value)
        for column in range(x.shape[1])
        if len(np.unique(x[:, column])) > FEW_VALUES
        for value in np.unique(np.quantile(x[:, column], (0.25, 0.5, 0.75)))
    ]
    columns, values = [column for column, _ in places], np.array([value for _, value in places])
    return lambda rows: np.hstack([rows, np.maximum(0, rows[:, columns] - values)])


def steps(x: Array) -> Function:
    """Whether a column of numbers is above each of its quartiles, beside the columns."""
    hinged = knots(x)
    return lambda rows: np.hstack([rows, hinged(rows)[:, rows.shape[1] :] > 0])


def ranks(x: Array) -> Function:
    """Every column of numbers as what its rank has under a normal distribution."""
    many = [column for column in range(x.shape[1]) if len(np.unique(x[:, column])) > FEW_VALUES]
    if not many:
        return lambda rows: rows
    ranked = QuantileTransformer(
        n_quantiles=min(1000, len(x)), output_distribution="normal", random_state=0
    ).fit(x[:, many])

    def changed(rows: Array) -> Array:
        rows = rows.copy()
        rows[:, many] = ranked.transform(rows[:, many])
        return rows

    return changed


def tails(x: Array) -> Function:
    """Columns bent beyond three standard deviations: sign(x) (3 + log(1 + |x| − 3))."""
    return lambda rows: np.where(
        np.abs(rows) <= 3, rows, np.sign(rows) * (3 + np.log1p(np.maximum(np.abs(rows) - 3, 0)))
    )


def logarithm(y: Array) -> tuple[Function, Function]:
    """The logarithm of a target above its lowest value by a tenth of its deviation."""
    shift = y.min() - 0.1 * y.std()
    return lambda own: np.log(own - shift), lambda said: np.exp(said) + shift


PARTS = {
    WHOLE: Part("nothing is left out"),
    "trained": Part(
        "networks that were trained with eigenvalues", {"CONTENDERS": 0}, has_trained=False
    ),
    "plain": Part("plain networks, drawn at random and fitted", {"SHAPES": ()}),
    "connections": Part("the removal of single connections", has_connections=False),
    "fits": Part("second-order fits, and all that comes with them", has_fits=False),
    "skips": Part("plain networks with a skip", {"SHAPES": (Shape(1), Shape(2))}),
    "layers": Part("plain networks of two layers", {"SHAPES": (Shape(1), Shape(1, skip=True))}),
    "decays": Part("weight decays by folds", {"DECAYS": (1e-3,), "NEIGHBOURS": (1.0,)}),
    "dropout": Part("training with input dropout too", ways=("asleep",)),
    "boosting": Part("gradient boosting as a teacher, where it leads", boosts=False),
    "turns": Part("more turns where rows are many", {"DEEP_ROWS": math.inf}),
    "knots": Part("hinges at the quartiles of columns", is_more=True, columns=knots),
    "steps": Part("steps at the quartiles of columns", is_more=True, columns=steps),
    "ranks": Part("columns by their ranks", is_more=True, columns=ranks),
    "tails": Part("tails of columns bent", is_more=True, columns=tails),
    "logarithm": Part("the logarithm of skewed targets", is_more=True, target=logarithm),
    "larger": Part("larger plain networks, however they do", {"CLEARLY": 2.0}, is_more=True),
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
    if not part.has_fits:
        stack.enter_context(mock.patch.object(Finishing, "run", return_value=[]))
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
    about = PARTS[part]
    changed = about.columns(split.x[own]) if about.columns else _as_it_is
    forth, back = _as_it_is, _as_it_is
    if about.target is not None:
        if split.classes or skewness(split.y[own]) < SKEWED:
            return {}
        forth, back = about.target(split.y[own])
    x = changed(split.x).astype(np.float32)
    started = time.process_time()
    with without(about):
        result = search(
            x[own],
            forth(split.y[own]),
            task="classification" if split.classes else "regression",
            scoring="accuracy" if split.classes else "r2",
            config=SearchConfig(ways=about.ways, boosting=about.boosts),
            device="cpu",
            engine="local",
            progress=False,
        )
    seconds = time.process_time() - started
    truth = split.y[others]
    scores = [
        score_within(result, budget, x[others], truth, split.classes, back) for budget in BUDGETS
    ]
    return {"seconds": round(seconds, 2), "scores": scores}


def _as_it_is(rows: Array) -> Array:
    return rows


def score_within(
    result: SearchResult, budget: int, x: Array, truth: Array, classes: int, back: Function
) -> float | None:
    """Of the network within the budget that most is expected of; None where there is none."""
    within = [each for each in result.front if each.parameters <= budget]
    if not within:
        return None
    best = max(within, key=lambda each: each.expected)
    outputs = result.outputs(x, best) if classes else back(result.predict(x, best))
    return round(judged(np.asarray(outputs), truth, classes)[0], 6)


def compared(units: dict[str, dict]) -> Iterator[tuple[str, list[str]]]:
    """For each part, what a search with it has more than one without: mean ± standard error.

    Cells: words, tables, scores by budget, and the time with it where without it takes 1.
    """
    tables = sorted({unit.split(" ")[0] for unit in units})
    for part, about in PARTS.items():
        pairs = [
            (units[f"{name} {WHOLE}"], units[f"{name} {part}"])
            for name in tables
            if units.get(f"{name} {part}") and f"{name} {WHOLE}" in units
        ]
        sign = -1 if about.is_more else 1
        if part == WHOLE or not pairs:
            continue
        cells = []
        for place in range(len(BUDGETS)):
            both = [(a["scores"][place], b["scores"][place]) for a, b in pairs]
            more = np.array([sign * (a - b) for a, b in both if None not in (a, b)])
            error = more.std(ddof=1) / math.sqrt(len(more)) if len(more) > 1 else math.nan
            cells.append(f"{more.mean():+.3f} ± {error:.3f}" if len(more) else "–")
        ratios = [sign * math.log(a["seconds"] / b["seconds"]) for a, b in pairs]
        time_of = math.exp(np.mean(ratios))
        yield part, [about.words, f"{len(pairs)}", *cells, f"{time_of:.2f}"]


def table_of_parts(record: dict, is_more: bool) -> str:
    """What each part brings, or would bring, in Markdown."""
    rows = [
        f"| {' | '.join(cells)} |"
        for part, cells in compared(record["units"])
        if PARTS[part].is_more == is_more
    ]
    budgets = " | ".join(f"{budget:,}" for budget in BUDGETS)
    head = f"| {'added' if is_more else 'part'} | tables | {budgets} | time |"
    return "\n".join([head, "| --- |" + " --- |" * (len(BUDGETS) + 2), *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder of tables")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these tables")
    own = [part for part, about in PARTS.items() if not about.is_more]
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=own)
    parser.add_argument("--name", default="ablation", help="of the record")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="do only what is not recorded")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.only or list(listed(arguments.tables))
    units = measured_units(
        arguments.name,
        [f"{name} {part}" for name in names for part in arguments.parts],
        partial(measured, arguments.tables),
        out=arguments.out,
        workers=arguments.workers,
        resume=arguments.resume,
        about={"most_rows": MOST_ROWS, "budgets": BUDGETS},
    )
    for _, cells in compared(units):
        print(", ".join(cells))


if __name__ == "__main__":
    main()
