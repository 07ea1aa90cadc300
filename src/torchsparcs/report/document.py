"""A page of Markdown and its figures as one HTML file."""

import base64
import html
import re
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from torchsparcs.report.page import check_place, filled, write

KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
WIDE = 500  # points of a figure that is not shrunk to the width of a phone
SCROLL = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'


def write_document(markdown: str, path: str | Path, *, force: bool = False) -> Path:
    """Write ``markdown`` as one HTML file to ``path``, the figures beside it inlined."""
    file = Path(path)
    check_place(file, force=force)
    return write(file, document_of(markdown, file.parent))


def document_of(markdown: str, folder: str | Path) -> str:
    """``markdown`` as an HTML page; its figures are looked for in ``folder``.

    >>> page = document_of("# One\\n\\nA *small* page, `1 < 2`.", ".")
    >>> "<p>A <em>small</em> page, <code>1 &lt; 2</code>.</p>" in page
    True
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.add_render_rule("image", lambda _, tokens, i, *__: _image(tokens[i], Path(folder)))
    reader.add_render_rule("table_open", lambda *given: f"{SCROLL}<table>")
    reader.add_render_rule("table_close", lambda *given: "</table></div>")
    tokens = reader.parse(markdown)
    headings = (tokens[i + 1].content for i, token in enumerate(tokens) if token.tag == "h1")
    for token in tokens:
        if token.attrs.pop("style", None) == "text-align:right":  # a policy forbids styles here
            token.attrSet("class", "number")
    body = reader.renderer.render(tokens, reader.options, {})
    return filled("document.html", {"title": next(headings, "A report")}, body=body)


def _image(token: Token, folder: Path) -> str:
    """The figure inside the page, or its words where it is not there."""
    words, file = html.escape(token.content), folder / str(token.attrs["src"])
    if file.suffix not in KINDS or not file.is_file():
        return f'<span class="missing">{words}: not in this run.</span>'
    content = file.read_bytes()
    box = re.search(rb'viewBox="0 0 ([\d.]+) ', content[:2000])
    data = base64.b64encode(content).decode()
    image = f'<img alt="{words}" src="data:{KINDS[file.suffix]};base64,{data}">'
    if box is None or float(box[1]) < WIDE:
        return image
    label = f'tabindex="0" role="region" aria-label="{words}"'
    return f'<span class="scroll wide" {label}>{image}</span>'
