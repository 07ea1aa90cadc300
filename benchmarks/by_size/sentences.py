"""What other pages say of the tables: between ``<!-- tables: NAME -->`` and ``<!-- end -->``.

`python benchmarks/tables.py --page` writes it there, and a test compares it with the record.
"""

from pathlib import Path

import marking
from marking import between

from by_size.measures import BUDGETS

PAGES = (
    "../README.md",
    "results.md",
    "concepts/limits.md",
    "is-it-for-me.md",
)  # from the folder of the docs
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DEEP = 0.1  # R² below zero that is called a fall
NOTHING = 0.01  # an R² up to which nobody learnt anything


def counted(count: int, noun: str) -> str:
    words = NUMBERS[count] if count < len(NUMBERS) else str(count)
    return f"{words} {noun}{'s' * (count != 1)}"


def ends(found: dict) -> tuple[str, str]:
    """The smallest and the largest ratio, each with its table."""
    ratios = {name: table["ratio"] for name, table in found["tables"].items() if table["ratio"]}
    ordered = sorted(ratios, key=ratios.__getitem__)
    low, high = (f"{ratios[name]:.2f} on {name}" for name in (ordered[0], ordered[-1]))
    return low, high


def lost(pairs: list[list]) -> list[float]:
    """By how much, where we are below by more than a standard error."""
    return [-mean for mean, error in pairs if mean is not None and mean < -(error or 0)]


def best_beside_mlp(found: dict) -> str:
    below = lost([table["against_mlp"] for table in found["tables"].values()])
    if not below:
        return "on no table below the best MLP's by more than a standard error"
    return (
        f"below the best MLP's by more than a standard error on {counted(len(below), 'table')}, "
        f"by {between(below, '.3f')}"
    )


def ratio(found: dict) -> str:
    """An answer of README's table."""
    low, high = ends(found)
    return (
        f"{found['ratio']:.2f} times the MLP's parameters (geometric mean over the "
        f"{found['ratio_tables']} tables where an MLP beats the linear model), from {low} to "
        f"{high}. Our defaults were chosen on these tables, partly by their test rows, which "
        f"flatters these numbers.{unseen(found)} The best score of a search is "
        f"{best_beside_mlp(found)}"
    )


def unseen(found: dict) -> str:
    """What follows the caveat: the number of tables that no default was chosen on."""
    others = found["unseen"]
    if not others["ratio"]:
        return ""
    fitted = "" if "adamw" in others.get("hardware", {}) else ", fitted by L-BFGS alone,"
    return (
        f" On {counted(len(others['tables']), 'table')} on which nothing was chosen our networks "
        f"have {others['ratio']:.2f} times the parameters of MLPs{fitted} for the same score (over "
        f"the {others['ratio_tables']} where an MLP beats the linear model)."
    )


def short(found: dict) -> str:
    """Of README's first lines."""
    return (
        f"For the same test score they need {found['ratio']:.2f} times the parameters of the best "
        f"plain MLP: the geometric mean over those {found['ratio_tables']} of "
        f"{len(found['tables'])} real tables where an MLP beats a linear model"
    )


def boosting(found: dict) -> str:
    """How often each is ahead, whatever the size."""
    pairs = [table["against_boosting"] for table in found["tables"].values()]
    behind, ahead = len(lost(pairs)), len(lost([[-(m or 0), e] for m, e in pairs]))
    return (
        f"gradient boosting of any size beats our best network on {behind} of {len(pairs)} tables "
        f"by more than a standard error, and loses on {ahead}"
    )


def expected(found: dict) -> str:
    """What a visitor may expect of her own table."""
    tables = found["tables"].values()
    gains = [t["pick"]["against_others"] for t in tables]
    means = [mean for mean, _ in gains if mean is not None]
    above = [mean for mean in means if mean > 0]
    surely = [mean for mean, error in gains if mean is not None and mean > (error or 0)]
    sizes = [t["pick"]["parameters"][0] for t in tables]
    seconds = [t["seconds"]["ours"][0] for t in tables]
    text = (
        f"on {len(above)} of {len(sizes)} tables the network picked by default scores higher than "
        f"the best MLP or linear model of its size, by {between(above, '.3f')} (on {len(surely)} "
        "by more than a standard error)"
    )
    if len(above) < len(means):
        text += f", on {len(means) - len(above)} at most {-min(means):.3f} lower"
    if len(means) < len(sizes):
        text += f"; on {len(sizes) - len(means)} there is no rival of its size"
    text += f". It has {between(sizes, ',.0f')} parameters"
    if seconds and None not in seconds:
        rows = between((t["rows"] for t in tables), ",d")
        text += f", and a search of {rows} rows takes {between(seconds, '.0f')} s on one core"
        text += f" ({found['hardware']['ours'].split(',')[0]})" * ("ours" in found["hardware"])
    in_vain = [
        name
        for name, t in found["tables"].items()
        if t["task"] == "regression" and max(t["best"][0], t["best_mlp"][0]) < NOTHING
    ]
    return text + (f". On {' and '.join(in_vain)} no method learnt anything" if in_vain else "")


def limits(found: dict) -> str:
    low, high = ends(found)
    tables = f"[{len(found['tables'])} real tables](../tables.md)"
    return (
        f"{found['ratio']:.2f} times the parameters for the same test score, a geometric mean\n"
        f"over the {found['ratio_tables']} of {tables} where an MLP beats the linear model, from "
        f"{low} to {high}. The defaults of the search were chosen on these tables.{unseen(found)}"
    )


def fall(found: dict) -> str:
    """Where a default pick is far below no answer at all, of the regressions."""
    deep = {
        name: table["pick"]["lowest"]
        for name, table in found["tables"].items()
        if table["task"] == "regression" and table["pick"]["lowest"] < -DEEP
    }
    pages = f"[the {len(found['tables'])} tables](../tables.md#table-by-table)"
    if not deep:
        return f"With it no pick on any split of {pages} is below R² −{DEEP}"
    each = " and ".join(f"{name} (R² −{-value:.3f})" for name, value in deep.items())
    return f"With it the pick is below R² −{DEEP} on {each} alone of {pages}"


def best(found: dict) -> str:
    """How the ends of the fronts compare, and from which size on MLPs are better."""
    rows = found["ranks"]["parameters"]
    who = "MLPs fitted by L-BFGS have the better average rank"
    behind = [b for b in BUDGETS if rows[str(b)]["ranks"]["lbfgs"] < rows[str(b)]["ranks"]["ours"]]
    if not behind:
        where = "at no size have MLPs fitted by L-BFGS a better average rank"
    elif behind == [b for b in BUDGETS if b >= behind[0]]:
        where = (
            f"from {behind[0]:,} parameters on MLPs fitted by L-BFGS have the better average rank"
        )
    else:
        sizes = ", ".join(f"{b:,}" for b in behind)
        where = f"at {sizes} parameters {who}"
    return f"the **best** score of a front is {best_beside_mlp(found)}; {where}."


def splits_of(found: dict) -> str:
    splits = [table["splits"] for table in found["tables"].values()]
    return f"{between(splits, 'd')} split{'s' * (max(splits) > 1)} each"


def measured(found: dict) -> str:
    return f"{len(found['tables'])} real tables, {splits_of(found)}"


SENTENCES = {
    each.__name__: each
    for each in (short, ratio, unseen, boosting, expected, limits, fall, best, measured)
}


def filled(text: str, found: dict) -> str:
    """The text with what the record says in every marked place."""
    return marking.filled(text, "tables", SENTENCES, found)


def write(found: dict, docs: Path) -> None:
    """Bring the pages that are there up to the record."""
    for path in (docs / page for page in PAGES):
        if path.exists():
            marking.rewrite(path, filled(path.read_text(), found))
