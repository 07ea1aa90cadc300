"""The facts of a search as one HTML file that asks nothing of the network."""

import html
import json
import math
from pathlib import Path
from typing import Any

from torchsparcs.report.facts import facts_of
from torchsparcs.report.shell import asset, check_place, filled, policy, write

SCRIPTS = ("drawing.js", "front.js", "architecture.js", "charts.js", "answers.js", "page.js")
# Inside a script element nothing of the data may look like markup.
ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def write_page(
    result: Any, path: str | Path, *, folder: str | Path | None = None, force: bool = False
) -> Path:
    """Write the page about ``result`` to ``path``; a file that is there only if forced.

    ``folder`` is where the result is saved; by default that of the page, where it is one.
    """
    file = Path(path)
    check_place(file, force=force)
    if folder is None and (file.parent / "settings.json").is_file():
        folder = file.parent
    return write(file, page_of(result, folder))


def page_of(result: Any, folder: str | Path | None = None) -> str:
    """The page about a ``SearchResult`` as text; ``folder`` is where the result is saved."""
    facts = facts_of(result, folder)
    code = "\n".join(map(asset, SCRIPTS))
    script = f'"use strict";\n(() => {{\n{code}\n}})();\n'
    style = asset("style.css")
    sentence = facts["headline"].replace("held-out", "held\u2011out")  # not at the end of a line
    parts = {
        "title": html.escape(f"{facts['name']}: what was found"),
        "name": html.escape(facts["name"]),
        "data_words": html.escape(facts["data"]),
        "headline": html.escape(sentence),
        "architecture": html.escape(facts["architecture"]),
        "verdict": html.escape(facts["verdict"]),
        "policy": policy(style, script),
        "style": style,
        "held": html.escape(facts["held"]),
        "facts": _as_json(facts),
        "script": script,
    }
    return filled(asset("template.html"), parts)


def _as_json(facts: dict[str, Any]) -> str:
    text = json.dumps(_finite(facts), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.translate(ESCAPES)


def _finite(value: Any) -> Any:
    """Numbers that JSON does not know become null."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
