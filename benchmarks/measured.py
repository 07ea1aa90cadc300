"""Numbers of README, results and limits that no other script writes, from the records.

    python benchmarks/measured.py

A page has ``<!-- measured: NAME -->`` to ``<!-- end -->`` where what NAME below says is put; a test
compares it with the records. Tables by size, neighbours and chips have scripts of their own.
"""

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from statistics import mean

from ablation import table_of_parts
from chips import table
from marking import between, filled, rewrite
from measured_costs import (
    cost,
    cost_table,
    digits_time,
    in_a_kilobyte,
    in_other_sizes,
    int8,
    latency,
    latency_table,
    predict_times,
    search_times,
)
from measured_growth import (
    cnn_cost,
    cnn_latency,
    conv_depth,
    growth_of_searches,
    growth_shared,
    growth_table,
    population,
)
from measured_paper import (
    all_at_once,
    by_the_table,
    equal_starts,
    head,
    head_by_the_paper,
    head_cost,
    products,
    readings,
    relevance,
    rho_range,
    shallow_first,
    teacher,
    teacher_hits,
    teacher_penalties,
    teacher_recipes,
    teacher_work,
    trained_head,
    verdict_table,
    verdicts,
)
from recording import RESULTS

DOCS = RESULTS.parent
PAGES = (
    DOCS.parent / "README.md",
    DOCS / "is-it-for-me.md",
    DOCS / "results.md",
    DOCS / "scaling.md",
    DOCS / "differences.md",
    DOCS / "how-to" / "columns.md",
    DOCS / "how-to" / "explaining.md",
    DOCS / "concepts" / "limits.md",
    DOCS / "concepts" / "eigenvalues.md",
    DOCS / "concepts" / "penalties.md",
    DOCS / "concepts" / "recipe.md",
)


class Records(dict):
    """Records by their names, read when they are asked for."""

    def __missing__(self, name: str) -> dict:
        return self.setdefault(name, json.loads((RESULTS / f"{name}.json").read_text()))


# --- the moving picture ---------------------------------------------------------------------------


def growing(found: Records) -> str:
    one = found["growing"]["cpu"]
    cut = one["cut"]
    return (
        f"{' → '.join(map(str, cut['widths']))} neurons with {cut['parameters']} of "
        f"{cut['of_parameters']:,} parameters, which get {100 * cut['score']:.1f} % of the "
        "validation rows right (one seed)"
    )


# --- fronts ---------------------------------------------------------------------------------------


def mnist_table(found: Records) -> str:
    of = found["mnist_front"]["cuda"]
    ours, plain = ({row["parameters"]: row for row in of[who]["mean"]} for who in ("sparcs", "mlp"))
    rows = [
        [
            f"{100 * target['test_accuracy']:.1f} %",
            f"{_percent(ours[target['sparcs']], of)} with {target['sparcs']:,} parameters",
            f"{_percent(plain[target['mlp']], of)} with {target['mlp']:,} "
            f"({target['mlp'] / target['sparcs']:.2f} times)",
        ]
        for target in of["targets"]
    ]
    return table(["wanted", "SPARCS", "the smallest tuned MLP that reaches it"], *rows)


def _percent(row: dict, of: dict, digits: int = 2) -> str:
    """Mean ± standard error over the seeds."""
    error = row["std"] / sqrt(of["seeds"])
    return f"{100 * row['accuracy']:.{digits}f} ± {100 * error:.{digits}f}"


NEARLY = (19_090, 38_170)  # parameters of plain MLPs that miss a target by a hair


def mnist_misses(found: Records) -> str:
    of = found["mnist_front"]["cuda"]
    rows = (row for row in of["mlp"]["mean"] if row["parameters"] in NEARLY)
    return " and ".join(f"{_percent(r, of, 3)} with {r['parameters']:,}" for r in rows)


def mnist(found: Records) -> str:
    of = found["mnist_front"]["cuda"]
    ours, plain = ({row["parameters"]: row for row in of[w]["mean"]} for w in ("sparcs", "mlp"))
    told = ", ".join(
        f"{100 * ours[t['sparcs']]['accuracy']:.2f} % with {t['sparcs']:,}" for t in of["targets"]
    )
    times = between((t["mlp"] / t["sparcs"] for t in of["targets"]), ".2f")
    best = [100 * max(row["accuracy"] for row in rows.values()) for rows in (plain, ours)]
    return (
        f"{told} parameters; the smallest tuned MLPs that reach the same targets have {times} "
        f"times as many. The best MLP of any size is better: {best[0]:.2f} against {best[1]:.2f} %"
    )


BONSAI = 0.9701  # of MNIST, published


def beside_bonsai(found: Records) -> str:
    """The networks next to its accuracy, in bytes of four a parameter."""
    of = found["mnist_front"]["cuda"]
    rows = sorted(of["sparcs"]["mean"], key=lambda r: r["parameters"])
    above = next(place for place, row in enumerate(rows) if row["accuracy"] >= BONSAI)
    words = (
        f"{_percent(row, of)} % with {4 * row['parameters'] / 1000:.0f} kB"
        for row in rows[above - 1 : above + 1]
    )
    return " and ".join(words)


CNN_SIZES = (300_000, 209_000, 146_000, 101_000, 70_000, 48_000, 33_000, 23_000, 16_000)
BESIDE = {300_000: 279_050, 146_000: 157_450, 70_000: 70_410, 16_000: 17_930}


def _cut_networks(found: Records, size: int) -> tuple[float, float]:
    """Mean size and accuracy of the three searches' networks nearest to a size."""
    front = found["cnn_front"]["cuda"]["front"]
    seeds = {row["seed"] for row in front}
    near = [
        min(
            (row for row in front if row["seed"] == seed),
            key=lambda row: abs(row["parameters"] - size),
        )
        for seed in seeds
    ]
    return mean(row["parameters"] for row in near), 100 * mean(row["test"] for row in near)


def _plain(found: Records, size: int, normalised: bool) -> float:
    rows = [
        row["test"]
        for row in found["cnn_front"]["cuda"]["plain"]
        if row["parameters"] == size and row["normalised"] is normalised
    ]
    return 100 * mean(rows)


def cnn_table(found: Records) -> str:
    rows = []
    for size in CNN_SIZES:
        parameters, score = _cut_networks(found, size)
        row = [f"{parameters:,.0f}", f"{score:.1f}", "", ""]
        if beside := BESIDE.get(size):
            plain = [_plain(found, beside, normalised) for normalised in (False, True)]
            row[2:] = [f"{each:.1f} ({beside:,})" for each in plain]
        rows.append(row)
    heads = ["parameters", "spectral, cut", "plain, no normalisation", "plain, batch normalisation"]
    return table(heads, *rows)


def cnn(found: Records) -> str:
    """Of README: the sizes at which plain ones were trained, but for the smallest one."""
    parts = []
    for size in (300_000, 70_000):
        parameters, score = _cut_networks(found, size)
        batch, bare = (_plain(found, BESIDE[size], kind) for kind in (True, False))
        parts.append(
            f"{score:.1f} % with {parameters:,.0f} parameters (plain CNN of {BESIDE[size]:,}: "
            f"{batch:.1f} % with batch normalisation, {bare:.1f} % without)"
        )
    _, least = _cut_networks(found, 16_000)
    _, above = _cut_networks(found, 23_000)
    level = _plain(found, 17_930, True)
    return (
        f"{'; '.join(parts)}; at 17,930 parameters the batch-normalised one has {level:.1f} %, "
        f"between our {least:.1f} and {above:.1f} % at sizes around it"
    )


def text_table(found: Records) -> str:
    """Nats a character at the four widths of plain blocks, and of what was cut to about as many."""
    runs = found["text_front"]["cpu"]["runs"]
    rows = []
    for size in sorted({r["parameters"] for r in runs if r["kind"] == "plain"}, reverse=True):
        cells, sizes = [], []
        for kind in ("plain", "spectral", "cut"):
            mine = [r for r in runs if r["kind"] == kind]
            near = [
                min((r for r in mine if r["seed"] == seed), key=lambda r: _off(r, size))
                for seed in sorted({r["seed"] for r in mine})
            ]
            cells.append(f"{mean(r['test'] for r in near):.3f}")
            sizes += [r["parameters"] for r in near]
        rows.append([between(sizes, ",d"), f"**{cells[0]}**", *cells[1:]])
    heads = ["plain blocks", "spectral blocks, cut", "plain blocks, cut"]
    return table(["parameters of the model", *heads], *rows)


def _off(row: dict, size: int) -> int:
    return abs(row["parameters"] - size)


def vit(found: Records) -> str:
    runs = found["vit_front"]["cuda"]["runs"]
    plain: dict[int, list[float]] = {}
    for run in runs:
        if run["kind"] == "plain":
            plain.setdefault(run["hidden"], []).append(100 * run["accuracy"])
    spectral = [100 * run["accuracy"] for run in runs if run["kind"] == "spectral"]
    return (
        f"plain blocks are better: {between(map(mean, plain.values()), '.1f')} % beside "
        f"{between(spectral, '.1f')} %"
    )


# --- a search -------------------------------------------------------------------------------------


def parts(found: Records) -> str:
    return f"\n\n{table_of_parts(found['ablation']['cpu'], is_more=False)}\n\n"


def taught(found: Records) -> str:
    return f"\n\n{table_of_parts(found['taught']['cpu'], is_more=False)}\n\n"


def tried(found: Records) -> str:
    return f"\n\n{table_of_parts(found['tried']['cpu'], is_more=True)}\n\n"


# --- tables as they are ---------------------------------------------------------------------------


def as_they_are(found: Records) -> str:
    of = found["as_they_are"]["cpu"]
    units, rows, steps = of["units"].values(), of["most_rows"], of["steps"]
    whole = [unit for unit in units if unit["search"] == 0 and unit["predict"] == 0]
    wrong = sum(len(unit["untrue"]) for unit in whole)
    onnx, own = (
        max(unit[f"{who}_differs_by"] or 0.0 for unit in whole) for who in ("onnx", "estimator")
    )
    how = "with no option" if steps is None else f"in {steps} steps"
    most = "all rows" if rows is None else f"at most {rows} rows"
    what = "and every count" if not wrong else f"and all but {wrong} counts"
    return (
        f"{len(whole)} of {len(units)} files are searched ({most} of each, {how}) and predicted, "
        f"{what} of missing cells in a warning is that of the file. On 10,000 such rows of each "
        f"table `model.onnx`, by onnxruntime alone, differs from the result by {onnx:.1e} at most, "
        f"the estimators from theirs by {own:.1e}, in probability or standard deviations of the "
        f"target (`{of['command'].removeprefix('python ')}`, {of['date']})"
    )


SENTENCES: dict[str, Callable[[Records], str]] = {
    each.__name__: each
    for each in (
        growing,
        as_they_are,
        teacher,
        teacher_hits,
        teacher_work,
        teacher_penalties,
        teacher_recipes,
        head,
        head_by_the_paper,
        head_cost,
        by_the_table,
        equal_starts,
        products,
        readings,
        relevance,
        rho_range,
        shallow_first,
        trained_head,
        all_at_once,
        verdicts,
        verdict_table,
        mnist,
        mnist_table,
        mnist_misses,
        beside_bonsai,
        cnn,
        cnn_table,
        text_table,
        vit,
        cost,
        cost_table,
        latency,
        latency_table,
        in_a_kilobyte,
        in_other_sizes,
        int8,
        search_times,
        predict_times,
        digits_time,
        parts,
        taught,
        tried,
        growth_table,
        growth_of_searches,
        growth_shared,
        population,
        cnn_cost,
        cnn_latency,
        conv_depth,
    )
}


def page(path: Path) -> str:
    """What a page is to be."""
    return filled(path.read_text(), "measured", SENTENCES, Records())


def main() -> None:
    for path in PAGES:
        rewrite(path, page(path))


if __name__ == "__main__":
    main()
