"""The words of a plot's ticks, in a real browser."""

from pathlib import Path

import pytest
from reports import CHROMIUM

import torchsparcs.report

pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

SOURCE = Path(torchsparcs.report.__file__).parent / "assets" / "drawing.js"
WORDS = """([source, ticks]) => {
    const found = new Function("document", source + "; return tickWords;");
    const page = { getElementById: () => ({ textContent: "{}" }) };
    return ticks.map(found(page)(ticks)); }"""


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        ([0, 2e-7, 4e-7], ["0", "2.0e−7", "4.0e−7"]),
        ([-1e-7, 0, 1e-7], ["−1.0e−7", "0", "1.0e−7"]),
        ([1, 1.0000002, 1.0000004], ["1.0000000", "1.0000002", "1.0000004"]),
        ([1, 1.125, 1.25], ["1.000", "1.125", "1.250"]),
        ([-0.5, 0, 0.5], ["−0.5", "0.0", "0.5"]),
        ([1e-5, 0.1, 1000], ["1.0e−5", "0.1", "1000"]),
        ([1, 10, 100], ["1", "10", "100"]),
    ],
)
def test_they_tell_ticks_apart_however_close(context, ticks, words):
    page = context.new_page()
    assert page.evaluate(WORDS, [SOURCE.read_text(encoding="utf-8"), ticks]) == words
    page.close()
