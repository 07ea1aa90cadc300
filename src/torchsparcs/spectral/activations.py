"""Activations by name."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def identity(x: Tensor) -> Tensor:
    """f(x) = x: with it a spectral network is linear whatever it recruits."""
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "identity": identity,
}


def resolve_activation(
    activation: str | Callable[[Tensor], Tensor],
) -> tuple[str, Callable[[Tensor], Tensor]]:
    """The name and the function of an activation given as either."""
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"Expected activation to be one of {', '.join(ACTIVATIONS)}, or a callable. "
                f"Got {activation!r}."
            )
        return activation, ACTIVATIONS[activation]
    if not callable(activation) or isinstance(activation, type):
        raise ValueError(
            f"Expected activation to be a name or a callable, not a class. Got {activation!r}."
        )
    return getattr(activation, "__name__", type(activation).__name__), activation
