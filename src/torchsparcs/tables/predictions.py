"""Answers to the rows of a table, as a table of their own."""

import io
from collections.abc import Callable
from typing import Any

from torch import Tensor

from torchsparcs.tables.target import Target


def predictions(table: Any, target: Target, raw: Tensor) -> Any:
    """The DataFrame ``table`` with other columns: what ``raw`` (rows, outputs) says of its rows."""
    predicted = target.predict(raw)
    if predicted.ndim == 2:
        columns = {f"prediction_{name}": predicted[:, i] for i, name in enumerate(target.names)}
    else:
        columns = {"prediction": predicted}
    if target.classes is not None:
        probabilities = target.probabilities(raw)
        for index, label in enumerate(target.classes):
            columns[f"probability_{label}"] = probabilities[:, index]
    return table[[]].assign(**columns)


def _csv(frame: Any) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()


def _parquet(frame: Any) -> bytes:
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    return content.getvalue()


WRITERS: dict[str, Callable[[Any], bytes]] = {".csv": _csv, ".parquet": _parquet}
