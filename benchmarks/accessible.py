"""What does axe-core find on the pages of every kind of search?

The pages are those of the tests, at two widths, in both colour schemes, all their folded parts
open: as they open, and with the smallest network amid its training and a budget. What axe-core
cannot decide is counted as well: of contrasts in drawings `tests/report/contrasts.js` decides it.
axe-core is fetched by npm into a folder that is gone afterwards, but for `--axe FILE`.

    python benchmarks/accessible.py
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from recording import RESULTS, record

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from axe import MOVED, SCHEMES, WIDTHS, axe, findings
from playwright.sync_api import sync_playwright
from report_pages import write_pages
from reports import CHROMIUM

VERSION = re.compile(r"axe v([\d.]+)")


def fetched(folder: Path) -> Path:
    """axe-core as npm has it."""
    command = ["npm", "install", "--silent", "--prefix", str(folder), "axe-core"]
    subprocess.run(command, check=True)
    return folder / "node_modules" / "axe-core" / "axe.min.js"


def looked_at(pages: dict[str, Path], source: str) -> dict:
    """Elements by verdict and rule, over all pages and states."""
    counts = {kind: Counter() for kind in ("violations", "incomplete", "passes")}
    examples, states = {}, 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, path in pages.items():
            for width in WIDTHS:
                for scheme in SCHEMES:
                    size = {"width": width, "height": 900}
                    page = browser.new_page(viewport=size, color_scheme=scheme)
                    page.goto(path.as_uri())
                    for is_moved in (False, True):
                        if is_moved:
                            page.evaluate(MOVED)
                        states += 1
                        for kind, found in findings(page, source).items():
                            counts[kind].update(rule for rule, _ in found)
                            if kind == "violations":
                                examples |= {rule: [name, markup] for rule, markup in found}
                    page.close()
        browser.close()
    return {
        "states": states,
        "violations": dict(counts["violations"]),
        "examples": examples,
        "undecided": dict(counts["incomplete"]),
        "rules_passed": len(counts["passes"]),
        "elements_passed": counts["passes"].total(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--axe", type=Path, default=axe())
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = (options.axe or fetched(Path(folder))).read_text(encoding="utf-8")
        pages = write_pages(Path(folder))
        found = looked_at(pages, source)
    about = {"axe": VERSION.search(source)[1], "pages": sorted(pages), "widths": list(WIDTHS)}
    record("axe", "cpu", about | {"schemes": list(SCHEMES)} | found, options.out)


if __name__ == "__main__":
    main()
