"""Markdown and its figures as one file."""

import pytest

from torchsparcs.report import write_document

TEXT = r"""# A < B

| name | size |
| --- | ---: |
| `a\|b` <b> | 1,200 |

- first *item*
- **second**

![one](one.svg)
![two](two.svg)
![wide](wide.svg)
![slim](slim.svg)

```
x < 1

y
```
"""


def test_markdown_with_its_figures(tmp_path):
    (tmp_path / "one.svg").write_text("<svg/>")
    (tmp_path / "wide.svg").write_text('<svg viewBox="0 0 720 300"/>')
    (tmp_path / "slim.svg").write_text('<svg viewBox="0 0 396 273.6"/>')
    path = write_document(TEXT, tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    for part in (
        "<title>A &lt; B</title>",
        "<h1>A &lt; B</h1>",
        '<td><code>a|b</code> &lt;b&gt;</td>\n<td class="number">1,200</td>',
        "<li>first <em>item</em></li>\n<li><strong>second</strong></li>",
        '<img alt="one" src="data:image/svg+xml;base64,PHN2Zy8+">',
        '<span class="missing">two: not in this run.</span>',
        "<pre><code>x &lt; 1\n\ny\n</code></pre>",
        '<span class="scroll wide" tabindex="0" role="region" aria-label="wide"><img alt="wi',
    ):
        assert part in page
    assert page.count('class="scroll wide"') == 1
    assert "<script" not in page
    with pytest.raises(ValueError, match="a file that is not there yet"):
        write_document(TEXT, path)
