"""The page about a search: one HTML file that asks nothing of the network."""

import json
import math
from pathlib import Path
from typing import Any

from torchsparcs.report.facts import facts_of
from torchsparcs.report.html import asset, check_place, filled, write
from torchsparcs.searching.result import SearchResult

SCRIPTS = ("drawing.js", "front.js", "architecture.js", "charts.js", "predictions.js", "page.js")
# Inside a script element nothing of the data may look like markup.
ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def write_page(
    result: SearchResult, path: str | Path, *, folder: str | Path | None = None, force: bool = False
) -> Path:
    """Write the page about ``result`` to ``path``; a file that is there only if forced.

    ``folder`` is where the result is saved; by default that of the page, where it is one.
    """
    file = Path(path)
    check_place(file, force=force)
    if folder is None and (file.parent / "settings.json").is_file():
        folder = file.parent
    return write(file, page_of(result, folder))


def page_of(result: SearchResult, folder: str | Path | None = None) -> str:
    """The page about a ``SearchResult`` as text; ``folder`` is where the result is saved."""
    facts = facts_of(result, folder)
    texts = {name: facts[name] for name in ("name", "data", "architecture", "verdict", "held")}
    texts["title"] = f"{facts['name']}: what was found"
    texts["headline"] = facts["headline"].replace("held-out", "held\u2011out")  # in one line
    code = "\n".join(map(asset, SCRIPTS))
    script = f'"use strict";\n(() => {{\n{code}\n}})();\n'
    return filled("template.html", texts, script, facts=_as_json(facts))


chain_page = page_of
"""The same as ``page_of``: its name where a network is searched."""
write_chain_page = write_page
"""The same as ``write_page``: its name where a network is searched."""


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
