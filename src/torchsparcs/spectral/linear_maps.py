"""Linear maps that carry the signal of one layer to the next: convolutions, Linears, any other.

A map is a module without a bias that is linear in its input. A signal has an axis of channels, with
one eigenvalue for each; all its other axes (height, width, time) are the map's own affair. Axes are
counted from the end, so that any leading dimensions may be there.
"""

import copy
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from torchsparcs.spectral.layer_kinds import CONVOLUTIONS, LOOKED_UP, TRANSPOSED, WEIGHTED, another
from torchsparcs.spectral.pooled import Pooled

SIDE = 8  # of the signals on which unknown maps are tried
TOLERANCE = 1e-4  # of that trial, relative to the size of what comes out
NARROW = 8  # channels come out of a first map for each that comes in: twice its work is little


class Channels(NamedTuple):
    """How many channels go into a map and come out of it, and on which axes."""

    count_in: int
    count_out: int
    axis_in: int
    axis_out: int


def channels_of(map: nn.Module) -> Channels:
    """The channels that a map takes and gives, or a ValueError that says how to declare them."""
    if isinstance(map, (*CONVOLUTIONS, *TRANSPOSED)):
        axis = -1 - len(map.kernel_size)
        return Channels(map.in_channels, map.out_channels, axis, axis)
    if isinstance(map, nn.Linear):
        return Channels(map.in_features, map.out_features, -1, -1)
    if isinstance(map, LOOKED_UP):
        return Channels(map.num_embeddings, map.embedding_dim, -1, -1)
    names = ("in_channels", "out_channels", "channel_axis")
    n_in, n_out, where = (getattr(map, name, None) for name in names)
    axes = where if isinstance(where, tuple) else (where, where)
    known = all(isinstance(count, int) and count > 0 for count in (n_in, n_out))
    if not known or len(axes) != 2 or not all(isinstance(a, int) and a < 0 for a in axes):
        raise ValueError(
            "Expected a convolution, a Linear, an Embedding, or a module with in_channels, "
            "out_channels and channel_axis (counted from the end, so below zero; two of them where "
            f"it moves). Got {type(map).__name__}."
        )
    return Channels(n_in, n_out, *axes)  # type: ignore[arg-type]


def checked_maps(maps: Sequence[nn.Module], example: Tensor | None = None) -> list[Channels]:
    """The channels of each map, or a ValueError where they do not fit or one is not linear.

    Convolutions and Linears are linear by their kind. Where there are others all are tried, on
    ``example`` where given and otherwise on 8 positions along each axis after the channels.
    """
    if isinstance(maps, nn.Module) or not isinstance(maps, Sequence) or len(maps) < 2:
        raise ValueError(f"Expected at least two maps in a sequence. Got {maps!r}.")
    for place, one in enumerate(maps):
        if not isinstance(one, nn.Module):
            raise ValueError(f"Expected maps to be modules. Got {type(one).__name__}.")
        if getattr(one, "bias", None) is not None:
            raise ValueError(
                f"Expected maps without a bias: the network has its own. Got {one} at {place}."
            )
        if place and isinstance(one, LOOKED_UP):
            raise ValueError(f"Expected an {type(one).__name__} to come first. Got it at {place}.")
    channels = fitting_channels(maps)
    if example is not None or not all(map(_is_known, maps)):
        _try_out(maps, _first_signal(maps[0], channels[0]) if example is None else example)
    return channels


def fitting_channels(maps: Iterable[nn.Module]) -> list[Channels]:
    """The channels of each map, or a ValueError where one does not take what the last one gives."""
    channels = [channels_of(one) for one in maps]
    for place, (here, there) in enumerate(pairwise(channels)):
        if (here.count_out, here.axis_out) != (there.count_in, there.axis_in):
            raise ValueError(
                f"Expected map {place + 1} to take what map {place} gives: {here.count_out} "
                f"channels on axis {here.axis_out}. It takes {there.count_in} on {there.axis_in}."
            )
    return channels


def _is_known(map: nn.Module) -> bool:
    """Whether ``map`` is linear by its kind."""
    return type(map) in (*WEIGHTED, *LOOKED_UP, Pooled)


def _first_signal(map: nn.Module, channels: Channels) -> Tensor:
    if isinstance(map, LOOKED_UP):
        return torch.zeros(2, SIDE, dtype=torch.int64)
    return torch.zeros(2, channels.count_in, *[SIDE] * (-1 - channels.axis_in))


def _try_out(maps: Sequence[nn.Module], signal: Tensor) -> None:
    """Raise a ValueError where the maps do not work on ``signal`` in turn, or are not linear.

    It is done by copies in float64 and leaves the caller's random numbers alone.
    """
    generator = torch.Generator().manual_seed(0)
    for place, map in enumerate(maps):
        twin, kind = copy.deepcopy(map).to("cpu", torch.float64), type(map).__name__
        signal = signal.detach().cpu()
        signal = signal.double() if signal.is_floating_point() else signal
        try:
            with torch.no_grad():
                out = twin(signal)
                if not _is_known(map):
                    x, y = (torch.randn(signal.shape, generator=generator).double() for _ in "xy")
                    together, apart = twin(2 * x - 3 * y), 2 * twin(x) - 3 * twin(y)
        except Exception as error:  # of a stranger's module, of any kind
            raise ValueError(
                f"Expected map {place}, a {kind}, to take a signal of {tuple(signal.shape)}. "
                f"Pass example=, an input of the network, if others are meant. {error}"
            ) from error
        if not _is_known(map):
            gap = (together - apart).abs().max() / apart.abs().max().clamp_min(1e-12)
            if not gap <= TOLERANCE:
                raise ValueError(
                    f"Expected linear maps. Map {place}, a {kind}, is not: the image of a sum is "
                    f"not the sum of the images, by {gap:.2g} of their size."
                )
        signal = out


def along(values: Tensor, axis: int) -> Tensor:
    """Numbers for each channel, (C,), shaped to meet a signal with its channels on ``axis``."""
    return values.view(-1, *[1] * (-axis - 1))


# --- maps with a weight for each pair of channels -------------------------------------------------


def products(
    map: nn.Module,
    z: Tensor,
    source: Tensor | None,
    target: Tensor,
    axes: tuple[int, int],
    *,
    both: bool,
) -> tuple[Tensor, Tensor | None]:
    """φ (L_source ⊙ z) − L_target ⊙ φ z and, with ``both``, φ z. No ``source`` are zeros.

    Where the map has a weight for each pair of channels they come out of one product, with the
    weights φ ⊙ (L_source − L_target) and φ side by side: the backward pass then needs z alone. A
    first map of which few channels come in is worth that, too; otherwise it is applied once.
    """
    if isinstance(map, Pooled):
        return products(map.dense, map.pooled(z), source, target, (-1, -1), both=both)
    is_wide = source is None and NARROW * z.shape[axes[0]] > len(target)
    if type(map) not in WEIGHTED or is_wide:
        image = map(z)
        outflow = along(target, axes[1]) * image
        inflow = -outflow if source is None else map(along(source, axes[0]) * z) - outflow
        return inflow, image
    weight, groups = _by_group(map), getattr(map, "groups", 1)
    gap = -target.view(groups, -1, 1)
    if source is not None:
        gap = source.view(groups, 1, -1) + gap  # (G, out / G, in / G)
    inflow = weight * gap.view(*gap.shape, *[1] * (weight.dim() - 3))
    if both:
        inflow = torch.cat([inflow, weight], dim=1)
    out = functional_call(map, {"weight": _as_stored(map, inflow)}, (z,))
    if not both:
        return out, None
    halves = out.unflatten(axes[1], (groups, 2, -1)).unbind(axes[1] - 1)
    first, second = (half.flatten(axes[1] - 1, axes[1]) for half in halves)
    return first, second


def weighted(map: nn.Module) -> Any:
    """The module that owns the weight of ``map``."""
    return map.dense if isinstance(map, Pooled) else map


def _by_group(map: nn.Module) -> Tensor:
    """The weight as (groups, out / groups, in / groups, positions...)."""
    weight: Tensor = map.weight  # type: ignore[assignment]
    if isinstance(map, TRANSPOSED):  # (in, out / groups, positions...)
        return weight.unflatten(0, (map.groups, -1)).transpose(1, 2)
    return weight.unflatten(0, (getattr(map, "groups", 1), -1))


def _as_stored(map: nn.Module, weight: Tensor) -> Tensor:
    """A weight by groups as ``map`` stores it, for any number of channels that come out."""
    return (weight.transpose(1, 2) if isinstance(map, TRANSPOSED) else weight).flatten(0, 1)


@torch.no_grad()
def reset_weight_(map: nn.Module) -> None:
    """Draw the weight anew: kernels of K positions normal, of variance 1 / (K √(C C')).

    With the geometric mean of the channels before and after, in a group, neither signals nor
    gradients fade or grow along the composition of many maps. Maps of unknown kinds stay.
    """
    if type(weighted(map)) in WEIGHTED:
        weight = _by_group(weighted(map))
        _, n_out, n_in, *kernel = weight.shape
        weight.normal_(std=1 / math.sqrt(math.prod(kernel) * math.sqrt(n_out * n_in)))


def channel_weights(map: nn.Module) -> Tensor:
    """The weight from every channel to every channel, (out, in, positions...), zeros included."""
    grouped = _by_group(weighted(map)).detach()
    groups, n_out, n_in = grouped.shape[:3]
    weight = grouped.new_zeros(groups, n_out, groups, n_in, *grouped.shape[3:])
    for group in range(groups):
        weight[group, :, group] = grouped[group]
    return weight.flatten(2, 3).flatten(0, 1)


def plain_layer(map: nn.Module, weight: Tensor, bias: Tensor | None) -> nn.Module:
    """A module of the kind of ``map`` with these weights, (out, in, positions...), and bias."""
    n_out, n_in = weight.shape[:2]
    options: Any = {"bias": bias is not None, "device": "meta", "dtype": weight.dtype}
    options |= {"groups": 1} if hasattr(map, "groups") else {}
    # no numbers are drawn on the way: looking at a network must not change what comes after
    layer: Any = another(map, (n_in, n_out), **options).to_empty(device=weight.device)
    owner = weighted(layer)
    with torch.no_grad():
        owner.weight.copy_(weight.transpose(0, 1) if isinstance(map, TRANSPOSED) else weight)
        if bias is not None:
            owner.bias.copy_(bias)
    return layer


def patches(map: nn.Module, input: Tensor) -> Tensor:
    """The inputs that a layer like ``map`` reads for each place where it gives something.

    Shape:
        - (places, in, positions): the output there is Σ weight[o, i, p] · patch[i, p]
    """
    if isinstance(map, (nn.Linear, Pooled)):
        seen = map.pooled(input) if isinstance(map, Pooled) else input
        return seen.flatten(0, -2).unsqueeze(-1)
    channels = input.shape[channels_of(map).axis_in]
    kernel = tuple(map.kernel_size)  # type: ignore[arg-type]
    size = math.prod(kernel)
    reader = another(map, (channels, channels * size), groups=channels, bias=False)
    one_each = torch.eye(size, dtype=input.dtype, device=input.device).view(1, size, *kernel)
    shape = (channels, size, *kernel)
    stored = one_each.expand(shape)
    weight = stored if isinstance(map, TRANSPOSED) else stored.reshape(-1, 1, *kernel)
    seen = functional_call(reader, {"weight": weight}, (input,))
    return seen.flatten(2).transpose(1, 2).reshape(-1, channels, size)


# --- maps that could stand in the place of others, whose weights mean nothing ---------------------


def composed(first: Any, second: Any) -> nn.Module | None:
    """A map that gives something at the places where ``second`` after ``first`` does.

    It has the kernel of ``second``, or is pooled as that is; None where there is no such map.
    """
    if isinstance(second, Pooled) or (type(first) is type(second) is nn.Linear):
        return second if channels_of(first).axis_in == channels_of(second).axis_in else None
    if type(first) is not type(second) or not (_is_centred(first) and _is_centred(second)):
        return None
    return _centred(
        second, stride=[a * b for a, b in zip(first.stride, second.stride, strict=True)]
    )


def merged(first: Any, second: Any) -> nn.Module | None:
    """One convolution with the kernel of the composition of two; None for other maps.

    It pads in front what both would, so next to borders it computes something else than they do,
    unless the padding is circular.
    """
    like = composed(first, second)
    if like is None or not isinstance(like, CONVOLUTIONS):
        return None
    if first.padding_mode != second.padding_mode or {*first.dilation, *second.dilation} != {1}:
        return None
    sizes = zip(first.kernel_size, second.kernel_size, first.stride, strict=True)
    return _centred(like, kernel_size=[a + (b - 1) * stride for a, b, stride in sizes])


def trimmed(map: Any) -> nn.Module | None:
    """A convolution with a kernel smaller by one on every side; None where there is no such."""
    if not _is_centred(map) or min(map.kernel_size) < 3:
        return None
    return _centred(map, kernel_size=[size - 2 for size in map.kernel_size])


def _is_centred(map: Any) -> bool:
    """Whether the kernel of ``map`` is centred on the place where it gives something."""
    if not isinstance(map, CONVOLUTIONS) or not isinstance(map.padding, tuple):
        return False
    sides = zip(map.kernel_size, map.dilation, map.padding, strict=True)
    return all(size % 2 and 2 * pad == wide * (size - 1) for size, wide, pad in sides)


def _centred(map: Any, **changes: Sequence[int]) -> nn.Module:
    """A centred convolution like ``map`` but for some of its shape."""
    sides = zip(changes.get("kernel_size", map.kernel_size), map.dilation, strict=True)
    padding = tuple(wide * (size - 1) // 2 for size, wide in sides)
    shape: Any = {name: tuple(value) for name, value in changes.items()}
    return another(map, **shape, padding=padding, groups=1, bias=False)
