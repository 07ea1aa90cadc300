"""Teachers: models that somebody has already, whose answers small networks are to give.

A teacher is anything that answers rows of the table: an estimator like scikit-learn's, a function,
a torch module, the path of an ONNX file. Its answers are probabilities of the classes, or values.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.files.reading import quoted
from torchsparcs.tables.columns import Table, array_of
from torchsparcs.tables.dates import calendar_parts, dates_in
from torchsparcs.tables.entries import NUMBERS, is_missing, text_of
from torchsparcs.tables.target import Target
from torchsparcs.training.tasks import evaluation_mode

AGAIN = 20  # rows that a teacher is asked twice
AT_ONCE = 10_000  # rows that a module is asked at once
KINDS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
SLACK = 1e-3  # of a sum of probabilities, and of the second answer
SURE = 5  # standard errors


class Teacher:
    """A model in the words of a target: what it says of rows, as networks are to say it.

    Args:
        model: an estimator with ``predict_proba`` or ``predict``, a function of the table, a torch
            module of its numbers, or the path of an ONNX file.
        target: whose classes, or values, it answers with.
        may_lack: whether it may not know some classes, as it was fitted to a part of the rows.
    """

    def __init__(self, model: Any, target: Target, *, may_lack: bool = False):
        self.target = target
        self.name, self._ask = _asked(model, target, may_lack)

    def answers(self, X: Any) -> Tensor:
        """Probabilities of the classes (of two, of the second), or standardised values: (n, O)."""
        rows = len(X)
        try:
            said = np.asarray(self._ask(X))
        except Exception as error:
            raise ValueError(
                f"Expected a teacher that answers rows of the table: {self.name} ended with "
                f"{type(error).__name__}: {error}"
            ) from error
        said = np.atleast_1d(_numbers(said, self.name))
        said = said.reshape(len(said), -1)
        wanted = len(self.target.classes or self.target.names)
        if self.target.classes is not None and wanted == 2 and said.shape[1] == 1:
            said = np.hstack([1 - said, said])
        if said.shape != (rows, wanted):
            what = "probabilities of" if self.target.classes is not None else "values for"
            raise ValueError(
                f"Expected {what} {wanted} {'classes' if self.target.classes else 'outputs'} for "
                f"each of {rows} rows from {self.name}. Got answers of shape {said.shape}."
            )
        if self.target.classes is None:
            standard = (said - np.array(self.target.mean)) / np.array(self.target.scale)
            return torch.from_numpy(standard).float()
        wrong = np.maximum(abs(said.sum(axis=1) - 1), -said.min(axis=1))
        if wrong.max() > SLACK:
            raise ValueError(
                f"Expected probabilities, none below zero, which add up to one, from {self.name}. "
                f"Got {said[wrong.argmax()].round(4).tolist()}."
            )
        chances = torch.from_numpy(said).float().clamp(0, 1)
        return chances[:, 1:] if self.target.task == "binary" else chances

    def check_constancy(self, X: Any) -> None:
        """A ValueError where it does not give the same answers again."""
        some = X[:AGAIN] if not hasattr(X, "iloc") else X.iloc[:AGAIN]
        one, other = self.answers(some), self.answers(some)
        if (one - other).abs().max() > SLACK:
            raise ValueError(
                f"Expected a teacher that gives the same answers again. {self.name} changed them "
                f"by {(one - other).abs().max():.3g}: is it in training mode, or does it draw?"
            )

    def check_order(self, said: Tensor, y: Any) -> None:
        """A ValueError where the labels ``y`` show that it has the classes in another order.

        Then what it ``said`` (rows, O) of each of some classes is largest, on average, in the rows
        of another one of them.
        """
        if self.target.classes is None:
            return
        chances = (torch.cat([1 - said, said], dim=1) if said.shape[1] == 1 else said).double()
        places = range(len(self.target.classes))
        labels = F.one_hot(self.target.transform(y).long(), len(places)).double()
        means = labels.T @ chances / labels.sum(dim=0)[:, None]  # (labels, classes)
        spread = labels.T @ chances.square() / labels.sum(dim=0)[:, None] - means.square()
        errors = spread.clamp_min(0) / labels.sum(dim=0)[:, None]
        own = means.argmax(dim=0).tolist()
        moved = [place for place in places if own[place] != place]
        if not moved or sorted(own) != [*places]:
            return
        for place in moved:
            gap = means[own[place], place] - means[place, place]
            if gap <= SURE * (errors[own[place], place] + errors[place, place]).sqrt():
                return
        found = ", ".join(str(self.target.classes[place]) for place in own)
        raise ValueError(
            f"Expected probabilities of {', '.join(map(str, self.target.classes))} in this order. "
            f"By the labels of the rows those of {self.name} are of {found}."
        )


def teacher_name(model: Any) -> str:
    """What a teacher is called: its kind, its own name, or that of its file."""
    if isinstance(model, str | Path):
        return Path(model).name
    kind = type(model).__name__
    has_kind = hasattr(model, "predict") or isinstance(model, nn.Module)
    return kind if has_kind else str(getattr(model, "__name__", kind))


Asked = tuple[str, Callable[[Any], Any]]


def _asked(model: Any, target: Target, may_lack: bool) -> Asked:
    """The name of a teacher, and what it says of rows of a table."""
    name = teacher_name(model)
    if isinstance(model, str | Path):
        return _onnx_file(Path(model), target)
    if isinstance(model, nn.Module):
        return name, lambda X: _of_module(model, X, target)
    if target.classes is not None and hasattr(model, "predict_proba"):
        return name, _in_order(model, target, may_lack)
    if target.classes is not None and hasattr(model, "predict"):
        raise ValueError(
            f"Expected a teacher with probabilities, predict_proba. {name} has predict alone."
        )
    if hasattr(model, "predict"):
        return name, lambda X: model.predict(_as_fitted(model, X))
    if callable(model):
        return name, model
    raise ValueError(
        "Expected a teacher: a fitted estimator, a function of the table, a torch module or the "
        f"path of an ONNX file. Got {name}."
    )


def _in_order(model: Any, target: Target, may_lack: bool) -> Callable[[Any], Any]:
    """Its probabilities in the order of the classes of the target, zero of those it lacks."""
    own = getattr(model, "classes_", None)

    def ask(X: Any) -> np.ndarray:
        said = np.asarray(model.predict_proba(_as_fitted(model, X)))
        if own is None:
            return said
        known = [str(label) for label in np.asarray(own).tolist()]
        lacking = [label for label in map(str, target.classes or ()) if label not in known]
        if may_lack and lacking:
            said = np.hstack([said, np.zeros((len(said), len(lacking)))])
            known += lacking
        return said[:, _places(known, target)]

    return ask


def _as_fitted(model: Any, X: Any) -> Any:
    """X with the columns that ``model`` was fitted to, in their order, or named where X is not."""
    names = [*map(str, getattr(model, "feature_names_in_", ()))]
    if not names:
        return X
    if not hasattr(X, "columns"):
        if np.shape(X)[1:] != (len(names),):
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=names)
    own = [*map(str, X.columns)]
    if own == names or not hasattr(X, "iloc"):
        return X
    if not {*names} <= {*own}:
        own = [name.replace(" ", "_") for name in own]  # as LightGBM calls them
    if {*names} <= {*own}:
        return X.iloc[:, [own.index(name) for name in names]]
    if hasattr(model, "feature_name_"):  # LightGBM takes columns by their places alone
        raise ValueError(f"it was fitted to {quoted(names)}, the table has {quoted(own)}")
    return X


def _places(own: Sequence[Any], target: Target) -> list[int]:
    """Where the classes of the target are among a teacher's ``own``."""
    texts = [str(label) for label in np.asarray(own).tolist()]
    wanted = [str(label) for label in target.classes or ()]
    if sorted(texts) != sorted(wanted):
        raise ValueError(
            f"Expected a teacher of the classes {', '.join(wanted)}. Got {', '.join(texts)}."
        )
    return [texts.index(label) for label in wanted]


def _numbers(said: np.ndarray, name: str) -> np.ndarray:
    try:
        numbers = said.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected numbers from {name}. Got {str(said.flat[0])!r}.") from error
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise ValueError(
            f"Expected finite answers from {name}. Got {int(bad.sum()):,} that are not, the first "
            f"in row {row}."
        )
    return numbers


def _matrix(X: Any) -> np.ndarray:
    """The columns of a table that are all numbers, float32 (rows, columns)."""
    table = Table.of(X)
    values = table.numbers([*range(len(table.names))])
    if values is None:
        others = [name for i, name in enumerate(table.names) if not table.is_numeric(i)]
        raise ValueError(
            f"Expected columns of numbers for a teacher that takes a matrix. Got {others[0]!r}."
        )
    return values.astype(np.float32)


def _of_module(module: nn.Module, X: Any, target: Target) -> np.ndarray:
    """What a module says of the numbers of a table: logits of classes, or values."""
    parameter = next(module.parameters(), torch.zeros(()))
    rows = torch.from_numpy(_matrix(X)).to(parameter.device, parameter.dtype)
    with evaluation_mode(module):
        said = torch.cat([module(some).double().cpu() for some in rows.split(AT_ONCE)])
    if target.classes is None:
        return said.numpy()
    said = said.reshape(len(said), -1)
    if said.shape[1] == 1:
        return said.sigmoid().numpy()
    return said.softmax(dim=1).numpy()


def _onnx_file(path: Path, target: Target) -> Asked:
    """An ONNX file that takes a matrix of the columns, or each of them by its name."""
    session = _session(path)

    def ask(X: Any) -> np.ndarray:
        found = session.run(None, _feed(session, X))
        return _answer(found, target)

    return path.name, ask


def _session(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"Expected an ONNX file as the teacher. There is none at {path}.")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            "A teacher in ONNX needs onnxruntime: pip install 'torchsparcs[onnx]'."
        ) from error
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # LightGBM's files put out other shapes than they tell
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ValueError(f"Expected an ONNX file as the teacher. {path.name}: {error}") from error


def _feed(session: Any, X: Any) -> dict[str, np.ndarray]:
    """What a session takes of a table: one matrix, or columns by their names."""
    given = session.get_inputs()
    if len(given) == 1 and len(given[0].shape) == 2:
        columns, width = _matrix(X), given[0].shape[1]
        if isinstance(width, int) and width != columns.shape[1]:
            raise ValueError(f"it takes {width} columns, the table has {columns.shape[1]}")
        return {given[0].name: columns.astype(_kind(given[0]))}
    table = Table.of(X)
    feed = {}
    for one in given:
        if one.name not in table.names:
            raise ValueError(f"it takes {one.name!r}, which is no column of the table")
        values = table.column(table.names.index(one.name))
        if "string" in one.type:
            values = np.array(["" if is_missing(v) else text_of(v) for v in values], dtype=object)
        elif (dates := _dates(values)) is not None:
            values = dates.astype(_kind(one))
        else:
            values = values.astype(_kind(one))
        feed[one.name] = values.reshape(-1, *([1] * (len(one.shape) - 1)))
    return feed


def _kind(given: Any) -> Any:
    if given.type not in KINDS:
        raise ValueError(f"it takes {given.type} as {given.name!r}")
    return KINDS[given.type]


def _dates(values: np.ndarray) -> np.ndarray | None:
    """A column of dates as our own files take them, in days since 2000; None for others."""
    if values.dtype.kind in NUMBERS:
        return None
    dates = dates_in(values)
    return None if dates is None else calendar_parts(dates, ["days since 2000"])[:, 0]


def _answer(found: list[Any], target: Target) -> np.ndarray:
    """The probabilities, or values, among what a session puts out: labels are left out."""
    if target.classes is None:
        if len(found) > 1 and not _is_float(found[0]):
            raise ValueError("it puts out labels of classes, the target is of numbers")
        return array_of(found[0])
    for each in reversed(found):
        if isinstance(each, list) and each and isinstance(each[0], dict):  # a map for each row
            places = _places([*each[0]], target)
            return np.array([[*row.values()] for row in each])[:, places]
        if _is_float(each):
            return each
    raise ValueError("it puts out no probabilities")


def _is_float(found: Any) -> bool:
    return isinstance(found, np.ndarray) and found.dtype.kind == "f"


def labels_of(model: Any, X: Any, task: str = "auto") -> np.ndarray:
    """What a teacher says of rows that have no target: labels of classes, or values, (rows,).

    Of a function or a file that gives numbers, ``task`` tells probabilities from values.
    """
    if isinstance(model, str | Path):
        session = _session(Path(model))
        found = session.run(None, _feed(session, X))
        return _labels([each for each in found if isinstance(each, np.ndarray)], task)
    if hasattr(model, "predict"):
        return np.asarray(model.predict(_as_fitted(model, X)))
    if isinstance(model, nn.Module):
        raise ValueError(
            "Expected a target y beside a torch module, whose outputs may be logits or values."
        )
    return _labels([np.asarray(model(X))], task)


def _labels(found: list[np.ndarray], task: str) -> np.ndarray:
    """Labels, those of the likeliest of several probabilities, or values."""
    first = found[0]
    if first.ndim == 2 and first.shape[1] == 1:
        first = first[:, 0]
    if first.dtype.kind != "f" or task == "regression":
        return first
    is_chance = bool(first.min() >= 0 and first.max() <= 1)
    if task == "auto" and is_chance:
        raise ValueError(
            "Expected a task, classification or regression, where a teacher gives numbers from 0 "
            "to 1 and there is no target: they may be probabilities or values."
        )
    if task == "auto" or not is_chance:
        return first
    return first.argmax(axis=1) if first.ndim == 2 else (first > 0.5).astype(int)
