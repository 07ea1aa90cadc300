"""Does resident memory stay flat while the data grow tenfold?

Tables of 20 columns in float32, of one size and of ten times that, as Parquet (row groups of 2²⁰
rows, as pandas writes them) and as NPY. Streamed: (a) statistics and a sample in one pass, what
`search` starts with; (b) one epoch of `train`. Beside them the peers that read everything into
memory: `pandas.read_parquet` or `numpy.load`, then the same two jobs. Each in a process of its own,
whose peak is compared with that of a process that only imports what is needed.

    python benchmarks/streams.py
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import torch
from recording import RESULTS, record

from torchsparcs import SpectralNetwork, TrainConfig, train
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.tables.streams import RowStream

COLUMNS, GROUP, BATCH = 20, 2**20, 1024
WIDTHS = [COLUMNS, 64, 1]


def parts(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of noise and a target that some of it decides, a row group at a time."""
    random = np.random.default_rng(0)
    for start in range(0, rows, GROUP):
        x = random.standard_normal((min(GROUP, rows - start), COLUMNS), dtype=np.float32)
        x[:, 0] += 3  # a mean that has to be found
        yield x, np.abs(x[:, 1]) + x[:, 2]


def write_parquet(rows: int, path: Path) -> None:
    names = [*(f"x{i}" for i in range(COLUMNS)), "target"]
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    with pyarrow.parquet.ParquetWriter(path / "table.parquet", schema) as writer:
        for x, y in parts(rows):
            columns = [*np.ascontiguousarray(x.T), y]
            writer.write_table(pyarrow.table(columns, schema=schema), row_group_size=GROUP)


def write_npy(rows: int, path: Path) -> None:
    x_file = np.lib.format.open_memmap(path / "x.npy", "w+", np.float32, (rows, COLUMNS))
    y_file = np.lib.format.open_memmap(path / "y.npy", "w+", np.float32, (rows,))
    start = 0
    for x, y in parts(rows):
        x_file[start : start + len(x)], y_file[start : start + len(x)] = x, y
        start += len(x)


def stream(kind: str, path: Path) -> RowStream:
    pair = (path / "x.npy", path / "y.npy")
    return RowStream.of(path / "table.parquet" if kind == "parquet" else pair)


def in_memory(kind: str, path: Path) -> tuple[Any, Any]:
    if kind == "npy":
        return np.load(path / "x.npy"), np.load(path / "y.npy")
    table = pd.read_parquet(path / "table.parquet")
    return table.drop(columns="target"), table["target"]


def trained(data: Any) -> None:
    """One epoch."""
    torch.manual_seed(0)
    config = TrainConfig(epochs=1, batch_size=BATCH)
    train(SpectralNetwork(WIDTHS), data, config, progress=False)


def fit(X: Any, y: Any) -> Preprocessing:
    return Preprocessing(Inputs.fit(X), Target.fit(y))


def streamed_statistics(kind: str, path: Path) -> None:
    sample = stream(kind, path).sample()
    assert len(sample.X) <= sample.rows


def streamed_epoch(kind: str, path: Path) -> None:
    rows = stream(kind, path)
    trained(rows.batches(fit(*next(iter(rows))), BATCH))


def statistics_in_memory(kind: str, path: Path) -> None:
    fit(*in_memory(kind, path))


def epoch_in_memory(kind: str, path: Path) -> None:
    X, y = in_memory(kind, path)
    preprocessing = fit(X.iloc[:50_000] if kind == "parquet" else X[:50_000], y[:50_000])
    inputs, targets = preprocessing.inputs.transform(X), preprocessing.target.transform(y)
    del X, y
    trained((inputs, targets))


JOBS: dict[str, Callable[[str, Path], None]] = {
    "imports": lambda kind, path: None,
    "statistics, streamed": streamed_statistics,
    "statistics, in memory": statistics_in_memory,
    "epoch, streamed": streamed_epoch,
    "epoch, in memory": epoch_in_memory,
}


def peak_megabytes() -> float:
    """Of this process; what getrusage says may be the peak of the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def do(job: str, kind: str, path: Path) -> None:
    """In a process of its own: one job, and a line about it."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    JOBS[job](kind, path)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_megabytes": peak_megabytes()}))


def measured(job: str, kind: str, path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--job", job, "--kind", kind, "--path", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def measure(kind: str, rows: int, folder: Path) -> list[dict[str, Any]]:
    """All the jobs on one table, which is deleted afterwards."""
    path = folder / f"{kind}-{rows}"
    path.mkdir()
    (write_parquet if kind == "parquet" else write_npy)(rows, path)
    size = sum(file.stat().st_size for file in path.iterdir())
    results = []
    for job in list(JOBS)[1:]:
        row = {"job": job, "kind": kind, "rows": rows, "file_megabytes": size / 1e6}
        row |= measured(job, kind, path)
        row["rows_per_second"] = rows / row["seconds"]
        print({k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        results.append(row)
    for file in path.iterdir():
        file.unlink()
    return results


def growth(results: list[dict[str, Any]], imports: float) -> dict[str, dict[str, float]]:
    """By how much the peak, and what it has above the imports, grows with the table."""
    pairs: dict[str, list[float]] = {}
    for row in results:
        pairs.setdefault(f"{row['job']}, {row['kind']}", []).append(row["peak_megabytes"])
    return {
        name: {"peak": large / small, "above_imports": (large - imports) / (small - imports)}
        for name, (small, large) in pairs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=0.2, help="of the smaller table")
    parser.add_argument("--folder", type=Path, help="for the files, which are deleted")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--kind", default="npy", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        do(arguments.job, arguments.kind, arguments.path)
        return
    rows = int(arguments.gigabytes * 1e9 / 4 / COLUMNS)
    imports = measured("imports", "npy", Path())["peak_megabytes"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        results = [
            row
            for kind in ("parquet", "npy")
            for size in (rows, 10 * rows)
            for row in measure(kind, size, Path(folder))
        ]
    note = {"columns": COLUMNS, "batch": BATCH, "widths": WIDTHS, "imports_megabytes": imports}
    ratios = growth(results, imports)
    print(json.dumps(ratios, indent=1))
    print(record("streams", "cpu", {**note, "growth": ratios, "cases": results}, arguments.out))


if __name__ == "__main__":
    main()
