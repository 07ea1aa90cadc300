"""Convolutions with an activation between them, read off an ``nn.Sequential`` for a chain."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from torch import nn

from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.layer_kinds import CONVOLUTIONS, TRANSPOSED, another
from torchsparcs.spectral.linear_maps import fitting_channels
from torchsparcs.spectral.network import checked_widths
from torchsparcs.spectral.pooled import Pooled
from torchsparcs.spectralizing.stacks import (
    Activation,
    Named,
    Stack,
    check_hooks,
    check_layers,
    children_of,
    grid,
    is_alike,
    is_idle,
    is_same,
    named,
    values_on_grid,
)

CONVOLVING = (*CONVOLUTIONS, *TRANSPOSED)
MEANS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
DROPOUT = nn.modules.dropout._DropoutNd
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
POOLING = (nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd)


@dataclass(frozen=True, kw_only=True)
class ConvolutionStack(Stack):
    """Convolutions, then perhaps a mean over all positions with Linears after it.

    Attributes:
        maps: the layers, a mean with its Linear as one ``Pooled``.
        has_bias: whether any of them has, or a normalisation between them.
        is_normalised: whether there is one.
    """

    maps: tuple[nn.Module, ...]
    has_bias: bool
    is_normalised: bool


def is_convolutional(part: nn.Module) -> bool:
    """Whether ``part`` is a Sequential that one would name for its convolutions.

    It has several, or one and a Linear. The first Linear, if any, reads a mean over all positions.
    """
    leaves = [child for _, child in _leaves(part)]
    places = _places(leaves)
    head = next((i for i in places if isinstance(leaves[i], nn.Linear)), None)
    convolves = len(places) > 1 and isinstance(leaves[places[0]], CONVOLVING)
    return convolves and (head is None or _mean_before(leaves[:head]) is not None)


def convolution_names(module: nn.Module) -> list[str]:
    """The names of what :func:`read_convolutions` can read inside ``module``."""

    def is_one(part: nn.Module) -> bool:
        try:
            return is_convolutional(part) and bool(read_convolutions(part, ""))
        except ValueError:
            return False

    return [name for name, part in module.named_modules() if is_one(part)]


def read_convolutions(part: nn.Module, name: str) -> ConvolutionStack:
    """What a convolutional ``part`` is, or a ValueError that says what stands in the way."""
    leaves = _leaves(part)
    places = _places([one for _, one in leaves])
    layers = tuple(leaves[i][1] for i in places)
    check_layers(layers, name)
    for outer in part.modules():
        if isinstance(outer, nn.Sequential):
            check_hooks(outer, name)
    maps, activations = [layers[0]], []
    left_out: list[nn.Module] = []
    for here, there in pairwise(places):
        between, layer = leaves[here + 1 : there], leaves[there][1]
        mean = _mean_before([one for _, one in between])
        if mean is not None and isinstance(layer, nn.Linear):
            between = [(key, one) for key, one in between if one not in mean]
            layer = _pooled(mean[0], layer)
        working, idle = _sorted(between, name)
        if len(working) != 1:
            kinds = ", ".join(type(one).__name__ for one in working) or "none"
            raise _refusal(name, f"{kinds} between {leaves[here][0]!r} and {leaves[there][0]!r}")
        maps.append(layer)
        activations.append(named(working[0]))
        left_out += idle
    if any(not is_alike(activations[0], other) for other in activations):
        raise _refusal(name, f"different ones: {', '.join(map(str, activations))}")
    fitting_channels(maps)
    keys = _keys([place for place, _ in leaves])
    children = [(key, one) for key, (_, one) in zip(keys, leaves, strict=True)]
    normalised = any(isinstance(one, NORMS) for one in left_out)
    return ConvolutionStack(
        layers=layers,
        maps=tuple(maps),
        has_bias=normalised or any(one.bias is not None for one in maps),
        is_normalised=normalised,
        activation=activations[0],
        first=keys[places[0]],
        before=tuple(children[: places[0]]),
        after=tuple(children[places[-1] + 1 :]),
        left_out=tuple(
            str(one) for one in left_out if not (isinstance(one, NORMS) or is_idle(one))
        ),
    )


def fresh_chain(
    stack: ConvolutionStack, hidden: Sequence[int] | None, activation: Activation, name: str
) -> SpectralChain:
    """A chain like ``stack``, by default with as many channels, that starts as one linear map.

    Where the stack normalises its channels the chain does, too, in its own way.
    """
    channels = fitting_channels(stack.maps)
    *own, last = [one.count_out for one in channels]
    if hidden is not None and len(hidden) != len(own):
        raise ValueError(
            f"Expected hidden to be channels between the layers of {name!r}, like {own}. "
            f"Got {list(hidden)}."
        )
    counts = checked_widths([channels[0].count_in, *(own if hidden is None else hidden), last])
    like = next(stack.layers[0].parameters())
    try:
        maps = [
            another(one, pair, bias=False, device=like.device, dtype=like.dtype)
            for one, pair in zip(stack.maps, pairwise(counts), strict=True)
        ]
    except ValueError as error:  # of groups
        raise ValueError(
            f"Expected channels that the layers of {name!r} can have. Got {[*counts]}: {error}."
        ) from error
    chain = SpectralChain(
        maps, activation=activation, bias=stack.has_bias, normalise=stack.is_normalised
    )
    chain.reset_parameters()
    return chain


def _leaves(part: nn.Module, prefix: str = "") -> list[Named]:
    """What a Sequential does, those inside it unfolded; nothing of any other module."""
    if type(part).forward is not nn.Sequential.forward:
        return []
    parts = [(f"{prefix}{key}", child) for key, child in children_of(part)]
    return [leaf for key, child in parts for leaf in _leaves(child, f"{key}.") or [(key, child)]]


def _keys(places: Sequence[str]) -> list[str]:
    """As children may be called: conv.0 is conv_0, or conv_0_1 where another is called that."""
    keys: list[str] = []
    for place in places:
        key = plain = place.replace(".", "_")
        numbers = count(1)
        while key in keys:
            key = f"{plain}_{next(numbers)}"
        keys.append(key)
    return keys


def _places(leaves: Sequence[nn.Module]) -> list[int]:
    """Of the layers."""
    return [i for i, one in enumerate(leaves) if isinstance(one, (*CONVOLVING, nn.Linear))]


def _mean_before(children: Sequence[nn.Module]) -> list[nn.Module] | None:
    """The two that ``children`` end in, where those are a mean over all positions and a Flatten."""
    ends = [one for one in children if not isinstance(one, DROPOUT)][-2:]
    if len(ends) < 2 or not isinstance(ends[0], MEANS) or not isinstance(ends[1], nn.Flatten):
        return None
    size, dims = ends[0].output_size, (ends[1].start_dim, ends[1].end_dim)
    return ends if size in (1, (1,), (1, 1), (1, 1, 1)) and dims == (1, -1) else None


def _pooled(mean: nn.Module, linear: nn.Linear) -> Pooled:
    positions = next(n for n, kind in enumerate(MEANS, 1) if isinstance(mean, kind))
    pooled = Pooled(linear.in_features, linear.out_features, positions, device="meta")
    pooled.dense = linear
    return pooled


def _sorted(between: Sequence[Named], name: str) -> tuple[list[nn.Module], list[nn.Module]]:
    """The functions of one number among ``between``, and what a chain has in its own way or not."""
    working: list[nn.Module] = []
    idle: list[nn.Module] = []
    for key, one in between:
        if isinstance(one, (*NORMS, DROPOUT)):
            idle.append(one)
            continue
        values = values_on_grid(one)
        if values is None:
            strided = "use a stride in a convolution instead, or " * isinstance(one, POOLING)
            advice = f"{strided}name Sequentials of what stands before it and after it"
            where = f"{name}.{key}" if name else key
            raise _refusal(name, f"a {type(one).__name__} at {where!r}: {advice}")
        (idle if is_same(values, grid()) else working).append(one)
    return working, idle


def _refusal(name: str, got: str) -> ValueError:
    return ValueError(
        f"Expected one activation, the same everywhere, between the convolutions of {name!r}. "
        f"Got {got}."
    )
