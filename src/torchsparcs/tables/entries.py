"""Entries of a column: missing or not, as text, as numbers; what cannot be used is counted."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

NUMBERS = "buif"  # kinds of NumPy types: bool, unsigned, integer, floating
MISSING = ("NoneType", "NAType", "NaTType")


def is_missing(value: Any) -> bool:
    """Whether ``value`` is None, NaN or what pandas has in their place."""
    return type(value).__name__ in MISSING or (
        isinstance(value, (float, np.floating)) and bool(np.isnan(value))
    )


def text_of(value: Any) -> str:
    """The text of a category: 3, 3.0 and "3" are the same one."""
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def numbers_in(values: np.ndarray) -> np.ndarray | None:
    """The column as float64 with NaN for what is missing, or None where some text is no number.

    Text is a number where it says a finite one: "1e3" and " 7 ", but neither "inf" nor "1_000".
    """
    return parsed_numbers(values, number)


def parsed_numbers(values: np.ndarray, parse: Callable[[Any], float | None]) -> np.ndarray | None:
    """The column as float64, its entries by ``parse``; None where that is None for one of them."""
    if values.dtype.kind in NUMBERS:
        return values.astype(np.float64, copy=False)
    if values.dtype.kind == "M":
        return None
    entries = values.tolist()
    known = {value: parse(value) for value in set(entries)}
    if None in known.values():
        return None
    return np.array([known[value] for value in entries], dtype=np.float64)


def number(value: Any) -> float | None:
    """``value`` as a float, NaN where it is missing, None where it is no number."""
    if is_missing(value):
        return math.nan
    try:
        parsed = float(value)
    except OverflowError:  # an integer with hundreds of digits
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):  # of a date, of text
        return None
    if not isinstance(value, str):
        return parsed
    return parsed if math.isfinite(parsed) and "_" not in value else None


class Stray(NamedTuple):
    """Something in a column of numbers or dates that is neither, and its row from 0."""

    row: int
    example: Any

    def words(self, name: str) -> str:
        """What it is and where: "text in 'age', for instance 'n/a' in row 7"."""
        kind = "text" if isinstance(self.example, str) else type(self.example).__name__
        return f"{kind} in {name!r}, for instance {self.example!r} in row {self.row + 1:,}"


def as_numbers(
    values: np.ndarray,
    name: str,
    expected: str,
    parse: Callable[[Any], float | None] = number,
) -> np.ndarray:
    """The column as float64; a ValueError where ``parse`` finds no number in one."""
    numbers = parsed_numbers(values, parse)
    if numbers is None:
        strays = (Stray(*each) for each in enumerate(entries_of(values)) if parse(each[1]) is None)
        raise ValueError(f"Expected {expected}. Got {next(strays).words(name)}.")
    return numbers


def entries_of(values: np.ndarray) -> list[Any]:
    """A column as plain values: dates are those of Python, not counts of nanoseconds."""
    kind = values.dtype.kind
    return (values.astype("datetime64[us]") if kind == "M" else values).tolist()


def distinct_entries(values: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """For each row the place of its entry among the different ones, −1 if missing; and these.

    >>> distinct_entries(np.array(["b", None, "a", "b"], dtype=object))
    (array([ 0, -1,  1,  0]), ['b', 'a'])
    """
    codes, entries = pd.factorize(values)
    return codes, entries_of(np.asarray(entries))


def rows_in(name: str, count: int) -> str:
    """So many rows of a column, in words: "1 row of 'age'"."""
    return f"{count:,} row{'s' * (count != 1)} of {name!r}"


def count_infinite(names: Sequence[str], numbers: np.ndarray) -> list[str]:
    """Count what is infinite in ``numbers`` (rows, columns), in words: "3 infinite in 'age'"."""
    counts = np.isinf(numbers).sum(axis=0)
    return [
        f"{counts[place]} infinite in {names[place]!r}" for place in counts.nonzero()[0].tolist()
    ]


def count_bad(name: str, values: np.ndarray) -> list[str]:
    """Count what is not finite in ``values`` (rows,), in words: "3 NaN in 'age'"."""
    counts = {"NaN": int(np.isnan(values).sum()), "infinite": int(np.isinf(values).sum())}
    return [f"{count} {what} in {name!r}" for what, count in counts.items() if count]


def check_finite(bad: list[str]) -> None:
    """Raise a ValueError that lists what :func:`count_bad` counted in all columns, if anything."""
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise ValueError(
            f"Expected finite values. Got {', '.join(bad[:5])}{more}. Fill them in, or leave out "
            "these rows or columns."
        )
