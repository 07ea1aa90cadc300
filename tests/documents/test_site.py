"""The site that is built from docs: whole, with every public name, and nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import torchsparcs
from torchsparcs import report
from torchsparcs.command.app import app

ROOT = Path(__file__).parents[2]
COMMANDS = typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built strictly in a folder of its own, so that nothing is written into this one."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    run = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = re.sub(r"\x1b\[[\d;]*m", "", run.stdout + run.stderr)
    assert run.returncode == 0, said
    assert "griffe" not in said, said  # parameters that are not there, and the like
    return folder / "site"


def test_every_page_is_in_the_navigation(site):
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == set(_leaves(nav))
    for page in pages:
        place = page.removesuffix(".md").removesuffix("index").rstrip("/")
        assert (site / place / "index.html").is_file(), page


def test_every_public_name_is_in_the_reference(site):
    text = "".join(page.read_text() for page in (site / "reference").rglob("*.html"))
    public = {*torchsparcs.__all__} - {"__version__", "report"}
    places = {name: f"torchsparcs.{name}" for name in public}
    places |= {
        name: f"torchsparcs.report.{home}.{name}"
        for home, names in report.HOMES.items()
        for name in names
    }
    lost = [name for name, place in places.items() if f'id="{place}"' not in text]
    assert not lost


def test_docstrings_are_made_into_markdown(site):
    for page in (site / "reference").rglob("*.html"):
        text = page.read_text()
        assert not re.search(r":(func|class|meth|data|attr):", text), page
        assert "doctest:" not in text, page
        assert "<blockquote>" not in text, page  # a doctest without its fence


def test_mathematics_is_mathematics(site):
    """Formulas are MathML, and no TeX is left beside them."""
    source = (ROOT / "docs" / "maths.md").read_text()
    text = (site / "maths" / "index.html").read_text()
    assert text.count('display="block"') == source.count("```math") > 20
    assert text.count("<math") > 100
    for number in set(re.findall(r"\\tag\{(\d)\}", source)):
        assert f'id="equation-{number}"' in text
    words = re.sub(r"<script.*?</script>|<[^>]+>", "", text.split("<article")[1], flags=re.DOTALL)
    assert not re.search(r"\$|\\[a-z]+", words.split("</article")[0])


def test_tex_that_is_not_known_is_told(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from docs.mathematics import mathml

    assert "<mi>x</mi>" in mathml("x", "inline")
    with pytest.raises(ValueError, match=r"Expected TeX .* Got \\nosuch in"):
        mathml(r"\nosuch", "inline")


def test_nothing_comes_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*>", page.read_text())
        assert not [tag for tag in loaded if re.search(r'(?:src|href)="(?:https?:)?//', tag)], page


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_the_command_line_has_its_options(name):
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    section = page.split(f"## sparcs {name}\n")[1].split("\n## ")[0]
    told = set(re.findall(r"^- (`-.*?`): ", section, re.MULTILINE))
    assert told == {
        _in_words(option) for option in COMMANDS[name].params if option.opts[0][0] == "-"
    }


def _in_words(option):
    """ "`--output FILE`, `-o`"."""
    first, *others = option.opts
    metavar = "" if option.is_flag else f" {option.metavar}"
    return ", ".join([f"`{first}{metavar}`", *(f"`{other}`" for other in others)])


def _leaves(nav):
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else _leaves(target)
