"""Predictions as files, a few rows at a time: CSV that no spreadsheet computes, and Parquet."""

import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import pandas as pd

from torchsparcs.tables.entries import NUMBERS, number
from torchsparcs.tables.parquet import load_pyarrow

FORMULAS = tuple("=+-@＝＋－＠\t\r\n")  # what a spreadsheet computes begins with one of them


def for_spreadsheets(value: Any) -> Any:
    """``value``, a text that begins like a formula behind an apostrophe; numbers are left alone.

    >>> [for_spreadsheets(value) for value in ("=1+1", "＝1+1", "-1", "a=1", -1.5)]
    ["'=1+1", "'＝1+1", '-1', 'a=1', -1.5]
    """
    is_formula = isinstance(value, str) and value.startswith(FORMULAS) and number(value) is None
    return f"'{value}" if is_formula else value


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with names and texts as :func:`for_spreadsheets` has them."""
    texts = {
        name: table[name].map(for_spreadsheets)
        for name in table
        if table[name].dtype.kind not in NUMBERS
    }
    return table.assign(**texts).rename(columns=for_spreadsheets)


class CsvWriter:
    """Rows as CSV, a few at a time."""

    def __init__(self, file: BinaryIO):
        self.file, self.is_begun = file, False

    def add(self, table: pd.DataFrame) -> None:
        """Write some rows, below a header where they are the first."""
        text = table.to_csv(index=False, lineterminator="\n", header=not self.is_begun)
        self.file.write(text.encode())
        self.is_begun = True

    def close(self) -> None:
        """There is nothing behind the last row."""

    def drop(self) -> None:
        """Write no more: what the file has is of no use."""


class ParquetWriter:
    """Rows as Parquet, a few at a time.

    While a column has no entry that tells its type, they wait in a temporary file. One that never
    has any holds numbers.
    """

    def __init__(self, file: BinaryIO):
        self.file, self.arrow = file, load_pyarrow()
        self.waiting: Any = tempfile.TemporaryFile()  # noqa: SIM115 (closed once they are written)
        self.schema: Any = self.arrow.schema([])
        self.writer: Any = None

    def add(self, table: pd.DataFrame) -> None:
        """Write some rows."""
        rows = self.arrow.Table.from_pandas(table, preserve_index=False)
        for place, column in enumerate(rows.columns):
            if column.null_count == len(rows):
                rows = rows.set_column(place, rows.schema.names[place], self.arrow.nulls(len(rows)))
        if self.writer is not None:
            self.writer.write_table(rows.cast(self.schema))
            return
        with self.arrow.ipc.new_stream(self.waiting, rows.schema) as stream:
            stream.write_table(rows)
        schemas = [self.schema, rows.schema]
        self.schema = self.arrow.unify_schemas(schemas, promote_options="permissive")
        if self.arrow.null() not in self.schema.types:
            self._begin()

    def close(self) -> None:
        """Write the rows that wait, and what is behind the last one."""
        if self.writer is None:
            fields = [
                field.with_type(self.arrow.float64()) if field.type == self.arrow.null() else field
                for field in self.schema
            ]
            self.schema = self.arrow.schema(fields)
            self._begin()
        self.writer.close()

    def drop(self) -> None:
        """Write no more rows; the writer would do so by itself, once others have the file."""
        self.waiting.close()
        if self.writer is not None:
            self.writer.close()

    def _begin(self) -> None:
        """Write the rows that wait."""
        self.writer = self.arrow.parquet.ParquetWriter(self.file, self.schema)
        for rows in self._waited():
            self.writer.write_table(rows.cast(self.schema))
        self.waiting.close()

    def _waited(self) -> Iterator[Any]:
        """The tables that wait, one behind the other in their file."""
        end = self.waiting.tell()
        self.waiting.seek(0)
        while self.waiting.tell() < end:
            with self.arrow.ipc.open_stream(self.waiting) as stream:
                yield stream.read_all()


WRITERS: dict[str, type[CsvWriter] | type[ParquetWriter]] = {
    ".csv": CsvWriter,
    ".parquet": ParquetWriter,
}
