"""How long does a search take, from the command to the finished folder, and a tuned grid beside it?

`sparcs search` of digits and of each table of a folder (`tables.json` and files whose
target is the column `target`, as for `tables.py`), as a process of its own: wall seconds, seconds
of all cores, the rows that it searched on. With `--workers` above 1 so many run beside each other,
each in one process; otherwise one after the other with the engine that the command chooses.
`--grid` times scikit-learn's grid of MLPs beside it (`peers/scikit_learn.py`) in one thread, on the
training rows of one split: of digits, and of the tables up to 10,000 rows; ours is then timed by
one process on the same rows. `--predict` times a million rows.

    python benchmarks/search_time.py --tables FOLDER --grid --predict
    python benchmarks/search_time.py --tables FOLDER --only digits diamonds flights --device cuda
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from by_size.preparing import file_of, listed, load, prepared
from recording import RESULTS, record

HERE = Path(__file__).resolve().parent
BUILT_IN = "digits"
GRID_ROWS = 10_000  # the grid has no patience for more
MILLION = 1_000_000
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def timed(command: list[str], environment: dict[str, str] | None = None) -> dict[str, float]:
    """Wall seconds, and those of all cores, of a process with those that it starts."""
    started = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {
        "seconds": time.perf_counter() - started,
        "core_seconds": used.ru_utime + used.ru_stime,
    }


def sparcs(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "torchsparcs", *map(str, arguments)]


def searched(data: str | Path, engine: str, device: str, seed: int) -> dict:
    """The times of the command, and what is in the folder that it wrote."""
    with tempfile.TemporaryDirectory() as place:
        options = ["--engine", engine, "--device", device, "--seed", seed, "--quiet"]
        target = [] if data == BUILT_IN else ["--target", "target"]
        found = timed(sparcs("search", data, *target, *options, "--out", Path(place) / "run"))
        settings = json.loads((Path(place) / "run/settings.json").read_text())["settings"]
        front = pd.read_csv(Path(place) / "run/front.csv")
        return found | {
            "search_seconds": settings["seconds"],
            "rows": settings["rows"],
            "rows_searched": settings["rows_searched"],
            "front": front[["parameters", "expected"]].to_dict("list"),
        }


GRID = """
import sys
import numpy as np
sys.path[:0] = [{peers!r}]
from contest import Task
from scikit_learn import scikit_learn
rows = np.load({rows!r})
scikit_learn(Task("", {kind!r}, rows["x"], rows["y"], False, "cpu"), {seed})
"""
OURS = """
import numpy as np
from torchsparcs import search
rows = np.load({rows!r})
options = {{"engine": "local", "device": "cpu", "progress": False}}
search(rows["x"], rows["y"], task={task!r}, seed={seed}, **options)
"""


def beside_the_grid(name: str, tables: Path | None, seed: int) -> dict[str, dict[str, float]]:
    """The grid and our search in one thread each, on the same rows that are ready to be fitted."""
    x, y, classes = training_rows(name, tables)
    kind = "regression" if not classes else "binary" if classes == 2 else "multiclass"
    task = "classification" if classes else "regression"
    with tempfile.TemporaryDirectory() as place:
        rows = f"{place}/rows.npz"
        np.savez(rows, x=x.astype(np.float32), y=y)
        known = {"rows": rows, "kind": kind, "task": task, "seed": seed}
        scripts = {"grid": GRID.format(peers=str(HERE / "peers"), **known)}
        scripts["ours"] = OURS.format(**known)
        return {
            who: timed([sys.executable, "-c", script], ONE_THREAD)
            for who, script in scripts.items()
        }


def training_rows(name: str, tables: Path | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Standardised inputs, targets and the number of classes, 0 for numbers."""
    if name == BUILT_IN:
        from tasks import draw, standardise

        split = standardise(draw(BUILT_IN, 0, None))
        return split.x_train, split.y_train, int(split.y_train.max()) + 1
    assert tables is not None
    split = prepared(load(tables, name), 0, GRID_ROWS)
    return split.x, split.y, split.classes


def predicted() -> dict[str, dict[str, float]]:
    """A million rows of nine numbers and a text, by the command, from a CSV and a Parquet file."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(MILLION, 9)), columns=[f"x{i}" for i in range(9)])
    table["kind"] = np.array(["red", "green", "blue"])[draw.integers(3, size=MILLION)]
    target = table.x0.abs() + (table.kind == "red")
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table[:1000].assign(target=target[:1000]).to_csv(folder / "few.csv", index=False)
        short = ["--steps", 50, "--widths", "16", "--quiet", "--out", folder / "run"]
        timed(sparcs("search", folder / "few.csv", *short))
        table.to_csv(folder / "all.csv", index=False)
        table.to_parquet(folder / "all.parquet")
        for ending in ("csv", "parquet"):
            out = folder / f"said.{ending}"
            command = sparcs("predict", folder / "run", folder / f"all.{ending}", "-o", out)
            found[ending] = timed(command)
    return found


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of tables")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these, digits among them")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="searches beside each other")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--grid", action="store_true", help="scikit-learn's grid as well")
    parser.add_argument("--predict", action="store_true", help="a million rows as well")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    tables, device = arguments.tables, arguments.device
    names = [BUILT_IN, *([] if tables is None else listed(tables))]
    if unknown := [name for name in arguments.only or () if name not in names]:
        sys.exit(f"expected {', '.join(names)}. Got {', '.join(unknown)}")
    names = [name for name in names if arguments.only is None or name in arguments.only]
    engine = "auto" if arguments.workers == 1 else "local"
    units = [(name, seed) for name in names for seed in range(arguments.seeds)]

    def one(unit: tuple[str, int]) -> tuple[str, dict]:
        name, seed = unit
        data = name if name == BUILT_IN else file_of(tables, name)
        found = {"seed": seed, **searched(data, engine, device, seed)}
        print(f"{name:15} {found['seconds']:7.1f} s {found['core_seconds']:7.1f} s of cores")
        return name, found

    searches: dict[str, list[dict]] = {name: [] for name in names}
    with ThreadPoolExecutor(arguments.workers) as pool:
        for name, found in pool.map(one, units):
            searches[name].append(found)
    seconds = [sum(f["seconds"] for f in each) / len(each) for each in searches.values()]
    results = {
        "engine": engine,
        "workers": arguments.workers,
        "searches": searches,
        "geometric_mean_seconds": geometric_mean(seconds),
    }
    if arguments.grid:
        results["grid"] = grid = {}
        for name in names:
            if max(each["rows"] for each in searches[name]) <= GRID_ROWS:
                grid[name] = beside_the_grid(name, tables, 0)
                print(name, {who: round(its["core_seconds"]) for who, its in grid[name].items()})
        both = [(its["ours"]["core_seconds"], its["grid"]["core_seconds"]) for its in grid.values()]
        results["ours_over_grid"] = geometric_mean([ours / its for ours, its in both])
    if arguments.predict:
        results["predict_a_million"] = predicted()
    print(record("search_time", device, results, arguments.out))


if __name__ == "__main__":
    main()
