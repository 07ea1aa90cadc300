"""Data sets by file or by name, as a table of inputs and a target."""

import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from torchsparcs.files.hints import did_you_mean
from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import check_known, check_names
from torchsparcs.tables.databases import database_name, is_database
from torchsparcs.tables.readers import ending_of, read_table

TARGETS = ("target", "label", "class", "y")
# scikit-learn's own data sets; the target of each is the column "target".
BUILT_IN = {
    "digits": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
    "breast_cancer": "load_breast_cancer",
    "diabetes": "load_diabetes",
}


@dataclass(frozen=True)
class Dataset:
    """A table with a target.

    Attributes:
        name: of the built-in set, or of the file without its ending.
        X: DataFrame (rows, columns) without the target.
        y: Series (rows,), or DataFrame (rows, targets) where ``target`` is a list; None without.
        target: the name or names of the target.
    """

    name: str
    X: pd.DataFrame
    y: Any
    target: str | list[str] | None


def load_dataset(
    source: str | Path,
    target: str | Sequence[str] | None = None,
    *,
    drop: str | Sequence[str] = (),
    text: Collection[str] = (),
    sheet: str | None = None,
    may_lack: bool = False,
) -> Dataset:
    """Load the data in a file, or those of a name in :data:`BUILT_IN`.

    ``source``, ``text`` and ``sheet`` are as in :func:`torchsparcs.tables.readers.read_table`. The
    target is a column, or a list of them; without one it is the column called target, label, class
    or y; where there is none of them and the target ``may_lack``, all columns are inputs. Columns
    to ``drop`` are left out.

    >>> iris = load_dataset("iris")
    >>> iris.X.shape, iris.target, sorted(set(iris.y))
    ((150, 4), 'target', ['setosa', 'versicolor', 'virginica'])
    """
    name = table_name(source)
    table = _built_in(name) if name == str(source) else read_table(source, text, sheet)
    table.columns = [str(column) for column in table.columns]
    is_npz = str(source).lower().endswith(".npz")
    if may_lack and target is None and not _likely_targets(table.columns, is_npz, _several(drop)):
        check_names([*table.columns])
        check_known("columns to drop", _several(drop), [*table.columns])
        return Dataset(name, table.drop(columns=_several(drop)), None, None)
    target = resolved_target(target, [*table.columns], drop=drop, is_npz=is_npz)
    return Dataset(name, *divided(table, target, drop), target)


def table_name(source: str | Path) -> str:
    """The built-in name, or that of the file without its ending, the folder or the database."""
    if str(source) in BUILT_IN:
        return str(source)
    if is_database(source):
        return database_name(str(source))
    path = Path(source)
    if path.is_dir():
        return path.resolve().name
    if not path.exists() and str(source) == path.stem:
        raise ValueError(
            f"Expected a file or a data set among {', '.join(BUILT_IN)}. Got {str(source)!r}."
            f"{did_you_mean(source, BUILT_IN)}"
        )
    return path.name.removesuffix(ending_of(path))


def _built_in(name: str) -> pd.DataFrame:
    datasets = importlib.import_module("sklearn.datasets")  # takes a second
    bunch = getattr(datasets, BUILT_IN[name])(as_frame=True)
    labels = np.asarray(bunch.get("target_names", ()))  # of digits they are numbers
    target = labels[bunch.target] if labels.dtype.kind == "U" else bunch.target
    return bunch.data.assign(target=target)


def divided(
    table: pd.DataFrame, target: str | list[str], drop: str | Sequence[str]
) -> tuple[pd.DataFrame, Any]:
    """The columns besides the target and those to ``drop``, and the target."""
    return table.drop(columns=[*_several(target), *_several(drop)]), table[target]


def resolved_target(
    target: str | Sequence[str] | None,
    columns: Sequence[str],
    *,
    drop: str | Sequence[str] = (),
    is_npz: bool = False,
) -> str | list[str]:
    """``target``, or the column with the name of one, checked with what is to be dropped."""
    check_names(columns)
    dropped = _several(drop)
    check_known("columns to drop", dropped, columns)
    left = [column for column in columns if column not in dropped]
    target = _default_target(left, is_npz) if target is None else target
    wanted = _several(target)
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"Expected different columns as targets. Got {wanted!r}.")
    check_known("a target", wanted, columns)
    if both := [name for name in wanted if name in dropped]:
        raise ValueError(f"Expected a target that is not dropped. Got {quoted(both)}.")
    if len(wanted) == len(left):
        raise ValueError(f"Expected columns besides the target. Got {quoted(left)} only.")
    return target if isinstance(target, str) else wanted


def _likely_targets(columns: Sequence[str], is_npz: bool, dropped: Sequence[str] = ()) -> list[str]:
    """Those with a usual name; of arrays otherwise all columns of y."""
    left = [name for name in columns if name not in dropped]
    several = [name for name in left if name.startswith("y") and name[1:].isdigit()]
    return _usual_targets(left) or (several if is_npz else [])


def _usual_targets(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name.lower() in TARGETS]


def _default_target(columns: Sequence[str], is_npz: bool) -> str | list[str]:
    usual = _usual_targets(columns)
    if len(usual) == 1:
        return usual[0]
    if not usual and (several := _likely_targets(columns, is_npz)):
        return several
    raise ValueError(
        f"Expected a target: one column called {', '.join(TARGETS[:-1])} or {TARGETS[-1]}, or the "
        f"name of another. The columns are {quoted(columns)}."
    )


def _several(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
