"""axe-core has nothing to say against any kind of page, at two widths and in both schemes."""

import json
from pathlib import Path

import pytest
from axe import MOVED, SCHEMES, WIDTHS, axe, findings
from reports import CHROMIUM

pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
RECORD = Path(__file__).parents[2] / "docs" / "results" / "axe.json"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
@pytest.mark.skipif(axe() is None, reason="needs npm install --no-save axe-core")
class TestAxe:
    @pytest.mark.parametrize("width", WIDTHS)
    def test_it_finds_nothing(self, browser, pages, width):
        source, found = axe().read_text(encoding="utf-8"), {}
        for name, path in pages.items():
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(path.as_uri())
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                found[name, scheme] = findings(page, source)["violations"]
            page.evaluate(MOVED)
            found[name, "moved"] = findings(page, source)["violations"]
            page.close()
        assert {state: each for state, each in found.items() if each} == {}

    def test_it_would_find_something(self, browser):
        page = browser.new_page()
        page.set_content("<img src='data:,'><button></button>")
        rules = {rule for rule, _ in findings(page, axe().read_text())["violations"]}
        assert {"image-alt", "button-name"} <= rules
        page.close()


def test_every_kind_of_page_is_recorded_without_a_finding(pages):
    (found,) = json.loads(RECORD.read_text()).values()
    assert sorted(found["pages"]) == sorted(pages), "run benchmarks/accessible.py"
    assert found["violations"] == {}
