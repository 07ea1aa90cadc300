"""What kind of column a column is: numbers, dates, ordered categories, text, or an identifier."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from torchsparcs.tables.columns import Table
from torchsparcs.tables.dates import PARTS, date_orders, dates_in
from torchsparcs.tables.encoding import KINDS, REST, Column
from torchsparcs.tables.entries import entries_of, is_missing, numbers_in, text_of
from torchsparcs.tables.kinds import CHOICES
from torchsparcs.tables.writing import Writing

MOST_NAMED = 30  # texts of a column that have an input of their own
LEAST_NAMED = 3  # rows that such a text is in, where there are more texts than that
MOST_LETTERS = 20_000  # of the other texts, if they are kept to tell what was not seen
MOST_TEXTS = 100_000  # different ones; what has more is an identifier
MOST_STRAYS = 0.05  # of the rows of a column of numbers, that may be something else
MOST_OF_ONE = 0.5  # of them, where it is one text
EITHER = "looks like dates; YYYY-MM-DD is understood, or day-month-year as its kind"
FEW_ROWS = 50  # too few to tell an identifier
# "id", "ID", "customer_id", "PassengerId", "row number"
IDENTIFIER = re.compile(
    r"(?:.*[^a-zA-Z])?(?i:id|uuid|guid|index|row|row ?(?:number|nr|no))|.*[a-z]I[dD]|Unnamed: \d+"
)


def recognised(table: Table, index: int) -> Column:
    """The kind of one column; of text and dates the categories are yet to be learnt."""
    name = table.names[index]
    if table.is_numeric(index):
        return Column(name)
    if order := table.order(index):
        return Column(name, order, "ordered")
    values = table.column(index)
    if table.is_categorical(index):
        return Column(name, (), "text")
    if numbers_in(values) is not None:
        return Column(name)
    if dates_in(values) is not None:
        return Column(name, (*PARTS,), "date")
    if orders := date_orders(values):
        if len(orders) == 1:
            return Column(name, (*PARTS,), "date", order=orders[0])
        if any("%Y" in order for order in orders):  # of two digits it may be something else
            return Column(name, (), "identifier", reason=EITHER)
    if writing := Writing.of(dict.fromkeys(entries_of(values))):
        return Column(name, writing=writing)
    return mostly(name, values) or Column(name, (), "text")


def mostly(name: str, values: np.ndarray) -> Column | None:
    """A column that holds numbers, or dates, but for a few entries; None where it does not.

    The few are one text in at most half of the rows, such as "?", or any in a few of the rows. So
    few different numbers that each could have an input as text are left to be that.
    """
    counts = Counter(value for value in entries_of(values) if not is_missing(value))
    entries = np.array([*counts], dtype=object)
    if is_named_identifier(name) or len(counts) <= MOST_NAMED:
        return None
    for kind in ("number", "date"):
        try:
            column = CHOICES[kind](name, entries)
        except ValueError:  # none of that kind, or dates of which two orders are possible
            continue
        is_stray = np.isnan(KINDS[kind].encode(column, entries).values[:, 0])
        strays = entries[is_stray].tolist()
        most = counts.total() * (MOST_OF_ONE if len(strays) == 1 else MOST_STRAYS)
        if len(entries) - len(strays) > MOST_NAMED and sum(counts[s] for s in strays) <= most:
            return replace(column, is_chosen=False, stray=text_of(strays[0]) if strays else "")
    return None


def count_texts(values: np.ndarray) -> tuple[Counter[str], int]:
    """How often each text is in a column of text, and how many rows are missing."""
    counts: Counter[str] = Counter()
    missing = 0
    for value, count in Counter(entries_of(values)).items():
        if is_missing(value):
            missing += count
        else:
            counts[text_of(value)] += count
    return counts, missing


def text_column(
    name: str, counts: Mapping[str, int], rows: int, missing: int, *, is_chosen: bool = False
) -> Column:
    """A column of text with ``counts`` of its texts in ``rows`` rows, ``missing`` of them missing.

    Where there are many texts, the most frequent have a name and the others are the rest. Texts
    that hardly repeat are an identifier, unless somebody chose text.
    """
    named = [*counts]
    if len(named) > MOST_NAMED:
        common = [text for text in named if counts[text] >= LEAST_NAMED and text != REST]
        named = sorted(common, key=lambda text: (-counts[text], text))[:MOST_NAMED]
    if is_chosen and counts and not named:
        raise ValueError(
            f"Expected texts that repeat in {name!r}, as its kind was chosen. Got {len(counts):,} "
            f"different ones in {rows:,} rows: leave the column out."
        )
    if (is_identifying(len(counts), rows) and not is_chosen) or (counts and not named):
        return Column(name, (), "identifier", reason="text that hardly repeats")
    if len(counts) + (missing > 0) < 2 or not counts:
        return Column(name, (), "constant")
    gaps = "told" if missing else "none"
    others = tuple(sorted({*counts} - {*named}))
    kept = others if sum(map(len, others)) <= MOST_LETTERS else ()
    return Column(
        name,
        tuple(sorted(named)),
        "text",
        gaps,
        has_rest=bool(others),
        others=kept,
        is_chosen=is_chosen,
    )


def is_identifying(distinct: int, rows: int) -> bool:
    """Whether so many different values hardly repeat: nothing can be learnt from them."""
    return distinct > MOST_TEXTS or (rows >= FEW_ROWS and distinct > rows / 2)


def is_named_identifier(name: str) -> bool:
    """Whether a column of whole numbers is called like an identifier.

    >>> [is_named_identifier(name) for name in ("id", "CustomerID", "user_id", "humid", "paid")]
    [True, True, True, False, False]
    """
    return IDENTIFIER.fullmatch(name) is not None


def is_counter(rows: int, low: float, high: float, scale: float) -> bool:
    """Whether whole numbers count the rows from 0 or 1.

    Of n numbers that are n − 1 apart in all, those of a counter alone vary by (n² − 1) / 12.
    """
    is_whole = rows >= FEW_ROWS and low in (0.0, 1.0) and high - low == rows - 1
    return is_whole and bool(np.isclose(scale**2, (rows**2 - 1) / 12, rtol=1e-9))
