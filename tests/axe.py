"""The checks of axe-core, which is no part of this project, on a page in a browser.

It is found where the variable ``AXE`` says, or where ``npm install --no-save axe-core`` puts it.
"""

import os
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
OPEN = "for (const each of document.querySelectorAll('details')) each.open = true"
CHECK = """axe.run().then(({ violations, incomplete, passes }) => [violations, incomplete, passes]
    .map((all) => all.flatMap(({ id, nodes }) => nodes.map(({ html }) => [id, html]))))"""
# Two states of a page: as it opens, and of the smallest network amid its training.
MOVED = """() => {
    const moves = [["chosen", "0", "change"], ["stop", "1", "input"], ["budget", "1000", "input"]];
    for (const [id, value, name] of moves) {
        const input = document.getElementById(id);
        if (!input) return; // a page of text
        input.value = value;
        input.dispatchEvent(new Event(name, { bubbles: true }));
    }
}"""
WIDTHS, SCHEMES = (390, 1400), ("light", "dark")


def axe() -> Path | None:
    """The file of axe-core, None where there is none."""
    path = Path(os.environ.get("AXE", PLACE))
    return path if path.is_file() else None


def findings(page: Any, source: str) -> dict[str, list[list[str]]]:
    """By verdict, the rule and the markup of each element, all folded parts opened."""
    page.evaluate(OPEN)
    if not page.evaluate("Boolean(globalThis.axe)"):
        page.evaluate(source)
    kinds = ("violations", "incomplete", "passes")
    return dict(zip(kinds, page.evaluate(CHECK), strict=True))
