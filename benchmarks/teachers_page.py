"""What the record of `teachers.py` says, table by table and over them; the section of a page."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from marking import filled, rewrite

CLEAR = 0.005  # of a score: less between the linear model and the teacher is no way to go
WAYS = ("plain", "taught")
EARLIER = "It is of an earlier recipe of pupils, and not yet of the one that is here now."


def mean_error(values: Iterable[float]) -> list[float | None]:
    """Over tables: mean and its standard error, which one alone does not have."""
    known = np.array([*values], dtype=float)
    if not len(known):
        return [None, None]
    error = float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None
    return [float(known.mean()), error]


def over_splits(pairs: list[list[float]]) -> list[float]:
    """Mean of paired differences over splits, and the error that those of their rows give."""
    values, errors = np.array(pairs).T
    return [float(values.mean()), float(np.sqrt(np.square(errors).sum()) / len(errors))]


def table_of(splits: list[dict]) -> dict[str, Any]:
    """A table: means over its splits."""

    def mean(*path: str) -> float:
        values = []
        for split in splits:
            for step in path:
                split = split[step]
            values.append(split)
        return float(np.mean(values))

    lead = over_splits([split["teacher_less_linear"] for split in splits])
    has_way = lead[0] > max(CLEAR, lead[1])
    found: dict[str, Any] = {
        "splits": len(splits),
        "linear": mean("linear"),
        "teacher": mean("teacher", "test"),
        "teacher_less_plain": over_splits([split["teacher_less_plain"] for split in splits]),
        "budgets": {},
    }
    for budget in splits[0]["budgets"]:
        if any(budget not in split["budgets"] for split in splits):
            continue  # too small for one of them
        way = {each: mean("budgets", budget, each, "test") for each in WAYS}
        shares = {
            each: (way[each] - found["linear"]) / (found["teacher"] - found["linear"])
            if has_way
            else None
            for each in WAYS
        }
        gain = over_splits([split["budgets"][budget]["gain"] for split in splits])
        kept = {each: mean("budgets", budget, each, "agreement") for each in WAYS}
        found["budgets"][budget] = {"test": way, "share": shares, "gain": gain, "agreement": kept}
    times = [split["microseconds"] for split in splits]
    found["times_faster"] = {
        form: [float(np.mean([t["teacher"][b] / t[form][b] for t in times])) for b in (0, 1)]
        for form in ("onnx", "python")
    }
    found["seconds"] = {each: mean("seconds", each) for each in ("teacher", *WAYS)}
    return found


def geometric(values: Iterable[float | None]) -> float | None:
    """Of those above zero; None where there are none."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return None
    return float(np.exp(np.mean(np.log(known))))


def summary(units: dict[str, dict]) -> dict[str, Any]:
    """By table, and over the tables."""
    names = dict.fromkeys(unit.split()[0] for unit in units)
    tables = {
        name: table_of([units[unit] for unit in units if unit.split()[0] == name]) for name in names
    }
    budgets = sorted({each for table in tables.values() for each in table["budgets"]}, key=int)
    overall = {}
    for budget in budgets:
        each = [t["budgets"][budget] for t in tables.values() if budget in t["budgets"]]
        gains = [one["gain"] for one in each]
        overall[budget] = {
            "tables": len(each),
            "gain": mean_error(value for value, _ in gains),
            "above": sum(value > error for value, error in gains),
            "below": sum(value < -error for value, error in gains),
            "share": {way: geometric(one["share"][way] for one in each) for way in WAYS},
            "at_most": geometric(
                one["share"]["taught"] and min(1, one["share"]["taught"]) for one in each
            ),
            "backwards": {
                way: sum(one["share"][way] is not None and one["share"][way] <= 0 for one in each)
                for way in WAYS
            },
            "ways": sum(one["share"]["plain"] is not None for one in each),
        }
    return {
        "tables": tables,
        "overall": overall,
        "least_times_faster": {
            form: [min(t["times_faster"][form][b] for t in tables.values()) for b in (0, 1)]
            for form in ("onnx", "python")
        },
    }


def share_words(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def size_words(size: int) -> str:
    return f"{size} bytes" if size < 1024 else f"{size // 1024} kB"


def cells_of(one: dict | None) -> tuple[str, str, str]:
    """Both scores, the gain and the way, of a budget that some table may not meet."""
    if one is None:
        return "–", "–", "–"
    scores, (gain, error) = one["test"], one["gain"]
    both = f"{scores['plain']:.3f}, {scores['taught']:.3f}"
    return both, f"{gain:+.4f} ± {error:.4f}", share_words(one["share"]["taught"])


def section(recorded: dict) -> str:
    """The part of the page, in Markdown."""
    units = recorded["units"]
    found = summary(units)
    budgets = [*found["overall"]]
    names = [size_words(int(budget)) for budget in budgets]
    head = ["table", "splits", "linear", "teacher"]
    head += [f"{name}: without, with" for name in names]
    head += [f"{name}: gain" for name in names] + [f"{name}: way" for name in names]
    head += ["times faster at 1, 1,024"]
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for name, row in found["tables"].items():
        each = [cells_of(row["budgets"].get(budget)) for budget in budgets]
        cells = [name, str(row["splits"]), f"{row['linear']:.3f}", f"{row['teacher']:.3f}"]
        cells += [cell for column in zip(*each, strict=True) for cell in column]
        cells += [", ".join(f"{times:.0f}" for times in row["times_faster"]["onnx"])]
        lines.append(f"| {' | '.join(cells)} |")
    words = []
    for name, budget in zip(names, budgets, strict=True):
        whole = found["overall"][budget]
        mean, error = whole["gain"]
        spread = "" if error is None else f" ± {error:.4f}"
        taught, plain = (
            share_words(whole["share"][each])
            + f" (backwards on {whole['backwards'][each]})" * bool(whole["backwards"][each])
            for each in ("taught", "plain")
        )
        words.append(
            f"Within {name} the gain over the tables is {mean:+.4f}{spread}; above by more than "
            f"its own error on {whole['above']}, below on {whole['below']} of "
            f"{whole['tables']}; where there is a way, on {whole['ways']} tables, its geometric "
            f"mean is {taught} with the teacher, {plain} without; {share_words(whole['at_most'])} "
            "with it where more than the whole way counts as the whole."
        )
    fast = found["least_times_faster"]
    words.append(
        f"As ONNX the network answers at least {fast['onnx'][0]:.0f} times faster than the teacher "
        f"at one row and {fast['onnx'][1]:.0f} times at 1,024; as Python, through "
        f"`SearchResult.predict`, {fast['python'][0]:.1f} and {fast['python'][1]:.0f} times."
    )
    if missing := [unit for unit in recorded["wanted"] if unit not in units]:
        words.append(f"Not run (table, split): {', '.join(missing)}.")
    if any("code" not in unit for unit in units.values()):
        words.append(EARLIER)
    states = sorted({unit["commit"] for unit in units.values() if unit["commit"]})
    made = ", ".join([recorded["hardware"], recorded["date"], *(f"commit {it}" for it in states)])
    return "\n\n" + "\n".join(lines) + "\n\n" + " ".join(words) + f" {made}.\n\n"


def page(recorded: dict, path: Path) -> None:
    """Write what stands between the marks of this script."""
    rewrite(path, filled(path.read_text(), "teachers", {"tables": section}, recorded))
