"""Places of the pages that scripts write: ``<!-- KIND: NAME -->`` to ``<!-- end -->``.

A line that begins with a mark and goes on with text is shown as it is, without Markdown: let words
stand before a mark, or nothing after it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path


def marked(kind: str) -> re.Pattern[str]:
    """What is written by the script of this kind, with its marks."""
    return re.compile(rf"(<!-- {kind}: (\w+) -->)(.*?)(<!-- end -->)", re.DOTALL)


def filled(
    text: str, kind: str, sentences: Mapping[str, Callable[[dict], str]], found: dict
) -> str:
    """The text with what the record ``found`` says in every place of this kind."""

    def sentence(match: re.Match[str]) -> str:
        if match[2] not in sentences:
            raise ValueError(f"Expected one of {', '.join(sentences)}. Got {match[2]!r}")
        return match[1] + sentences[match[2]](found) + match[4]

    return marked(kind).sub(sentence, text)


def shown(page: Path, sentences: Mapping[str, Callable[[dict], str]], record: Path) -> str:
    """The page with what a ``record`` says in every place of the kind of its name."""
    return filled(page.read_text(), record.stem, sentences, json.loads(record.read_text()))


def between(values: Iterable[float], form: str) -> str:
    """ "1 to 3", or the one value that there is."""
    ordered = sorted(values)
    low, high = (f"{value:{form}}" for value in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} to {high}"


def rewrite(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
