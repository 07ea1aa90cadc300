"""Predictions with the folder of a search, a few rows at a time."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from torchsparcs.command.messages import reworded, tell
from torchsparcs.command.opening import check_file, loaded, rule_of
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.atomic import write_atomically
from torchsparcs.results.parts import outputs_of_part
from torchsparcs.tables.chunks import chunkwise
from torchsparcs.tables.columns import check_known, check_names
from torchsparcs.tables.datasets import BUILT_IN, load_dataset
from torchsparcs.tables.encoded import Surprises
from torchsparcs.tables.writers import WRITERS, without_formulas

PIECE = 2**20  # bytes that are printed at once


def predict(
    run: Path,
    data: str,
    output: Path | None,
    *,
    keep: Sequence[str] = (),
    sheet: str | None = None,
    pick: str | None,
    interval: float | None = None,
    raw: bool,
    force: bool,
) -> None:
    """Print the predictions for ``data``, or write them to the file ``output``.

    ``interval``: from and to between which such a share of the numbers lies as well. Columns to
    ``keep`` stand before them, those of a CSV that no network reads as they are there. Nothing is
    printed before all rows are predicted.
    """
    ending = ".csv" if output is None else output.suffix.lower()
    if ending not in WRITERS:
        raise ValueError(f"Expected a file that ends in {', '.join(WRITERS)}. Got {str(output)!r}.")
    if output is not None:
        check_file(output, force)
    result = loaded(run)
    if result.preprocessing is None:
        raise ValueError(f"Expected a search of a table to predict one. {run} is one of a network.")
    inputs, candidate = result.inputs, result.pick(rule_of(result, pick))
    assert isinstance(candidate.network, CompactNetwork)
    used = {column.name for column in inputs.columns_read(candidate.network.reads)}
    is_safe = raw or ending != ".csv"
    count = 0

    def predicted(table: pd.DataFrame, surprises: Surprises) -> pd.DataFrame:
        """What is written of some rows."""
        table.columns = [str(column) for column in table.columns]
        check_known("columns to keep", keep, table.columns)
        said = outputs_of_part(result, table, candidate, surprises)
        predictions = result.target.predictions(said)
        if interval is not None:
            ends = result.interval_around(said, interval, candidate)
            predictions = predictions.assign(**_interval_columns(ends, result.target.names))
        if keep:
            kept = table[[*keep]].reset_index(drop=True)
            predictions = pd.concat([kept, predictions], axis=1)
            check_names(predictions.columns)
        return predictions if is_safe else without_formulas(predictions)

    def write(file: BinaryIO) -> None:
        def take(tables: Iterator[pd.DataFrame]) -> int:
            file.seek(0)
            file.truncate()
            writer, surprises, rows = WRITERS[ending](file), Surprises(), 0
            try:
                for table in tables:
                    writer.add(predicted(table, surprises))
                    rows += len(table)
                surprises.tell()
            except Exception:
                writer.drop()
                raise
            writer.close()
            return rows

        nonlocal count
        if data in BUILT_IN:
            count = take(iter([load_dataset(data).X]))
            return
        read = {column.name for column in inputs.columns if column.encoded_names}
        text = {*inputs.text_names, *({*keep} - read)}  # an identifier keeps its zeros
        count = chunkwise(take, data, text=text, read=used, kept=keep, sheet=sheet)

    if output is None:
        with tempfile.TemporaryFile() as file, reworded():
            write(file)
            file.seek(0)
            while lines := file.readlines(PIECE):
                tell(b"".join(lines), nl=False)
        return
    with reworded():
        write_atomically(output, write)
    tell(f"{count:,} rows in {output}")


def _interval_columns(ends: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    """From and to, (rows, 2) or (rows, outputs, 2), as columns of float32: it has no more."""
    ends = ends.astype(np.float32)
    if ends.ndim == 2:
        return {"lower": ends[:, 0], "upper": ends[:, 1]}
    return {
        f"{side}_{name}": ends[:, place, end]
        for place, name in enumerate(names)
        for end, side in enumerate(("lower", "upper"))
    }
