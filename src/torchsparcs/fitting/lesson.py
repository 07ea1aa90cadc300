"""What a teacher says: of the rows of a search, and of rows that are made for it."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs.files.reading import quoted
from torchsparcs.fitting.teachers import Teacher
from torchsparcs.tables.made_rows import made_rows
from torchsparcs.tables.preprocessing import Preprocessing, Target

MOST_MADE, TIMES = 60_000, 20  # made rows: at most, and of those that there are
RANGES = 10  # of a number, within which rows are mixed


@dataclass(frozen=True)
class Lesson:
    """What a teacher says, as networks are to say it.

    Shape:
        - said (rows, O): probabilities of classes (of two, of the second), or standardised values
        - inputs (made, I), answers (made, O): of rows that were made
        - both with (fits,) before them where each fit has teachers of its own
        - parents (made, 2): the rows that each of those comes from, -1 where there is none
    """

    said: Tensor
    inputs: Tensor
    answers: Tensor
    parents: Tensor

    @classmethod
    def of(
        cls, teacher: Teacher, preprocessing: Preprocessing, X: Any, y: Any, extra: Any, seed: int
    ) -> "Lesson":
        """The answers to the rows of X, to rows between them, and to ``extra`` rows, if any."""
        teacher.check_constancy(X)
        said = teacher.answers(X)
        teacher.check_order(said, y)
        made = more_rows(preprocessing, X, kinds_of(said, teacher.target), extra, seed)
        answers = torch.cat([teacher.answers(part) for part in made.tables])
        return cls(said, made.inputs, answers, made.parents)

    def to(self, device: torch.device) -> "Lesson":
        return Lesson(*(each.to(device) for each in self.tensors))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.said, self.inputs, self.answers, self.parents

    def padded(self, rows: int) -> "Lesson":
        """For so many rows, of whose last ones the teacher says nothing: they only judge."""
        *fits, known, outputs = self.said.shape
        silent = self.said.new_zeros(*fits, rows - known, outputs)
        return replace(self, said=torch.cat([self.said, silent], dim=-2))

    def at(self, chosen: Tensor) -> "Lesson":
        """Of the rows ``chosen`` (some,) only, and of what was made of them alone."""
        place = torch.full((self.said.shape[-2] + 1,), -2, device=chosen.device)
        place[chosen] = torch.arange(len(chosen), device=chosen.device)
        place[-1] = -1  # nobody
        parents = place[self.parents]
        kept = (parents >= -1).all(dim=1)
        return replace(
            self,
            said=self.said[..., chosen, :],
            inputs=self.inputs[kept],
            answers=self.answers[..., kept, :],
            parents=parents[kept],
        )

    def weights(self, fitted: Tensor) -> Tensor:
        """How much made rows count for each fit, (fits, made): those of its own rows alone.

        ``fitted`` (fits, rows) is how much rows count; all made ones count as much together.
        """
        counts = torch.cat([fitted > 0, torch.ones_like(fitted[:, :1]) > 0], dim=1)  # -1: nobody
        own = counts[:, self.parents].all(dim=2)
        share = fitted.sum(dim=1) / own.sum(dim=1).clamp_min(1)
        return own * share[:, None]


class More(NamedTuple):
    """Rows for a teacher to answer: tables of them, as numbers (made, I), their parents (made, 2).

    Parents are the rows that each was made of, -1 where it is somebody's own.
    """

    tables: list[Any]
    inputs: Tensor
    parents: Tensor


def more_rows(
    preprocessing: Preprocessing, X: Any, kinds: np.ndarray, extra: Any, seed: int
) -> More:
    """Rows between those of ``X`` that are of the same kind, and ``extra`` ones, if any."""
    standard = preprocessing.inputs.transform(X)
    made = made_rows(X, standard.numpy(), kinds, made_count(len(standard)), seed)
    parents = [torch.from_numpy(np.stack([made.base, made.partner], axis=1))]
    tables = [made.X]
    if extra is not None:
        extra = _as_columns_of(X, extra)
        tables.append(extra)
        parents.append(torch.full((len(extra), 2), -1))
    inputs = torch.cat([preprocessing.inputs.transform(part) for part in tables])
    return More(tables, inputs, torch.cat(parents))


def made_count(rows: int) -> int:
    """How many rows are made of so many."""
    return min(TIMES * rows, MOST_MADE)


def _as_columns_of(X: Any, extra: Any) -> Any:
    """Rows of somebody's own with the columns of ``X``, in their order and of its categories."""
    if not hasattr(X, "iloc"):
        return np.asarray(extra)
    if not hasattr(extra, "iloc"):
        raise ValueError(
            f"Expected extra rows as a DataFrame, as X is. Got {type(extra).__name__}."
        )
    if lacking := [name for name in X.columns if name not in extra.columns]:
        raise ValueError(
            f"Expected extra rows with the columns of the table. Missing: {quoted(lacking)}."
        )
    kinds = {name: kind for name, kind in X.dtypes.items() if str(kind) == "category"}
    return extra[[*X.columns]].astype(kinds).reset_index(drop=True)


def kinds_of(said: Tensor, target: Target) -> np.ndarray:
    """The class that is said (rows, O) of each row, or the range that a number lies in."""
    if target.classes is not None:
        chosen = said[:, 0] > 0.5 if said.shape[1] == 1 else said.argmax(dim=1)
        return chosen.long().numpy()
    return ranges_of(said[:, 0])


def ranges_of(values: Tensor) -> np.ndarray:
    """For each of the numbers (rows,) which of the ranges it lies in, each of as many rows."""
    ranks = values.argsort().argsort()
    return (ranks * RANGES // len(ranks)).numpy()
