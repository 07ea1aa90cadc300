"""A network as a program: numbers in, features, layers and outputs, as generated code has them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch

from torchsparcs.export.blocks import Block
from torchsparcs.export.one_loop import OneLoop, one_loop
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.tables.target import Target


class Field(NamedTuple):
    """One number that the program takes.

    Attributes:
        name: of the column, or of a part of it.
        supplied: the first of the encoded columns that it comes from, and how many they are.
        note: what the number is, in words; "" where its name says all.
        texts: those that the codes 0, 1, .. stand for; () where the number is no code.
        is_code: whether it chooses a level, and has no size.
        other, missing: the level of a code beyond ``texts``, and of NaN; -1 where there is none.
    """

    name: str
    supplied: tuple[int, int]
    note: str = ""
    texts: tuple[str, ...] = ()
    is_code: bool = False
    other: int = -1
    missing: int = -1

    @property
    def is_ranked(self) -> bool:
        """Whether it is a code and a number as well: of two texts, or of an order."""
        return bool(self.texts) and not self.is_code

    @property
    def level_count(self) -> int:
        return len(self.texts) + (self.other >= 0) + (self.missing >= 0)

    def taken(self, encoded: np.ndarray) -> np.ndarray:
        """The numbers (n,) of encoded rows (n, supplied); a level is its code, NaN if missing."""
        first, count = self.supplied
        if not self.is_code:
            return encoded[:, first]
        ones = encoded[:, first : first + count]
        hidden = self.level_count - count  # of two levels, the second tells all
        level = np.where(ones.any(axis=1), ones.argmax(axis=1) + hidden, hidden - 1.0)
        return np.where((level == self.missing) & (level >= 0), np.nan, level)

    def chosen(self, numbers: np.ndarray) -> np.ndarray:
        """The levels (n,) that codes choose, -1 for none."""
        is_there = np.isfinite(numbers)
        is_known = is_there & (numbers >= 0) & (numbers < len(self.texts))
        is_known &= numbers == np.floor(numbers)
        return np.where(is_known, numbers, np.where(is_there, self.other, self.missing))


class Number(NamedTuple):
    """x − centre, 0 where x is missing."""

    field: int
    centre: np.float32


class Missing(NamedTuple):
    """1 where the field is missing, else 0."""

    field: int


class Level(NamedTuple):
    """1 where the code of the field chooses this level, else 0."""

    field: int
    level: int


class Layer(NamedTuple):
    """Biases (neurons,) and blocks; what a neuron hears is their sum, added block by block."""

    bias: np.ndarray
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Program:
    """What a network computes for one row, ready to be written in any language.

    The sources of the layers lie in one array: numbers, what tells of missing ones, levels, then
    the neurons of each hidden layer. All weights are float32.

    Attributes:
        fills: whether missing numbers are filled in; a bare network takes what it is given.
        target: what the outputs mean; None for a bare network's.
        about: lines on how the network was made.
        inputs: how a table becomes encoded columns; None for a bare network.
        reads: the encoded columns that are read, in the order of the features.
    """

    fields: tuple[Field, ...]
    numbers: tuple[Number, ...]
    indicators: tuple[Missing, ...]
    levels: tuple[Level, ...]
    layers: tuple[Layer, ...]
    activation: str
    fills: bool
    target: Target | None
    about: tuple[str, ...]
    inputs: Inputs | None
    reads: tuple[int, ...]

    @property
    def features(self) -> int:
        """How many sources the first layer has."""
        return len(self.numbers) + len(self.indicators) + len(self.levels)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each layer's neurons begin among the sources; the outputs would come last."""
        widths = (len(layer.bias) for layer in self.layers)
        return tuple(accumulate(widths, initial=self.features))[:-1]

    @cached_property
    def loop(self) -> OneLoop | None:
        """Its layers as generated C has them, where that is one loop."""
        return one_loop(self.layers, self.features)

    @property
    def outputs(self) -> int:
        return len(self.layers[-1].bias)

    @property
    def neurons(self) -> int:
        """Hidden ones and outputs."""
        return sum(len(layer.bias) for layer in self.layers)

    @property
    def task(self) -> str:
        """That of the target; "regression" for a bare network, whose outputs are numbers."""
        return "regression" if self.target is None else self.target.task

    @property
    def classes(self) -> tuple[str, ...]:
        known = self.target.classes if self.target is not None else None
        return tuple(map(str, known or ()))

    @property
    def is_scattered(self) -> bool:
        """Whether other fields come before or between those of the numbers."""
        return [number.field for number in self.numbers] != [*range(len(self.numbers))]

    @property
    def coded(self) -> list[int]:
        """The fields that are codes."""
        return [place for place, field in enumerate(self.fields) if field.is_code]

    @property
    def ranked(self) -> dict[int, int]:
        """The fields that are codes and numbers as well, and how many codes there are."""
        fields = enumerate(self.fields)
        return {place: len(field.texts) for place, field in fields if field.is_ranked}

    def level_at(self, level: Level) -> int:
        """Where that level is among the features."""
        return len(self.numbers) + len(self.indicators) + self.levels.index(level)

    def rows(self, X: Any) -> np.ndarray:
        """The fields of each row of a table, or of what a bare network takes: float32 (n, fields).

        Texts become codes; one that has no level is -1.
        """
        if self.inputs is not None:
            encoded = self.inputs.encode(X, self.reads)
        else:
            encoded = np.asarray(X)
            if encoded.ndim != 2 or encoded.shape[1] <= max(self.reads):
                raise ValueError(
                    f"Expected rows of shape (rows, inputs), inputs up to {max(self.reads)}. "
                    f"Got {encoded.shape}."
                )
        return self.fields_of(encoded)

    def fields_of(self, encoded: np.ndarray) -> np.ndarray:
        """The same of encoded columns (n, supplied), as ``Inputs.encode`` gives them."""
        numbers = [field.taken(encoded) for field in self.fields]
        return np.stack(numbers, axis=1).astype(np.float32)

    def featured(self, rows: np.ndarray) -> np.ndarray:
        """The features of ``rows`` (n, fields), float32 (n, features)."""
        centre = np.array([number.centre for number in self.numbers], dtype=np.float32)
        with np.errstate(over="ignore"):
            numbers = rows[:, [number.field for number in self.numbers]] - centre
        if self.fills:
            numbers[~np.isfinite(numbers)] = 0
        told = ~np.isfinite(rows[:, [told.field for told in self.indicators]])
        chosen = [
            self.fields[field].chosen(rows[:, field]) == level for field, level in self.levels
        ]
        return np.column_stack([numbers, told, *chosen]).astype(np.float32)

    def heard(self, features: np.ndarray) -> list[np.ndarray]:
        """What each layer hears of ``features`` (n, features): [(n, neurons), ..], float64."""
        sources, heard = features.astype(np.float64), []
        for layer in self.layers:
            parts = (
                sources[:, first : first + weights.shape[1]] @ weights.T.astype(np.float64)
                for first, weights in layer.blocks
            )
            heard.append(sum(parts, start=layer.bias.astype(np.float64)))
            active = ACTIVATIONS[self.activation](torch.from_numpy(heard[-1])).numpy()
            sources = np.concatenate([sources, active], axis=1)
        return heard

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """The least and the most that is answered, of each output; () where nothing bounds."""
        if self.target is None:
            return ()
        pairs = (*zip(self.target.low, self.target.high, strict=True),)
        largest = np.finfo(np.float32).max
        return pairs if all(abs(end) < largest for pair in pairs for end in pair) else ()

    def standard(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs (n, outputs) as the network itself has them: of a regression, standardised."""
        if self.target is None or self.task != "regression":
            return outputs
        return (outputs - np.array(self.target.mean)) / np.array(self.target.scale)
