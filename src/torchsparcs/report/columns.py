"""What became of the columns of a table, in words."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.visible import shortened, visible
from torchsparcs.results.result import Candidate, SearchResult
from torchsparcs.tables.encoding import Column

MARKS = {".": "point", ",": "comma"}
CLOCK = "the time of a clock"
ORDERS = {"%d": "the day first", "%Y": "the year first", "%H": CLOCK, "%I": CLOCK}
LEFT_OUT = ("constant", "identifier")
MOST_COLUMNS = 200  # of the table, one by one
MOST_PRICED = 20  # of a network, by name
# How columns of each kind are counted.
KINDS = {
    "number": "of numbers",
    "text": "of text",
    "ordered": "of ordered categories",
    "date": "of dates",
    "constant": "constant, left out",
    "identifier": "of identifiers or free text, left out",
}


def columns_of(result: SearchResult) -> dict[str, Any] | None:
    """Name, content, start and end of its inputs, smallest network, worth and relevance of columns.

    They are in the order of their worth, and of the same in that in which the front would let them
    go, the last ones first: of the parameters of the smallest network that reads them; None where
    none does. Worth and relevance are None where ``importance`` and ``input_relevance`` were not
    asked to keep them.
    """
    if result.preprocessing is None:
        return None
    inputs, place = result.inputs, 0
    rows: list[list[Any]] = []
    smallest = _smallest_readers(result)
    worth, relevance = (result.settings.get(name, {}) for name in ("worth", "relevance"))
    for column in inputs.columns:
        width = len(column.encoded_names)
        content = _content(column, inputs.mean[place:], inputs.scale[place:])
        reader = smallest.get(column.name)
        known = worth.get(column.name), relevance.get(column.name)
        rows.append([shortened(column.name), content, place, place + width, reader, *known])
        place += width
    rows.sort(key=lambda row: (-(row[5] or 0.0), math.inf if row[4] is None else row[4]))
    return {"rows": rows[:MOST_COLUMNS], "more": max(0, len(rows) - MOST_COLUMNS)}


def _smallest_readers(result: SearchResult) -> dict[str, int]:
    """By column, the parameters of the smallest network of the front that reads it."""
    found: dict[str, int] = {}
    for each in result.front:
        assert isinstance(each.network, CompactNetwork)
        for column in result.inputs.columns_read(each.network.reads):
            found.setdefault(column.name, each.parameters)
    return found


def priced_columns(result: SearchResult, candidate: Candidate) -> list[str]:
    """The columns that a network reads and that cost something, from the dearest."""
    assert isinstance(candidate.network, CompactNetwork)
    costs, read = result.settings["costs"], result.inputs.columns_read(candidate.network.reads)
    names = [column.name for column in read if costs.get(column.name, 0.0) > 0]
    return sorted(names, key=lambda name: -costs[name])


def costs_of(result: SearchResult) -> list[dict[str, Any]]:
    """Rows of the front by what its columns cost; none where they have no prices."""
    return [
        {
            "cost": each.cost,
            "parameters": each.parameters,
            "score": result.scoring.words(each.told, each.standard_error),
            "columns": ", ".join(map(shortened, priced_columns(result, each)[:MOST_PRICED])),
        }
        for each in result.by_cost
    ]


def _content(column: Column, mean: Sequence[float], scale: Sequence[float]) -> str:
    """What is in a column, of whose encoded columns the first has the first mean and scale."""
    words = [_words(column, mean, scale)]
    if column.is_chosen and column.kind not in LEFT_OUT:
        words.append("as was asked for")
    if column.writing is not None:
        words.append(f"written with a decimal {MARKS[column.writing.decimal]}")
    content = ", ".join(words)
    return content if column.gaps == "none" else f"{content}; some are missing"


def _words(column: Column, mean: Sequence[float], scale: Sequence[float]) -> str:
    count, reason = len(column.categories or ()), column.reason or "identifier or free text"
    unit = f" {visible(column.writing.unit)}" if column.writing and column.writing.unit else ""
    order = f", {order_words(column)}" if column.order else ""
    return {
        "number": lambda: f"number, {mean[0]:.4g} ± {scale[0]:.4g}{unit}",
        "text": lambda: f"text, {count:,} categories{' and others as one' * column.has_rest}",
        "ordered": lambda: f"{count:,} ordered categories",
        "date": lambda: f"date{order}, {count:,} parts of a calendar",
        "constant": lambda: "constant, left out",
        "identifier": lambda: f"{reason}, left out",
    }[column.kind]()


def order_words(column: Column) -> str:
    """How dates are written that are text and not as ISO 8601 has it: "the day first"."""
    return ORDERS.get(column.order[:2], "the month first")


def kinds_words(columns: Sequence[Column]) -> str:
    """How many columns there are of each kind: "3: 2 of numbers, 1 constant, left out"."""
    counts = Counter(column.kind for column in columns)
    words = [f"{counts[kind]:,} {text}" for kind, text in KINDS.items() if counts[kind]]
    gappy = sum(column.gaps != "none" for column in columns)
    words += [f"{gappy:,} with missing values, which are filled in"] if gappy else []
    return f"{len(columns):,}: {', '.join(words)}"
