"""Models of several inputs or outputs as ones of tensors in a row, for formats without others."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn

from torchsparcs.training.nests import called, mapped


def named_tensors(nest: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a nest: by the keys of dicts, with numbers behind ``name`` otherwise."""
    if isinstance(nest, Tensor):
        yield name, nest
        return
    if is_dataclass(nest) and not isinstance(nest, Mapping):
        nest = {f.name: getattr(nest, f.name) for f in fields(nest)}
    parts: list[tuple[str, Any]] = []
    if isinstance(nest, Mapping):
        parts = [(str(key), value) for key, value in nest.items()]
    elif isinstance(nest, (list, tuple)):
        parts = [(f"{name}_{place}", value) for place, value in enumerate(nest)]
    for key, value in parts:
        yield from named_tensors(value, key)


class InARow(nn.Module):
    """``model`` of tensors one after the other, in the places where ``example`` has tensors.

    It gives a tuple of the tensors of what the model gives.
    """

    def __init__(self, model: nn.Module, example: Any):
        super().__init__()
        self.model, self.example = model, example

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        left = iter(tensors)
        given = mapped(lambda _: next(left), self.example)
        return tuple(tensor for _, tensor in named_tensors(called(self.model, given), "output"))
