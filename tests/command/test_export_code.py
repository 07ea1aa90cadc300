"""sparcs export to source code: what is written, what int8 and a chip cost, one line for errors."""

import json
import shutil

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from generated import compiled, has, run_c, run_python
from reports import X, Y, small_result
from shell import sparcs

from torchsparcs import SpectralNetwork, TrainConfig, load_result, search, to_python
from torchsparcs.export.folding import program_of

OUTPUT = {
    "c": "model-smallest.h",
    "python": "model-smallest.py",
    "javascript": "model-smallest.mjs",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "run"
    small_result("binary").save(folder)
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "rows.csv"
    X.assign(y=Y["binary"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("format", OUTPUT)
def test_code_is_written_once(format, run):
    outcome = sparcs("export", run, "--format", format)
    assert (outcome.code, outcome.err) == (0, "")
    path = run / OUTPUT[format]
    assert f"parameters in {path}\n" in outcome.out
    assert "its comment says what it takes and gives" in outcome.out
    text = path.read_text()
    candidate = load_result(run).smallest()
    assert f"Accuracy on rows that it was not fitted to: {100 * candidate.score:.2f} % ±" in text
    assert f"Accuracy to be expected on new rows: {100 * candidate.expected:.2f} %." in text
    assert "Found in 150 rows." in text
    assert sparcs("export", run, "--format", format).code == 1
    assert path.read_text() == text


def test_python_says_what_predict_says(run, table, tmp_path):
    path = tmp_path / "model.py"
    assert sparcs("export", run, "--format", "python", "--pick", "best", "-o", path).code == 0
    shares = load_result(run).predict_proba(X, "best")
    rows = program_of(load_result(run).deployed("best")).rows(X)
    np.testing.assert_allclose(run_python(path, rows)[:, -2:], shares, atol=1e-5)


def test_a_result_leaves_as_its_smallest_network(run, tmp_path):
    result = load_result(run)
    to_python(result, tmp_path / "result.py")
    to_python(result.deployed("smallest"), tmp_path / "smallest.py")
    assert (tmp_path / "result.py").read_text() == (tmp_path / "smallest.py").read_text()


@pytest.mark.skipif(not has("gcc"), reason="no gcc")
def test_int8_is_fitted_judged_and_measured(run, table, tmp_path):
    path = tmp_path / "small.h"
    outcome = sparcs(
        *("export", run, "--format", "c", "--pick", "best", "-o", path),
        *("--int8", "--data", table, "--measure", "x86"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "int8 fitted to 150 rows of rows.csv: accuracy 0." in outcome.out
    result = load_result(run)
    before = f"{result.score(X, Y['binary'], 'best'):.4f} in float\n"
    assert before in outcome.out
    assert "x86: " in outcome.out
    assert " bytes of flash with libraries, " in outcome.out
    rows = program_of(result.deployed("best")).rows(X)
    answers = run_c(compiled(tmp_path, ["small"]), "small", rows)[:, 1]
    found = f"accuracy {(answers == (Y['binary'] == 'yes')).mean():.4f} there"
    assert found in outcome.out


def test_the_ending_asks_for_cpp(run, tmp_path):
    path = tmp_path / "small.hpp"
    outcome = sparcs("export", run, "--format", "c", "-o", path)
    assert (outcome.code, outcome.err) == (0, "")
    assert "namespace small_network {" in path.read_text()
    for format, ending in (("c", r".h or .hpp"), ("python", ".py")):
        outcome = sparcs("export", run, "--format", format, "-o", tmp_path / "small.cc")
        assert f"Expected a file that ends in {ending} for the format {format}." in outcome.err


def test_rows_without_a_target_are_not_judged(run, tmp_path):
    X.to_csv(tmp_path / "rows.csv", index=False)
    options = ("--format", "c", "--int8", "--data", tmp_path / "rows.csv")
    outcome = sparcs("export", run, *options)
    assert (outcome.code, outcome.err) == (0, "")
    assert "150 rows of rows.csv, which have no target to judge by" in outcome.out
    assert (run / "model-smallest-int8.h").is_file()  # not the name that float has
    again = sparcs("export", run, *options)
    assert again.code == 1
    assert "--force" in again.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--int8"], "Expected --data with it: rows such as those of the search"),
        (["--data", "rows.csv"], "Expected --int8 with it"),
        (
            ["--format", "python", "--int8", "--data", "a.csv"],
            "Expected --format c or onnx. Got python",
        ),
        (["--format", "onnx", "--measure", "avr"], "Expected --format c. Got onnx"),
        (["--measure", "z80"], "Expected cortex-m4, cortex-m0, avr or x86. Got 'z80'"),
    ],
)
def test_bad_usage_is_one_line(options, message, run, tmp_path):
    path = tmp_path / "model.h"
    outcome = sparcs("export", run, "--format", "c", *options, "-o", path)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not path.exists()


def test_where_no_compiler_is_the_bytes_are_predicted(run, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    path = tmp_path / "model.h"
    outcome = sparcs("export", run, "--format", "c", "--measure", "cortex-m4", "-o", path)
    assert outcome.code == 0
    assert "bytes of flash with libraries" in outcome.out
    assert "% off on average: arm-none-eabi-gcc is not here" in outcome.out
    assert "apt install gcc-arm-none-eabi" in outcome.out


def test_float_is_said_where_int8_was_searched(run, tmp_path):
    settings = tmp_path / "run" / "settings.json"
    shutil.copytree(run, settings.parent)
    words = "It is in float; the bytes of this search are those of int8"
    assert words not in sparcs("export", settings.parent, "--format", "c").out
    content = json.loads(settings.read_text())
    content["settings"]["int8"] = True
    settings.write_text(json.dumps(content))
    assert words in sparcs("export", settings.parent, "--format", "c", "--force").out


def test_int8_as_onnx(run, table, tmp_path):
    path = tmp_path / "model.onnx"
    options = ("--format", "onnx", "--int8", "--data", table)
    outcome = sparcs("export", run, *options, "-o", path)
    assert outcome.code == 0, outcome.err
    assert "in QDQ form" in outcome.out
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds


def test_a_table_that_lacks_columns_writes_nothing(run, tmp_path):
    pd.DataFrame({"other": [1, 2]}).to_csv(tmp_path / "rows.csv", index=False)
    path = tmp_path / "model.h"
    outcome = sparcs(
        "export", run, "--format", "c", "--int8", "--data", tmp_path / "rows.csv", "-o", path
    )
    assert outcome.code == 1
    assert "Expected the columns that were fitted" in outcome.err
    assert not path.exists()


def test_a_network_that_was_searched(tmp_path):
    x = torch.randn(60, 3)
    config = TrainConfig(epochs=1)
    result = search(
        x, x[:, :1].abs(), network=SpectralNetwork([3, 4, 1]), config=config, progress=False
    )
    result.save(tmp_path / "run")
    path = tmp_path / "model.py"
    outcome = sparcs("export", tmp_path / "run", "--format", "python", "-o", path)
    assert (outcome.code, outcome.err) == (0, "")
    rows = program_of(result.smallest().network).rows(x)
    expected = result.smallest().network(x).detach()
    np.testing.assert_allclose(run_python(path, rows)[:, :1], expected, atol=1e-5)
