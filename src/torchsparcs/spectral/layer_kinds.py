"""Layers of known kinds: their constructor arguments, copies with others, plain descriptions."""

from collections.abc import Callable
from typing import Any

from torch import nn

from torchsparcs.spectral.pooled import Pooled

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
WEIGHTED = (*CONVOLUTIONS, *TRANSPOSED, nn.Linear)  # with a weight for each pair of channels
LOOKED_UP = (nn.Embedding, nn.EmbeddingBag)
CONVOLVED = ("kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
# The constructor arguments of each kind, channels in and out first.
ARGUMENTS: dict[type[nn.Module], tuple[str, ...]] = {
    **dict.fromkeys(CONVOLUTIONS, ("in_channels", "out_channels", "bias", *CONVOLVED)),
    **dict.fromkeys(
        TRANSPOSED, ("in_channels", "out_channels", "bias", *CONVOLVED, "output_padding")
    ),
    nn.Linear: ("in_features", "out_features", "bias"),
    Pooled: ("in_channels", "out_channels", "bias", "positions"),
    nn.Embedding: (
        *("num_embeddings", "embedding_dim", "padding_idx"),
        *("max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    ),
}


def arguments_of(layer: nn.Module) -> dict[str, Any]:
    """The constructor arguments of ``layer``, which is of a known kind."""
    values = {name: getattr(layer, name) for name in ARGUMENTS[type(layer)]}
    return {**values, "bias": values["bias"] is not None} if "bias" in values else values


def another(layer: nn.Module, channels: tuple[int, ...] = (), **changes: Any) -> nn.Module:
    """A layer like ``layer``, of a known kind, with fresh weights.

    Args:
        channels: in and out, where they are others.
        changes: other constructor arguments, device and dtype among them.
    """
    counts = dict(zip(ARGUMENTS[type(layer)], channels, strict=False))
    return type(layer)(**{**arguments_of(layer), **counts, **changes})


# --- as plain values ------------------------------------------------------------------------------

LARGEST = 2**31  # no number is
MOST_POSITIONS = 60  # a tensor has no more axes


def description_of(layer: nn.Module) -> dict[str, Any]:
    """The kind of ``layer`` and its arguments, or a ValueError where that is not all there is."""
    kind = type(layer).__name__
    if type(layer) not in ARGUMENTS:
        known = ", ".join(known.__name__ for known in ARGUMENTS)
        raise ValueError(f"Expected layers among {known}. Got a {kind}.")
    if {*layer.state_dict()} != {*another(layer, device="meta").state_dict()}:
        names = ", ".join(layer.state_dict())
        raise ValueError(f"Expected plain layers. Got a {kind} that makes its weight from {names}.")
    return {"kind": kind, **arguments_of(layer)}


def described_layer(description: dict[str, Any]) -> nn.Module:
    """A layer as described, on meta, or a ValueError where no layer is like that."""
    named = description.get("kind")
    kind = next((known for known in ARGUMENTS if known.__name__ == named), None)
    if kind is None:
        raise ValueError(f"a layer is a {named!r}")
    if lacking := [name for name in ARGUMENTS[kind] if name not in description]:
        raise ValueError(f"a {named} lacks {', '.join(lacking)}")
    arguments = {name: description[name] for name in ARGUMENTS[kind]}
    pairs = enumerate(zip(CONVOLUTIONS, TRANSPOSED, strict=True), 1)
    positions = next((n for n, kinds in pairs if kind in kinds), None)
    for name, value in arguments.items():
        sides = len(value) if isinstance(value, list) else positions
        if not CHECKS.get(name, _is_whole(1))(value) or sides != positions:
            raise ValueError(f"{name} of a {kind.__name__} is {value!r}")
    try:
        return kind(**arguments, device="meta")
    except (AssertionError, RuntimeError) as error:  # torch's own, where a ValueError is meant
        raise ValueError(str(error)) from error


def _is_whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < LARGEST


def _are_sides(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(_is_whole(least), value))


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST


# What a file may say each argument is; those that are not here are counts.
CHECKS: dict[str, Callable[[Any], bool]] = {
    "bias": _is_bool,
    "kernel_size": _are_sides(1),
    "stride": _are_sides(1),
    "dilation": _are_sides(1),
    "padding": lambda value: value in ("same", "valid") or _are_sides(0)(value),
    "output_padding": _are_sides(0),
    "padding_mode": lambda value: isinstance(value, str),  # torch knows which there are
    "positions": lambda value: _is_whole(1)(value) and value <= MOST_POSITIONS,
    "padding_idx": lambda value: value is None or _is_whole(0)(value),
    "max_norm": lambda value: value is None or _is_number(value),
    "norm_type": _is_number,
    "scale_grad_by_freq": _is_bool,
    "sparse": _is_bool,
}
