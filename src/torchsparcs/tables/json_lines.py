"""JSON lines: one object in each line, all of them at once or a few at a time."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from torchsparcs.files.reading import JSON_COPIES, check_memory, first_line, memory, parsed_json
from torchsparcs.tables.parquet import COPIES
from torchsparcs.tables.text_files import Types, bounded, opened, whole_gzip


def read_json_lines(path: Path) -> pd.DataFrame:
    """One object in each line, whose keys are the columns; a key that it lacks is missing."""
    lines = enumerate(bounded(path, JSON_COPIES).splitlines(), start=1)
    return _table(_objects(lines, path), path, {})


class JsonLines:
    """The rows of such a file, a few at a time; each frame has the columns of its rows."""

    def __init__(self, path: Path):
        self.path = path
        first = next(iter(_objects(self._lines(), path)), {})
        self.width = len(first)

    def frames(self, first: int, rows: int, types: Types) -> Iterator[pd.DataFrame]:
        """Read ``rows`` rows at a time, columns of given ``types`` as such."""
        some: list[dict[str, Any]] = []
        for each in _objects(self._lines(), self.path):
            some.append(each)
            if len(some) == rows:
                yield _table(some, self.path, types)
                some = []
        if some:
            yield _table(some, self.path, types)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers; one that is as long as the memory is a ValueError."""
        most, number = memory() // JSON_COPIES, 0
        with whole_gzip(self.path), opened(self.path) as file:
            while line := file.readline(most + 1):
                if len(line) > most:
                    raise ValueError(
                        f"Expected lines of at most {most:,} bytes. {self.path} has more."
                    )
                for part in line.splitlines():  # of some systems a line ends without \n
                    number += 1
                    yield number, part


def _objects(lines: Iterable[tuple[int, Any]], path: Path) -> Iterator[dict[str, Any]]:
    """The objects in numbered lines; in empty ones there is none."""
    for line, content in lines:
        if not content.strip():
            continue
        found = _json_object(bytes(content), path, line)
        for name, value in found.items():
            if isinstance(value, (dict, list)):
                raise ValueError(
                    f"Expected numbers, text, true, false or null. {path} has a list or an object "
                    f"in {name!r} of line {line:,}."
                )
        yield found


def _table(objects: Iterable[dict[str, Any]], path: Path, types: Mapping[str, Any]) -> pd.DataFrame:
    """Objects as rows; of columns whose type is text, entries stay what they are."""
    found: dict[str, tuple[list[int], list[Any]]] = {}  # rows and values of each column
    rows = 0
    for each in objects:
        for name, value in each.items():
            places, values = found.setdefault(name, ([], []))
            places.append(rows)
            values.append(value)
        rows += 1
    check_memory(path, rows * len(found) * 8, copies=COPIES)  # short rows are filled up
    columns: dict[str, Any] = {}
    for name, (places, values) in found.items():
        if len(values) < rows:
            whole: list[Any] = [None] * rows
            for place, value in zip(places, values, strict=True):
                whole[place] = value
            values = whole
        kind = types.get(name)
        columns[name] = pd.Series(values, dtype=object if kind is str else kind) if kind else values
    return pd.DataFrame(columns)


def _json_object(content: bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        value = parsed_json(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected a JSON object in each line. {path} has something else in line {line:,}: "
            f"{first_line(error)}."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f"Expected a JSON object in each line. {path} has {type(value).__name__} in line "
            f"{line:,}."
        )
    return value
