"""`sparcs predict` a few rows at a time: the same bytes as from all at once, in little memory."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import sparcs

from torchsparcs.tables import blocks, chunks

pytestmark = pytest.mark.usefixtures("brief_searches")
QUICK = ("--steps", "30", "--widths", "8,4", "--penalty-weights", "0.01", "--validation", "2")
ROWS = 100
KEEP = [part for column in ("id", "note", "age", "day") for part in ("--keep", column)]


def people(rows: int, seed: int = 0) -> pd.DataFrame:
    """Numbers, text, dates and numbers as people write them."""
    draw = np.random.default_rng(seed)
    age, height = draw.integers(18, 80, rows), draw.normal(size=rows).round(3)
    town = np.array(["Rome", "Oslo", "07"])[draw.integers(3, size=rows)]
    day = pd.Timestamp(2020, 1, 1) + pd.to_timedelta(draw.integers(900, size=rows), "D")
    price = [f"{value:.2f}".replace(".", ",") for value in draw.uniform(1, 99, rows)]
    return pd.DataFrame(
        {
            "age": age,
            "height": height,
            "town": town,
            "day": day.astype(str),
            "price": price,
            "score": age / 20 + height + (town == "Oslo") + day.day_of_year / 90,
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("predicting")
    people(200).to_csv(folder / "people.csv", index=False)
    outcome = sparcs(
        "search", folder / "people.csv", "--target", "score", *QUICK, "--out", folder / "run"
    )
    assert outcome.code == 0, outcome.err
    return folder / "run"


def texts(rows: int = ROWS) -> pd.DataFrame:
    """The rows as a file has them, text all of it, with an identifier and a note."""
    table = people(rows, seed=1).drop(columns="score").astype(str)
    return table.assign(
        id=[f"{i:04d}" for i in range(rows)], note=(["=1+1", "", "2"] * rows)[:rows]
    )


def changed(**cells) -> pd.DataFrame:
    """The same, with other cells: column=(row, text)."""
    table = texts()
    for name, (row, text) in cells.items():
        table.loc[row, name] = text
    return table


TABLES = {
    "as in the search": texts(),
    "a missing cell among integers": changed(age=(70, "")),
    "integers, then a fraction": changed(age=(70, "33.5")),
    "numbers, then text": changed(age=(70, "none")),
    "text, then numbers": changed(age=(3, "none")),
    "numbers, then infinity": changed(height=(70, "inf"), age=(80, "inf")),
    "far": changed(height=(70, "1e300")),
    "other towns": changed(town=(70, "Lima")),
    "towns that are numbers": texts().assign(town=["07"] * 50 + ["7"] * 49 + ["Rome"]),
    "no town": changed(town=(70, "")),
    "other dates": changed(day=(70, "soon")),
    "empty columns": texts().assign(height="", note=[""] * 99 + ["x"]),
    "truths": texts().assign(note=["True"] * 50 + [""] * 49 + ["True"]),
    "truths, then text": texts().assign(note=["TRUE"] * 50 + ["1"] * 50),
    "a column less": texts().drop(columns=["age", "height"]),
    "nothing as it was": texts().assign(age="x"),
}


def written(table: pd.DataFrame, folder: Path, ending: str) -> Path:
    path = folder / f"new{ending}"
    if ending in (".csv", ".csv.gz"):
        table.to_csv(path, index=False)
    elif ending == ".tsv":
        table.to_csv(path, index=False, sep="\t")
    elif ending == "":
        path.mkdir()
        for place in range(0, len(table), 40):
            typed(table).iloc[place : place + 40].to_parquet(path / f"{place:03d}.parquet")
    elif ending == ".parquet":
        typed(table).to_parquet(path, row_group_size=40)
    else:
        rows = [
            {name: plain(value) for name, value in row.items() if value not in ("", None)}
            for row in typed(table).astype(object).to_dict("records")
        ]
        lines = "\n".join(json.dumps(row, default=str) for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if ending.endswith("gz") else lines)
    return path


def plain(value):
    """A whole number as JSON has it; text and all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Columns with numbers only as such, days as dates."""
    made = {}
    for name in table:
        if name not in ("id", "town"):
            numbers = pd.to_numeric(table[name].replace("", np.nan), errors="coerce")
            if (numbers.isna() == (table[name] == "")).all():
                made[name] = numbers
    if (table["day"] != "soon").all():
        made["day"] = pd.to_datetime(table["day"])
    return table.assign(**made)


def predicted(monkeypatch, rows: int | None, *arguments):
    """What is said by so many rows at a time, of all at once where that is None."""
    with monkeypatch.context() as patch:
        if rows is None:
            patch.setattr(chunks, "_opened", lambda source, sheet: None)
        else:
            for name in ("LEAST_ROWS", "MOST_ROWS"):
                patch.setattr(blocks, name, rows)
        return sparcs("predict", *arguments)


ENDINGS = (".csv", ".parquet", ".jsonl")
SOME = "a missing cell among integers"
CASES = [
    *((name, ending) for name in TABLES for ending in ENDINGS),
    *((SOME, ending) for ending in (".tsv", ".csv.gz", "", ".ndjson.gz")),
]


@pytest.mark.parametrize(("name", "ending"), CASES)
def test_a_few_rows_at_a_time_say_what_all_say(run, tmp_path, monkeypatch, name, ending):
    path = written(TABLES[name], tmp_path, ending)
    best = ("--pick", "best", "--interval", "0.8")
    for options in (best, (*best, *KEEP), (*KEEP, "--raw")):
        whole = predicted(monkeypatch, None, run, path, *options)
        assert predicted(monkeypatch, 7, run, path, *options) == whole
    assert (whole.code == 0) == (whole.out.count("\n") == ROWS + 1)


def with_nulls(table: pd.DataFrame, folder: Path, rows: int, *names: str) -> Path:
    """JSON lines that say null in the first rows of these columns."""
    lines = [
        {name: None if i < rows and name in names else plain(value) for name, value in row.items()}
        for i, row in enumerate(typed(table).astype(object).to_dict("records"))
    ]
    path = folder / "new.jsonl"
    path.write_text("\n".join(json.dumps(line, default=str) for line in lines))
    return path


@pytest.mark.parametrize("rows", [21, ROWS])
def test_nulls_of_json_lines_are_read_in_parts(run, tmp_path, monkeypatch, rows):
    path = with_nulls(texts(), tmp_path, rows, "age", "note")
    whole = predicted(monkeypatch, None, run, path, "--pick", "best", *KEEP)
    monkeypatch.setattr(chunks, "read_table", None)
    assert predicted(monkeypatch, 7, run, path, "--pick", "best", *KEEP) == whole
    assert whole.code == 0


@pytest.mark.parametrize(("lacking", "kept"), [(["age", "height"], "note"), (["age"], "nota")])
def test_columns_that_json_lines_lack_are_told_without_reading_all_at_once(
    run, tmp_path, monkeypatch, lacking, kept
):
    path = written(texts().drop(columns=lacking), tmp_path, ".jsonl")
    options = ("--pick", "best", "--keep", kept)
    whole = predicted(monkeypatch, None, run, path, *options)
    monkeypatch.setattr(chunks, "read_table", None)
    assert predicted(monkeypatch, 7, run, path, *options) == whole
    assert whole.code == 1


def test_a_column_without_a_name_that_is_kept_stays(run, tmp_path, monkeypatch):
    path = tmp_path / "new.csv"
    texts().set_index(np.arange(ROWS) % 10).to_csv(path)
    whole = predicted(monkeypatch, None, run, path, "--keep", "Unnamed: 0")
    assert predicted(monkeypatch, 7, run, path, "--keep", "Unnamed: 0") == whole
    assert whole.code == 0


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["empty columns", "truths", "integers, then a fraction"])
def test_parquet_is_written_a_few_rows_at_a_time(run, tmp_path, monkeypatch, name, ending):
    path, out = written(TABLES[name], tmp_path, ending), tmp_path / "out.parquet"
    found = {}
    for rows in (None, 7):
        said = predicted(monkeypatch, rows, run, path, *KEEP, "-o", out, "--force")
        assert said.out == f"{ROWS} rows in {out}\n"
        found[rows] = pd.read_parquet(out)
    pd.testing.assert_frame_equal(found[7], found[None])


def test_times_that_are_kept_look_alike_in_all_rows(run, tmp_path, monkeypatch):
    """How pandas writes a date depends on whether any other has a time of the day."""
    table = typed(texts())
    for late in ("2020-01-05 12:30", "2020-01-05"):
        table.loc[70, "day"] = pd.Timestamp(late)
        table.to_parquet(tmp_path / "new.parquet", row_group_size=40)
        each = [
            predicted(monkeypatch, rows, run, tmp_path / "new.parquet", "--keep", "day")
            for rows in (None, 7)
        ]
        assert each[0] == each[1]
        assert ("00:00:00" in each[1].out) == (":" in late)


def test_what_goes_wrong_in_the_last_rows_leaves_nothing(run, tmp_path, monkeypatch):
    path, out = written(changed(height=(99, "inf")), tmp_path, ".csv"), tmp_path / "out.csv"
    said = predicted(monkeypatch, 7, run, path)
    assert (said.code, said.out) == (1, "")
    assert predicted(monkeypatch, 7, run, path, "-o", out).code == 1
    assert {each.name for each in tmp_path.iterdir()} == {path.name}


MEASURE = """
import re, sys
from pathlib import Path
from torchsparcs.command import main
from torchsparcs.tables import blocks
blocks.MOST_ROWS = 2**12
try:
    main(sys.argv[1:])
finally:
    peak = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
    print(int(peak) / 1024, file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is asked for as Linux tells it")
@pytest.mark.parametrize("ending", ENDINGS)
def test_memory_does_not_grow_with_the_rows(run, tmp_path, ending):
    peaks = []
    for rows in (2**13, 2**16):
        table = texts(rows).drop(columns=["id", "note"])
        more = [f"{place:01000d}" for place in range(rows)]
        path = written(table.assign(more=more), tmp_path, ending)
        command = (sys.executable, "-c", MEASURE, "predict", run, path, "-o", tmp_path / "out.csv")
        said = subprocess.run(
            [*map(str, command), "--force"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        peaks.append(float(said.stderr.split()[-1]))
    assert peaks[1] < peaks[0] + 40  # in MB; the larger table takes 66
