"""The page about a search: one HTML file that asks nothing of the network."""

import base64
import hashlib
import html
import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from torchsparcs.export.code import javascript_network
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.visible import visible
from torchsparcs.report import static
from torchsparcs.report.facts import facts_of
from torchsparcs.report.fidelity import fidelity_section
from torchsparcs.results.result import SearchResult

PLACE = re.compile(r"\{\{(\w+)\}\}")


def asset(name: str) -> str:
    return (files("torchsparcs.report") / "assets" / name).read_text(encoding="utf-8")


def filled(template: str, texts: dict[str, str], script: str | None = None, **markup: str) -> str:
    """The asset ``template``, every ``{{name}}`` replaced, once, with style, policy and script.

    What is put in is not looked at again. ``texts`` are escaped, ``markup`` is put in as it is.
    """
    style = asset("style.css")
    parts = {name: html.escape(visible(text)) for name, text in texts.items()} | markup
    parts |= {"style": style, "script": script or "", "policy": _policy(style, script)}
    return PLACE.sub(lambda place: parts[place[1]], asset(template))


def _policy(style: str, script: str | None) -> str:
    """Nothing runs but ``script``, nothing is fetched."""
    allowed = "" if script is None else f"script-src {_hash(script)}; "
    return (
        f"default-src 'none'; {allowed}style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def check_place(file: Path, *, force: bool) -> None:
    """A ValueError unless a page may be written there."""
    if file.is_dir():
        raise ValueError(f"Expected a file to write to. {file} is a folder.")
    if file.exists() and not force:
        raise ValueError(
            f"Expected a file that is not there yet. {file} is: choose another, or force it."
        )


def write(file: Path, content: str) -> Path:
    write_atomically(file, content.encode())
    return file


SCRIPTS = (
    "drawing.js",
    "front.js",
    "growing.js",
    "edges.js",
    "architecture.js",
    "charts.js",
    "predictions.js",
    "trying.js",
    "page.js",
)
# What the markup has already is in it once; nothing of it is for the script.
STATIC = (
    "comparison",
    "about",
    "columns",
    "costs",
    "headline",
    "verdict",
    "legend",
    "architecture",
    "data",
)
# Inside a script element nothing of the data may look like markup.
ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


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
    texts = {name: facts[name] for name in ("name", "data", "verdict", "legend", "held")}
    for name in ("headline", "verdict"):  # what belongs together stays in one line
        whole = facts[name].replace("held-out", "held\u2011out").replace(" %", "\u00a0%")
        texts[name] = whole.replace("R² ", "R²\u00a0")
    texts["title"] = f"{facts['headline'].removesuffix('.')} – {facts['name']}"
    code = "\n".join([javascript_network(), *map(asset, SCRIPTS)])
    script = f'"use strict";\n(() => {{\n{code}\n}})();\n'
    tables = ("comparison", "candidates", "costs", "columns", "about", "front", "still")
    markup = {name: getattr(static, name)(facts) for name in tables}
    markup["fidelity"] = fidelity_section(result)
    known = {name: value for name, value in facts.items() if name not in STATIC}
    return filled("template.html", texts, script, facts=_as_json(known), **markup)


chain_page = page_of
"""The same as ``page_of``: its name where a network is searched."""
write_chain_page = write_page
"""The same as ``write_page``: its name where a network is searched."""


def _as_json(facts: dict[str, Any]) -> str:
    text = json.dumps(_plain(facts), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.translate(ESCAPES)


def _plain(value: Any) -> Any:
    """Numbers that JSON does not know become null, texts are made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
