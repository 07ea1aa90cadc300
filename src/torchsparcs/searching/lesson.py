"""What a teacher of somebody's says: of the rows of a search, and of rows that are made for it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.searching.teachers import Teacher
from torchsparcs.tables.made_rows import made_rows
from torchsparcs.tables.preprocessing import Preprocessing

MOST_MADE, TIMES = 20_000, 4  # made rows: at most, and of those that there are
PARTS = 10  # of the range of a number, within which rows are mixed


@dataclass(frozen=True)
class Lesson:
    """What a teacher says, as networks are to say it.

    Shape:
        - said (rows, O): probabilities of classes (of two, of the second), or standardised values
        - inputs (made, I), answers (made, O): of rows that were made
        - parents (made, 2): the rows that each of those comes from, -1 where there is none
    """

    said: Tensor
    inputs: Tensor
    answers: Tensor
    parents: Tensor

    @classmethod
    def of(
        cls, teacher: Teacher, preprocessing: Preprocessing, X: Any, extra: Any, seed: int
    ) -> "Lesson":
        """The answers to the rows of X, to rows between them, and to ``extra`` rows, if any."""
        teacher.check_constancy(X)
        said, inputs = teacher.answers(X), preprocessing.inputs
        standard = inputs.transform(X)
        count = min(TIMES * len(said), MOST_MADE)
        made = made_rows(X, standard.numpy(), _kinds(said, teacher), count, seed)
        parents = torch.from_numpy(np.stack([made.base, made.partner], axis=1))
        parts = [(inputs.transform(made.X), teacher.answers(made.X), parents)]
        if extra is not None:
            nobody = torch.full((len(extra), 2), -1)
            parts.append((inputs.transform(extra), teacher.answers(extra), nobody))
        return cls(said, *(torch.cat([*each]) for each in zip(*parts, strict=True)))

    def to(self, device: torch.device) -> "Lesson":
        return Lesson(*(each.to(device) for each in self.tensors))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.said, self.inputs, self.answers, self.parents

    def padded(self, rows: int) -> "Lesson":
        """For so many rows, of whose last ones the teacher says nothing: they only judge."""
        silent = self.said.new_zeros(rows - len(self.said), self.said.shape[1])
        return replace(self, said=torch.cat([self.said, silent]))

    def at(self, chosen: Tensor) -> "Lesson":
        """Of the rows ``chosen`` (some,) only, and of what was made of them alone."""
        place = torch.full((len(self.said) + 1,), -2, device=chosen.device)
        place[chosen] = torch.arange(len(chosen), device=chosen.device)
        place[-1] = -1  # nobody
        parents = place[self.parents]
        kept = (parents >= -1).all(dim=1)
        return replace(
            self,
            said=self.said[chosen],
            inputs=self.inputs[kept],
            answers=self.answers[kept],
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


def lesson_of(
    model: Any, preprocessing: Preprocessing, X: Any, extra_rows: Any, seed: int
) -> Lesson | None:
    """What ``model`` says, where there is one."""
    if model is None:
        if extra_rows is not None:
            raise ValueError("Expected a teacher for extra_rows, which have no target. Got none.")
        return None
    teacher = Teacher(model, preprocessing.target)
    return Lesson.of(teacher, preprocessing, X, extra_rows, seed)


def _kinds(said: Tensor, teacher: Teacher) -> np.ndarray:
    """The class that a teacher says of each row, or the part of the range it lies in."""
    if teacher.target.classes is not None:
        chosen = said[:, 0] > 0.5 if said.shape[1] == 1 else said.argmax(dim=1)
        return chosen.long().numpy()
    ranks = said[:, 0].argsort().argsort()
    return (ranks * PARTS // len(ranks)).numpy()
