"""Figures follow the scheme of their reader, and none is older than what it shows."""

import hashlib
import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from PIL import Image

from torchsparcs.experiments.schemes import SCHEMES, STAMP, follow_scheme

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FIGURES = sorted((DOCS / "figures").rglob("*.svg"))
SKETCHES = {"recruiting.svg"}  # they show no numbers
BADGES = runpy.run_path(str(DOCS / "badges.py"))["badges"]()
DRAWN = [path for path in FIGURES if path.name not in {*SKETCHES, *BADGES}]
AGAIN = "draw it again: its script is in benchmarks/README.md"


def ids(path):
    return str(path.relative_to(DOCS / "figures"))


@pytest.mark.parametrize("path", DRAWN, ids=ids)
def test_no_figure_is_older_than_its_record(path):
    stamps = STAMP.findall(path.read_text())
    assert stamps, f"{path.name} does not say what it shows"
    for name, digest in stamps:
        now = hashlib.sha256((DOCS / name).read_bytes()).hexdigest()
        assert now.startswith(digest), f"{path.name} is older than {name}: {AGAIN}"


def test_a_changed_record_is_seen():
    svg = follow_scheme("<svg><g/></svg>", {"results/one.json": b"1"})
    ((name, digest),) = STAMP.findall(svg)
    assert name == "results/one.json"
    assert hashlib.sha256(b"1").hexdigest().startswith(digest)
    assert not hashlib.sha256(b"2").hexdigest().startswith(digest)


@pytest.mark.parametrize("path", [*DRAWN, DOCS / "figures" / "recruiting.svg"], ids=ids)
def test_figures_follow_the_scheme(path):
    text = path.read_text()
    assert "@media(prefers-color-scheme:dark)" in text
    body = text.split("</style>")[-1]
    assert "var(--paper)" in body  # its own ground, where the page has another scheme
    left = [colour for colour in SCHEMES if f": {colour}" in body.lower()]
    assert not left


def test_colours_are_seen_on_both_grounds():
    grounds = SCHEMES["#ffffff"][1:]
    for name, *shades in SCHEMES.values():
        for shade, ground in zip(shades, grounds, strict=True):
            ratio = contrast(shade, ground)
            if name == "ink":
                assert ratio > 7, name
            elif name not in {"paper", "grid", "pale", "asleep"}:  # no marks that say something
                assert ratio > 3, (name, shade, ratio)


def contrast(one, other):
    """That of WCAG: of relative luminances, 1 to 21."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour):
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_badges_are_those_of_the_project():
    for name, svg in BADGES.items():
        assert (DOCS / "figures" / name).read_text() == svg, "run docs/badges.py"
        assert name in (ROOT / "README.md").read_text()


def test_the_moving_picture_is_that_of_its_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    known = {*sys.modules}
    import growing

    found = json.loads((DOCS / "results" / "growing.json").read_text())["cpu"]
    drawn = follow_scheme(growing.drawn(found))
    kept = (DOCS / "figures" / "growing.svg").read_text()
    assert STAMP.sub("", kept).replace("\n", "") == drawn.replace("\n", ""), "run growing.py"
    assert kept.count('class="frame') == len(growing.SHOWN)
    assert "prefers-reduced-motion" in kept
    for name in ({*sys.modules} - known) & {"growing", "drawing", "recording"}:
        del sys.modules[name]


def test_pictures_of_the_report_are_of_todays_report():
    pictures = runpy.run_path(str(DOCS / "pictures.py"))
    tutorial = pictures["TUTORIAL"].read_text()
    size, linear = re.search(r"size +(\d+) parameters \(linear model: (\d+) par", tutorial).groups()
    score, judged = re.search(r"R² ([\d.]+ ± [\d.]+) exp\S+ on new rows; (\S+)", tutorial).groups()
    for path in pictures["PATHS"]:
        with Image.open(path) as picture:
            kept = picture.info
        assert kept["shows"] == pictures["digest"](), (
            f"{path.name} is older than the report: {AGAIN}"
        )
        for number in (f"A network of {size} parameters", score, f"has R² {judged}"):
            assert number in kept["says"], f"{path.name} shows other numbers than the tutorial"
        assert f"linear model{linear}" in kept["says"].replace(" ", "").replace(
            "linearm", "linear m"
        )
