"""Rows as Parquet, a few at a time: while they wait for the type of a column, it is on disk."""

import io

import numpy as np
import pandas as pd
import pytest

from torchsparcs.tables.writers import ParquetWriter

pyarrow = pytest.importorskip("pyarrow")
ROWS, PARTS = 10_000, 20


def part(last: float | None = None) -> pd.DataFrame:
    """Rows of 84 bytes, with a column that has no entry."""
    return pd.DataFrame({"a": [f"{i:080d}" for i in range(ROWS)], "b": [last] * ROWS})


@pytest.mark.parametrize("last", [None, 7])
def test_rows_that_wait_are_not_in_memory(last):
    file = io.BytesIO()
    writer = ParquetWriter(file)
    writer.add(part())
    before = pyarrow.total_allocated_bytes()
    for _ in range(PARTS):
        writer.add(part())
    assert pyarrow.total_allocated_bytes() < before + 200 * ROWS  # in bytes; a part takes 84
    writer.add(part(last))
    writer.add(part())
    writer.close()
    table = pd.read_parquet(file)
    assert (table["a"] == np.tile(part()["a"], PARTS + 3)).all()
    assert table["b"].sum() == (last or 0) * ROWS
    assert table["b"].dtype == "float64"
