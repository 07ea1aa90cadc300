"""What somebody may have meant who wrote a name that is not there."""

import difflib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from torchsparcs.files.visible import LONGEST

MOST = 1000  # names that are looked at: each takes a while


def closest(name: Any, known: Iterable[str]) -> str | None:
    """The one of ``known`` that is most like ``name``, whatever their case; None if none is.

    >>> closest("Prcie", ["area", "price"]), closest("Prcie", ["area"])
    ('price', None)
    """
    lowered = {each.lower(): each for each in islice(known, MOST) if len(each) <= LONGEST}
    if len(str(name)) > LONGEST:
        return None
    close = difflib.get_close_matches(str(name).lower(), lowered, n=1)
    return lowered[close[0]] if close else None


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """A sentence about :func:`closest`, to stand behind another; "" where nothing is like it."""
    found = closest(name, known)
    return "" if found is None else f" Did you mean {found!r}?"


def did_you_mean_beside(path: Path, pattern: str = "*") -> str:
    """The same about files and folders beside ``path`` that fit the ``pattern``."""
    try:
        beside = {each.name: each for each in path.parent.glob(pattern)}
    except OSError:
        return ""
    found = closest(path.name, beside)
    return "" if found is None else f" Did you mean {str(beside[found])!r}?"
