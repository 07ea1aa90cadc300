"""What a notebook shows of a result, and its plot."""

import re
import sys
from xml.etree import ElementTree

import matplotlib
import pytest
from reports import (
    COLUMN,
    LABEL,
    chain_result,
    dense_result,
    huge_result,
    searched_dense_result,
    small_result,
    unjudged_result,
)

from torchsparcs.report.excerpt import excerpt
from torchsparcs.report.notebook import html_of
from torchsparcs.report.wording import headline

SVG = "{http://www.w3.org/2000/svg}"
TASKS = ("multiclass", "binary", "regression")
RESULTS = {
    **{task: lambda task=task: small_result(task) for task in TASKS},
    **{"chain": chain_result, "dense": searched_dense_result, "many": dense_result},
    **{"huge": huge_result, "unjudged": unjudged_result},
}


@pytest.mark.parametrize("name", RESULTS)
def test_it_is_small_and_well_formed(name):
    result = RESULTS[name]()
    shown = result._repr_html_()
    page = ElementTree.fromstring(shown)
    assert len(shown) < 40_000
    for word in ("<script", "onerror=", "href", "http://", "https://"):
        assert word not in shown.replace('xmlns="http://www.w3.org/2000/svg"', "") or (
            word == "onerror=" and "&lt;img" in shown
        )
    assert headline(result, result.smallest()) in "".join(page.find("p").itertext())
    rows = page.findall(".//tbody/tr")
    assert [row[0].text for row in rows] == [f"{place}" for place in excerpt(result)]
    numbers = [f"{result.size.of(result.front[int(row[0].text)]):,}" for row in rows]
    assert [row[1].text for row in rows] == numbers
    assert sum("bold" in row.get("style") for row in rows) == 1


def test_names_from_the_data_are_text():
    shown = html_of(small_result("multiclass"))
    assert COLUMN not in shown
    assert LABEL not in shown
    assert "&lt;script" in shown  # a column that the pick reads


def test_the_front_is_drawn():
    result = small_result("regression")
    page = ElementTree.fromstring(html_of(result))
    front = page.find(f"{SVG}svg")
    marks = front.findall(f"{SVG}g[{SVG}title]")
    finite = {*result.front, result.linear}
    assert len(marks) == len({found.parameters for found in finite})
    places = [(float(m[2].get("cx")), float(m[2].get("cy"))) for m in marks]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    told = [float(re.search(r"R² (-?[0-9.]+)|: (-?[0-9.]+)", m[0].text)[2]) for m in marks]
    by_score = sorted(range(len(told)), key=told.__getitem__)
    assert [y for _, y in sorted(places, key=lambda at: -at[1])] == pytest.approx(
        [places[n][1] for n in by_score], abs=1.0
    )
    picked = [mark for mark in marks if mark[2].get("r") == "5"]
    assert len(picked) == 1
    assert f"{result.smallest().parameters:,} parameters" in picked[0][0].text


class TestPlot:
    @pytest.fixture(autouse=True)
    def figures(self):
        from matplotlib import pyplot

        backend = matplotlib.get_backend()
        pyplot.switch_backend("agg")
        yield
        pyplot.close("all")
        pyplot.switch_backend(backend)

    @pytest.mark.parametrize("name", RESULTS)
    def test_on_a_figure_of_its_own(self, name):
        result = RESULTS[name]()
        axes = result.plot()
        line = axes.lines[0]
        times = result.scoring.style.times
        assert [*line.get_xdata()] == [result.size.of(found) for found in result.front]
        assert [*line.get_ydata()] == pytest.approx([times * each.told for each in result.front])
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == result.size.unit
        assert result.scoring.label in axes.get_ylabel()
        axes.figure.canvas.draw()

    def test_on_axes_that_are_there(self):
        from matplotlib.figure import Figure

        result, mine = small_result("binary"), Figure().add_subplot()
        assert result.plot("best", ax=mine) is mine
        picked = [line for line in mine.lines if line.get_markersize() == 8]
        assert [*picked[0].get_xdata()] == [result.best().parameters]
        assert {text.get_text() for text in mine.texts} >= {"linear"}

    def test_without_matplotlib(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r"pip install 'torchsparcs\[plot\]'"):
            small_result("binary").plot()
