"""Results that several files of this room look at, and a browser that shows their pages."""

import json

import pytest
from report_pages import write_pages
from reports import CHROMIUM, small_result

from torchsparcs import load_result

TASKS = ("multiclass", "binary", "regression")


@pytest.fixture(params=TASKS)
def result(request):
    return small_result(request.param)


@pytest.fixture
def older(tmp_path):
    """A result from a folder that knows neither answers nor attempts nor what is to be expected."""
    small_result("multiclass").save(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "front.json").read_text(encoding="utf-8"))
    del found["answers"], found["attempts"]
    for row in (*found["front"], found["linear"]):
        del row["expected"], row["temperature"], row["reliability"]
    (tmp_path / "run" / "front.json").write_text(json.dumps(found), encoding="utf-8")
    settings = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    for name in ("scoring", "scoring_is_auto", "scoring_is_own", "score_unit", "constant_score"):
        del settings["settings"][name]
    outer = {name: settings["settings"].pop(name) for name in ("hardware", "versions")}
    (tmp_path / "run" / "settings.json").write_text(json.dumps({**settings, **outer}))
    return load_result(tmp_path / "run")


@pytest.fixture(scope="module")
def browser():
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    return write_pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def pages(written):
    """Files by the kind of search, and of a document; a test may add its own."""
    return {**written}


@pytest.fixture(scope="module")
def context(browser):
    with browser.new_context() as opened:
        yield opened


@pytest.fixture
def visit(context, pages):
    """Opens a page; at the end of a test nothing may have been said, asked for or popped up."""
    opened, said, asked = [], [], []

    def visit(name, width=1600):
        page = context.new_page()
        opened.append(page)
        page.set_viewport_size({"width": width, "height": 900})
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
    for page in opened:
        page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == []
