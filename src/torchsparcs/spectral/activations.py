"""Activations by name, and modules that have one."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def identity(x: Tensor) -> Tensor:
    """f(x) = x: with it a spectral network is linear whatever it recruits."""
    return x


Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "identity": identity,
}


def resolve_activation(activation: str | Activation) -> tuple[str, Activation]:
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


def odd_slope(function: Activation, dtype: torch.dtype = torch.float64) -> float | None:
    """κ > 0 with f(h) − f(−h) = κh, as ReLU, GELU and SiLU have it; None where there is none."""
    h = torch.linspace(-50, 50, 10_001, dtype=dtype)
    odd = function(h) - function(-h)
    if odd.shape != h.shape:
        return None
    kappa, rounding = float(odd[-1] / h[-1]), 1e4 * torch.finfo(dtype).eps
    is_straight = torch.allclose(odd, kappa * h, rtol=rounding, atol=rounding)
    return kappa if kappa > 0 and is_straight else None


class HasActivation:
    """Mixin of modules with one activation, given by its name or as a function."""

    activation: Activation
    activation_name: str
    has_named_activation: bool

    def set_activation(self, activation: str | Activation) -> None:
        self.activation_name, self.activation = resolve_activation(activation)
        self.has_named_activation = isinstance(activation, str)

    @property
    def named_activation(self) -> str | Activation:
        """The activation by its name, or the function itself where it has none."""
        return self.activation_name if self.has_named_activation else self.activation
