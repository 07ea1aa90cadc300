"""Figures for notebooks."""

import dataclasses
import html
import subprocess
import sys

import numpy as np
import pytest
import torch
from reports import X, chain_result, small_result, unjudged_result, validated_result

from torchsparcs import CompactNetwork, History
from torchsparcs.report import figures

TASKS = ("multiclass", "binary", "regression")


@pytest.mark.parametrize("task", TASKS)
def test_all_of_them(task):
    result = small_result(task)
    front = figures.front_figure(result)
    (line,) = (trace for trace in front.data if trace.name == "front")
    assert list(line.x) == [found.parameters for found in result.front]
    assert front.layout.xaxis.type == "log"
    errors = [found.standard_error for found in result.front]
    assert list(line.error_y.array) == errors
    drawn = figures.architecture_figure(result, "best").data
    network = result.best().network
    bands = [trace for trace in drawn if trace.mode == "lines"]
    assert {(b.x[0], b.x[-1]) for b in bands} == {(s, t) for t, s in network.connections}
    strengths = [torch.linalg.vector_norm(network.block(t, s).weight.detach()).item()
                 for t, s in network.connections]  # fmt: skip
    widths = [1 + 16 * strength / max(strengths) for strength in strengths]
    assert sorted(b.line.width for b in bands) == pytest.approx(sorted(widths), abs=1e-2)
    assert len(drawn[-1].x) == result.best().widths[-1]
    hidden = figures.eigenvalue_figure(result, "best").data
    values = result.history.member(result.best().member).snapshots[-1][1].values()
    assert sorted(trace.name for trace in hidden) == sorted(
        f"hidden {depth}: {int((each == 0).sum())} of {len(each)} exactly zero"
        for depth, each in enumerate(values, start=1)
    )
    names = {trace.name for trace in figures.history_figure(result, "best").data}
    assert names == {"training loss", "recruited in hidden 1", "recruited in hidden 2"}
    cut = figures.pruning_figure(result, "best").data
    assert list(cut[-1].x) == [result.best().parameters]
    for figure in (front, figures.pruning_figure(result, "best")):
        (line,) = figure.layout.shapes
        assert line.y0 == line.y1 == result.best().score - result.tolerance
        low, high = figure.layout.yaxis.range
        assert all(low < found.score < high for found in (*result.front, result.linear))
        assert high - low < 1.5 * (result.best().score - low)
    if task == "regression":
        assert [t.name for t in figures.fit_figure(result).data] == ["u", "v", "equal"]
        with pytest.raises(ValueError, match=r"a classification\. Got a regression"):
            figures.confusion_figure(result)
    else:
        counts = figures.confusion_figure(result, "best").data[0].z
        assert np.sum(counts) == len(X)
        with pytest.raises(ValueError, match=r"a regression\. Got a classification"):
            figures.fit_figure(result)


def test_inputs_by_name_and_side_by_side():
    small = small_result("regression")
    read = figures.architecture_figure(small, 0).data
    (inputs,) = (trace for trace in read if trace.name == "layer 0: 1 of 3")
    (read,) = small.front[0].network.reads
    column = html.escape(X.columns[read], quote=False)
    assert [words.split(", fan-in")[0] for words in inputs.text] == [column]
    wide = dataclasses.replace(small.best(), network=CompactNetwork([3, 60, 2], [(1, 0), (2, 1)]))
    (hidden,) = (t for t in figures.architecture_figure(small, wide).data if "60" in str(t.name))
    places = list(zip(hidden.x, hidden.y, strict=True))
    assert len(set(places)) == 60
    assert len(set(hidden.y)) == 20  # three files
    assert hidden.text[7].startswith("neuron 7, fan-in 3, fan-out 2, strength ")


def test_scores_over_training():
    result = validated_result()
    drawn = {trace.name: trace for trace in figures.history_figure(result, "best").data}
    assert list(drawn["validation score"].y) == pytest.approx(
        [scores[0] for scores in result.history.validation_score]
    )
    assert "validation loss" in drawn


def test_the_linear_model_where_it_is_not_on_the_front():
    result = small_result("binary")
    assert result.linear not in result.front
    last = figures.pruning_figure(result, "linear").data[-1]
    assert list(last.x) == [result.linear.parameters]
    counts = figures.confusion_figure(result, "linear").data[0].z
    assert np.array_equal(counts, result.linear.answers.numpy())
    assert figures.front_figure(unjudged_result()).data


def test_names_are_text():
    labels = figures.confusion_figure(small_result("multiclass")).data[0].x
    assert not any("<" in label for label in labels)


def test_what_is_missing_leaves_a_sentence(older):
    bare = dataclasses.replace(older, history=History())
    by_figure = {
        figures.confusion_figure: "not in this run",
        figures.pruning_figure: "not in this run",
        figures.history_figure: "No history",
        figures.eigenvalue_figure: "No eigenvalues",
    }
    for figure, words in by_figure.items():
        drawn = figure(bare)
        assert len(drawn.data) == 0
        assert words in drawn.layout.annotations[0].text


def test_plotting_loads_when_it_is_used():
    code = (
        "import sys, torchsparcs, torchsparcs.report, torchsparcs.report.page; "
        "print(*({'plotly', 'matplotlib', 'tensorboard'} & {*sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout.split()) == (0, []), run.stderr


def test_of_a_network():
    result = chain_result()
    small, best = result.smallest(), result.best()
    (line,) = (trace for trace in figures.front_figure(result).data if trace.name == "front")
    assert list(line.x) == [found.parameters for found in result.front]
    drawn = figures.architecture_figure(result, "best").data
    layers = [trace for trace in drawn if trace.mode == "markers"]
    for trace, width, active in zip(
        layers[1:-1], best.widths[1:], best.network.active, strict=False
    ):
        assert list(trace.marker.color) == [figures.BLUE] * active + [figures.ORANGE] * (
            width - active
        )
    assert layers[1].text[0].startswith("channel 0, fan-in 1, ")
    names = [trace.name for trace in figures.history_figure(result).data]
    assert names[-3:] == ["validation score", "recruited in hidden 1", "recruited in hidden 2"]
    assert figures.eigenvalue_figure(result).layout.yaxis.title.text == "channels"
    (way, picked) = figures.pruning_figure(result).data
    assert sorted(way.x) == sorted(attempt.parameters for attempt in result.attempts)
    assert list(picked.x) == [small.parameters]
    assert np.array_equal(figures.confusion_figure(result).data[0].z, small.answers.numpy())
    names = [trace.name for trace in figures.fit_figure(chain_result("regression")).data]
    assert names == ["y", "equal"]
