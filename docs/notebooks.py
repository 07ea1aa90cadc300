"""Writes tutorials as notebooks, so that there is one source: the page, which the tests run.

python docs/notebooks.py
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TUTORIALS = ("table", "head")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
SITE = "../docs/tutorials/"  # from a notebook in examples/


def notebook(name: str) -> str:
    """The cells of a tutorial: its text, and its blocks of Python; outputs are not kept."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text()
    pieces = FENCE.split(page)
    cells: list[dict] = []
    for text, language, code in zip(
        pieces[::3], [*pieces[1::3], ""], [*pieces[2::3], ""], strict=True
    ):
        words = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL).strip()
        if words:
            cells.append(cell("markdown", LINK.sub(rf"]({SITE}\1)", words)))
        if language == "python":
            cells.append(cell("code", code.strip()))
        elif language == "bash":
            cells.append(cell("code", "\n".join(f"!{line}" for line in code.strip().split("\n"))))
    for number, one in enumerate(cells):
        one["id"] = f"{name}-{number}"
    content = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def cell(kind: str, text: str) -> dict:
    made = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return made | {"execution_count": None, "outputs": []} if kind == "code" else made


if __name__ == "__main__":
    for name in TUTORIALS:
        (ROOT / "examples" / f"{name}.ipynb").write_text(notebook(name))
