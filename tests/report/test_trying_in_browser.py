"""The network that runs in the page; the link, print, no script; contrast and names of marks."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest
import torch
from axe import OPEN
from reports import CHROMIUM, X, chain_result, small_result

from torchsparcs import CompactNetwork
from torchsparcs.report import facts_of
from torchsparcs.report.facts import shown_of

pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

SET = """([id, value]) => { const input = document.getElementById(id);
    input.value = value; input.dispatchEvent(new Event("input")); }"""
HERE = Path(__file__).parent
# Those that differ in what is drawn and told.
KINDS = ("multiclass", "regression", "chain", "chain_regression", "deep", "network", "bare",
         "unjudged", "labels", "huge", "bytes", "teacher", "unfinished")  # fmt: skip
CONTRASTS, STUMBLES = ((HERE / name).read_text() for name in ("contrasts.js", "stumbles.js"))


def usual_row(result, **changes):
    """The row that the page starts with, as a table."""
    controls = facts_of(result)["controls"]
    return pd.DataFrame([{each["field"]: each["start"] for each in controls} | changes])


def told(page):
    """Name and value of each answer in the page."""
    lines = page.locator("#try-answer p").all()
    return {
        line.locator("span").first.text_content(): line.locator("strong").text_content()
        for line in lines
    }


@pytest.mark.parametrize("task", ["multiclass", "binary", "regression"])
def test_the_network_runs_in_the_page(visit, task):
    page, result = visit(task), small_result(task)
    controls = facts_of(result)["controls"]
    place = next(i for i, c in enumerate(controls) if page.locator(f"#try-{i}").count())
    for changes in ({}, {controls[place]["field"]: controls[place]["high"]}):
        if changes:
            page.evaluate(SET, [f"try-{place}", controls[place]["high"]])
        row = usual_row(result, **changes)
        if task == "regression":
            values = result.predict(row)[0]
            expected = {f"predicted {n}": v for n, v in zip("uv", values, strict=True)}
            shown = {
                name: float(words.replace(",", "").replace("−", "-"))
                for name, words in told(page).items()
            }
        else:
            shares = result.predict_proba(row)[0]
            expected = dict(zip(facts_of(result)["classes"], 100 * shares, strict=True))
            shown = {
                name: float(words.removesuffix("\u00a0%")) for name, words in told(page).items()
            }
        assert shown == pytest.approx(expected, rel=2e-3, abs=0.051)
    page.click("#usual")
    assert page.input_value(f"#try-{place}") == f"{controls[place]['start']:g}"


def test_each_column_that_is_read_has_a_curve(visit):
    page, result = visit("regression"), small_result("regression")
    for index, found in enumerate(shown_of(result)):
        page.select_option("#chosen", str(index))
        columns = result.inputs.columns_read(found.network.reads)
        labels = page.locator("#try-columns label:not(.gap)").all_text_contents()
        assert sorted(labels) == sorted(column.name for column in columns)
        curves = page.locator("#try-columns svg.curve").all()
        assert all(" at " in curve.get_attribute("aria-label") for curve in curves)
        lines = page.text_content("#formula").splitlines()
        assert page.locator("#formula-part").is_visible() == bool(lines)
    assert visit("chain").locator("#try").is_hidden()


def test_the_address_carries_the_choice(visit, pages):
    page, front = visit("multiclass"), shown_of(small_result("multiclass"))
    page.select_option("#chosen", "0")
    assert page.evaluate("location.hash") == "#network=0"
    page.goto(pages["multiclass"].as_uri() + "#network=linear")
    place = next(i for i, c in enumerate(front) if c is small_result("multiclass").linear)
    assert page.input_value("#chosen") == str(place)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#link")
    assert page.evaluate("navigator.clipboard.readText()").endswith("#network=linear")


def test_growing_ends_with_the_cut(visit):
    page, result = visit("chain"), chain_result()
    page.select_option("#chosen", "0")
    stops, last = len(result.history.snapshots), int(page.get_attribute("#stop", "max"))
    larger = [each for each in result.attempts if each.parameters > shown_of(result)[0].parameters]
    assert last - stops == len(larger) > 0
    page.evaluate(SET, ["stop", stops])
    first = max(larger, key=lambda each: each.parameters)
    assert page.text_content("#stop-words") == (
        f"cut to {first.parameters:,} parameters, {first.neurons} channels: "
        f"{100 * first.score:.2f} %"
    )
    assert "was not kept" in page.text_content("#architecture-note")
    assert page.locator("#pruning-figure circle.bar").count() == 2


def test_without_a_script_and_on_paper(browser, visit, pages):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(pages["multiclass"].as_uri())
        result = small_result("multiclass")
        shown = shown_of(result)
        assert page.locator("#candidates tbody tr:visible").count() == len(shown)
        assert page.locator("#front-figure .dot:visible").count() == len(shown)
        assert page.locator("noscript p").is_visible()
        assert not page.locator("nav, #try, #play").first.is_visible()
        assert page.locator("#about dt:visible").count() > 10
        read = page.locator("#columns tbody td:last-child").all_text_contents()
        known = result.inputs.columns_read(result.smallest().network.reads)
        assert sorted(read) == ["no"] * (3 - len(known)) + ["yes"] * len(known)
        assert "Parameters are weights and biases." in page.text_content("header")
        assert page.locator("noscript pre").count() == 0  # too large for a formula, in no folder
        page.goto(pages["binary"].as_uri())
        binary = facts_of(small_result("binary"))
        assert (
            page.text_content("noscript pre").splitlines()
            == (binary["candidates"][binary["picked"]]["formula"])
        )
    page = visit("multiclass")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#candidates tbody tr:visible").count() == len(shown)
    assert page.locator("section > button:visible, nav:visible").count() == 0
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(27, 31, 36)"  # dark on white, whatever the screen has


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", KINDS)
def test_every_mark_stands_out(visit, name, width):
    page = visit(name, width)
    page.evaluate(OPEN)
    for stop in (None, 1):
        if stop is not None and page.locator("#stop").is_visible():
            page.evaluate(SET, ["stop", stop])
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(CONTRASTS)
            assert len(found["marks"]) > 15
            assert len(found["texts"]) > 50
            assert [pair for pair in found["marks"] if pair[1] < 3] == []
            assert [pair for pair in found["texts"] if pair[1] < 4.5] == []


@pytest.mark.parametrize("name", KINDS)
def test_nobody_stumbles(visit, name):
    page = visit(name, 390)
    assert page.evaluate(STUMBLES) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_columns_that_act_together_say_so(visit, pages, tmp_path):
    """u = max(0, x₀ + x₁) + x₂: where one of the first two is, the other's curve bends."""
    small = small_result("regression")
    network = CompactNetwork([3, 1, 2], [(1, 0), (2, 0), (2, 1)])
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        network.blocks["1_0"].weight[0, :2] = 1.0
        network.blocks["2_1"].weight[:, 0] = 1.0
        network.blocks["2_0"].weight[:, 2] = 1.0
    front = (dataclasses.replace(small.best(), network=network),)
    made = dataclasses.replace(small, front=front)
    pages["together"] = made.report(tmp_path / "page.html")
    page = visit("together")
    page.select_option("#chosen", str(next(i for i, c in enumerate(shown_of(made)) if c in front)))
    told = {
        row.locator("label").first.text_content(): row.locator(".together").all_text_contents()
        for row in page.locator("#try-columns li").all()
    }
    one, other, alone = X.columns
    assert told == {one: [f"depends on {other}"], other: [f"depends on {one}"], alone: []}


def test_the_class_of_the_curves_stays_while_a_slider_moves(visit):
    page, result = visit("multiclass"), small_result("multiclass")
    shown = page.input_value("#try-which")
    likeliest = set()
    for place, control in enumerate(facts_of(result)["controls"]):
        for end in ("low", "high"):
            if page.locator(f"#try-{place}").count():
                page.evaluate(SET, [f"try-{place}", control[end]])
                likeliest.add(page.locator("#try-answer .first span").text_content())
                assert page.input_value("#try-which") == shown
    assert len(likeliest) > 1
    page.select_option("#try-which", "0")
    page.click("#usual")
    assert page.input_value("#try-which") == "0"


def test_another_network_than_the_picked_one_is_told_apart(visit):
    page, result = visit("multiclass"), small_result("multiclass")
    assert page.text_content("#shown") == ""
    page.select_option("#chosen", "0")
    first = shown_of(result)[0]
    assert page.text_content("#shown").startswith(
        f"Shown is not the picked network, which the head of the page is about, but one of "
        f"{first.parameters} parameters, accuracy {100 * first.expected:.2f} %"
    )


def test_a_matrix_says_which_score_it_shows(visit):
    page, result = visit("multiclass"), small_result("multiclass")
    picked = result.smallest()
    right = 100 * (picked.answers.diagonal().sum() / picked.answers.sum()).item()
    assert (
        f"Of all rows {right:.2f} % are right here, in cross-validation; "
        f"{100 * picked.expected:.2f} % are to be expected on new rows."
    ) in page.text_content("#answers-note")
