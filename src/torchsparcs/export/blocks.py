"""The weights of a layer from neighbouring sources, and the forms they are written down in."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Block(NamedTuple):
    """The weights (neurons, sources) of a layer from neighbouring sources, ``first`` and on."""

    first: int
    weights: np.ndarray

    @property
    def last(self) -> int:
        """One behind the last source."""
        return self.first + self.weights.shape[1]

    @property
    def form(self) -> str:
        """How it is written down in the fewest bytes: a row of ``FORMS``."""
        return min(FORMS, key=self._bytes_as) if self.weights.any() else "dense"

    @property
    def bytes(self) -> int:
        """Of its weights, and of what says where they belong."""
        return self._bytes_as(self.form)

    def _bytes_as(self, form: str) -> int:
        return sum(array.nbytes for array in FORMS[form](self).values())

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What is written down, by name."""
        return FORMS[self.form](self)

    @property
    def places(self) -> list[list[int]]:
        """Of each neuron the sources that it hears."""
        return [(self.first + np.flatnonzero(row)).tolist() for row in self.weights]


def smallest_type(largest: int) -> type[np.unsignedinteger]:
    """The smallest unsigned type that holds ``largest``."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(kind).max)


def _dense(block: Block) -> dict[str, np.ndarray]:
    """All weights, neuron by neuron."""
    return {"weights": block.weights.ravel()}


def _indexed(block: Block) -> dict[str, np.ndarray]:
    """The weights that are not zero, of each its source, of each neuron how many."""
    places = np.array([place for row in block.places for place in row])
    counts = np.array([len(row) for row in block.places])
    return {
        "counts": counts.astype(smallest_type(counts.max())),
        "places": places.astype(smallest_type(block.last)),
        "weights": block.weights[block.weights != 0],
    }


def _masked(block: Block) -> dict[str, np.ndarray]:
    """The weights that are not zero, and a bit for each that might be, the lowest bit first."""
    there = block.weights != 0
    return {
        "masks": np.packbits(there.ravel(), bitorder="little"),
        "weights": block.weights[there],
    }


FORMS: dict[str, Callable[[Block], dict[str, np.ndarray]]] = {
    "dense": _dense,
    "indexed": _indexed,
    "masked": _masked,
}
LOOP = 40  # bytes of code, about, that one more block in a layer takes


def joined(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """``blocks`` of a layer, by their sources; neighbours are one where that takes less."""
    found: list[Block] = []
    for block in blocks:
        if found and found[-1].last == block.first:
            both = Block(found[-1].first, np.hstack([found[-1].weights, block.weights]))
            if both.bytes <= found[-1].bytes + block.bytes + LOOP:
                found[-1] = both
                continue
        found.append(block)
    return tuple(found)
