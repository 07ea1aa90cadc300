"""Kinds of columns that somebody chooses, in place of what the entries show."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import Table, check_known
from torchsparcs.tables.dates import (
    DAY_FIRST,
    MONTH_FIRST,
    OTHERS,
    PARTS,
    distinct_orders,
    each_date,
    written_orders,
)
from torchsparcs.tables.encoding import Column
from torchsparcs.tables.entries import entries_of, is_missing, rows_in, text_of
from torchsparcs.tables.writing import Writing

Kinds = Mapping[str, str | Sequence[str]]


class NoneOfKind(ValueError):
    """No entry of a column is of the kind that was chosen."""


def _number(name: str, values: np.ndarray) -> Column:
    entries = _distinct(values)
    column = Column(name, writing=Writing.of_most(entries), is_chosen=True)
    _check_any(name, "numbers", entries, [column.parse(value) is not None for value in entries])
    return column


def _date(*starts: str) -> Callable[[str, np.ndarray], Column]:
    """Dates in the order that most of them are in, of those that begin with one of ``starts``."""

    def chosen(name: str, values: np.ndarray) -> Column:
        some = _distinct(values)
        array = np.array(some, dtype=object)
        written = dict.fromkeys(order for value in some for order in written_orders(value))
        orders = [order for order in ("", *written) if order[:2] in starts]
        dates = {order: each_date(array, order) for order in orders}
        counts = {order: int(found.notna().sum()) for order, found in dates.items()}
        most = max(counts.values(), default=0)
        _check_any(name, "dates", some, [most > 0])
        best = distinct_orders({order: dates[order] for order in orders if counts[order] == most})
        if some and len(best) > 1:
            raise ValueError(
                f"Expected day-month-year or month-day-year as the kind of {name!r}, since both "
                f"fit. Got date, and for instance {some[0]!r}."
            )
        return Column(name, (*PARTS,), "date", order=[*best, ""][0], is_chosen=True)

    return chosen


# What may be chosen, beside an order of categories.
CHOICES: dict[str, Callable[[str, np.ndarray], Column]] = {
    "number": _number,
    "text": lambda name, _: Column(name, (), "text", is_chosen=True),
    "date": _date("", *DAY_FIRST, *MONTH_FIRST, *OTHERS),
    "day-month-year": _date(*DAY_FIRST),
    "month-day-year": _date(*MONTH_FIRST),
}


def chosen(table: Table, index: int, kind: str | Sequence[str]) -> Column:
    """The column of ``table`` at ``index`` as the kind that was chosen.

    >>> import pandas as pd
    >>> table = Table.of(pd.DataFrame({"age": ["31", "unknown"], "size": ["S", "L"]}))
    >>> chosen(table, 0, "number").kind, chosen(table, 1, ("S", "M", "L")).categories
    ('number', ('S', 'M', 'L'))

    It raises :class:`NoneOfKind` where entries are there, and none is of that kind.
    """
    name, values = table.names[index], table.column(index)
    if isinstance(kind, str):
        return CHOICES[kind](name, values)
    order = tuple(map(text_of, kind))
    entries = _distinct(values)
    _check_any(name, quoted(order), entries, [text_of(value) in order for value in entries])
    return Column(name, order, "ordered", is_chosen=True)


def check_kinds(kinds: Kinds, names: Sequence[str]) -> None:
    """A ValueError for kinds that nobody knows, or of columns that are not among ``names``."""
    if not isinstance(kinds, Mapping):
        raise ValueError(f"Expected kinds by the names of columns. Got {kinds!r}.")
    check_known("columns with a kind", [*kinds], names)
    for name, kind in kinds.items():
        is_order = isinstance(kind, Collection) and not isinstance(kind, str)
        if (is_order and len({*map(text_of, kind)}) == len(kind) > 1) or (
            isinstance(kind, str) and kind in CHOICES
        ):
            continue
        raise ValueError(
            f"Expected {', '.join(CHOICES)}, or several different categories in their order, as "
            f"the kind of {name!r}. Got {kind!r}."
        )


def parsed_kinds(texts: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """Kinds as the command line has them.

    >>> parsed_kinds(["zip=text", "size=S,M,L"])
    {'zip': 'text', 'size': ('S', 'M', 'L')}
    """
    kinds: dict[str, str | tuple[str, ...]] = {}
    for text in texts:
        name, _, kind = text.partition("=")
        if not kind or name in kinds:
            raise ValueError(f"Expected COL=KIND, once for each column. Got {text!r}.")
        kinds[name] = tuple(kind.split(",")) if "," in kind else kind
    return kinds


def text_kinds(kinds: Kinds) -> list[str]:
    """The columns that were chosen to be text: a file has to be read that way."""
    return [name for name, kind in kinds.items() if kind == "text"]


def tell_strays(strays: Mapping[Column, int]) -> None:
    """Warn of entries that are not of the kind of their column, chosen or that of nearly all."""
    rows = {column: rows_in(column.name, count) for column, count in strays.items() if count}
    for words, found in (
        (
            "What is not of the kind that was chosen counts as missing",
            [row for column, row in rows.items() if column.is_chosen],
        ),
        (
            "What is no number or date counts as missing, as nearly all others are, unless the "
            "kind is to be text",
            [f"{row}, like {c.stray!r}" for c, row in rows.items() if not c.is_chosen],
        ),
    ):
        if found:
            more = f" and {len(found) - 5} more" * (len(found) > 5)
            warnings.warn(f"{words}: {'; '.join(found[:5])}{more}.", UserWarning, stacklevel=4)


def _distinct(values: np.ndarray) -> list[Any]:
    """The different entries of a column that are not missing."""
    return [value for value in dict.fromkeys(entries_of(values)) if not is_missing(value)]


def _check_any(name: str, expected: str, entries: list[Any], fits: list[bool]) -> None:
    if entries and not any(fits):
        raise NoneOfKind(
            f"Expected {expected} in {name!r}, as its kind was chosen. Got none, but for instance "
            f"{entries[0]!r}."
        )
