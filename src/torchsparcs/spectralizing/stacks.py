"""Layers with an activation between them, found inside any module and read off it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.files.reading import first_line
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.spectral.layer_kinds import WEIGHTED
from torchsparcs.spectral.linear_maps import fitting_channels, weighted
from torchsparcs.spectral.pooled import Pooled
from torchsparcs.spectralizing import functions
from torchsparcs.spectralizing.refusals import check_hooks, check_layers, no_stack
from torchsparcs.training.tasks import evaluation_mode

Named = tuple[str, nn.Module]
Function = tuple[nn.Module, Tensor]  # of one number, and its values on the grid
MEANS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
POOLING = (nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Layers inside a module, one after the other, and the function between any two of them.

    Attributes:
        maps: those that will be replaced, at least one; a mean over all positions and the Linear
            after it are one ``Pooled``.
        activation: a name of ``ACTIVATIONS``, or the function itself; None for one layer.
        first: the name of the first layer.
        before, after: what else its module does, first and last, by name.
        left_out: what else stands between the layers, in words.
        is_normalised: whether channels are batch-normalised between the layers.
    """

    maps: tuple[Any, ...]
    activation: functions.Activation | None = None
    first: str = "0"
    before: tuple[Named, ...] = ()
    after: tuple[Named, ...] = ()
    left_out: tuple[str, ...] = ()
    is_normalised: bool = False

    @property
    def layers(self) -> list[Any]:
        """The modules that own the weights."""
        return [weighted(one) for one in self.maps]

    @property
    def widths(self) -> list[int]:
        """Features or channels, of the input and after each layer."""
        channels = fitting_channels(self.maps)
        return [channels[0].count_in, *(one.count_out for one in channels)]

    @property
    def convolves(self) -> bool:
        return not isinstance(self.maps[0], nn.Linear)

    @property
    def has_bias(self) -> bool:
        return self.is_normalised or any(layer.bias is not None for layer in self.layers)

    @property
    def needs_constant(self) -> bool:
        """Whether layers after the first have biases, which a spectral network has by a neuron."""
        return any(bool(bias.any()) for _, bias in self.affine_maps()[1:])

    def affine_maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each Linear in float64, a bias of zeros where it has none."""
        weights = [linear.weight.detach().cpu().double() for linear in self.layers]
        biases = [linear.bias for linear in self.layers]
        return [
            (w, w.new_zeros(len(w)) if b is None else b.detach().cpu().double())
            for w, b in zip(weights, biases, strict=True)
        ]


def children_of(module: nn.Module, prefix: str = "") -> list[Named]:
    """The children of ``module``; unlike in ``named_children``, twice what stands in two places."""
    children = ((key, child) for key, child in module._modules.items() if child is not None)
    return [(f"{prefix}{key}", child) for key, child in children]


def leaves_of(module: nn.Module, prefix: str = "") -> list[Named]:
    """The children of a Sequential, those inside it unfolded; nothing of any other module."""
    children = children_of(module, prefix) if _is_sequential(module) else []
    return [
        leaf for key, child in children for leaf in leaves_of(child, f"{key}.") or [(key, child)]
    ]


def convolutional_leaves(module: nn.Module) -> list[Named]:
    """The leaves of a Sequential that one would name for its convolutions; nothing of any other.

    It has several, or one and a Linear. The first Linear, if any, reads a mean over all positions;
    then the three are one ``Pooled``.
    """
    leaves = leaves_of(module)
    head = next((i for i, (_, leaf) in enumerate(leaves) if isinstance(leaf, nn.Linear)), None)
    if head is not None:
        key, linear = leaves[head]
        before = [i for i in range(head) if not isinstance(leaves[i][1], functions.Dropout)]
        pooled = _pooled([leaves[i][1] for i in before[-2:]], linear)
        if pooled is None:
            return []
        leaves[head] = key, pooled
        leaves = [leaf for i, leaf in enumerate(leaves) if i not in before[-2:]]
    layers = [leaf for _, leaf in leaves if isinstance(leaf, CONVOLUTIONAL.layers)]
    convolves = len(layers) > 1 and not isinstance(layers[0], (nn.Linear, Pooled))
    return leaves if convolves else []


def _pooled(ends: Sequence[nn.Module], linear: Any) -> Pooled | None:
    """``linear`` after ``ends``, where those are a mean over all positions and a Flatten."""
    if len(ends) < 2 or not isinstance(ends[0], MEANS) or not isinstance(ends[1], nn.Flatten):
        return None
    size, dims = ends[0].output_size, (ends[1].start_dim, ends[1].end_dim)
    if size not in (1, (1,), (1, 1), (1, 1, 1)) or dims != (1, -1):
        return None
    positions = next(n for n, kind in enumerate(MEANS, 1) if isinstance(ends[0], kind))
    pooled = Pooled(linear.in_features, linear.out_features, positions, device="meta")
    pooled.dense = linear
    return pooled


class Kind(NamedTuple):
    """What a stack is made of.

    Attributes:
        name: what messages call its layers.
        layers: their types.
        children: what a module does in its order, nothing where it cannot be such a stack.
        norms: what may normalise their output; the spectral network then does so in its own way.
        functions: how many children between two layers may be functions of one number; where
            there is none, the forward may have one.
        advice: what to do where something else stands between two layers.
    """

    name: str
    layers: tuple[type[nn.Module], ...]
    children: Callable[[nn.Module], list[Named]]
    norms: tuple[type[nn.Module], ...]
    functions: tuple[int, ...]
    advice: str


LINEAR = Kind("Linears", (nn.Linear,), children_of, (), (0, 1), "name its Linears one by one")
CONVOLUTIONAL = Kind(
    "convolutions",
    (*WEIGHTED, Pooled),
    convolutional_leaves,
    (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
    (1,),
    "name Sequentials of what stands before it and after it",
)


def stack_names(model: nn.Module, kind: Kind) -> list[str]:
    """The names of what looks like a stack of several layers inside ``model``, or is a Linear."""

    def is_one(module: nn.Module) -> bool:
        if type(module) is nn.Linear:
            return kind is LINEAR
        try:
            return len(_structure(module, "", kind).maps) > 1
        except ValueError:
            return False

    return [name for name, module in model.named_modules() if is_one(module)]


def is_convolutional(module: nn.Module) -> bool:
    """Whether ``module`` is a Sequential that one would name for its convolutions."""
    return bool(convolutional_leaves(module))


def read_stack(module: nn.Module, name: str, kind: Kind) -> Stack:
    """``module`` as a stack, or a ValueError that says what stands in the way.

    A module that is no ``nn.Sequential`` is believed only after a trial: with random weights its
    forward must be its children in the order in which they were registered. A function between
    its Linears that is no child is found in the same way.
    """
    if isinstance(module, nn.Linear):
        check_layers([module], kind.layers, name)
        return Stack(maps=(module,))
    stack = _structure(module, name, kind)
    check_layers(stack.layers, kind.layers, name)
    check_hooks(module, name)
    if not _is_sequential(module):
        return _tried(module, stack, name)
    for inner in module.modules() if kind is CONVOLUTIONAL else ():
        if isinstance(inner, nn.Sequential):
            check_hooks(inner, name)
    if len(stack.maps) > 1 and stack.activation is None:
        raise _no_activation(name, kind, "none")
    return stack


# --- what stands where ----------------------------------------------------------------------------


def _structure(module: nn.Module, name: str, kind: Kind) -> Stack:
    """The children of ``module`` as a stack, as far as their kinds and widths tell."""
    children = kind.children(module)
    places = [i for i, (_, child) in enumerate(children) if isinstance(child, kind.layers)]
    if not places:
        raise no_stack(module, name)
    if any(True for _ in chain(module.parameters(recurse=False), module.buffers(recurse=False))):
        got = f"a {type(module).__name__} with parameters of its own besides"
        raise no_stack(module, name, got)
    between = [children[here + 1 : there] for here, there in pairwise(places)]
    gaps = [_functions(gap, name, kind) for gap in between]
    activation = _activation_in(gaps, [children[i][0] for i in places], name, kind)
    working = [function for gap in gaps for function, _ in gap]
    others = [child for gap in between for _, child in gap if child not in working]
    norms = [child for child in others if isinstance(child, kind.norms)]
    maps = tuple(children[i][1] for i in places)
    fitting_channels(maps)
    keys = _keys([key for key, _ in children])
    named = [(key, child) for key, (_, child) in zip(keys, children, strict=True)]
    return Stack(
        maps=maps,
        activation=activation,
        first=keys[places[0]],
        before=tuple(named[: places[0]]),
        after=tuple(named[places[-1] + 1 :]),
        left_out=tuple(str(one) for one in others if not (one in norms or functions.is_idle(one))),
        is_normalised=bool(norms),
    )


def _functions(between: Sequence[Named], name: str, kind: Kind) -> list[Function]:
    """The functions of one number among ``between`` that do something, with their values."""
    working = []
    for key, child in between:
        is_norm = isinstance(child, kind.norms)
        values = functions.grid() if is_norm else functions.values_on_grid(child)
        if values is None:
            strided = "use a stride in a convolution instead, or " * isinstance(child, POOLING)
            where = f"{name}.{key}" if name else key
            got = f"a {type(child).__name__} at {where!r}: {strided}{kind.advice}"
            raise _no_activation(name, kind, got)
        if not functions.is_same(values, functions.grid()):
            working.append((child, values))
    return working


def _activation_in(
    gaps: Sequence[Sequence[Function]], keys: Sequence[str], name: str, kind: Kind
) -> functions.Activation | None:
    """The function that stands in every gap between the layers called ``keys``, if any does."""
    every = [function for gap in gaps for function in gap]
    counts = {len(gap) for gap in gaps}
    is_one = all(functions.is_same(values, every[0][1]) for _, values in every)
    if not is_one or not any(counts <= {allowed} for allowed in kind.functions):
        kinds = [", ".join(type(module).__name__ for module, _ in gap) or "none" for gap in gaps]
        ends = [f"between {here!r} and {there!r}" for here, there in pairwise(keys)]
        listed = ", ".join(map(" ".join, zip(kinds, ends, strict=True)))
        raise _no_activation(name, kind, listed)
    return functions.activation_of(*every[0]) if every else None


def _no_activation(name: str, kind: Kind, got: str) -> ValueError:
    return ValueError(
        f"Expected one activation, the same everywhere, between the {kind.name} of {name!r}. "
        f"Got {got}."
    )


def _is_sequential(module: nn.Module) -> bool:
    return type(module).forward is nn.Sequential.forward


def _keys(names: Sequence[str]) -> list[str]:
    """Names for children: conv.0 becomes conv_0, or conv_0_1 where another is called that."""
    keys: list[str] = []
    for name in names:
        plain = name.replace(".", "_")
        numbered = (f"{plain}_{number}" for number in count(1))
        keys.append(next(key for key in chain([plain], numbered) if key not in keys))
    return keys


# --- what a forward does --------------------------------------------------------------------------


def _tried(module: nn.Module, stack: Stack, name: str) -> Stack:
    """``stack`` with the activation with which it computes what ``module`` does."""
    kind = type(module).__name__
    if stack.layers[0].weight.is_meta:
        raise no_stack(module, name, f"a {kind} on meta, of which the forward cannot be tried")
    twin = copy.deepcopy(module).to("cpu", torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, stack.widths[0], generator=generator, dtype=torch.float64)
    is_implied = len(stack.maps) > 1 and stack.activation is None
    with evaluation_mode(twin):
        for linear in (child for child in twin.children() if isinstance(child, nn.Linear)):
            for parameter in linear.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
        try:
            expected = twin(x)
            twin.training = True  # its children stay in evaluation
            if not _is_close(twin(x), expected):
                lost = f"what the forward of {kind} does in training only"
                stack = replace(stack, left_out=(*stack.left_out, lost))
            twin.training = False
            for activation, function in ACTIVATIONS.items():
                if (activation == "identity") is is_implied:
                    continue
                if _is_close(_in_order(twin, x, function), expected):
                    return replace(stack, activation=activation) if is_implied else stack
            reason = f"a {kind} whose forward is not its children in their order"
        except Exception as error:  # of a stranger's module, of any kind
            reason = (
                f"a {kind} that cannot be tried on an input of {tuple(x.shape)} "
                f"({first_line(error)})"
            )
    raise no_stack(module, name, f"{reason}; its Linears may be named one by one")


def _in_order(module: nn.Module, x: Tensor, implied: Callable[[Tensor], Tensor]) -> Tensor:
    """The children of ``module`` in their order, ``implied`` after every Linear but the last."""
    children = [child for _, child in children_of(module)]
    last = [child for child in children if isinstance(child, nn.Linear)][-1]
    for child in children:
        x = child(x)
        if isinstance(child, nn.Linear) and child is not last:
            x = implied(x)
    return x


def _is_close(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-6, atol=1e-9)
