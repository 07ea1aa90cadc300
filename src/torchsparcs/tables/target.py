"""The target y: labels become class numbers, numbers are standardised, and predictions go back."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from torchsparcs.files.reading import Record, quoted
from torchsparcs.tables.columns import (
    Table,
    check_names,
    weighted_rows,
)
from torchsparcs.tables.entries import (
    number,
    parsed_numbers,
    text_of,
)
from torchsparcs.tables.recognition import mostly
from torchsparcs.tables.standardization import check_bounded, check_moments, moments, standardized
from torchsparcs.tables.target_values import (
    target_columns,
    target_numbers,
    target_table,
    target_writing,
)
from torchsparcs.tables.writing import Writing, tell_guesses
from torchsparcs.training.tasks import TASKS

Label = str | int | bool | float
DIGITS = 8  # of an output in float32, in units of the target's scale
BEYOND = 0.5  # of the range of a target that an answer may lie outside of it
CHOICES = ("auto", "classification", *TASKS)


@dataclass(frozen=True)
class Target(Record):
    """What is predicted: classes by their labels, or numbers in their own units.

    Attributes:
        names: one; for regression one for each output.
        task: "regression", "binary" (one logit) or "multiclass" (one for each class).
        classes: the sorted labels, in their own type; None for regression.
        mean, scale: of each output of a regression; () for classes.
        low, high: the least and most that is answered, half of the range that was seen beyond it,
            so that a row far from all others is not answered by a line drawn far; () for classes
            and where nothing bounds.
        writings: how each output is written that is text, "€9,492"; () where all are numbers.

    Shape:
        - y (rows,) or (rows, outputs)
        - what a network puts out (rows, :attr:`outputs`)

    Example:
        >>> target = Target.fit(["no", "yes", "no", "no"])
        >>> target.task, target.classes, target.outputs
        ('binary', ('no', 'yes'), 1)
        >>> target.transform(["yes", "no"])
        tensor([1., 0.])
        >>> target.predict(torch.tensor([[2.0], [-1.0]])).tolist()
        ['yes', 'no']
        >>> Target.from_json(target.to_json()) == target
        True
    """

    names: tuple[str, ...]
    task: str
    classes: tuple[Label, ...] | None = None
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    writings: tuple[Writing | None, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if (
            not isinstance(self.names, tuple)
            or not self.names
            or not all(isinstance(name, str) for name in self.names)
        ):
            raise ValueError(f"Expected the names of the target. Got {self.names!r}.")
        check_names(self.names)
        if len(self.writings) not in (0, len(self.names)):
            raise ValueError(f"Expected a writing for each name. Got {self.writings!r}.")
        if self.task == "regression":
            if self.classes is not None:
                raise ValueError(f"Expected no classes for regression. Got {self.classes!r}.")
            check_moments(self.mean, self.scale, len(self.names))
            self._check_ends()
            return
        least, most = {"binary": (2, 2), "multiclass": (2, np.inf)}.get(self.task, (1, 0))
        if (
            len(self.names) > 1
            or not isinstance(self.classes, tuple)
            or not least <= len(set(self.classes)) == len(self.classes) <= most
            or {type(label) for label in self.classes} not in ({str}, {int}, {bool}, {float})
        ):
            raise ValueError(
                "Expected regression, or one target with two (binary) or more (multiclass) "
                f"different classes of one type. Got {self.task!r} and {self.classes!r}."
            )
        check_moments(self.mean, self.scale, 0)
        if self.low or self.high:
            raise ValueError(f"Expected no bounds of classes. Got {self.low!r}, {self.high!r}.")

    def _check_ends(self) -> None:
        ends = (self.low, self.high)
        if ends == ((), ()):
            return
        sizes = [len(end) for end in ends if isinstance(end, tuple)]
        numbers = [number for end in ends for number in end]
        if (
            sizes != [len(self.names)] * 2
            or not all(isinstance(each, float) and np.isfinite(each) for each in numbers)
            or not all(low < high for low, high in zip(*ends, strict=True))
        ):
            raise ValueError(
                f"Expected bounds for each of {len(self.names)} outputs, low below high. Got "
                f"{self.low!r}, {self.high!r}."
            )

    @classmethod
    def fit(cls, y: Any, task: str = "auto", sample_weight: Any = None) -> "Target":
        """Learn the classes, or mean and scale, from ``y``.

        ``task`` is one of the three, "classification" for either kind of classes, or "auto":
        text, bools and categories are classes; so are integers (or floats that are integers) with
        two different values, or with at most 20 that occur ten times each on average; all else,
        and several outputs, is regression.

        Rows of weight zero (``sample_weight`` (rows,)) are left out as if they were not there.
        """
        if task not in CHOICES:
            raise ValueError(f"Expected a task among {', '.join(CHOICES)}. Got {task!r}.")
        table, weight = weighted_rows(target_table(y), sample_weight)
        columns = target_columns(table)
        if task == "auto":
            task = "classification" if _is_classes(table, columns) else "regression"
        if task != "regression":
            return cls._of_classes(columns, task)
        names = tuple(name for name, _ in columns)
        writings = tuple(target_writing(values) for _, values in columns)
        tell_guesses(zip(names, writings, strict=True))
        values = target_numbers(columns, writings)
        mean, scale, is_constant = moments(values, weight)
        if is_constant.any():
            flat = [names[place] for place in np.flatnonzero(is_constant)]
            raise ValueError(
                f"Expected a target that varies. Got one value throughout {quoted(flat)}."
            )
        check_bounded("a target", names, mean, scale)
        low, high = ends_of(values.min(axis=0), values.max(axis=0))
        return cls(
            names,
            task,
            mean=tuple(mean.tolist()),
            scale=tuple(scale.tolist()),
            writings=writings if any(writings) else (),
            low=low,
            high=high,
        )

    def widened(self, y: Any) -> "Target":
        """With bounds that are also those of other values, where there are any."""
        if not self.low:
            return self
        values = target_numbers(target_columns(target_table(y)), self.writings)
        low, high = ends_of(values.min(axis=0), values.max(axis=0))
        if not low:
            return replace(self, low=(), high=())
        return replace(
            self,
            low=tuple(map(min, self.low, low)),
            high=tuple(map(max, self.high, high)),
        )

    @classmethod
    def of_outputs(cls, task: str, outputs: int) -> "Target":
        """The outputs of a network as they are: class numbers from 0, or numbers unscaled."""
        if task == "regression":
            names = ("y",) if outputs == 1 else tuple(f"y{place}" for place in range(outputs))
            return cls(names, task, mean=(0.0,) * outputs, scale=(1.0,) * outputs)
        return cls(("y",), task, classes=tuple(range(2 if task == "binary" else outputs)))

    @classmethod
    def _of_classes(cls, columns: list[tuple[str, np.ndarray]], task: str) -> "Target":
        if len(columns) > 1:
            raise ValueError(
                f"Expected one column of labels. Got {len(columns)}: several outputs are for "
                "regression only."
            )
        name, values = columns[0]
        classes = _sorted_labels(name, values)
        if len(classes) == 1:
            raise ValueError(
                f"Expected at least two classes. Got one class, {classes[0]!r}, in {name!r}."
            )
        if task == "binary" and len(classes) > 2:
            raise ValueError(
                f"Expected two classes for a binary task. Got {len(classes)} in {name!r}: "
                f"{quoted(classes)}."
            )
        if task == "classification":
            task = "binary" if len(classes) == 2 else "multiclass"
        return cls((name,), task, classes)

    @property
    def outputs(self) -> int:
        """How many outputs the network has."""
        if self.classes is None:
            return len(self.names)
        return 1 if self.task == "binary" else len(self.classes)

    def transform(self, y: Any) -> Tensor:
        """Encode ``y`` as its task has it.

        Regression: standardised float32, (rows,) or (rows, outputs); binary: 0 and 1 as float32
        (rows,); multiclass: int64 (rows,).
        """
        columns = target_columns(target_table(y))
        if len(columns) != len(self.names):
            raise ValueError(
                f"Expected a target with {len(self.names)} columns. Got {len(columns)}."
            )
        if self.classes is None:
            values = target_numbers(columns, self.writings)
            names = [name for name, _ in columns]
            result = torch.from_numpy(standardized(values, self.mean, self.scale, names))
            return result[:, 0] if len(self.names) == 1 else result
        entries = columns[0][1].tolist()
        label = text_of if isinstance(self.classes[0], str) else lambda value: value
        place = {known: index for index, known in enumerate(self.classes)}
        codes = {value: place.get(label(value)) for value in set(entries)}
        unseen = [value for value, code in codes.items() if code is None]
        if unseen:
            raise ValueError(
                f"Expected labels in {self.names[0]!r} among {quoted(self.classes)}. "
                f"Got {quoted(sorted(unseen, key=text_of))}."
            )
        numbers = torch.tensor([codes[value] for value in entries])
        return numbers.float() if self.task == "binary" else numbers

    def predict(self, output: Tensor) -> np.ndarray:
        """Turn ``output`` (rows, outputs), raw, into labels (rows,) or values in their units.

        Values are float64, (rows,) for one output and else (rows, outputs), none below
        :attr:`low` or above :attr:`high`.
        """
        raw = self._checked(output)
        if self.classes is None:
            values = self.in_units(raw)
            if self.low:
                values = np.clip(values, self.low, self.high)
            return values[:, 0] if self.outputs == 1 else values
        chosen = (raw[:, 0] > 0).long() if self.task == "binary" else raw.argmax(dim=1)
        return np.array(self.classes)[chosen.numpy()]

    def in_units(self, standard: Tensor) -> np.ndarray:
        """Numbers of a regression, standardised, in units of their own, (rows, outputs)."""
        return self._checked(standard).numpy() * np.array(self.scale) + np.array(self.mean)

    def bounded(self, output: Tensor) -> Tensor:
        """``output`` (..., outputs), raw, as far as :meth:`predict` follows it."""
        if not self.low:
            return output
        ends = (np.array([self.low, self.high]) - self.mean) / self.scale
        return output.clamp(*output.new_tensor(ends))

    def probabilities(self, output: Tensor) -> np.ndarray:
        """Turn ``output`` (rows, outputs), raw, into probabilities: float64 (rows, classes)."""
        raw = self._checked(output)
        if self.classes is None:
            raise ValueError("Expected a classification for probabilities. Got regression.")
        if self.task == "binary":
            return torch.cat([-raw, raw], dim=1).sigmoid().numpy()
        return raw.softmax(dim=1).numpy()

    def predictions(self, output: Tensor) -> pd.DataFrame:
        """A table of what ``output`` (rows, outputs), raw, says: predictions and probabilities.

        Numbers have the digits that an output in float32 has, and no others.
        """
        predicted = self.predict(output)
        if self.classes is None:
            pairs = zip(predicted.reshape(-1, len(self.names)).T, self.scale, strict=True)
            parts = [_rounded(values, scale) for values, scale in pairs]
            predicted = np.stack(parts, axis=-1).reshape(predicted.shape)
        if predicted.ndim == 2:
            columns = {f"prediction_{name}": predicted[:, i] for i, name in enumerate(self.names)}
        else:
            columns = {"prediction": predicted}
        if self.classes is not None:
            shares = self.probabilities(output).astype(np.float32).T
            names = [f"probability_{label}" for label in self.classes]
            columns |= dict(zip(names, shares, strict=True))
        return pd.DataFrame(columns)

    def _checked(self, output: Tensor) -> Tensor:
        if output.dim() != 2 or output.shape[1] != self.outputs:
            raise ValueError(
                f"Expected an output of shape (rows, {self.outputs}). Got {tuple(output.shape)}."
            )
        return output.detach().cpu().double()


def ends_of(least: np.ndarray, most: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The bounds of answers for targets between ``least`` and ``most``, (outputs,) each."""
    with np.errstate(over="ignore"):
        room = BEYOND * (most - least)
        ends = least - room, most + room
    if not np.isfinite(ends).all():
        return (), ()
    return tuple(ends[0].tolist()), tuple(ends[1].tolist())


def _rounded(values: np.ndarray, scale: float) -> np.ndarray:
    """``values`` with the digits that a float32 in units of ``scale`` has."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(values, DIGITS - int(np.ceil(np.log10(scale))))
    return np.where(np.isfinite(rounded), rounded, values)  # of huge numbers it overflows


def _is_classes(table: Table, columns: list[tuple[str, np.ndarray]]) -> bool:
    """Whether "auto" takes the target for classes."""
    if len(columns) > 1:
        return False
    values = columns[0][1]
    writing = target_writing(values)
    numbers = parsed_numbers(values, number if writing is None else writing.number)
    if not table.is_categorical(0) and numbers is None:
        _check_strays(columns[0][0], values)
    if table.is_categorical(0) or numbers is None or isinstance(values.tolist()[0], bool):
        return True
    distinct = len(np.unique(numbers))
    is_whole = bool((numbers == np.round(numbers)).all())
    return is_whole and (distinct <= 2 or (distinct <= 20 and 10 * distinct <= len(numbers)))


def _check_strays(name: str, values: np.ndarray) -> None:
    """A ValueError for a target of numbers among which there are a few others."""
    if (column := mostly(name, values)) is not None and column.kind == "number":
        raise ValueError(
            f"Expected numbers or classes in {name!r}. Got numbers and, for instance, "
            f"{column.stray!r}: empty such cells, so that their rows are left out, or take "
            "task='classification'."
        )


def _sorted_labels(name: str, values: np.ndarray) -> tuple[Label, ...]:
    """The different labels as plain Python values of one type."""
    found = [_plain(value) for value in set(values.tolist())]
    types = {type(label) for label in found}
    if types == {int, float}:
        found, types = [float(label) for label in found], {float}
    if len(types) > 1 or not types <= {str, int, bool, float}:
        kinds = quoted(sorted(kind.__name__ for kind in types))
        raise ValueError(f"Expected labels of one type in {name!r}. Got {kinds}.")
    fraction = next((x for x in found if isinstance(x, float) and not x.is_integer()), None)
    if fraction is not None:
        raise ValueError(
            f"Expected classes in {name!r}. Unknown label type: continuous numbers, for instance "
            f"{fraction!r}; take task='regression'."
        )
    if len(found) > 1000 or (len(values) >= 50 and len(found) > len(values) / 2):
        raise ValueError(
            f"Expected categories that repeat. Got {len(found)} different values in {len(values)} "
            f"rows of {name!r}: it looks like an identifier or free text; choose another target, "
            "or, if it is a number, write it in one way throughout ('1,250 €') and take "
            "task='regression'."
        )
    return tuple(sorted(found))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
