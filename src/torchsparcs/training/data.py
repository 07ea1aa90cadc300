"""Data as networks eat it: pairs in memory, or batches to go through.

Inputs are one tensor, a tuple of several, or a dict of named ones, as a model takes them. Targets
in memory are one tensor, those of batches what a loss takes.
"""

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from torchsparcs.training.nests import mapped, rows_in, rows_of, tensors_in

Pair = tuple[Any, Any]
Data = Pair | Iterable[Pair | Mapping[str, Any]]
ARRAYS = (Tensor, np.ndarray)


def is_pair(data: Data) -> TypeGuard[Pair]:
    """Whether ``data`` is (inputs, targets) in memory rather than batches to go through."""
    several = isinstance(data, (tuple, list))
    arrays = [isinstance(part, ARRAYS) for part in data] if several else []
    if len(arrays) == 2 and arrays[1] and (arrays[0] or _are_several(data[0])):  # type: ignore[index]
        return True
    is_one = isinstance(data, (str, Mapping, *ARRAYS))
    if any(arrays) or is_one or not isinstance(data, Iterable):
        raise ValueError(
            "Expected data to be a pair (inputs, targets) of tensors or arrays, the inputs one, a "
            "tuple of several or a dict of named ones, or an iterable of such pairs. Got "
            f"{_kinds(data)}."
        )
    return False


def _are_several(inputs: Any) -> bool:
    """Whether these are a tuple or a dict of arrays."""
    if not isinstance(inputs, (tuple, Mapping)):
        return False
    parts = [*(inputs.values() if isinstance(inputs, Mapping) else inputs)]
    return bool(parts) and all(isinstance(part, ARRAYS) for part in parts)


def _kinds(data: Any) -> list[str] | str:
    """Names of types, for a message."""
    several = isinstance(data, (tuple, list))
    return [type(part).__name__ for part in data] if several else type(data).__name__


@dataclass(frozen=True)
class MemberData:
    """Inputs and targets in memory, shared by all members or with a leading axis of them.

    Shape:
        - inputs (rows, N₀), or (members, rows, N₀) for a population; for a model that takes
          several, a tuple or a dict of (rows, ...)
        - targets (rows, ...), or (members, rows, ...)
        - weights (rows,), or (members, rows): how much each row counts, with mean one
    """

    inputs: Any
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
        parts = [*tensors_in(self.inputs)]
        if (
            any(part.dim() == 0 for part in (*parts, self.targets))
            or self.targets.shape[1 if self.own_targets else 0] != self.rows
            or self.rows == 0
            or (len(parts) > 1 and any(len(part) != self.rows for part in parts))
        ):
            shapes = ", ".join(str(tuple(part.shape)) for part in parts)
            raise ValueError(
                "Expected as many inputs as targets, and at least one. "
                f"Got shapes {shapes} and {tuple(self.targets.shape)}."
            )
        if self.members is not None and not isinstance(self.inputs, Tensor):
            raise ValueError("Expected one tensor as the inputs of a population. Got several.")

    @property
    def own_inputs(self) -> bool:
        one = isinstance(self.inputs, Tensor)
        return self.members is not None and one and self.inputs.dim() == 3

    @property
    def rows(self) -> int:
        return self.inputs.shape[1] if self.own_inputs else rows_of(self.inputs)

    @property
    def own_targets(self) -> bool:
        return self.targets.shape[:2] == (self.members, self.rows)

    def weighted(self, weights: Any) -> "MemberData":
        """The same data with ``weights`` of the rows, scaled to mean one for each member."""
        given = torch.as_tensor(weights).to(self.targets.device, torch.float32)
        shapes = [(self.rows,)] + [(self.members, self.rows)] * (self.members is not None)
        if tuple(given.shape) not in shapes:
            expected = " or ".join(map(str, shapes))
            raise ValueError(f"Expected weights of shape {expected}. Got {tuple(given.shape)}.")
        if not (torch.isfinite(given).all() and (given >= 0).all() and given.any(dim=-1).all()):
            raise ValueError("Expected finite weights >= 0, not all of them zero.")
        return replace(self, weights=given / given.mean(dim=-1, keepdim=True))

    def batch(self, rows: Tensor) -> Pair:
        inputs = self.inputs[:, rows] if self.own_inputs else rows_in(self.inputs, rows)
        targets = self.targets[:, rows] if self.own_targets else self.targets[rows]
        return inputs, targets

    def weighted_batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Inputs and targets, and the weights of the rows where they have any."""
        weights = () if self.weights is None else (self.weights[..., rows],)
        return (*self.batch(rows), *weights)

    def fingerprint(self) -> list[Any]:
        """Tells one data set from another, cheaply."""
        parts = [*tensors_in((self.inputs, self.targets, self.weights))]
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


def placed(batch: Any, like: Tensor | None) -> Pair:
    """Inputs and targets as tensors where ``like`` is, floating inputs in its precision.

    A batch that is one dict of named tensors is the model's input, and the loss's target.
    """
    pair = (batch, batch) if isinstance(batch, Mapping) else batch
    is_two = isinstance(pair, (tuple, list)) and len(pair) == 2
    inputs, targets = map(_as_tensors, pair) if is_two else (None, None)
    if not [*tensors_in(inputs)] or not [*tensors_in(targets)]:
        raise ValueError(
            "Expected batches (inputs, targets) of tensors or arrays, or dicts of them. Got "
            f"{_kinds(batch)}."
        )
    if like is None:
        return inputs, targets
    inputs = mapped(lambda one: _where(one, like, like.dtype), inputs)
    if isinstance(batch, Mapping):
        return inputs, inputs
    return inputs, mapped(lambda one: _where(one, like, None), targets)


def _where(one: Tensor, like: Tensor, dtype: torch.dtype | None) -> Tensor:
    there = one.to(like.device, non_blocking=True)
    return there.to(dtype) if dtype is not None and there.is_floating_point() else there


def _as_tensors(nest: Any) -> Any:
    """The same with tensors for arrays."""
    if isinstance(nest, ARRAYS):
        return torch.as_tensor(nest)
    if isinstance(nest, Mapping):
        changed: Any = copy.copy(nest)
        for name, value in nest.items():
            changed[name] = _as_tensors(value)
        return changed
    return tuple(map(_as_tensors, nest)) if isinstance(nest, (tuple, list)) else nest
