"""Tables of a folder, their outer splits, and the one preprocessing that everybody gets.

A folder holds ``tables.json``, ``{NAME: {"task": "classification" or "regression"}, ...}``, and a
``NAME.parquet`` or ``NAME.csv`` for each, whose target is the column ``target``.

A number that is missing is the median, with a column that says so; text is one-hot, at most 20
values, the rare ones together; a category that the file calls ordered is its place in that order;
a date is year, month, day of the week, hour and time elapsed. All of it is learnt from training
rows, standardised, and constant columns are dropped. The target of a regression is standardised,
which leaves R² as it is.
"""

import json
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

Array = NDArray[np.float64]
SPLITS = 5
LEVELS = 20  # of a text column
MANY_ROWS = 10_000  # from here on a fifth is held out in place of three folds, as `search` does
HOPELESS = 1e6  # the loss of what is no number
UNIT = pd.Timedelta(days=1)


class Table(NamedTuple):
    name: str
    task: str  # "classification" or "regression"
    x: pd.DataFrame
    y: NDArray
    time: str | None  # the column its rows are in the order of


class Split(NamedTuple):
    """Training and test rows, ready; choices are made on the training rows alone."""

    x: Array  # (rows, columns)
    y: NDArray  # (rows,): classes 0, 1, ... or standardised values
    x_test: Array
    y_test: NDArray
    classes: int  # 0: a regression
    seed: int
    device: str = "cpu"  # of methods that train many networks at once

    @property
    def outputs(self) -> int:
        return self.classes if self.classes > 2 else 1


def listed(folder: Path) -> dict[str, str]:
    """The tables of a folder and their tasks."""
    path = folder / "tables.json"
    if not path.is_file():
        raise ValueError(f"Expected a folder of tables with tables.json. Got {folder}")
    found = {name: about["task"] for name, about in json.loads(path.read_text()).items()}
    for name, task in found.items():
        if task not in ("classification", "regression"):
            raise ValueError(f"{name}: expected classification or regression. Got {task!r}")
    return found


def file_of(folder: Path, name: str) -> Path:
    """The file of a table."""
    path = folder / f"{name}.parquet"
    return path if path.exists() else folder / f"{name}.csv"


def as_date(column: pd.Series) -> pd.Series | None:
    """Times without a zone, where the column holds dates or text that is one in every row."""
    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(column):
        return None
    try:
        return pd.to_datetime(column, format="ISO8601", utc=True).dt.tz_localize(None)
    except (ValueError, TypeError):
        return None


def load(folder: Path, name: str) -> Table:
    """A table; one with a date is put in the order of time."""
    task, path = listed(folder)[name], file_of(folder, name)
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    x, target = frame.drop(columns="target"), frame["target"]
    dates = {column: found for column in x if (found := as_date(x[column])) is not None}
    x = x.assign(**dates)
    time = next(iter(dates), None)
    if time is not None:
        order = x[time].argsort(kind="stable")
        x, target = x.iloc[order], target.iloc[order]
    y = pd.factorize(target, sort=True)[0] if task == "classification" else target.to_numpy(float)
    return Table(name, task, x.reset_index(drop=True), y, time)


def parts(table: Table, split: int, most: int) -> tuple[NDArray, NDArray]:
    """Training and test rows of an outer split, at most ``most`` to train on.

    Five folds, class by class; in time, each later tenth of the last half after all that is before.
    """
    rows = len(table.y)
    if table.time is not None:
        cut = [rows * (SPLITS + place) // (2 * SPLITS) for place in (split, split + 1)]
        train, test = np.arange(cut[0]), np.arange(*cut)
    else:
        splitter = StratifiedKFold if table.task == "classification" else KFold
        cuts = splitter(SPLITS, shuffle=True, random_state=0).split(table.x, table.y)
        train, test = list(cuts)[split]
    if len(train) > most:
        train = np.sort(np.random.default_rng(split).choice(train, most, replace=False))
    return train, test


def date_columns(dates: pd.DataFrame, start: dict) -> pd.DataFrame:
    """Year, month, day of the week, hour and days since ``start``, of each date."""
    made = {}
    for name, column in dates.items():
        parts = column.dt
        made |= {f"{name} year": parts.year, f"{name} month": parts.month}
        made |= {f"{name} weekday": parts.day_of_week, f"{name} hour": parts.hour}
        made[f"{name} elapsed"] = (column - start[name]) / UNIT
    return pd.DataFrame(made)


def text_columns(x: pd.DataFrame) -> list[str]:
    """Those that are no numbers, no dates and in no order."""
    kinds = (pd.api.types.is_numeric_dtype, pd.api.types.is_datetime64_any_dtype)
    others = [name for name in x if not any(kind(x[name]) for kind in kinds)]
    return [name for name in others if not getattr(x[name].dtype, "ordered", False)]


def preprocessing(x: pd.DataFrame) -> ColumnTransformer:
    """What is learnt from training rows ``x``, not yet fitted."""
    dates = [name for name in x if pd.api.types.is_datetime64_any_dtype(x[name])]
    ordered = [name for name in x if getattr(x[name].dtype, "ordered", False)]
    numbers = [name for name in x if pd.api.types.is_numeric_dtype(x[name])]
    levels = [list(x[name].cat.categories) for name in ordered]
    median = SimpleImputer(strategy="median", add_indicator=True)
    places = OrdinalEncoder(
        categories=levels, handle_unknown="use_encoded_value", unknown_value=np.nan
    )
    one_hot = OneHotEncoder(
        drop="if_binary",
        handle_unknown="infrequent_if_exist",
        max_categories=LEVELS,
        sparse_output=False,
    )
    calendar = FunctionTransformer(partial(date_columns, start=x[dates].min().to_dict()))
    return ColumnTransformer(
        [
            ("numbers", median, numbers),
            ("ordered", make_pipeline(places, median), ordered),
            ("text", one_hot, text_columns(x)),
            ("dates", make_pipeline(calendar, median), dates),
        ]
    )


def prepared(table: Table, split: int, most: int) -> Split:
    """An outer split as numbers."""
    train, test = parts(table, split, most)
    x = table.x.copy()
    for name in text_columns(x):  # missing text is a value like others
        x[name] = x[name].astype(object).where(x[name].notna(), "missing").astype(str)
    ready = make_pipeline(preprocessing(x.iloc[train]), VarianceThreshold(), StandardScaler())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")  # they count as rare
        x_train, x_test = ready.fit_transform(x.iloc[train]), ready.transform(x.iloc[test])
    y_train, y_test = table.y[train], table.y[test]
    if table.task == "classification":
        return Split(x_train, y_train, x_test, y_test, int(table.y.max()) + 1, split)
    centre, scale = y_train.mean(), y_train.std()
    y_train, y_test = (y_train - centre) / scale, (y_test - centre) / scale
    return Split(x_train, y_train, x_test, y_test, 0, split)


def folds(split: Split) -> list[tuple[NDArray, NDArray]]:
    """Rows to fit and rows to choose by, within the training rows."""
    rows = np.arange(len(split.y))
    classes = split.y if split.classes else None
    if len(rows) >= MANY_ROWS:
        held = train_test_split(rows, test_size=0.2, random_state=split.seed, stratify=classes)
        return [(held[0], held[1])]
    splitter = KFold if classes is None else StratifiedKFold
    return list(splitter(3, shuffle=True, random_state=split.seed).split(split.x, classes))


def judged(outputs: NDArray, y: NDArray, classes: int) -> tuple[float, float]:
    """Score and loss of raw outputs (rows, outputs): R² and mean square, accuracy and log loss."""
    outputs = np.asarray(outputs, dtype=float).reshape(len(y), -1)
    if not np.isfinite(outputs).all():
        return -HOPELESS, HOPELESS
    if not classes:
        loss = float(np.square(outputs[:, 0] - y).mean())
        return 1 - loss / float(np.var(y)), loss
    if classes == 2:
        outputs = np.hstack([np.zeros_like(outputs), outputs])
    outputs = outputs - outputs.max(1, keepdims=True)
    surprise = np.log(np.exp(outputs).sum(1)) - outputs[np.arange(len(y)), y]
    return float((outputs.argmax(1) == y).mean()), float(surprise.mean())


def point(parameters: int, name: str, validation: float, test: tuple[float, float]) -> dict:
    """A predictor as it is recorded; ``validation`` is the score that chooses."""
    score, loss = (float(f"{value:.6g}") for value in test)
    validation = float(f"{validation:.6g}")
    size = {"parameters": int(parameters), "bytes": 4 * int(parameters)}
    return {**size, "name": name, "validation": validation, "test": score, "loss": loss}


def front(points: list[dict], size: str) -> list[dict]:
    """Those with a better validation score than all that are no larger."""
    kept: list[dict] = []
    for one in sorted(points, key=lambda one: (one[size], -one["validation"])):
        if not kept or one["validation"] > kept[-1]["validation"]:
            kept.append(one)
    return kept
