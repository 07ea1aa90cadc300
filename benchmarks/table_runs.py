"""Short searches of real tables, kept in a folder so that several benchmarks can look at them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from by_size.preparing import Table, load, parts

from torchsparcs import SearchConfig, SearchResult, load_result, search

SHORT = SearchConfig(steps=100, longest=100, epochs=1)
WIDTHS = (16, 16)
MOST_ROWS = 3000  # to train on
SPLIT = 0


class TableRun(NamedTuple):
    """A search, with the rows that it saw and those that it did not."""

    table: Table
    result: SearchResult
    train: np.ndarray
    test: np.ndarray

    def rows(self, places: np.ndarray) -> pd.DataFrame:
        return self.table.x.iloc[places]


def table_run(folder: Path, name: str, runs: Path) -> TableRun:
    """The search of one table in its own columns, from ``runs`` where it is there."""
    torch.set_num_threads(1)
    table = load(folder, name)
    train, test = parts(table, SPLIT, MOST_ROWS)
    if not (runs / name / "settings.json").is_file():
        search(
            table.x.iloc[train],
            table.y[train],
            task=table.task,
            scoring="accuracy" if table.task == "classification" else "r2",
            widths=WIDTHS,
            config=SHORT,
            int8=True,
            engine="local",
            device="cpu",
            progress=False,
        ).save(runs / name)
    return TableRun(table, load_result(runs / name), train, test)
