"""Where a table comes from: the readers by the ending of the file, folders and databases."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pandas as pd

from torchsparcs.files.hints import did_you_mean_beside
from torchsparcs.tables.arrow import read_arrow
from torchsparcs.tables.columns import check_names
from torchsparcs.tables.databases import is_database, read_database
from torchsparcs.tables.json_lines import read_json_lines
from torchsparcs.tables.parquet import ParquetFiles
from torchsparcs.tables.text_files import TextFile
from torchsparcs.tables.whole_files import read_excel, read_npz

# Files that can be read a few rows at a time.
FILES: dict[str, type[TextFile] | type[ParquetFiles]] = {
    ".csv": TextFile,
    ".tsv": TextFile,
    ".txt": TextFile,
    ".csv.gz": TextFile,
    ".tsv.gz": TextFile,
    ".txt.gz": TextFile,
    ".parquet": ParquetFiles,
}
# Files that are read whole.
WHOLE: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".npz": read_npz,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".jsonl.gz": read_json_lines,
    ".ndjson.gz": read_json_lines,
    ".feather": read_arrow,
    ".arrow": read_arrow,
}
# Files with several tables, of which one is named.
SHEETS: dict[str, Callable[[Path, str | None], pd.DataFrame]] = {".xlsx": read_excel}


def read_table(
    source: str | Path, text: Collection[str] = (), sheet: str | None = None
) -> pd.DataFrame:
    """Read the DataFrame in a file, in a folder of Parquet files, or in a database.

    Args:
        source: a path with an ending of :data:`FILES`, :data:`WHOLE` or :data:`SHEETS`, a folder,
            or the address of a database, ``sqlite:///shop.db``.
        text: columns of a CSV or TSV file that are text whatever they look like.
        sheet: of a workbook with several sheets, or a table of a database with several.
    """
    try:
        table = _table(source, text, sheet)
    except MemoryError as error:
        raise ValueError(f"Expected a table that fits into memory. {source} does not.") from error
    check_names([str(column) for column in table.columns])
    if len(table) == 0:
        raise ValueError(f"Expected rows below the header. {source} has none.")
    return table


def _table(source: str | Path, text: Collection[str], sheet: str | None) -> pd.DataFrame:
    if is_database(source):
        return read_database(str(source), sheet)
    path = Path(source)
    ending = "" if path.is_dir() else ending_of(path).lower()
    if sheet is not None and ending not in SHEETS:
        raise ValueError(
            f"Expected a sheet of a file that ends in {', '.join(SHEETS)}, or of a database. "
            f"Got {sheet!r} and {path}."
        )
    if not ending:
        return ParquetFiles(path).whole(text)
    _check_filled(path)
    if ending in SHEETS:
        return SHEETS[ending](path, sheet)
    return WHOLE[ending](path) if ending in WHOLE else FILES[ending](path).whole(text)


def open_table(path: Path) -> TextFile | ParquetFiles:
    """Open a file that can be read a few rows at a time, or a folder of Parquet files."""
    if path.is_dir():
        return ParquetFiles(path)
    _check_filled(path)
    return FILES[ending_of(path, (*FILES,), ", or a pair of .npy files").lower()](path)


def ending_of(path: Path, known: Sequence[str] = (), also: str = "") -> str:
    """The ending of a file that can be read, as the file has it; any other is a ValueError."""
    known = known or (*FILES, *WHOLE, *SHEETS)
    for ending in known:
        if path.name.lower().endswith(ending):
            return path.name[-len(ending) :]
    raise ValueError(f"Expected a file that ends in {', '.join(known)}{also}. Got {str(path)!r}.")


def _check_filled(path: Path) -> None:
    if not path.exists():
        hint = did_you_mean_beside(path)
        raise FileNotFoundError(f"Expected a data file. There is none at {path}.{hint}")
    if path.stat().st_size == 0:
        raise ValueError(f"Expected a table with a header. {path} is empty.")
