"""Are tables taken as people have them, by the command line, ONNX and the estimators?

Each table of a folder, as Parquet and written to CSV, goes through `sparcs search FILE --target
target`, and `sparcs predict` answers rows that were held out, with their columns shuffled, one more
column, cells missing in every column and a text that nobody has seen in every column of text. Every
count in a warning is compared with the file. Then `model.onnx`, by onnxruntime alone, and an
estimator answer 10,000 such rows, beside the result itself.

    python benchmarks/as_they_are.py --tables FOLDER --workers 15 --resume
    python benchmarks/as_they_are.py --tables FOLDER --rows 400 --steps 5
"""

import argparse
import contextlib
import io
import json
import re
import tempfile
import time
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from by_size.preparing import as_date, listed
from recording import RESULTS
from sharing import measured_units

from torchsparcs import SearchResult, SparcsClassifier, SparcsRegressor, load_result
from torchsparcs.command.app import invoke

HELD_OUT = 300  # rows
GAPS = 5  # cells of each column, of those
ANSWERED = 10_000  # rows, by ONNX and the estimators
UNSEEN = "never seen before"
SHORT = ("--widths", "4", "--validation", "0.3", "--penalty-weights", "0.001")  # of few steps
COUNTED = re.compile(r"([\d,]+) rows? of '([^']*)'")
PROGRESS = re.compile(r": (\d+ (h|min|s) ?)+(, about .* left)?$")
START = np.datetime64("2000-01-01")
DAY = np.timedelta64(1, "D")


def read(folder: Path, name: str) -> pd.DataFrame:
    path = folder / f"{name}.parquet"
    return pd.read_parquet(path) if path.exists() else pd.read_csv(folder / f"{name}.csv")


def is_text(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column) and as_date(column) is None


def disturbed(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The same rows without target, as no search has seen them."""
    draw = np.random.default_rng(seed)
    rows = rows.drop(columns="target").reset_index(drop=True)
    rows = rows[[*draw.permutation(rows.columns)]].copy()
    for name in rows.columns:
        rows[name] = rows[name].astype(object if not _is_number(rows[name]) else "float64")
        if is_text(rows[name]):
            rows.loc[draw.integers(len(rows)), name] = UNSEEN
        rows.loc[draw.choice(len(rows), GAPS, replace=False), name] = None
    rows.insert(len(rows.columns) // 2, "another column", "x")
    return rows


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column)


def called(*arguments: str) -> tuple[int, list[str]]:
    """The exit code of a command, and what it said on the standard error stream."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            invoke([*arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, [line for line in said.getvalue().splitlines() if line.strip()]


def told(lines: list[str]) -> list[str]:
    """Those of the lines that say more than how far it has come."""
    return [line for line in lines if not PROGRESS.search(line)]


def untrue(lines: list[str], rows: pd.DataFrame) -> list[str]:
    """What warnings of a prediction say of ``rows`` that is not so."""
    wrong = []
    for line in lines:
        for count, name in COUNTED.findall(line):
            is_gap = line.startswith("warning: Missing")
            there = rows[name].isna() if is_gap else rows[name] == UNSEEN
            if is_gap and there.sum() != int(count.replace(",", "")):
                wrong.append(f"{name}: {line}")
            if not is_gap and there.sum() > int(count.replace(",", "")):
                wrong.append(f"{name}: {line}")  # other texts may be new in the rows held out
    return wrong


def fed(session: Any, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """What an ONNX model takes: texts, numbers, and days since 2000 for dates; none of ours."""
    kinds = json.loads(session.get_modelmeta().custom_metadata_map["kinds"])
    given = {}
    for each in session.get_inputs():
        column = rows[each.name]
        if "string" in each.type:
            texts = column.astype(object).where(column.notna(), "")
            given[each.name] = texts.astype(str).to_numpy(dtype=object)
        elif kinds[each.name] == "date":
            dates = pd.to_datetime(column, format="ISO8601", utc=True).dt.tz_localize(None)
            given[each.name] = ((dates.to_numpy() - START) / DAY).astype(np.float64)
        else:
            given[each.name] = pd.to_numeric(column).to_numpy(np.float64)
    return given


def answers(result: Any, rows: pd.DataFrame, target: Any) -> np.ndarray:
    """Probabilities, or values in units of their standard deviation."""
    if target.classes is not None:
        return result.predict_proba(rows)
    return result.predict(rows).reshape(len(rows), -1) / np.array(target.scale)


def beside_onnx(path: Path, result: SearchResult, rows: pd.DataFrame) -> float:
    """The largest difference of an answer."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (said,) = session.run(None, fed(session, rows))
    if result.target.classes is None:
        said = said / np.array(result.target.scale)
    return float(np.abs(said - answers(result, rows, result.target)).max())


def beside_estimator(table: pd.DataFrame, rows: pd.DataFrame, task: str) -> float:
    """The largest difference of an answer of an estimator, and of its own result."""
    kind = SparcsClassifier if task == "classification" else SparcsRegressor
    model = kind(widths=(4,), steps=5, penalty_weights=[1e-3], validation=0.3, random_state=0)
    X = table.drop(columns="target")
    model.fit(X, table["target"])
    rows, result = rows[[*X.columns]], model.result_
    return float(
        np.abs(answers(model, rows, result.target) - answers(result, rows, result.target)).max()
    )


def measured(folder: Path, most: int | None, steps: int | None, unit: str) -> dict:
    """What happens to a table as one kind of file."""
    torch.set_num_threads(1)
    start = time.process_time()
    name, ending = unit.split()
    table, task = read(folder, name), listed(folder)[name]
    order = np.random.default_rng(0).permutation(len(table))
    held, kept = table.iloc[order[:HELD_OUT]], table.iloc[np.sort(order[HELD_OUT:])]
    kept = kept if most is None else kept.iloc[:: max(1, -(-len(kept) // most))]
    new = disturbed(held, 1)
    with tempfile.TemporaryDirectory() as place:
        data, rows, run = (Path(place) / part for part in (f"table{ending}", f"new{ending}", "run"))
        for frame, path in ((kept, data), (new, rows)):
            frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
        short = () if steps is None else ("--steps", str(steps), *SHORT)
        code, said = called(
            "search",
            str(data),
            "--target",
            "target",
            "--engine",
            "local",
            "--out",
            str(run),
            *short,
        )
        found = {"search": code, "search_said": told(said), "rows": len(kept)}
        found["seconds"] = round(time.process_time() - start, 1)
        if code:
            return found
        code, said = called("predict", str(run), str(rows), "-o", str(Path(place) / "said.csv"))
        found |= {"predict": code, "predict_said": told(said), "untrue": untrue(said, new)}
        answered = 0 if code else len(pd.read_csv(Path(place) / "said.csv"))
        found["answered"] = answered
        many = disturbed(
            table.iloc[np.random.default_rng(2).integers(len(table), size=ANSWERED)], 3
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is disturbed
            result = load_result(run)
            path = run / "model.onnx"
            found["onnx_differs_by"] = beside_onnx(path, result, many) if path.exists() else None
            found["estimator_differs_by"] = beside_estimator(kept, many, task)
    return found


def summary(units: dict[str, dict]) -> dict[str, Any]:
    whole = [unit for unit in units.values() if "answered" in unit]
    onnx = [unit["onnx_differs_by"] for unit in whole if unit["onnx_differs_by"] is not None]
    return {
        "files": len(units),
        "searched": sum(unit["search"] == 0 for unit in units.values()),
        "predicted": sum(unit["answered"] == HELD_OUT for unit in whole),
        "warnings_of_searches": sorted({line for u in units.values() for line in u["search_said"]}),
        "core_minutes": sum(unit.get("seconds", 0.0) for unit in units.values()) / 60,
        "untrue": [line for unit in whole for line in unit["untrue"]],
        "onnx_models": len(onnx),
        "onnx_differs_by": max(onnx, default=None),
        "estimators_differ_by": max((unit["estimator_differs_by"] for unit in whole), default=None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--rows", type=int, help="to search, at most; by default all")
    parser.add_argument("--steps", type=int, help="of a short search; by default the usual one")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    endings = [".csv", *([".parquet"] if find_spec("pyarrow") else [])]
    names = arguments.only or [*listed(arguments.tables)]
    names.sort(key=lambda name: -len(read(arguments.tables, name)))  # the longest are begun first
    units = [f"{name} {ending}" for ending in reversed(endings) for name in names]
    about = {"most_rows": arguments.rows, "steps": arguments.steps}
    found = measured_units(
        "as_they_are",
        units,
        partial(measured, arguments.tables, arguments.rows, arguments.steps),
        out=arguments.out,
        workers=arguments.workers,
        resume=arguments.resume,
        about=about,
    )
    print(json.dumps(summary(found), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
