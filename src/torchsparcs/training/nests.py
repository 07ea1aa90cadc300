"""What models take and give: one tensor, several, or named ones, nested as they like."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def called(model: Callable[..., Any], inputs: Any) -> Any:
    """``model`` of an input, of a tuple of several, or of a dict of named ones."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def tensors_in(nest: Any) -> Iterator[Tensor]:
    """The tensors in a nest of tuples, lists, dicts and dataclasses; what else is there is left."""
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, Mapping):
        yield from (one for value in nest.values() for one in tensors_in(value))
    elif isinstance(nest, (list, tuple)):
        yield from (one for value in nest for one in tensors_in(value))
    elif is_dataclass(nest):
        yield from (one for f in fields(nest) for one in tensors_in(getattr(nest, f.name)))


def mapped(function: Callable[[Tensor], Tensor], nest: Any) -> Any:
    """The same nest with ``function`` of each of its tensors."""
    if isinstance(nest, Tensor):
        return function(nest)
    if isinstance(nest, Mapping):
        changed: Any = copy.copy(nest)  # of the same class, which may have attributes by its names
        for name, value in nest.items():
            changed[name] = mapped(function, value)
        return changed
    if isinstance(nest, (list, tuple)):
        parts = [mapped(function, one) for one in nest]
        return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)
    if is_dataclass(nest):
        changed = copy.copy(nest)
        for f in fields(nest):
            object.__setattr__(changed, f.name, mapped(function, getattr(nest, f.name)))
        return changed
    return nest


def rows_of(nest: Any) -> int:
    """How many rows there are: the length of the first tensor that has any."""
    return next((len(one) for one in tensors_in(nest) if one.dim()), 0)


def rows_in(nest: Any, rows: Tensor | slice) -> Any:
    """Some of the rows of each tensor; numbers alone stay."""
    return mapped(lambda one: one[_there(rows, one)] if one.dim() else one, nest)


def _there(rows: Tensor | slice, like: Tensor) -> Tensor | slice:
    return rows.to(like.device) if isinstance(rows, Tensor) else rows
