"""Data as networks eat it: pairs in memory, or batches to go through."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
Data = Pair | Iterable[Pair]
ARRAYS = (Tensor, np.ndarray)


def is_pair(data: Data) -> TypeGuard[Pair]:
    """Whether ``data`` is (inputs, targets) in memory rather than batches to go through."""
    several = isinstance(data, (tuple, list))
    arrays = [isinstance(part, ARRAYS) for part in data] if several else []
    if arrays == [True, True]:
        return True
    if any(arrays) or isinstance(data, (str, *ARRAYS)) or not isinstance(data, Iterable):
        raise ValueError(
            "Expected data to be a pair (inputs, targets) of tensors or arrays, or an iterable of "
            f"such pairs. Got {_kinds(data)}."
        )
    return False


def _kinds(data: Any) -> list[str] | str:
    """Names of types, for a message."""
    several = isinstance(data, (tuple, list))
    return [type(part).__name__ for part in data] if several else type(data).__name__


@dataclass(frozen=True)
class MemberData:
    """Inputs and targets in memory, shared by all members or with a leading axis of them.

    Shape:
        - inputs (rows, N₀), or (members, rows, N₀) for a population
        - targets (rows, ...), or (members, rows, ...)
        - weights (rows,), or (members, rows): how much each row counts, with mean one
    """

    inputs: Tensor
    targets: Tensor
    members: int | None = None
    weights: Tensor | None = None

    @classmethod
    def of(cls, data: Pair, members: int | None = None, like: Tensor | None = None) -> "MemberData":
        """``data`` on the device of ``like``, its inputs in the precision of ``like``."""
        return cls(*placed(data, like), members)

    def __post_init__(self) -> None:
        if self.own_inputs and len(self.inputs) != self.members:
            raise ValueError(
                f"Expected inputs for {self.members} members. Got {tuple(self.inputs.shape)}."
            )
        if (
            self.inputs.dim() == 0
            or self.targets.dim() == 0
            or self.targets.shape[1 if self.own_targets else 0] != self.rows
            or self.rows == 0
        ):
            raise ValueError(
                "Expected as many inputs as targets, and at least one. "
                f"Got shapes {tuple(self.inputs.shape)} and {tuple(self.targets.shape)}."
            )

    @property
    def own_inputs(self) -> bool:
        return self.members is not None and self.inputs.dim() == 3

    @property
    def rows(self) -> int:
        return self.inputs.shape[1 if self.own_inputs else 0]

    @property
    def own_targets(self) -> bool:
        return self.targets.shape[:2] == (self.members, self.rows)

    def weighted(self, weights: Any) -> "MemberData":
        """The same data with ``weights`` of the rows, scaled to mean one for each member."""
        given = torch.as_tensor(weights).to(self.inputs.device, torch.float32)
        shapes = [(self.rows,)] + [(self.members, self.rows)] * (self.members is not None)
        if tuple(given.shape) not in shapes:
            expected = " or ".join(map(str, shapes))
            raise ValueError(f"Expected weights of shape {expected}. Got {tuple(given.shape)}.")
        if not (torch.isfinite(given).all() and (given >= 0).all() and given.any(dim=-1).all()):
            raise ValueError("Expected finite weights >= 0, not all of them zero.")
        return replace(self, weights=given / given.mean(dim=-1, keepdim=True))

    def batch(self, rows: Tensor) -> Pair:
        inputs = self.inputs[:, rows] if self.own_inputs else self.inputs[rows]
        targets = self.targets[:, rows] if self.own_targets else self.targets[rows]
        return inputs, targets

    def weighted_batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Inputs and targets, and the weights of the rows where they have any."""
        weights = () if self.weights is None else (self.weights[..., rows],)
        return (*self.batch(rows), *weights)

    def fingerprint(self) -> list[Any]:
        """Tells one data set from another, cheaply."""
        parts = [part for part in (self.inputs, self.targets, self.weights) if part is not None]
        shapes = [list(part.shape) for part in parts]
        # the sum of the weights is always the same: their order matters
        order = [] if self.weights is None else [_sum_in_order(self.weights)]
        return [*shapes, *(part.sum(dtype=torch.float64).item() for part in parts), *order]


def _sum_in_order(values: Tensor) -> float:
    flat = values.flatten().double()
    return (flat @ torch.linspace(1, 2, len(flat)).to(flat)).item()


def digest(parts: Iterable[Tensor]) -> str:
    """A hash that tells these tensors from any others."""
    tensors = [part.detach().cpu().contiguous() for part in parts]
    found = hashlib.sha256(repr([(part.shape, part.dtype) for part in tensors]).encode())
    for part in tensors:
        found.update(part.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def batches_of(
    data: Data, batch_size: int, members: int | None = None, like: Tensor | None = None
) -> Iterable[Pair]:
    """``data`` in order: a pair cut into batches, or the batches of a loader, where ``like`` is."""
    if is_pair(data):
        whole = MemberData.of(data, members, like)
        return map(whole.batch, torch.arange(whole.rows).split(batch_size))
    return (placed(batch, like) for batch in data)


def data_of_members(data: Data, members: int, part: slice) -> Data:
    """What some of the ``members`` of a population are trained on."""
    if not is_pair(data):
        return data
    whole = MemberData.of(data, members)
    inputs = whole.inputs[part] if whole.own_inputs else whole.inputs
    return inputs, whole.targets[part] if whole.own_targets else whole.targets


def in_memory(data: Data, like: Tensor) -> Pair:
    """All of ``data`` as one pair, where ``like`` is."""
    if is_pair(data):
        return placed(data, like)
    pairs = [*batches_of(data, 1, like=like)]
    if not pairs:
        raise ValueError("Expected data with at least one batch. Got none.")
    inputs, targets = zip(*pairs, strict=True)
    return torch.cat(inputs), torch.cat(targets)


def placed(pair: Any, like: Tensor | None) -> Pair:
    """Inputs and targets as tensors where ``like`` is, floating inputs in its precision."""
    if not isinstance(pair, (tuple, list)) or [isinstance(p, ARRAYS) for p in pair] != [True] * 2:
        raise ValueError(
            f"Expected batches (inputs, targets), one tensor or array each. Got {_kinds(pair)}."
        )
    inputs, targets = (torch.as_tensor(part) for part in pair)
    if like is not None:
        inputs = inputs.to(like.device, non_blocking=True)
        targets = targets.to(like.device, non_blocking=True)
        if inputs.is_floating_point():
            inputs = inputs.to(like.dtype)
    return inputs, targets
