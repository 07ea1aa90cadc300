"""Predictions as files: CSV that no spreadsheet computes, and Parquet."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from torchsparcs.tables.entries import NUMBERS, number

FORMULAS = tuple("=+-@＝＋－＠\t\r\n")  # what a spreadsheet computes begins with one of them


def for_spreadsheets(value: Any) -> Any:
    """``value``, a text that begins like a formula behind an apostrophe; numbers are left alone.

    >>> [for_spreadsheets(value) for value in ("=1+1", "＝1+1", "-1", "a=1", -1.5)]
    ["'=1+1", "'＝1+1", '-1', 'a=1', -1.5]
    """
    is_formula = isinstance(value, str) and value.startswith(FORMULAS) and number(value) is None
    return f"'{value}" if is_formula else value


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with names and texts as :func:`for_spreadsheets` has them."""
    texts = {
        name: table[name].map(for_spreadsheets)
        for name in table
        if table[name].dtype.kind not in NUMBERS
    }
    return table.assign(**texts).rename(columns=for_spreadsheets)


WRITERS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    ".csv": lambda table: table.to_csv(index=False, lineterminator="\n").encode(),
    ".parquet": lambda table: table.to_parquet(index=False),
}
