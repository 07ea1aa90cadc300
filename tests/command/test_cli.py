"""The command line: what a person sees, what is in the folder, one line for every error."""

import dataclasses
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from outcomes import assert_same
from rich.console import Console
from shell import Outcome, sparcs
from specimens import kind_of, write_files

import torchsparcs
from torchsparcs.command import jobs, main, options, predicting
from torchsparcs.command.console import open_console, print_files
from torchsparcs.export.formats import FORMATS
from torchsparcs.judging.scoring import QUANTILE, SCORINGS
from torchsparcs.parallel.executor import ENGINES, Executor
from torchsparcs.report.excerpt import layers_in_short
from torchsparcs.tables import kinds
from torchsparcs.tables.datasets import BUILT_IN
from torchsparcs.tables.target import CHOICES
from torchsparcs.tables.writers import WRITERS, without_formulas

pytestmark = pytest.mark.usefixtures("brief_searches")
ROOT = Path(__file__).parents[2]
QUICK = ("--steps", "30", "--widths", "8,4", "--penalty-weights", "0.01", "--validation", "2")
MARKUP = "[red]width"  # a column whose name rich must not understand
LABELS = np.array(["daisy", "[b]rose", "tulip, red"])


def flowers(rows=240) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    length, width = generator.normal(size=(2, rows))
    soil = np.array(["clay", "peat", "sand"])[generator.integers(3, size=rows)]
    kind = LABELS[(length > 0).astype(int) + (width > 0.5)]
    return pd.DataFrame(
        {"length": length, MARKUP: 100 + 10 * width, "soil": soil, "planet": "Earth", "kind": kind}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def table(folder) -> Path:
    flowers().to_csv(folder / "flowers.csv", index=False)
    return folder / "flowers.csv"


@pytest.fixture(scope="module")
def searched(folder, table) -> tuple[Path, Outcome]:
    run = folder / "run"
    return run, sparcs("search", table, "--target", "kind", "--out", run, "--pick", "best", *QUICK)


@pytest.fixture(scope="module")
def run(searched) -> Path:
    assert searched[1].code == 0, searched[1].err
    return searched[0]


@pytest.fixture(scope="module")
def predictions(folder, table, run) -> pd.DataFrame:
    outcome = sparcs("predict", run, table)
    assert outcome.code == 0, outcome.err
    return pd.read_csv(io.StringIO(outcome.out))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# --- search and show ---


def test_the_folder_of_a_search(run):
    result = torchsparcs.load_result(run)
    networks = [f"networks/{index:02d}.safetensors" for index in range(len(result.front))]
    assert files_in(run) == sorted(
        [
            *("front.csv", "front.json", "history.json", "history.safetensors"),
            *("model.onnx", *networks, "networks/linear.safetensors", "settings.json"),
            "report.html",
        ]
    )
    assert result.settings["data"] == "flowers.csv"
    assert result.settings["target"] == "kind"
    assert result.settings["pick"] == "best"
    assert result.settings["version"] == torchsparcs.__version__
    assert result.settings["config"]["steps"] == 30
    assert result.settings["fits"] == 3


def test_a_report_is_written_again_or_elsewhere(run, tmp_path):
    first = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert sparcs("report", run).code == 0
    assert (run / "report.html").read_bytes() == first
    elsewhere = tmp_path / "page.html"
    assert sparcs("report", run, "--out", elsewhere).code == 0
    assert elsewhere.read_bytes() == first
    refused = sparcs("report", run, "--out", elsewhere)
    assert refused.code == 1
    assert "is: choose another, or use --force" in refused.err


def test_a_report_with_what_columns_are_worth(run, table, tmp_path):
    page = tmp_path / "page.html"
    told = sparcs("report", run, "--data", table, "--out", page)
    assert told.code == 0, told.err
    assert re.match(
        r"worth of the columns, in accuracy on 240 rows: (length|\[red\]width) 0\.", told.out
    )
    assert "worth to the pick" in page.read_text()
    assert "worth to the pick" not in (run / "report.html").read_text()
    flowers().drop(columns="kind").to_csv(tmp_path / "new.csv", index=False)
    refused = sparcs("report", run, "--data", tmp_path / "new.csv")
    assert "Expected rows with 'kind'" in refused.err
    refused = sparcs("report", run, "--teacher", tmp_path / "model.onnx")
    assert "Expected --data with it" in refused.err


def test_what_a_search_prints(searched, run):
    outcome, best = searched[1], torchsparcs.load_result(run).best()
    assert outcome.err == ""
    assert (
        "240 rows, 4 columns; 3 classes in 'kind': '[b]rose', 'daisy', 'tulip, red'"
        in (outcome.out.splitlines()[0])
    )
    marked = [line.split() for line in outcome.out.splitlines() if line.lstrip().startswith("→")]
    assert len(marked) == 1
    assert f"{best.parameters:,}" in marked[0]
    assert any("best" in word for word in marked[0])
    score = f"{100 * best.expected:.1f} % ± {100 * best.standard_error:.1f} expected on new rows"
    score += f"; {100 * best.score:.1f} % on"
    assert f"Picked (best): {best.architecture}\n" in re.sub(" +\n", "\n", outcome.out)
    assert f"  size   {best.parameters} parameters (linear model: " in outcome.out
    assert f"  score  accuracy {score}" in outcome.out
    assert "linear" in outcome.out
    assert "not 'planet'" in outcome.out or "'planet'" in outcome.out
    assert f"sparcs predict {run} DATA" in outcome.out
    assert "\x1b" not in outcome.out


def test_a_narrow_terminal_has_the_table_without_folds(run, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    text = sparcs("show", run, "--all").out
    assert "\x1b[1m" in text  # the pick is bold
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    result = torchsparcs.load_result(run)
    for number, candidate in enumerate(result.front):
        (row,) = (line for line in lines if re.match(f"(→| ) ?{number}  ", line))
        assert f" {candidate.parameters:,} " in row
        assert row.rstrip().endswith(layers_in_short(candidate))
    words = " ".join(" ".join(lines).split())
    assert result.best().architecture in words


def test_plain_text_is_as_wide_as_columns_say(run, monkeypatch):
    wide = sparcs("show", run).out
    monkeypatch.setenv("COLUMNS", "80")
    narrow = sparcs("show", run).out
    assert "MACs" in wide
    assert "MACs" not in narrow
    assert max(map(len, wide.splitlines())) > 80 >= max(map(len, narrow.splitlines()))


def test_without_colour(run, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    codes = {*re.findall(r"\x1b\[([0-9;]*)m", sparcs("show", run).out)}
    assert codes <= {"0", "1", "2"}  # bold and dim are no colours
    missing = sparcs("show", "nowhere").err
    assert missing.startswith("error: ")


def test_a_long_front_is_told_by_a_few(run, tmp_path):
    result = torchsparcs.load_result(run)
    many = [
        dataclasses.replace(result.best(), score=0.5 + 0.02 * n, expected=0.5 + 0.02 * n)
        for n in range(20)
    ]
    settings = {**result.settings, "pick": 3}
    dataclasses.replace(result, front=tuple(many), settings=settings).save(tmp_path / "a b")
    short, whole = (sparcs("show", tmp_path / "a b", *more).out for more in ((), ("--all",)))
    rows = [re.findall(r"(?m)^[→ ] ?([0-9]+)  ", text) for text in (short, whole)]
    assert [*map(int, rows[1])] == [*range(20)]
    assert len(rows[0]) == 8
    assert {"3", "19"} <= {*rows[0]}
    assert f"12 more networks: sparcs show '{tmp_path / 'a b'}' --all" in short


def test_the_page_is_opened(run, monkeypatch):
    browser = Mock(return_value=True)
    monkeypatch.setattr("webbrowser.open", browser)
    assert sparcs("report", run, "--open").err == ""
    browser.assert_called_once_with((run / "report.html").as_uri())
    browser.return_value = False
    told = sparcs("report", run, "--open")
    assert (told.code, told.err.split(":")[0]) == (0, "warning")
    assert (run / "report.html").as_uri() in told.err


def test_a_terminal_is_given_the_address_of_the_page(run, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for is_terminal in (True, False):
        monkeypatch.setattr(Console, "is_terminal", is_terminal)
        print_files(open_console(), run, None, {})
        address = (run / "report.html").as_uri()
        assert (address in capsys.readouterr().out.splitlines()) is is_terminal


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"chip": "avr", "int8": False}, "--format c --measure avr"),
        ({"chip": "avr", "int8": True}, "--format c --int8 --data DATA --measure avr"),
    ],
)
def test_who_asked_for_bytes_is_told_how_to_get_the_code(settings, options, run, capsys):
    print_files(open_console(), run, None, settings)
    assert f"  sparcs export {run} {options}" in capsys.readouterr().out.splitlines()
    print_files(open_console(), run, None, {"chip": None})
    assert "sparcs export" not in capsys.readouterr().out


def test_show_prints_the_same_table(searched, run):
    outcome = sparcs("show", run)
    assert (outcome.code, outcome.err) == (0, "")
    table = searched[1].out.split("In ")[0]
    assert outcome.out.startswith(table)
    assert "seed 0" in outcome.out
    assert f"torchsparcs {torchsparcs.__version__}" in outcome.out


def test_the_folder_of_a_network_says_its_version_too(tmp_path):
    write_files(tmp_path, kind_of("folder of a network").bases[0])
    assert f"torchsparcs {torchsparcs.__version__}" in sparcs("show", tmp_path).out
    content = json.loads((tmp_path / "settings.json").read_text())
    for name in ("versions", "device", "seconds"):  # as in an older folder
        del content["settings"][name]
    (tmp_path / "settings.json").write_text(json.dumps(content))
    assert "torchsparcs not recorded" in sparcs("show", tmp_path).out


def test_a_column_that_was_renamed(run, table, tmp_path):
    renamed = pd.read_csv(table).rename(columns={"length": "Lenght"})
    renamed.to_csv(tmp_path / "new.csv", index=False)
    told = sparcs("predict", run, tmp_path / "new.csv").err
    assert "Missing: 'length'" in told
    assert "Is 'Lenght' what was 'length'?" in told
    renamed.rename(columns={"Lenght": "other"}).to_csv(tmp_path / "new.csv", index=False)
    assert "what was" not in sparcs("predict", run, tmp_path / "new.csv").err


def test_another_run_is_meant(run):
    told = sparcs("show", run.with_name("runn")).err
    assert f"Did you mean '{run}'?" in told
    assert "Did you mean" not in sparcs("show", run / "networks").err


def test_long_names_are_shortened(table, tmp_path):
    name = "n" * 500
    flowers().rename(columns={"kind": name}).to_csv(tmp_path / "long.csv", index=False)
    told = sparcs("search", tmp_path / "long.csv", "--target", "kid", *QUICK).err
    assert f"'{'n' * 79}…'" in told
    assert len(told) < 400


def test_names_are_shown_as_they_are(run, tmp_path):
    """Rich markup in the name of a column is text."""
    result = torchsparcs.load_result(run)
    named = {(1,): f"1 of 4 columns: '{MARKUP}'", (0, 2, 3, 4): "2 of 4 columns: 'length', 'soil'"}
    for reads, words in named.items():
        network = torchsparcs.CompactNetwork([5, 3], [(1, 0)], reads=reads)
        front = (dataclasses.replace(result.best(), network=network),)
        dataclasses.replace(result, front=front).save(tmp_path, force=True)
        assert f"  reads  {words} " in sparcs("show", tmp_path).out.replace("\n", " ")


def test_a_second_search_takes_the_next_folder(table, tmp_path, monkeypatch):
    """Without the ONNX packages all but model.onnx is there; with --quiet only the folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "flowers").mkdir(parents=True)
    (tmp_path / "runs" / "flowers" / "mine.txt").write_text("kept")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    outcome = sparcs("search", table, "--target", "kind", *QUICK)
    assert outcome.code == 0, outcome.err
    assert "model.onnx was not written" in outcome.out
    assert "pip install 'torchsparcs[onnx]'" in outcome.out
    quiet = sparcs("search", table, "--target", "kind", "--quiet", *QUICK)
    assert quiet == (0, str(Path("runs", "flowers-3")) + "\n", "")
    assert files_in(tmp_path / "runs" / "flowers") == ["mine.txt"]
    for name in ("flowers-2", "flowers-3"):
        assert torchsparcs.load_result(tmp_path / "runs" / name).settings["pick"] == "smallest"
        assert not (tmp_path / "runs" / name / "model.onnx").exists()


def test_a_forced_search_leaves_no_old_model(table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for name in ("model.onnx", "mine.txt"):
        (tmp_path / name).write_text("old")
    arguments = ("search", table, "--target", "kind", "--out", tmp_path, *QUICK)
    refused = sparcs(*arguments)
    assert refused.code == 1
    assert "has files in it; choose another, or use --force" in refused.err
    assert files_in(tmp_path) == ["mine.txt", "model.onnx"]
    assert sparcs(*arguments, "--force").code == 0
    assert (tmp_path / "mine.txt").read_text() == "old"
    assert "settings.json" in files_in(tmp_path)
    assert "model.onnx" not in files_in(tmp_path)


def test_several_targets(tmp_path):
    """A regression of two columns from an NPZ file, predicted into a parquet file."""
    x = np.random.default_rng(0).normal(size=(120, 3))
    y = np.stack([x[:, 0] * 3 + 50, x.sum(axis=1)], axis=1)
    np.savez(tmp_path / "sums.npz", X=x, y=y)
    outcome = sparcs("search", tmp_path / "sums.npz", "--out", tmp_path / "run", *QUICK)
    assert outcome.code == 0, outcome.err
    assert "120 rows, 3 columns; regression of 'y0', 'y1'" in outcome.out
    assert "R²" in outcome.out
    file = tmp_path / "new" / "out.parquet"
    outcome = sparcs("predict", tmp_path / "run", tmp_path / "sums.npz", "-o", file)
    assert outcome == (0, f"120 rows in {file}\n", "")
    predicted = pd.read_parquet(file)
    assert list(predicted) == ["prediction_y0", "prediction_y1"]
    expected = torchsparcs.load_result(tmp_path / "run").predict(x)
    np.testing.assert_allclose(predicted.to_numpy(), expected, rtol=1e-6, atol=1e-7)


# --- predict ---


def test_predictions_are_in_the_order_of_the_rows(run, predictions):
    result = torchsparcs.load_result(run)
    frame = flowers()
    names = [f"probability_{label}" for label in sorted(LABELS)]
    assert list(predictions) == ["prediction", *names]
    assert predictions["prediction"].tolist() == result.predict(frame, "best").tolist()
    assert predictions["prediction"].nunique() > 1
    exact = result.predict_proba(frame, "best")
    np.testing.assert_allclose(predictions[names], exact, rtol=1e-6, atol=1e-40)  # of float32
    np.testing.assert_allclose(predictions[names].sum(axis=1), 1, rtol=1e-6)


def test_another_pick_predicts_something_else(run, table, predictions):
    result = torchsparcs.load_result(run)
    outcome = sparcs("predict", run, table, "--pick", "0")
    other = pd.read_csv(io.StringIO(outcome.out)).iloc[:, 1:].to_numpy()
    np.testing.assert_allclose(other, result.predict_proba(flowers(), 0), rtol=1e-6)
    assert not np.allclose(other, predictions.iloc[:, 1:])
    outcome = sparcs("predict", run, table, "--pick", "99")
    assert outcome.code == 1
    assert "Expected a pick among best, smallest, linear and 0 to" in outcome.err


def test_columns_that_are_kept_stand_before_the_predictions(run, tmp_path, predictions):
    codes = [f"{i:04d}" for i in range(240)]  # also where the search left a column out
    new = flowers().assign(id=codes, planet=codes, prediction="=1+1")
    new[[*new.columns[::-1]]].to_csv(tmp_path / "new.csv", index=False)
    kept = ("--keep", "id", "--keep", "planet", "--keep", "soil")
    outcome = sparcs("predict", run, tmp_path / "new.csv", *kept)
    said = pd.read_csv(io.StringIO(outcome.out), dtype={"id": str, "planet": str})
    pd.testing.assert_frame_equal(said[[*kept[1::2]]], new[[*kept[1::2]]])
    pd.testing.assert_frame_equal(said.iloc[:, 3:], predictions)
    for column, words in (("Id", "Did you mean 'id'?"), ("prediction", "more than one 'predict")):
        outcome = sparcs("predict", run, tmp_path / "new.csv", "--keep", column)
        assert outcome.code == 1
        assert words in outcome.err


def test_a_sheet_and_kinds_are_asked_for_and_known_when_a_search_goes_on(tmp_path, monkeypatch):
    table = flowers(60).assign(soil=["007", "07", "7"] * 20)
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        table.to_excel(book, sheet_name="May", index=False)
        table.to_excel(book, sheet_name="June", index=False)
    arguments = ("search", tmp_path / "a.xlsx", "--target", "kind", *QUICK, "--out", tmp_path / "r")
    outcome = sparcs(*arguments)
    assert outcome.code == 1
    assert "'May', 'June': choose one with --sheet." in outcome.err
    with monkeypatch.context() as patch:
        patch.setattr(Executor, "train", Mock(side_effect=KeyboardInterrupt))
        assert sparcs(*arguments, "--sheet", "May", "--kind", "soil=7,07,007").code == 130
    outcome = sparcs("search", "--resume", tmp_path / "r")
    assert outcome.code == 0, outcome.err
    result = torchsparcs.load_result(tmp_path / "r")
    assert result.inputs.columns[2].categories == ("7", "07", "007")
    assert "3 ordered categories, as was asked for" in (tmp_path / "r/report.html").read_text()
    said = sparcs("predict", tmp_path / "r", tmp_path / "a.xlsx", "--sheet", "June")
    assert said.out.count("\n") == 61


def test_predictions_in_a_file(run, table, tmp_path, predictions):
    file = tmp_path / "out.csv"
    assert sparcs("predict", run, table, "-o", file) == (0, f"240 rows in {file}\n", "")
    pd.testing.assert_frame_equal(pd.read_csv(file), predictions)
    file.write_text("old")
    outcome = sparcs("predict", run, table, "-o", file)
    assert outcome.code == 1
    assert f"{file} is: choose another, or use --force" in outcome.err
    assert file.read_text() == "old"
    assert sparcs("predict", run, table, "-o", file, "--force").code == 0
    pd.testing.assert_frame_equal(pd.read_csv(file), predictions)


def test_warnings_are_one_line(run, tmp_path):
    frame = flowers(4)
    frame.loc[1, "soil"] = "lava"
    frame.to_csv(tmp_path / "new.csv", index=False)
    outcome = sparcs("predict", run, tmp_path / "new.csv", "--pick", "linear")
    assert outcome.code == 0
    assert len(outcome.out.splitlines()) == 5
    (line,) = outcome.err.splitlines()
    assert line.startswith("warning: ")
    assert "'lava'" in line


# --- export ---


def encoded(run) -> torch.Tensor:
    inputs = torchsparcs.load_result(run).preprocessing.inputs
    return torch.from_numpy(inputs.encode(flowers())).float()


def test_model_onnx_predicts_the_same(run, predictions):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(run / "model.onnx", providers=["CPUExecutionProvider"])
    given = {column.name: flowers()[column.name].to_numpy() for column in session.get_inputs()}
    (output,) = session.run(["output"], given)
    np.testing.assert_allclose(output, predictions.iloc[:, 1:], atol=1e-5)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["columns"]) == [*given]
    assert json.loads(metadata["classes"]) == sorted(LABELS)
    assert metadata["task"] == "multiclass"


def test_export_of_encoded_columns(run, tmp_path, predictions):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    outcome = sparcs("export", run, "--encoded", "-o", path)
    assert "It takes the encoded columns" in outcome.out
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (output,) = session.run(["output"], {"input": encoded(run).numpy()})
    np.testing.assert_allclose(output, predictions.iloc[:, 1:], atol=1e-5)
    names = ["length", MARKUP, "soil=clay", "soil=peat", "soil=sand"]
    assert json.loads(session.get_modelmeta().custom_metadata_map["columns"]) == names
    assert sparcs("export", run, "--encoded", "--format", "torch").code == 2


def test_export_to_onnx(run):
    pytest.importorskip("onnxruntime")
    outcome = sparcs("export", run)
    assert outcome.code == 0, outcome.err
    path = run / "model-best.onnx"
    assert str(path) in outcome.out
    assert path.read_bytes() == (run / "model.onnx").read_bytes()
    path.write_text("old")
    refused = sparcs("export", run)
    assert refused.code == 1
    assert path.read_text() == "old"
    assert sparcs("export", run, "--force").code == 0
    assert path.read_bytes() == (run / "model.onnx").read_bytes()
    path.unlink()


def test_export_to_torch(run, tmp_path, predictions):
    path = tmp_path / "model.pt2"
    outcome = sparcs("export", run, "--format", "torch", "-o", path)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"torch.export.load('{path}').module()" in outcome.out
    code = (
        "import sys, numpy, torch\n"
        "module = torch.export.load(sys.argv[1]).module()\n"
        "x = torch.from_numpy(numpy.load(sys.argv[2]))\n"
        "assert 'torchsparcs' not in sys.modules\n"
        "numpy.save(sys.argv[3], module(x).detach().numpy())\n"
    )
    given, got = tmp_path / "given.npy", tmp_path / "got.npy"
    np.save(given, encoded(run).numpy())
    subprocess.run([sys.executable, "-c", code, path, given, got], check=True, timeout=60)
    np.testing.assert_allclose(np.load(got), predictions.iloc[:, 1:], atol=1e-5)


def test_export_to_another_ending(run, tmp_path):
    for format, name in (("onnx", "model.pt2"), ("torch", "model.pt"), ("safetensors", "model")):
        outcome = sparcs("export", run, "--format", format, "-o", tmp_path / name)
        assert outcome.code == 1
        assert is_one_line(outcome), outcome
        assert f"for the format {format}. Got '{tmp_path / name}'" in outcome.err
    assert not files_in(tmp_path)


def test_export_to_safetensors(run, tmp_path):
    path = tmp_path / "model.safetensors"
    outcome = sparcs("export", run, "--format", "safetensors", "--pick", "0", "-o", path)
    assert outcome.code == 0, outcome.err
    assert f"the preprocessing is in {run / 'settings.json'}" in outcome.out
    result, network = torchsparcs.load_result(run), torchsparcs.load(path)
    inputs = result.preprocessing.inputs.transform(flowers())
    torch.testing.assert_close(network(inputs).detach(), result.outputs(flowers(), 0))


# --- errors ---


def changed(**columns) -> pd.DataFrame:
    return flowers().assign(**columns)


def write_csv(frame: pd.DataFrame):
    return lambda path: frame.to_csv(path, index=False)


BAD_TABLES = {
    "missing file": ("none.csv", None, (), "There is none at .*none.csv"),
    "unknown name": ("digitz", None, (), "among digits, iris.*digitz'. Did you mean 'digits'"),
    "another file": ("s.csv", lambda path: path.with_name("ss.csv").touch(), (), "mean '.*ss.csv'"),
    "unknown ending": ("table.xls", None, (), r"ends in \.csv"),
    "missing column": ("t.csv", write_csv(flowers()), ("--target", "kid"), "mean 'kind'"),
    "missing column to drop": (
        "t.csv",
        write_csv(flowers()),
        ("--target", "kind", "--drop", "plant"),
        "columns to drop among .*Got 'plant'. Did you mean 'planet'",
    ),
    "no target": ("t.csv", write_csv(flowers()), (), "Expected a target: one column called target"),
    "text target": (
        "t.csv",
        write_csv(flowers()),
        ("--target", "kind", "--task", "regression"),
        "Expected a numeric target for regression. Got text in 'kind'",
    ),
    "unknown task": (
        "t.csv",
        write_csv(flowers()),
        ("--target", "kind", "--task", "ranking"),
        "Expected a task among auto, classification.* 'ranking'",
    ),
    "empty table": ("t.csv", write_csv(flowers(0)), ("--target", "kind"), "rows below the header"),
    "empty file": ("t.csv", Path.touch, (), "is empty"),
    "one class": (
        "t.csv",
        write_csv(changed(kind="daisy")),
        ("--target", "kind"),
        "Got one class, 'daisy', in 'kind'",
    ),
    "empty target": (
        "t.csv",
        write_csv(changed(length=np.nan)),
        ("--target", "length"),
        "Got 240 in which it is missing",
    ),
    "infinite": (
        "t.csv",
        write_csv(changed(length=[np.inf, -np.inf] + [1.5] * 238)),
        ("--target", "kind"),
        "Got 2 infinite in 'length'",
    ),
    "duplicate columns": (
        "t.csv",
        lambda path: path.write_text("a,a,target\n1,2,3\n4,5,6\n"),
        (),
        "more than one 'a'",
    ),
    "text called parquet": (
        "t.parquet",
        write_csv(flowers()),
        (),
        r"Expected a whole parquet file\. t\.parquet cannot be read",
    ),
    "text called npz": ("t.npz", write_csv(flowers()), (), r"Expected a whole \.npz file"),
    "parquet called text": ("t.csv", lambda p: flowers().to_parquet(p), (), "is parquet"),
    "a folder": ("t.csv", Path.mkdir, (), r"a folder of \.parquet files"),
}


def is_one_line(outcome: Outcome) -> bool:
    return (
        len(outcome.err.splitlines()) == 1
        and outcome.err.startswith("error: ")
        and "Traceback" not in outcome.err + outcome.out
    )


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_one_line(case, tmp_path, monkeypatch):
    name, write, options, message = BAD_TABLES[case]
    monkeypatch.chdir(tmp_path)
    if write is not None:
        write(Path(name))
    before = files_in(tmp_path)
    outcome = sparcs("search", name, *options, *QUICK)
    assert outcome.code == 1
    assert is_one_line(outcome), outcome
    assert re.search(message, outcome.err), outcome.err
    assert files_in(tmp_path) == before
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "--fast"], "--fast"),
        (["serch"], "serch"),
        (["show"], "RUN"),
        (["search", "--widths", "8,x"], "'8,x'"),
        (["search", "--validation", "some"], "'some'"),
        (["search", "--pick", "largest"], "'largest'"),
        (["search", "--device", "abacus"], "'abacus'"),
        (["search", "--steps", "0"], "--steps"),
        (["search", "--seed", "one"], "--seed"),
        (["export", "run", "--format", "zip"], "safetensors, torch, c, python or javascript"),
    ],
)
def test_bad_usage_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = sparcs(*arguments)
    assert outcome.code == 2
    assert is_one_line(outcome), outcome
    assert message in outcome.err
    assert "--help" in outcome.err
    assert not files_in(tmp_path)


@pytest.mark.parametrize("command", ["show", "predict", "export"])
def test_a_folder_without_a_search(command, tmp_path):
    arguments = [tmp_path, "digits"] if command == "predict" else [tmp_path]
    outcome = sparcs(command, *arguments)
    assert outcome.code == 1
    assert is_one_line(outcome), outcome
    assert "has no settings.json" in outcome.err


def test_predicting_a_table_that_lacks_a_column(run, tmp_path):
    flowers().drop(columns="length").to_csv(tmp_path / "new.csv", index=False)
    outcome = sparcs("predict", run, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert outcome.code == 1
    assert is_one_line(outcome), outcome
    assert "Missing: 'length'" in outcome.err
    assert files_in(tmp_path) == ["new.csv"]


def test_predicting_into_an_unknown_ending(run, table, tmp_path):
    outcome = sparcs("predict", run, table, "-o", tmp_path / "out.xlsx")
    assert outcome.code == 1
    assert "ends in .csv, .parquet" in outcome.err
    assert not files_in(tmp_path)


def test_the_place_to_write_to_is_checked_before_the_work(table, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "search", lambda *_, **__: pytest.fail("searched"))
    (tmp_path / "file").write_text("kept")
    for out, message in (("file", "is a file"), ("file/run", "is a file")):
        outcome = sparcs("search", table, "--target", "kind", "--out", tmp_path / out)
        assert outcome.code == 1
        assert is_one_line(outcome), outcome
        assert message in outcome.err
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "stopped\n"),
        (torchsparcs.NonFiniteLossError("The loss\nbecame nan"), 1, "error: The loss became nan\n"),
        (
            ZeroDivisionError("by zero"),
            1,
            "error: unexpected ZeroDivisionError: by zero; set SPARCS_DEBUG=1 to see where\n",
        ),
    ],
    ids=["Ctrl-C", "a failed training", "a mistake of ours"],
)
def test_a_search_that_ends_early(table, tmp_path, monkeypatch, error, code, message):
    def fail(*arguments, **options):
        raise error

    monkeypatch.delenv("SPARCS_DEBUG", raising=False)
    monkeypatch.setattr(jobs, "search", fail)
    outcome = sparcs("search", table, "--target", "kind", "--out", tmp_path / "run")
    assert (outcome.code, outcome.err) == (code, message)
    assert not files_in(tmp_path)


def test_debugging_shows_where(monkeypatch):
    monkeypatch.setenv("SPARCS_DEBUG", "1")
    with pytest.raises(FileNotFoundError, match="There is none at none"):
        main(["search", "none.csv"])


def test_version_and_help():
    assert sparcs("--version") == (0, f"torchsparcs {torchsparcs.__version__}\n", "")
    assert "sparcs --version" in sparcs("--help").out
    for command in ("search", "show", "predict", "export"):
        assert command in sparcs("--help").out
        outcome = sparcs(command, "--help")
        assert outcome.code == 0
        assert "--help" in outcome.out
    outcome = sparcs()
    assert outcome.code == 2
    assert "predict" in outcome.out + outcome.err


def test_the_command_itself(tmp_path):
    outcome = subprocess.run(
        [sys.executable, "-m", "torchsparcs", "search", "none.csv"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert outcome.stderr == "error: Expected a data file. There is none at none.csv.\n"


def test_the_script_that_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["sparcs"].partition(":")
    assert getattr(importlib.import_module(module), name) is main


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
@pytest.mark.parametrize("module", ["typer", "torch"])
def test_stopped_while_modules_load(tmp_path, module):
    """A module that takes as long as torch may, and what it says of an interruption is its own."""
    slow = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException"
    (tmp_path / f"{module}.py").write_text(f"{slow}:\n    raise ImportError\n")
    outcome = subprocess.run(
        [sys.executable, "-m", "torchsparcs", "show", "run"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # tests may ignore it
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (130, "", "stopped\n")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["search", "--help"], ["serch"]])
def test_help_loads_no_numbers(arguments):
    """Neither torch nor pandas is waited for by who only asks what there is."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules))\n"
        "from torchsparcs.command import main\n"
        "main()"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in outcome.stdout.splitlines()[-1].split()}
    assert "typer" in loaded
    assert not loaded & {"torch", "numpy", "pandas", "sklearn", "rich"}


def test_the_choices_that_help_shows_are_those_there_are():
    assert (*BUILT_IN,) == options.DATASETS
    assert CHOICES[:3] == options.TASKS
    assert (*kinds.CHOICES,) == options.KINDS
    assert (*ENGINES,) == options.ENGINES
    assert (*FORMATS,) == options.FORMATS
    assert (*SCORINGS, QUANTILE) == options.SCORINGS


# --- what is left out ---


def test_a_column_that_is_dropped(tmp_path, table, monkeypatch):
    """It is in no network, a resumed search knows of it, and predicting needs no such column."""
    folder, arguments = tmp_path / "run", ("search", table, "--target", "kind", *QUICK)
    train = Executor.train

    def stop(executor, name, *rest, **more):
        if name != "training asleep":
            return train(executor, name, *rest, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Executor, "train", stop)
        dropping = ("--drop", "length", "--drop", "planet", "--out", folder)
        assert sparcs(*arguments, *dropping).code == 130
    assert sparcs("search", "--resume", folder, "--drop", "soil").code == 2
    resumed = sparcs("search", "--resume", folder)
    assert resumed.code == 0, resumed.err
    assert "240 rows, 2 columns" in resumed.out
    result = torchsparcs.load_result(folder)
    assert result.preprocessing.inputs.names == (MARKUP, "soil")
    assert result.settings["dropped"] == ["length", "planet"]
    assert "length, planet" in (folder / "report.html").read_text()
    flowers().drop(columns=["length", "planet"]).to_csv(tmp_path / "new.csv", index=False)
    with_it, without = (sparcs("predict", folder, path) for path in (table, tmp_path / "new.csv"))
    assert (with_it.code, with_it.out) == (0, without.out)


# --- going on ---


class TestResume:
    QUICK = ("--steps", "20", "--widths", "8", "--validation", "2")

    @pytest.fixture
    def interrupted(self, tmp_path, monkeypatch):
        """A folder in which a search was stopped by Ctrl-C in its training."""
        folder = tmp_path / "run"
        train, names = Executor.train, []

        def stop(executor, name, *rest, **more):
            names.append(name)
            if name.startswith("training"):
                raise KeyboardInterrupt
            return train(executor, name, *rest, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Executor, "train", stop)
            outcome = sparcs("search", "iris", *self.QUICK, "--seed", "3", "--out", folder)
        assert outcome.code == 130
        assert f"What is done is kept: sparcs search --resume {folder} goes on" in outcome.err
        assert "pilot" in names
        return folder

    def test_ctrl_c_keeps_the_front_and_goes_on(self, tmp_path, monkeypatch):
        folder, train = tmp_path / "run", Executor.train

        def press(executor, name, *rest, **more):
            if name == "training asleep":
                os.kill(os.getpid(), signal.SIGINT)
            return train(executor, name, *rest, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Executor, "train", press)
            outcome = sparcs("search", "iris", *self.QUICK, "--out", folder)
        assert outcome.code == 0, outcome.err
        assert "Stopping: the best front so far will be kept. Ctrl-C again aborts." in outcome.err
        assert "The search was ended by Ctrl-C" in outcome.out
        assert f"It was stopped: sparcs search --resume {folder} goes on." in outcome.out
        assert sparcs("show", folder).code == 0
        assert "by Ctrl-C" in (folder / "report.html").read_text()
        assert (folder / "model.onnx").exists()
        assert sparcs("search", "--resume", folder).code == 0
        result = torchsparcs.load_result(folder)
        assert result.settings["ended"] is None
        assert not (folder / "parts").exists()

    def test_a_time_budget(self, tmp_path):
        folder = tmp_path / "run"
        outcome = sparcs("search", "iris", "--time-budget", "0.001s", "--out", folder)
        assert outcome.code == 0, outcome.err
        assert "The search was ended by the time budget of 0 s" in outcome.out
        assert torchsparcs.load_result(folder).settings["time_budget"] == 0.001
        for nonsense in ("soon", "-5s", "0", "nan", ""):
            outcome = sparcs("search", "iris", f"--time-budget={nonsense}")
            assert outcome.code == 2
            assert "Expected a time such as 30s, 5m or 1h" in outcome.err

    def test_it_knows_its_options(self, interrupted, tmp_path):
        outcome = sparcs("search", "--resume", interrupted)
        assert outcome.code == 0, outcome.err
        other = tmp_path / "other"
        sparcs("search", "iris", *self.QUICK, "--seed", "3", "--out", other)
        assert_same(torchsparcs.load_result(interrupted), torchsparcs.load_result(other))
        assert sorted(p.name for p in interrupted.iterdir()) == sorted(
            p.name for p in other.iterdir()
        )
        again = sparcs("search", "--resume", interrupted)
        assert (again.code, again.out) == (0, "")
        assert "is finished: sparcs show" in again.err

    def test_other_options_are_refused(self, interrupted):
        outcome = sparcs("search", "--resume", interrupted, "--seed", "4")
        assert outcome.code == 2
        assert "Got seed" in outcome.err
        assert sparcs("search", "--resume", interrupted, "--quiet").out == f"{interrupted}\n"

    def test_nothing_to_go_on_with(self, tmp_path):
        outcome = sparcs("search", "--resume", tmp_path)
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert "has none" in outcome.err
        (tmp_path / "parts").mkdir()
        (tmp_path / "parts" / "job.json").write_text('{"data": 3, "colour": 1}')
        assert "job.json is damaged" in sparcs("search", "--resume", tmp_path).err

    def test_a_folder_with_unfinished_work_is_not_touched(self, interrupted):
        before = files_in(interrupted)
        outcome = sparcs("search", "iris", *self.QUICK, "--out", interrupted)
        assert outcome.code == 1
        assert "has files in it" in outcome.err
        assert files_in(interrupted) == before
        assert sparcs("search", "iris", *self.QUICK, "--out", interrupted, "--force").code == 0
        assert torchsparcs.load_result(interrupted).settings["seed"] == 0

    def test_unfinished_work_in_the_usual_folder_is_told_of(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(Executor, "train", lambda *_, **__: 1 / 0)
        assert sparcs("search", "iris", *self.QUICK).code == 1
        outcome = sparcs("search", "iris", *self.QUICK)
        assert "runs/iris has an unfinished search: sparcs search --resume" in outcome.err
        assert Path("runs/iris-2/parts/job.json").exists()

    def test_a_failed_start_leaves_what_others_made(self, tmp_path, monkeypatch):
        """Another run that came into the folder meanwhile is not ours to delete."""
        monkeypatch.chdir(tmp_path)

        def fail(*arguments, **options):
            Path("runs/other").mkdir()
            raise ValueError("no luck")

        monkeypatch.setattr(jobs, "search", fail)
        assert sparcs("search", "iris").code == 1
        assert [path.name for path in Path("runs").iterdir()] == ["other"]

    def test_unknown_engines(self):
        outcome = sparcs("search", "iris", "--engine", "dask")
        assert outcome.code == 2
        assert "Expected auto, local, processes or ray. Got 'dask'" in outcome.err
        assert "--engine ray" in sparcs("search", "iris", "--address", "here:1").err


# --- spreadsheets ---


def test_labels_that_are_formulas(tmp_path, monkeypatch):
    """A spreadsheet sees text; numbers stay numbers, and --raw and Parquet leave all as it is."""
    labels = ["=1+1", "@sum", "\tx", "+a", "-1", "plain"]
    x = np.arange(60.0)
    kinds = np.array(labels, dtype=object)[np.arange(60) // 10]
    table = tmp_path / "t.parquet"
    pd.DataFrame({"x": x, "=y": x[::-1], "kind": kinds}).to_parquet(table)
    run, file = tmp_path / "run", tmp_path / "p.csv"
    assert sparcs("search", table, "--target", "kind", "--out", run, *QUICK).code == 0
    answers = torchsparcs.load_result(run).target.classes
    assert sorted(answers) == sorted(labels)
    eye = torch.eye(len(answers), dtype=torch.double)
    monkeypatch.setattr(predicting, "outputs_of_part", lambda *_: eye)
    assert sparcs("predict", run, table, "-o", file).code == 0
    safe = pd.read_csv(file, dtype={"prediction": str}, keep_default_na=False)
    seen = safe["prediction"].tolist()
    assert sorted(seen) == sorted(["'=1+1", "'@sum", "'\tx", "'+a", "-1", "plain"])
    assert [text[1:] if text[0] == "'" else text for text in seen] == [*answers]
    assert sparcs("predict", run, table, "-o", file, "--raw", "--force").code == 0
    raw = pd.read_csv(file, dtype={"prediction": str})["prediction"].tolist()
    assert raw == [*answers]
    other = tmp_path / "p.parquet"
    assert sparcs("predict", run, table, "-o", other).code == 0
    assert pd.read_parquet(other)["prediction"].tolist() == [*answers]


def test_columns_that_are_formulas():
    table = pd.DataFrame({"=a": [-1.5, 2.0], "b": ["-x", "x"], "-2": [True, False]})
    safe = without_formulas(table)
    file = io.BytesIO()
    WRITERS[".csv"](file).add(safe)
    assert file.getvalue() == b"'=a,b,-2\n-1.5,'-x,True\n2.0,x,False\n"
