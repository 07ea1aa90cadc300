"""Every block of code on every page runs, in the order in which a reader meets it."""

from pathlib import Path

import pytest
from pages import RUNNERS, blocks_of, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [page for page in PAGES if any(b.language in RUNNERS for b in blocks_of(page))]


@pytest.mark.usefixtures("brief_searches")
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_code_or_output(page):
    """Nothing that looks like code is left out but by saying why."""
    for block in blocks_of(page):
        known = block.language in (*RUNNERS, "text", "math") or block.note.startswith("not run")
        assert known, f"{page.name}:{block.line}: {block.language or 'no language'}"


def test_a_page_is_run_block_by_block(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    fence = "```"
    page.write_text(
        f"{fence}python\nn = 2\nopen('a.txt', 'w').close()\n{fence}\n\n{fence}bash\nls\n{fence}\n\n"
        f"<!-- checked -->\n{fence}text\na.txt\n{fence}\n\n{fence}python\nprint(n)\n{fence}\n\n"
        f"<!-- checked -->\n{fence}text\n2\n{fence}\n\n"
        f"<!-- not run: it would fail -->\n{fence}bash\nfalse\n{fence}\n"
    )
    run_page(page)
    page.write_text(page.read_text().replace("\n2\n", "\n3\n"))
    with pytest.raises(AssertionError, match=r"not printed: \{'3'\}"):
        run_page(page)
    page.write_text(f"{fence}bash\nfalse\n{fence}\n")
    with pytest.raises(AssertionError, match=r"page\.md:2"):
        run_page(page)
