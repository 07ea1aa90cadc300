"""The measures as rows of cells, for the terminal and for docs/tables.md."""

import math
from itertools import compress

from by_size import measures
from by_size.methods import METHODS

HEAD = {
    "table": lambda name, table: name,
    "ratio": lambda name, table: factor(table["ratio"], table["log_ratio_error"]),
    "never": lambda name, table: str(sum(level["ours"] is None for level in table["levels"])),
    "best": lambda name, table: number(table["best"]),
    "best − MLP": lambda name, table: number(table["against_mlp"], sign="+"),
    "best − boosting": lambda name, table: number(table["against_boosting"], sign="+"),
    "best − TabM": lambda name, table: number(table["against_tabm"], sign="+"),
    "pick": lambda name, table: number(table["pick"]["score"]),
    "its size": lambda name, table: number(table["pick"]["parameters"], 0),
    "claimed − test": lambda name, table: number(table["pick"]["claimed_less_test"], sign="+"),
    "pick − others": lambda name, table: number(table["pick"]["against_others"], sign="+"),
    "s": lambda name, table: number(table["seconds"]["ours"], 0),
}


def number(pair: list, digits: int = 4, sign: str = "") -> str:
    """Mean ± standard error."""
    mean, error = pair
    if mean is None:
        return "–"
    return f"{mean:{sign},.{digits}f}" + ("" if error is None else f" ± {error:,.{digits}f}")


def factor(ratio: float | None, log_error: float | None) -> str:
    """A ratio with its error as a factor."""
    if ratio is None:
        return "–"
    return f"{ratio:.2f}" + ("" if log_error is None else f" ×/÷ {math.exp(log_error):.2f}")


def table_rows(found: dict) -> list[list[str]]:
    """A row for each table; a column in which nothing is known is left out."""
    rows = [[cell(n, table) for cell in HEAD.values()] for n, table in found["tables"].items()]
    known = [{*column} != {"–"} for column in zip(*rows, strict=True)]
    return [[*compress(row, known)] for row in ([*HEAD], *rows)] if rows else []


def rank_rows(found: dict, size: str) -> list[list[str]]:
    """A row for each method: its average rank, budget by budget."""
    by_budget = found["ranks"].get(size, {})
    methods = list(next(iter(by_budget.values()))["ranks"]) if by_budget else []
    head = [f"rank at {size}", *(f"{int(b):,}" for b in by_budget)]
    rows = [[m, *(f"{row['ranks'][m]:.2f}" for row in by_budget.values())] for m in methods]
    critical = [f"{row['critical_difference']:.2f}" for row in by_budget.values()]
    if size == "bytes" and found["int8_ranks"]:
        rows.append([measures.INT8, *(f"{found['int8_ranks'][b]:.2f}" for b in by_budget)])
    return [head, *rows, ["critical difference", *critical]] if methods else []


def needed_rows(found: dict) -> list[list[str]]:
    """Parameters for the best MLP's score less its error, and seconds, method by method.

    The first row says on which machine the seconds were measured.
    """
    tables = found["tables"]
    who = [
        m
        for m in ("ours", *measures.MLPS, "linear", "lassonet")
        if all(m in t["needed"] for t in tables.values())
    ]
    timed = [
        m
        for m in METHODS
        if m in found["hardware"]
        and any(t["seconds"].get(m, [None])[0] is not None for t in tables.values())
    ]
    head = ["table", *who, *(f"s, {method}" for method in timed)]
    rows = [["*on*", *[""] * len(who), *(found["hardware"][method] for method in timed)]]
    rows += [
        [
            name,
            *(number(table["needed"][method], 0) for method in who),
            *(number(table["seconds"].get(method, [None, None]), 0) for method in timed),
        ]
        for name, table in tables.items()
    ]
    return [head, *rows]


def columns(rows: list[list[str]]) -> str:
    """Rows of cells, aligned for the terminal."""
    if not rows:
        return ""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def markdown(rows: list[list[str]]) -> str:
    lines = [*rows[:1], ["---"] * len(rows[0]), *rows[1:]] if rows else []
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
