"""Dates and times as numbers: the parts that a calendar and a clock have.

With d the day of the year and h the hour, the time of the year is sin and cos of
2π (d − 1) / 365.25, that of the day sin and cos of 2π h / 24, so that December lies beside January
and 23 h beside 0 h. What counts is the time that people there read from their clock: zones are left
out. All of it is arithmetic on days, so that an exported network does it as well.
"""

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from torchsparcs.tables.entries import NUMBERS, distinct_entries, is_missing

ISO = re.compile(
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?)(?:Z|[+-]\d\d(?::?\d\d)?)?"
)
# Text that is not as ISO 8601 has it: the time of a clock; day, month and year, and a time or none.
CLOCK = re.compile(
    r"(?P<hour>[0-9]{1,2}:[0-9]{2})(?P<seconds>:[0-9]{2})?(?P<fraction>\.[0-9]{1,6})?"
    r"(?:(?P<blank> ?)(?P<half>[AaPp][Mm]))?"
)
WRITTEN = re.compile(
    r"(?P<first>[0-9]{1,2}|[0-9]{4}|[A-Za-z]{3,9})(?P<mark>[./ -])"
    r"(?P<second>[0-9]{1,2}|[A-Za-z]{3,9})(?P<comma>,?)(?P=mark)(?P<third>[0-9]{1,2}|[0-9]{4})"
    r"(?:(?P<gap>,? |T)(?P<clock>[0-9].*))?"
)
# How such orders begin.
DAY_FIRST, MONTH_FIRST, OTHERS = ("%d",), ("%m", "%b", "%B"), ("%Y", "%H", "%I")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY, START = pd.Timedelta(days=1), pd.Timestamp(2000, 1, 1)  # small numbers, for float32
FIRST = 5  # the day of the week of 2000-01-01, a Saturday


def _divided(days: Tensor, by: float) -> Tensor:
    return torch.floor(days / by)


def _year_start(year: Tensor) -> Tensor:
    """Days from 2000-01-01 to the first of January of a year since 2000, by the leap years."""
    leaps = _divided(year + 3, 4) - _divided(year + 99, 100) + _divided(year + 399, 400)
    return 365 * year + leaps


def _year(days: Tensor) -> Tensor:
    """The year since 2000: a guess by the mean length of a year is at most one too high or low."""
    day = torch.floor(days)
    guess = _divided(day, 365.2425)
    return guess + (_year_start(guess + 1) <= day).double() - (_year_start(guess) > day).double()


def _day_of_year(days: Tensor) -> Tensor:
    """From 0 on the first of January."""
    return torch.floor(days) - _year_start(_year(days))


def _day_of_month(days: Tensor) -> Tensor:
    """With the year from March on, the k-th month begins on day ⌊(153 k + 2) / 5⌋."""
    year, day = _year(days), torch.floor(days)
    march = _year_start(year + 1) - 306
    start = torch.where(day >= march, march, _year_start(year) - 306)
    since = day - start
    month = _divided(5 * since + 2, 153)
    return since - _divided(153 * month + 2, 5) + 1


def _hours(days: Tensor) -> Tensor:
    return (days - torch.floor(days)) * 24


def _year_angle(days: Tensor) -> Tensor:
    return 2 * math.pi * _day_of_year(days) / 365.25


def _day_angle(days: Tensor) -> Tensor:
    return 2 * math.pi * _hours(days) / 24


def _is_weekday(place: int) -> Callable[[Tensor], Tensor]:
    def is_day(days: Tensor) -> Tensor:
        day = torch.floor(days) + FIRST
        found = (day - 7 * _divided(day, 7) == place).double()
        return torch.where(days.isnan(), days, found)

    return is_day


# What a date becomes, part by part, from the days since 2000-01-01 00:00, float64.
PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "days since 2000": lambda days: days,
    "years since 2000": _year,
    "time of year sin": lambda days: torch.sin(_year_angle(days)),
    "time of year cos": lambda days: torch.cos(_year_angle(days)),
    "day of month": _day_of_month,
    **{name: _is_weekday(place) for place, name in enumerate(WEEKDAYS)},
    "hour": _hours,
    "time of day sin": lambda days: torch.sin(_day_angle(days)),
    "time of day cos": lambda days: torch.cos(_day_angle(days)),
}


def calendar_parts(dates: pd.DatetimeIndex, names: Sequence[str]) -> np.ndarray:
    """The parts ``names`` of ``dates``, float64 (rows, parts), NaN where a date is missing.

    >>> dates = pd.DatetimeIndex(["2000-01-02 06:00", "2004-02-29"])
    >>> calendar_parts(dates, ["days since 2000", "years since 2000", "Sunday", "hour"])
    array([[1.25e+00, 0.00e+00, 1.00e+00, 6.00e+00],
           [1.52e+03, 4.00e+00, 1.00e+00, 0.00e+00]])
    """
    if not names:
        return np.empty((len(dates), 0))
    days = torch.from_numpy(((dates - START) / DAY).to_numpy(dtype=np.float64, copy=True))
    return torch.stack([PARTS[name](days) for name in names], dim=1).numpy()


def dates_in(values: np.ndarray) -> pd.DatetimeIndex | None:
    """The dates of a column, or None where something else is among them.

    Dates and times are those of Python, NumPy and pandas, and text as ISO 8601 has it.

    >>> dates_in(np.array(["2024-02-29", None], dtype=object))[0]
    Timestamp('2024-02-29 00:00:00')
    >>> dates_in(np.array(["2024-02-29", "soon"], dtype=object)) is None
    True
    """
    if values.dtype.kind == "M":
        return pd.DatetimeIndex(values)
    if values.dtype.kind in NUMBERS:  # a column with nothing in it is read as numbers
        is_empty = values.dtype.kind == "f" and bool(np.isnan(values).all())
        return pd.DatetimeIndex([pd.NaT] * len(values)) if is_empty else None
    codes, entries = distinct_entries(values)
    texts = [_local_time(value) for value in entries]
    if "" in texts:
        return None
    parsed = pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce"))
    if parsed.isna().any():
        return None
    return pd.DatetimeIndex(np.append(parsed.to_numpy(), np.datetime64("NaT"))[codes])


def written_orders(text: Any) -> list[str]:
    """The orders of day, month and year in which a text may be a date, as ``strptime`` has them.

    The time of a clock alone is that of 1900-01-01.

    >>> written_orders("1/2/2024"), written_orders("5-Jan-24 9:30 pm"), written_orders("soon")
    (['%d/%m/%Y', '%m/%d/%Y'], ['%d-%b-%y %I:%M %p'], [])
    """
    if not isinstance(text, str):
        return []
    if clock := _clock(text):
        return [clock]
    found = WRITTEN.fullmatch(text)
    if found is None:
        return []
    first, second, third, mark = found["first"], found["second"], found["third"], found["mark"]
    is_day, is_number = len(first) < 3, first.isdigit() and second.isdigit()
    if first.isdigit() and not is_day:
        orders = [("%Y", month, "%d") for month in _months(second) if len(third) < 3]
    else:
        year = {2: "%y", 4: "%Y"}.get(len(third))
        orders = [("%d", month, year) for month in _months(second) if is_day and year]
        orders += [(month, "%d", year) for month in _months(first) if second.isdigit() and year]
    time = found["gap"] + _clock(found["clock"]) if found["clock"] else ""
    if (mark == " " and is_number) or (found["clock"] and not _clock(found["clock"])):
        return []  # numbers beside each other, or something else behind a date
    return [f"{a}{mark}{b}{found['comma']}{mark}{c}{time}" for a, b, c in orders]


def _months(text: str) -> list[str]:
    """How a month may be written: as a number or by its name. "May" is long and short."""
    if text.isdigit():
        return ["%m"]
    return ["%b"] * (len(text) == 3) + ["%B"] * (len(text) > 3 or text.lower() == "may")


def _clock(text: str) -> str:
    """How the time of a clock is written, "" for what is none."""
    found = CLOCK.fullmatch(text)
    if found is None or (found["fraction"] and not found["seconds"]):
        return ""
    half = f"{found['blank']}%p" if found["half"] else ""
    seconds = ":%S" * bool(found["seconds"]) + ".%f" * bool(found["fraction"])
    return f"{'%I' if half else '%H'}:%M{seconds}{half}"


def date_orders(values: np.ndarray) -> list[str]:
    """The orders of day, month and year in which all texts of a column are dates.

    All of them are written in one way; of orders that give the same dates the first is there.

    >>> date_orders(np.array(["1.2.2024", "31.1.2024"], dtype=object))
    ['%d.%m.%Y']
    >>> date_orders(np.array(["1/2/2024", "3/2/2024"], dtype=object))
    ['%d/%m/%Y', '%m/%d/%Y']
    """
    texts = [value for value in {*values.tolist()} if not is_missing(value)]
    orders = written_orders(texts[0]) if texts else []
    for text in texts[1:]:
        if not orders:
            break
        orders = [order for order in written_orders(text) if order in orders]
    array = np.array(texts, dtype=object)
    dates = {order: ordered_dates(array, order) for order in orders}
    return distinct_orders({order: found for order, found in dates.items() if found is not None})


def distinct_orders(dates: Mapping[str, pd.DatetimeIndex]) -> list[str]:
    """The orders among ``dates``, of those that give the same dates the first one."""
    kept: list[str] = []
    for order, found in dates.items():
        if not any(found.equals(dates[other]) for other in kept):
            kept.append(order)
    return kept


def ordered_dates(values: np.ndarray, order: str) -> pd.DatetimeIndex | None:
    """The dates of a column of text in one of :func:`date_orders`, None where one is not."""
    dates = pd.DatetimeIndex(pd.to_datetime(values, format=order, errors="coerce"))
    return None if (dates.isna() & ~pd.isna(values)).any() else dates


def each_date(values: np.ndarray, order: str = "") -> pd.DatetimeIndex:
    """The dates of a column, as ISO 8601 has them or in an ``order``; others are missing.

    >>> each_date(np.array(["2024-02-29", "soon"], dtype=object)).isna().tolist()
    [False, True]
    """
    if values.dtype.kind == "M":
        return pd.DatetimeIndex(values)
    if order:
        return pd.DatetimeIndex(pd.to_datetime(values, format=order, errors="coerce"))
    codes, entries = distinct_entries(values)
    texts = [_local_time(value) or None for value in entries]
    parsed = pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce"))
    return pd.DatetimeIndex(np.append(parsed.to_numpy(), np.datetime64("NaT"))[codes])


def _local_time(value: Any) -> str | None:
    """``value`` as ISO 8601 has it, without its zone: "" for what is no date, None if missing."""
    if is_missing(value):
        return None
    if isinstance(value, datetime.date):
        value = value.isoformat()
    elif isinstance(value, np.datetime64):
        value = str(value)
    found = ISO.fullmatch(value.strip()) if isinstance(value, str) else None
    return found[1] if found else ""
