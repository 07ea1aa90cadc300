"""Files that hold a table, CSV, Parquet or NPZ, read as a DataFrame.

pandas and pyarrow are loaded when they are used.
"""

import csv
import importlib
import io
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from torchsparcs.files.arrays import read_arrays
from torchsparcs.files.limits import check_claim, gunzipped, memory
from torchsparcs.messages import first_line, quoted
from torchsparcs.tables.columns import check_names, number

SEPARATORS = ",;\t|"
FOREIGN = {b"PAR1": "parquet", b"PK\x03\x04": "a zip archive", b"\x1f\x8b": "gzip"}
TEXT_COPIES, COPIES = 14, 4  # of what a file claims, in memory on the way to a table
FIELD = 48  # bytes of one that is missing
MOST_COLUMNS = 2**20  # of an array, which may be packed into next to nothing
BEGINNING = 2**20  # characters among which the first line is looked for
BATCH = 2**10  # rows of text that are unpacked at once
PYARROW = 15  # the oldest version that does not unpickle what a file says


def read_table(path: str | Path) -> Any:
    """The DataFrame in a file that ends in .csv, .tsv, either with .gz, .parquet or .npz."""
    path = Path(path)
    ending = ending_of(path).lower()
    if not path.exists():
        raise FileNotFoundError(f"Expected a data file. There is none at {path}.")
    if not path.is_file():
        raise ValueError(f"Expected a data file. {path} is a folder.")
    if path.stat().st_size == 0:
        raise ValueError(f"Expected a table with a header. {path} is empty.")
    try:
        table = READERS[ending](path)
    except MemoryError as error:
        raise ValueError(f"Expected a table that fits into memory. {path} does not.") from error
    check_names([str(column) for column in table.columns])
    if len(table) == 0:
        raise ValueError(f"Expected rows below the header. {path} has none.")
    return table


def ending_of(path: Path) -> str:
    """The one of :data:`READERS`, as the file has it; any other is a ValueError."""
    ending = next((ending for ending in READERS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise ValueError(f"Expected a file that ends in {', '.join(READERS)}. Got {str(path)!r}.")
    return path.name[-len(ending) :]


def _read_text(path: Path) -> Any:
    pandas = imported("pandas", "pandas")
    text = _text(path)
    separator, header = text_header(text[: text.find("\n", BEGINNING) + 1 or None], path)
    lines = 1 + max(text.count("\n"), text.count("\r"))
    lacking = (len(header) - 1) * lines - text.count(separator)  # short rows are filled up
    check_claim(path, lacking * FIELD, copies=1)
    content = io.BytesIO(text.encode())  # a quarter of what pandas makes of a text
    del text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            table = pandas.read_csv(
                content,
                sep=separator,
                index_col=False,
                low_memory=False,
                skipinitialspace=True,
            )
    except pandas.errors.ParserWarning as error:
        raise ValueError(
            f"Expected {len(header)} fields in a row, as in the header. {path} has more."
        ) from error
    except pandas.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise ValueError(
            f"Expected as many fields in each row as in the header. {path}: {reason}."
        ) from error
    return _without_row_numbers(table, header, path)


def _text(path: Path) -> str:
    try:
        text = _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected text in UTF-8. {path} has another byte at position {error.start}: save it "
            "as UTF-8 first."
        ) from error
    if not text.strip():
        raise ValueError(f"Expected a table with a header. {path} is empty.")
    return text


def _content(path: Path) -> bytes | bytearray:
    """The bytes of a text file, unpacked."""
    content: bytes | bytearray
    if path.suffix.lower() == ".gz":
        content = gunzipped(path, memory() // TEXT_COPIES)
    else:
        check_claim(path, path.stat().st_size, copies=TEXT_COPIES)
        content = path.read_bytes()
    check_text(content, path)
    return content


def check_text(content: bytes | bytearray, path: Path) -> None:
    """A ValueError where the bytes of a text file say that it is something else."""
    for start, kind in FOREIGN.items():
        if content.startswith(start):
            raise ValueError(f"Expected text. {path} is {kind}: give it the ending of what it is.")
    if b"\0" in content:
        raise ValueError(
            f"Expected text in UTF-8. {path} is binary, or in UTF-16: save it as UTF-8 first."
        )


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])


def text_header(text: str, path: Path) -> tuple[str, list[str]]:
    """The separator, which is the most frequent in the first line, and the names there."""
    first = next(line for line in io.StringIO(text, newline=None) if line.strip())
    separator = max(SEPARATORS, key=_outside_quotes(first).count)
    lines = csv.reader(
        io.StringIO(text.lstrip(), newline=None), delimiter=separator, skipinitialspace=True
    )
    try:
        header = next(lines)
    except csv.Error as error:  # of a name that is endless
        raise ValueError(
            f"Expected names in the first line. {path} has others: {error}."
        ) from error
    check_names([name for name in header if name])
    values = [name for name in header if "." in name and number(name) is not None]
    if values:
        raise ValueError(
            f"Expected names in the first line. {path} has numbers there, {quoted(values, 3)}: "
            "add a line with the names of the columns."
        )
    return separator, header


def _without_row_numbers(table: Any, header: list[str], path: Path) -> Any:
    """``table`` less its first column where that has no name and counts the rows."""
    if header[0] or len(header) == 1 or not len(table):
        return table
    first = table.iloc[:, 0]
    if first.dtype.kind != "i" or not (first - first.iloc[0] == np.arange(len(table))).all():
        return table
    warnings.warn(
        f"The first column of {path} has no name and counts the rows: it is left out.",
        UserWarning,
        stacklevel=5,
    )
    return table.iloc[:, 1:]


def _read_parquet(path: Path) -> Any:
    pandas = imported("pandas", "pandas")
    check_pyarrow()
    with path.open("rb") as file:
        if file.read(4) != b"PAR1":
            raise ValueError(f"Expected a parquet file. {path} is something else.")

    def whole(read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(path, *arguments)
        except Exception as error:  # of Arrow and the system, of many kinds
            raise ValueError(
                f"Expected a whole parquet file. {path} cannot be read: {first_line(error)}"
            ) from error

    size, nested = whole(_parquet_claims)
    if nested:
        raise ValueError(
            f"Expected columns of numbers or text. {path} has lists or records in "
            f"{quoted(nested, 3)}."
        )
    check_claim(path, size, copies=COPIES)
    check_claim(path, size + whole(_text_size, memory() // COPIES), copies=COPIES)
    return whole(pandas.read_parquet, "pyarrow")


def _parquet_claims(path: Path) -> tuple[int, list[str]]:
    """The bytes that a file says its columns have, and the columns that are nested."""
    pyarrow = importlib.import_module("pyarrow")
    with importlib.import_module("pyarrow.parquet").ParquetFile(path) as file:
        # asked about one column of a group, Arrow ends the process where something does not fit
        columns = [file.schema.column(place) for place in range(len(file.schema))]
        groups = [file.metadata.row_group(place) for place in range(file.num_row_groups)]
        width = sum(max(column.length, 8) for column in columns)
        size = sum(max(group.total_byte_size, group.num_rows * width) for group in groups)
        fields = [*file.schema_arrow]
        return size, [field.name for field in fields if pyarrow.types.is_nested(field.type)]


def _text_size(path: Path, most: int) -> int:
    """The bytes of text once it is written out, as far as ``most``: a file has each text once."""
    pyarrow, compute = (importlib.import_module(f"pyarrow{part}") for part in ("", ".compute"))
    parquet = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        columns = map(file.schema.column, range(len(file.schema)))
        text = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    size = 0
    with parquet.ParquetFile(path, read_dictionary=text) as file:
        for batch in file.iter_batches(BATCH, columns=text) if text else ():
            for column in batch.columns:
                if pyarrow.types.is_dictionary(column.type):
                    lengths = compute.binary_length(column.dictionary)
                    size += compute.sum(lengths.take(column.indices)).as_py() or 0
                else:
                    size += column.nbytes
            if size > most:
                break
    return size


def _read_npz(path: Path) -> Any:
    pandas = imported("pandas", "pandas")
    arrays = read_arrays(path)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    key = next((key for key in ("X", "x") if key in arrays and arrays[key].ndim > 1), None)
    if key is not None:
        X, y = arrays[key], arrays.get("y")
        if X.ndim != 2 or (y is not None and (y.ndim not in (1, 2) or len(y) != len(X))):
            raise ValueError(
                f"Expected X of shape (rows, features), and y with as many rows. {path} has "
                f"{shapes}."
            )
        if not X.size:
            raise ValueError(f"Expected rows and columns in {key}. {path} has {shapes}.")
        columns = X.shape[1] + (0 if y is None else math.prod(y.shape[1:]))
        if columns > MOST_COLUMNS:
            raise ValueError(f"Expected at most {MOST_COLUMNS} columns. {path} has {shapes}.")
        parts = [pandas.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])]
        if y is not None:
            names = ["y"] if y.size == len(y) else [f"y{i}" for i in range(y.shape[1])]
            parts.append(pandas.DataFrame(y.reshape(len(y), -1), columns=names))
        return pandas.concat(parts, axis=1)
    if (
        len({array.shape for array in arrays.values()}) != 1
        or next(iter(arrays.values())).ndim != 1
    ):
        raise ValueError(
            "Expected arrays X (rows, features) and y, or columns of one length. "
            f"{path} has {shapes or 'none'}."
        )
    return pandas.DataFrame(arrays)


READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".csv.gz": _read_text,
    ".tsv.gz": _read_text,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}


def check_pyarrow() -> None:
    """An ImportError unless pyarrow is there, and new enough."""
    version = imported("pyarrow", "'torchsparcs[parquet]'").__version__
    if int(version.split(".")[0]) < PYARROW:
        raise ImportError(
            f"Expected pyarrow {PYARROW} or newer. Got {version}: "
            "pip install 'torchsparcs[parquet]'"
        )


def imported(module: str, package: str) -> Any:
    """``module``, or an ImportError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Expected {module.split('.')[0]} to read this data. Install it: pip install {package}"
        ) from error
