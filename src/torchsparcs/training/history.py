"""What a training leaves behind: one entry per epoch, and the eigenvalues now and then."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.spectral.network import SpectralModule

MEASURED = ("train_loss", "validation_loss", "validation_score")  # a number for each member
MOST_STOPS = 40  # snapshots that a search keeps and a page shows


@dataclass
class History:
    """Per-epoch records of a training.

    Of a population every number is a list with one for each member, and every tensor has a leading
    axis of members; :meth:`member` takes one out.

    Attributes:
        train_loss: mean data loss over the epoch's batches, the penalty not counted.
        validation_loss, validation_score: at the end of each epoch; empty without validation data.
        recruited: neurons recruited in each hidden layer of each spectral network, in order.
        snapshots: (epoch, {parameter name: eigenvalues}) for the hidden layers, epoch 0 first.
        seconds: wall time of each epoch.
        stopped_early: whether patience ran out.
        best_epoch: the epoch whose weights the module was left with.
    """

    train_loss: list[Any] = field(default_factory=list)
    validation_loss: list[Any] = field(default_factory=list)
    validation_score: list[Any] = field(default_factory=list)
    recruited: list[list[Any]] = field(default_factory=list)
    snapshots: list[tuple[int, dict[str, Tensor]]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stopped_early: bool = False
    best_epoch: int | None = None

    @property
    def epochs(self) -> int:
        return len(self.train_loss)

    def take_snapshot(self, module: nn.Module) -> None:
        values = {
            f"{prefix}.hidden_eigenvalues.{layer}".lstrip("."): parameter.detach().cpu().clone()
            for prefix, part in module.named_modules()
            if isinstance(part, SpectralModule)
            for layer, parameter in enumerate(part.hidden_eigenvalues)
        }
        self.snapshots.append((self.epochs, values))

    def member(self, index: int) -> "History":
        """The history of one member of a population."""
        lists: dict[str, Any] = {
            name: [each[index] for each in getattr(self, name)] for name in MEASURED
        }
        recruited = [counts[index] if counts else [] for counts in self.recruited]
        snapshots = [
            (epoch, {name: values[index] for name, values in snapshot.items()})
            for epoch, snapshot in self.snapshots
        ]
        return replace(self, recruited=recruited, snapshots=snapshots, **lists)

    def joined(self, other: "History") -> "History":
        """The history of all members from those of two parts, or of two populations.

        A layer that one of them has not, or has narrower, counts as asleep there. One that ended
        earlier, by the clock, stays as it was.
        """
        lists: dict[str, Any] = {
            name: [a + b for a, b in _pairs(getattr(self, name), getattr(other, name))]
            for name in (*MEASURED, "recruited")
        }
        lists["seconds"] = [a + b for a, b in zip_longest(self.seconds, other.seconds, fillvalue=0)]
        snapshots = [
            (max(epoch, another), _side_by_side(mine, others))
            for (epoch, mine), (another, others) in _pairs(self.snapshots, other.snapshots)
        ]
        return replace(self, snapshots=snapshots, **lists)

    def thinned(self) -> "History":
        """The same history with at most ``MOST_STOPS`` snapshots, evenly spread."""
        places = spread(len(self.snapshots), MOST_STOPS)
        return replace(self, snapshots=[self.snapshots[place] for place in places])

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def _pairs(mine: list[Any], others: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Those of both; the last one of the shorter list for all that the other has more."""
    for place in range(max(len(mine), len(others))):
        yield mine[min(place, len(mine) - 1)], others[min(place, len(others) - 1)]


def _side_by_side(mine: dict[str, Tensor], others: dict[str, Tensor]) -> dict[str, Tensor]:
    """The eigenvalues of two populations, (members, width) each, zero where a neuron is not."""
    counts = [len(next(iter(part.values()), ())) for part in (mine, others)]
    joined = {}
    for name in mine | others:
        parts = [
            part.get(name, torch.zeros(n, 0))
            for part, n in zip((mine, others), counts, strict=True)
        ]
        width = max(part.shape[1] for part in parts)
        joined[name] = torch.cat([F.pad(part, (0, width - part.shape[1])) for part in parts])
    return joined


def spread(count: int, most: int) -> list[int]:
    """Places, at most ``most`` of 0..count-1, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})
