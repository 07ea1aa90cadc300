"""The page in a real browser: what a person clicks, at two widths and in both colour schemes."""

import dataclasses
import os
import re
import shutil
import time
from itertools import pairwise

import pytest
from reports import COLUMN, LABEL, huge_result, small_result

from torchsparcs import History

sync_api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

COLOUR = "(part) => getComputedStyle(document.body)[part]"
NAME = "(e) => e.getAttribute('aria-label') || e.textContent || e.labels?.[0]?.textContent"
SLIDE = """(stop) => { const slider = document.getElementById("stop");
    slider.value = stop; slider.dispatchEvent(new Event("input")); }"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Files by name: of each task, of a huge network, of a front and nothing else."""
    folder = tmp_path_factory.mktemp("pages")
    results = {task: small_result(task) for task in ("multiclass", "binary", "regression")}
    results["huge"] = huge_result()
    front = [dataclasses.replace(found, answers=None) for found in results["binary"].front]
    results["bare"] = dataclasses.replace(
        results["binary"], front=tuple(front), history=History(), attempts=()
    )
    return {name: result.report(folder / f"{name}.html") for name, result in results.items()}


@pytest.fixture
def visit(browser, pages):
    """Opens a page; at the end of a test nothing may have been said, asked for or popped up."""
    contexts, said, asked = [], [], []

    def visit(name, width=1600, scheme="light", **options):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        address = pages[name].as_uri()
        page.on("request", lambda request: request.url != address and asked.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == []


def drawing(page, figure="architecture"):
    return page.locator(f"#{figure}-figure svg").first.inner_html()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
@pytest.mark.parametrize("name", ["multiclass", "regression", "bare"])
def test_it_fits_and_is_legible(visit, name, width, scheme):
    page = visit(name, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for figure in page.locator("svg[role=img]").all():
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    ink, ground = (
        sum(map(int, re.findall(r"\d+", page.evaluate(COLOUR, part))[:3]))
        for part in ("color", "backgroundColor")
    )
    assert (ground > ink) == (scheme == "light")
    assert abs(ground - ink) > 450  # of 765


def test_a_click_on_the_front_switches_what_is_below(visit):
    page = visit("multiclass")
    before = {name: drawing(page, name) for name in ("architecture", "pruning", "answers")}
    points = page.locator("#front-figure [role=radio]")
    front = small_result("multiclass").front
    assert points.count() in (len(front), len(front) + 1)
    place = next(
        i for i, found in enumerate(front) if found is not small_result("multiclass").smallest()
    )
    points.nth(place).click()
    assert points.nth(place).get_attribute("aria-checked") == "true"
    assert page.locator("#front-figure [aria-checked=true]").count() == 1
    assert page.text_content("#architecture-words") == front[place].architecture
    assert f"pick={place}" in page.text_content("#snippet") or "best" in page.text_content(
        "#snippet"
    )
    for name, drawn in before.items():
        assert drawing(page, name) != drawn
    page.click("summary:has-text('All candidates')")
    page.click(f"#candidates tbody tr:nth-child({len(front)})")
    assert page.text_content("#architecture-words") == front[-1].architecture


def test_the_keyboard_is_enough(visit):
    page = visit("multiclass")
    front = small_result("multiclass").front
    page.focus("#front-figure [aria-checked=true]")
    page.keyboard.press("Home")
    assert page.text_content("#architecture-words") == front[0].architecture
    page.keyboard.press("ArrowRight")
    assert page.text_content("#architecture-words") == front[1].architecture
    focused = "document.activeElement.getAttribute('aria-checked')"
    assert page.evaluate(focused) == "true"
    page.focus("#architecture-figure svg")
    page.keyboard.press("ArrowRight")
    assert "inputs" in page.text_content("#tip")
    assert page.locator("#tip").is_visible()
    page.focus("#stop")
    page.keyboard.press("Home")
    assert "epoch 0" in page.get_attribute("#stop", "aria-valuetext")
    named = page.locator("button, select, input, [role=radio], svg[role=img]").all()
    for control in named:
        assert control.evaluate(NAME)


def test_the_slider_grows_it_from_the_perceptron(visit):
    page = visit("multiclass")
    page.select_option("#chosen", str(len(small_result("multiclass").front) - 1))
    hidden = "#architecture-figure circle.node:not(.input):not(.output)"
    counts, words, histograms = [], [], []
    last = int(page.get_attribute("#stop", "max"))
    for stop in (0, 1, last - 1):
        page.evaluate(SLIDE, stop)
        counts.append(page.locator(hidden).count())
        words.append(page.text_content("#stop-words"))
        histograms.append(page.locator("#eigenvalue-figure rect").count())
    result = small_result("multiclass")
    own = result.history.member(result.best().member)
    recruited = [
        sum(int(values.count_nonzero()) for values in snapshot.values())
        for _, snapshot in (own.snapshots[0], own.snapshots[1], own.snapshots[-1])
    ]
    assert counts == recruited
    assert counts[0] == histograms[0] == 0
    assert counts[-1] > 0 < histograms[-1]
    assert words[0] == "epoch 0: 0 recruited"
    node = page.locator(hidden).first
    node.hover()
    tip = page.text_content("#tip")
    assert "hidden 1" in tip or "hidden 2" in tip
    for part in ("neuron", "eigenvalue", "fan-in", "fan-out"):
        assert part in tip


def test_grow_plays_it_to_the_end(visit):
    page = visit("binary")
    page.click("#play")
    assert page.text_content("#play") == "Pause"
    sync_api.expect(page.locator("#play")).to_have_text("Grow", timeout=15_000)
    assert "cut and fine-tuned" in page.text_content("#stop-words")


def test_a_budget_marks_the_best_within_it(visit):
    page = visit("multiclass")
    result = small_result("multiclass")
    budget = result.front[1].parameters
    page.fill("#budget", str(budget))
    assert "within budget" in page.text_content("#front-figure")
    score = f"{100 * result.within(budget).score:.1f} %"
    assert page.text_content("#budget-answer") == f"{score} within it."
    page.fill("#budget", "1")
    assert page.text_content("#budget-answer") == "No candidate is that small."


def test_names_from_the_data_are_text(visit):
    page = visit("multiclass")
    page.click("summary:has-text('Columns')")
    assert page.text_content("#columns tbody th") == COLUMN
    assert LABEL in page.text_content("#about")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    page.locator("#answers-figure rect").first.hover()
    assert LABEL in page.text_content("#tip") or "three" in page.text_content("#tip")


def test_what_is_missing_leaves_a_sentence(visit):
    page = visit("bare", 390)
    assert "No history" in page.text_content("#loss-figure")
    assert "No eigenvalues" in page.text_content("#eigenvalue-figure")
    assert "older version" in page.text_content("#pruning-figure")
    assert "not in this run" in page.text_content("#answers-figure")
    assert "not recorded" in page.text_content("#architecture-note")
    assert not page.locator("#stop").is_visible()
    assert page.locator("#architecture-figure circle").count() > 0


@pytest.mark.parametrize("width", [390, 1600])
def test_thousands_of_neurons_within_two_seconds(visit, width):
    started = time.perf_counter()
    page = visit("huge", width)
    page.select_option("#chosen", str(len(small_result("multiclass").front)))
    page.evaluate(SLIDE, 30)
    assert time.perf_counter() - started < 2
    assert "up to 28 neurons" in page.text_content("#architecture-note")
    assert page.locator("#architecture-figure circle").count() < 600
    labels = page.locator("#architecture-figure text.strong").all()
    boxes = [label.bounding_box() for label in labels]
    for left, right in pairwise(boxes):
        assert left["x"] + left["width"] <= right["x"]  # they do not overlap
