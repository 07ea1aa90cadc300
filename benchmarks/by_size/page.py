"""The measures in words: a summary for the terminal, and docs/tables.md."""

import json
import math
import re
from pathlib import Path

from resuming import code

from by_size import lassonet_path, linear, measures, mlps, sentences
from by_size.methods import METHODS
from by_size.rows import (
    columns,
    factor,
    markdown,
    needed_rows,
    number,
    rank_rows,
    table_rows,
)
from by_size.sentences import best_beside_mlp, counted, splits_of

LOSSES = {  # where more, or less, is worse
    "best network below the best MLP": lambda table: table["against_mlp"],
    "best network below the linear model": lambda table: table["against_linear"],
    "best network below boosting of any size": lambda table: table["against_boosting"],
    "best network below TabM": lambda table: table["against_tabm"],
    "default pick below the best MLP or linear model of its size": lambda table: table["pick"][
        "against_others"
    ],
}


def machine(found: dict) -> str:
    """Where our searches were timed."""
    return found["hardware"].get("ours", "a machine that was not recorded")


def doubled(found: dict) -> list[str]:
    """What twice the effort of the MLPs changes, beside the standard error of a score."""
    lines = []
    for method, twice in found["doubling"].items():
        change, error = twice["change"][0], twice["score_error"]
        line = (
            f"twice the effort, {method}: {number(twice['change'], 4, '+')} in the mean score at "
            f"equal size ({twice['units']} splits of tables)"
        )
        if error is not None:
            kind = "less" if abs(change) < error else "**more**"
            line += f", {kind} than the standard error of such a score over splits, {error:.4f}"
        lines.append(line)
    return lines


def enough(found: dict) -> str:
    """Is the effort spent on the MLPs enough?"""
    lines = doubled(found)
    if not lines:
        return "Whether the MLPs gain by twice the effort was not measured yet."
    return (
        "Is the effort spent on the MLPs enough? With twice the starts and steps, and about twice "
        f"the decays or learning rates to choose from: {'; '.join(lines)}."
    )


def summary(found: dict) -> str:
    """For the terminal."""
    parts = [columns(table_rows(found)) if found["tables"] else "nothing is recorded"]
    parts += [columns(rank_rows(found, size)) for size in ("parameters", "bytes")]
    ratio = factor(found["ratio"], found["log_ratio_error"])
    parts.append(f"parameters at equal score, {found['ratio_tables']} tables: {ratio}")
    return "\n\n".join([part for part in parts if part] + doubled(found))


def losses(found: dict) -> str:
    """Tables on which we are worse by more than a standard error, kind by kind."""
    tables, lines = found["tables"], []
    larger = [
        f"{name} {table['ratio']:.1f}"
        for name, table in tables.items()
        if table["ratio"] and math.log(table["ratio"]) > (table["log_ratio_error"] or 0)
    ]
    lines.append(
        f"- larger than MLPs at equal score, by the factor ({len(larger)}): {', '.join(larger)}"
    )
    for words, pair_of in LOSSES.items():
        pairs = {name: pair_of(table) for name, table in tables.items()}
        if all(mean is None for mean, _ in pairs.values()):
            continue  # nobody has measured it
        lost = [
            f"{name} {mean:.3f}"
            for name, (mean, error) in pairs.items()
            if mean is not None and mean < -(error or 0)
        ]
        lines.append(f"- {words} ({len(lost)}): {', '.join(lost)}")
    return "\n".join(line.removesuffix(": ") for line in lines)


def commands(known: dict[str, dict]) -> str:
    runs = [run for record in known.values() for run in record["runs"]]
    lines = {
        f"- `{run['command']}` on {run['hardware']}, "
        + ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        + f", {run['date']}{', code ' * ('code' in run)}{run.get('code', '')}"
        for run in runs
    }
    return "\n".join(sorted(lines))


def codes(known: dict[str, dict]) -> list[str | None]:
    """Digests of the code that made each split of ours, None where it was not recorded."""
    runs = [
        r["runs"][u["run"]] for r in known.values() for u in r["units"].get("ours", {}).values()
    ]
    return [run.get("code") for run in runs]


def told_codes(known: dict[str, dict]) -> str:
    found = codes(known)
    if None in found:
        return "Splits of ours that name no code were made before it was recorded."
    if len({*found}) > 1:
        return "**Not all of ours was made by the same code.**"
    return (
        "All of ours was made by one code, of whose files this is a digest; `--summary` compares "
        "it with today's."
    )


def of_today(known: dict[str, dict]) -> str:
    """For the terminal."""
    found = codes(known)
    old = sum(one != code() for one in found)
    return (
        f"ours: {old} of {len(found)} splits are not of today's code"
        if old
        else "ours: of today's code"
    )


def absent(known: dict[str, dict]) -> str:
    """Methods that have not been run, or on fewer splits."""
    done = {m: [len(r["units"].get(m, {})) for r in known.values()] for m in METHODS}
    most = max(map(max, done.values()), default=0)
    some = measured_methods(known)
    lines = [
        f"{method} has been run on {sum(splits)} of {most * len(splits)} splits of tables."
        for method, splits in done.items()
        if method in some and sum(splits) < most * len(splits)
    ]
    never = [method for method in done if method not in some]
    if never:
        lines.append(f"Not run yet: {' and '.join(never)}; nothing on this page is about them.")
    return " ".join(lines)


def measured_methods(known: dict[str, dict]) -> set[str]:
    return {method for record in known.values() for method, done in record["units"].items() if done}


def unseen(found: dict, known: dict[str, dict]) -> str:
    """The tables that no default was chosen on: in a few lines, table by table folded."""
    tables = found["tables"]
    if not tables:
        return "They were not searched yet."
    gain = number(measures.mean_error(t["against_mlp"][0] for t in tables.values()), sign="+")
    never = " and ".join(m for m in measures.MLPS if m not in measured_methods(known))
    without = f", without MLPs by {never}" * bool(never)
    return (
        f"Over {counted(len(tables), 'table')} ({splits_of(found)}{without}):\n\n"
        f"- parameters at equal score: {factor(found['ratio'], found['log_ratio_error'])} times "
        f"those of the best curve of plain MLPs ({counted(found['ratio_tables'], 'table')})\n"
        f"- best score less the best MLP's: {gain}; {best_beside_mlp(found)}\n"
        f"- what a search claims of its pick less what that scores: "
        f"{number(found['claimed_less_test'], sign='+')}\n\n"
        '<details markdown="1">\n<summary>Table by table</summary>\n\n'
        f"{markdown(table_rows(found))}\n\n</details>"
    )


def page(found: dict, known: dict[str, dict], others: dict[str, dict]) -> str:
    template = (Path(__file__).parent / "page.md").read_text()
    parts = {
        "count": str(len(found["tables"])),
        "splits": "–".join(map(str, sorted({t["splits"] for t in found["tables"].values()}))),
        "ratio": factor(found["ratio"], found["log_ratio_error"]),
        "ratio_tables": str(found["ratio_tables"]),
        "losses": losses(found),
        "others": "linear models and gradient boosting"
        if "lassonet" not in measured_methods(known)
        else "linear models, LassoNet and gradient boosting",
        "claimed": number(found["claimed_less_test"], sign="+"),
        "tables": markdown(table_rows(found)),
        "machine": machine(found),
        "needed": markdown(needed_rows(found)),
        "ranks": markdown(rank_rows(found, "parameters")),
        "bytes": markdown(rank_rows(found, "bytes")),
        "most_rows": ", ".join(f"{n:,}" for n in sorted({r["most_rows"] for r in known.values()})),
        "penalties": str(linear.PENALTIES),
        "lassonet": " and ".join(map(str, lassonet_path.Settings().widths)),
        "absent": absent(known),
        "architectures": str(sum(map(len, mlps.WIDTHS.values()))),
        "definition": " ".join(measures.__doc__.split("\n\n")[2].split()),
        "doubling": enough(found),
        "unseen": unseen(found["unseen"], others),
        "codes": told_codes(known),
        "commands": commands(known),
        "unseen_commands": commands(others) or "- nothing",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def write(found: dict, known: dict[str, dict], others: dict[str, dict], docs: Path) -> None:
    """The page, its pictures and the measures, and what other pages say of them."""
    from by_size import figures  # matplotlib is for those who draw

    text = json.dumps(found, indent=1) + "\n"
    shown = {"results/tables.json": text.encode()}
    folder = docs / "figures"
    figures.beside_mlps(found, folder / "tables.svg", shown)
    figures.dots(found, folder, shown)
    figures.curves(found, folder / "tables_curves.svg", shown)
    figures.critical_differences(found, folder / "tables_ranks.svg", shown)
    (docs / "results").mkdir(exist_ok=True)
    (docs / "results" / "tables.json").write_text(text)
    (docs / "tables.md").write_text(page(found, known, others))
    sentences.write(found, docs)
