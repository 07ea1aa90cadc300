"""Tables, and streams of their rows."""

from itertools import pairwise

import numpy as np
import pandas as pd

from torchsparcs import RowStream


def frame(rows=300, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": random.integers(18, 90, rows),
            "city": random.choice(["Rome", "Oslo", "Bern"], rows),
            "old": random.random(rows) < 0.5,
            "sex": random.choice(["f", "m"], rows),
            "size": random.normal(1e3, 1e-2, rows),
            "same": 7,
            "grade": pd.Categorical(random.choice([1, 2, 10], rows)),
            "target": random.normal(size=rows),
        }
    )


def chunks(data, cuts):
    """``data`` cut before the rows ``cuts``, none of the parts empty."""
    edges = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    cut = data.iloc if hasattr(data, "iloc") else data
    return [cut[a:b] for a, b in pairwise(edges)]


def together(stream):
    X, y = zip(*stream, strict=True)
    if not hasattr(X[0], "iloc"):
        return np.concatenate(X), np.concatenate(y)
    return pd.concat(X, ignore_index=True), pd.concat(y, ignore_index=True)


def parquet(table, folder, rows=70):
    table.to_parquet(folder / "t.parquet", row_group_size=rows)
    return folder / "t.parquet"


def csv(table, folder):
    table.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def packed(table, folder):
    table.to_csv(folder / "t.tsv.gz", index=False, sep="\t")
    return folder / "t.tsv.gz"


def numbered(rows, chunk_rows):
    """Rows that know their number."""
    return RowStream.of(
        (np.arange(rows, dtype=float)[:, None], np.arange(rows)), chunk_rows=chunk_rows
    )


def check_close(found, expected):
    assert (found.names, found.encoded_names) == (expected.names, expected.encoded_names)
    assert found.columns == expected.columns
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-9)
