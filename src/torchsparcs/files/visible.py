"""Texts from files as a person may safely see them: what would steer a terminal is written out."""

import re
from typing import Any

LONGEST = 80  # characters of a name

# C0, DEL and C1, line and paragraph separators, and what turns the direction of writing.
STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""``text`` with control characters and changes of direction as escapes; once is enough.

    >>> print(visible("red\x1b[31m\n\u202e"))
    red\x1b[31m\x0a\u202e
    """
    return STEERING.sub(lambda found: _escape(ord(found[0])), text)


def visible_lines(text: str) -> str:
    """The same, line by line: the line breaks are ours."""
    return "\n".join(map(visible, text.split("\n")))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def shortened(text: Any) -> str:
    """A name from the data, not longer than a line."""
    name = visible(str(text))
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
