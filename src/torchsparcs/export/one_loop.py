"""All layers of a network in one loop over their neurons, for chips on which code is dear.

A neuron hears some of the sources that are there by then: the features and the hidden neurons
before it. A bit says of each whether it is heard, the lowest bit of a byte first, neuron after
neuron; the weights of those that are follow each other.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from torchsparcs.export.blocks import LOOP, Block


class AnyLayer(Protocol):
    """A layer in float or in int8."""

    @property
    def bias(self) -> np.ndarray: ...

    @property
    def blocks(self) -> tuple[Block, ...]: ...


class OneLoop(NamedTuple):
    """What the loop reads of each neuron: which sources it hears, and the weights of these."""

    heard: tuple[np.ndarray, ...]
    kept: tuple[np.ndarray, ...]

    @property
    def masks(self) -> np.ndarray:
        """The bits of all neurons, uint8."""
        return np.packbits(np.concatenate(self.heard), bitorder="little")

    @property
    def weights(self) -> np.ndarray:
        return np.concatenate(self.kept)

    def stream(self, before: Sequence[bytes], after: Sequence[bytes]) -> bytes:
        """Masks and weights of one byte in the order of their use, with what is around neurons."""
        found, used, masks = bytearray(), 0, self.masks.tobytes()
        parts = zip(self.heard, self.kept, before, after, strict=True)
        for heard, kept, first, last in parts:
            found += first
            weights = iter(kept.tobytes())
            for is_heard in heard:
                if used % 8 == 0:
                    found.append(masks[used // 8])
                used += 1
                if is_heard:
                    found.append(next(weights))
            found += last
        return bytes(found)


def one_loop(layers: Sequence[AnyLayer], features: int) -> OneLoop | None:
    """The layers as one loop; None where loops of their own take fewer bytes."""
    heard, kept, sources = [], [], features
    for layer in layers:
        weights = np.zeros((len(layer.bias), sources), layer.blocks[0].weights.dtype)
        for block in layer.blocks:
            weights[:, block.first : block.last] = block.weights
        is_last = layer is layers[-1]
        for place, row in enumerate(weights):
            heard.append(np.append(row != 0, np.zeros(0 if is_last else place, dtype=bool)))
            kept.append(row[row != 0])
        sources += len(layer.bias)
    found = OneLoop(tuple(heard), tuple(kept))
    blocks = [block for layer in layers for block in layer.blocks]
    apart = sum(block.bytes for block in blocks) + LOOP * (len(blocks) + len(layers) - 2)
    is_smaller = found.masks.nbytes + found.weights.nbytes <= apart
    return found if found.weights.size and is_smaller else None
