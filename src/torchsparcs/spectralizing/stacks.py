"""Layers with an activation between them inside any module; Linears are found and read off it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import torch
from torch import Tensor, nn

from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.spectral.layer_kinds import CONVOLUTIONS, TRANSPOSED
from torchsparcs.training.tasks import evaluation_mode

Activation = str | Callable[[Tensor], Tensor]
Named = tuple[str, nn.Module]
KINDS = (nn.Linear, *CONVOLUTIONS, *TRANSPOSED)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Layers inside a module, one after the other, and the function between any two of them.

    Attributes:
        layers: those that will be replaced, at least one.
        activation: a name of ``ACTIVATIONS``, or the function itself; None for one layer.
        first: the name of the first layer.
        before, after: what else its module does, first and last, by name.
        left_out: what else stands between the layers, in words.
    """

    layers: tuple[nn.Module, ...]
    activation: Activation | None = None
    first: str = "0"
    before: tuple[Named, ...] = ()
    after: tuple[Named, ...] = ()
    left_out: tuple[str, ...] = ()


class LinearStack(Stack):
    """Linears, at least one."""

    layers: tuple[nn.Linear, ...]

    @property
    def widths(self) -> list[int]:
        return [self.layers[0].in_features, *(linear.out_features for linear in self.layers)]

    @property
    def has_bias(self) -> bool:
        return any(linear.bias is not None for linear in self.layers)

    def affine_maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each Linear in float64, a bias of zeros where it has none."""
        weights = [linear.weight.detach().cpu().double() for linear in self.layers]
        biases = [linear.bias for linear in self.layers]
        return [
            (w, w.new_zeros(len(w)) if b is None else b.detach().cpu().double())
            for w, b in zip(weights, biases, strict=True)
        ]


def stack_names(module: nn.Module) -> list[str]:
    """The names of the Linears inside ``module``, and of what looks like a stack of several."""

    def is_one(part: nn.Module) -> bool:
        try:
            return type(part) is nn.Linear or len(_structure(part, "").layers) > 1
        except ValueError:
            return False

    return [name for name, part in module.named_modules() if is_one(part)]


def read_stack(part: nn.Module, name: str) -> LinearStack:
    """What ``part`` is, or a ValueError that says why it is no stack.

    A module that is no ``nn.Sequential`` is believed only after a trial: with random weights its
    forward must be its children in the order in which they were registered. A function between
    its Linears that is no child is found in the same way.
    """
    if isinstance(part, nn.Linear):
        check_layers([part], name)
        return LinearStack(layers=(part,))
    stack = _structure(part, name)
    check_layers(stack.layers, name)
    check_hooks(part, name)
    if type(part).forward is not nn.Sequential.forward:
        return _tried(part, stack, name)
    if len(stack.layers) > 1 and stack.activation is None:
        raise _refusal(part, name)
    return stack


def values_on_grid(function: Callable[[Tensor], Tensor]) -> Tensor | None:
    """f at the points of :func:`grid`, in evaluation; None for what is no function of one number.

    A module with parameters or a memory is none.
    """
    part = function if isinstance(function, nn.Module) else nn.Identity()
    if any(True for _ in chain(part.parameters(), part.buffers())):
        return None
    line = grid()
    cube = line[1:].reshape(2, 5, -1)
    try:
        with evaluation_mode(part):
            values, others = function(line.clone()), function(cube.clone())
    except Exception:  # of a stranger's module, of any kind
        return None
    if not isinstance(values, Tensor) or values.shape != line.shape or others.shape != cube.shape:
        return None
    return values if is_same(values[1:], others.flatten()) else None


def grid() -> Tensor:
    """Where functions are compared: symmetric about zero, zero among them."""
    return torch.linspace(-50, 50, 10_001, dtype=torch.float64)


def is_same(one: Tensor, other: Tensor) -> bool:
    """Equal up to rounding in float64."""
    return torch.allclose(one, other, rtol=1e-12, atol=1e-12)


def is_idle(part: nn.Module) -> bool:
    """Whether ``part`` never does anything, in training neither."""
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return part.p == 0
    return isinstance(part, nn.Identity)


def _structure(part: nn.Module, name: str) -> LinearStack:
    """The children of ``part`` as a stack, as far as their kinds and widths tell."""
    children = children_of(part)
    places = [i for i, (_, child) in enumerate(children) if isinstance(child, nn.Linear)]
    linears = [child for _, child in children if isinstance(child, nn.Linear)]
    fit = all(here.out_features == there.in_features for here, there in pairwise(linears))
    if not places or not fit:
        raise _refusal(part, name)
    if any(True for _ in chain(part.parameters(recurse=False), part.buffers(recurse=False))):
        raise _refusal(part, name, f"a {type(part).__name__} with parameters of its own besides")
    activations, left_out = [], []
    for here, there in pairwise(places):
        between = [child for _, child in children[here + 1 : there]]
        values = [values_on_grid(child) for child in between]
        if any(value is None for value in values):
            raise _refusal(part, name)
        is_silent = [value is not None and is_same(value, grid()) for value in values]
        left_out += [child for child, silent in zip(between, is_silent, strict=True) if silent]
        working = [child for child, silent in zip(between, is_silent, strict=True) if not silent]
        if len(working) > 1:
            raise _refusal(part, name)
        activations.append(named(working[0]) if working else None)
    if any(not is_alike(activations[0], other) for other in activations):
        raise _refusal(part, name, "different activations")
    return LinearStack(
        layers=tuple(linears),
        activation=activations[0] if activations else None,
        first=children[places[0]][0],
        before=tuple(children[: places[0]]),
        after=tuple(children[places[-1] + 1 :]),
        left_out=tuple(str(child) for child in left_out if not is_idle(child)),
    )


def children_of(part: nn.Module) -> list[Named]:
    """Unlike ``named_children``, a module that stands in two places comes twice."""
    return [(key, child) for key, child in part._modules.items() if child is not None]


def named(part: nn.Module) -> Activation:
    """The name of the function, or a copy of ``part`` that leaves its argument alone."""
    values = values_on_grid(part)
    assert values is not None
    for name, function in ACTIVATIONS.items():
        if is_same(values, function(grid())):
            return name
    twin = copy.deepcopy(part)
    if hasattr(twin, "inplace"):
        twin.inplace = False  # type: ignore[assignment]
    return twin


def is_alike(one: Activation | None, other: Activation | None) -> bool:
    if isinstance(one, nn.Module) and isinstance(other, nn.Module):
        here, there = values_on_grid(one), values_on_grid(other)
        return here is not None and there is not None and is_same(here, there)
    return one == other


def _tried(part: nn.Module, stack: LinearStack, name: str) -> LinearStack:
    """``stack`` with the activation with which it computes what ``part`` does."""
    kind = type(part).__name__
    if stack.layers[0].weight.is_meta:
        raise _refusal(part, name, f"a {kind} on meta, of which the forward cannot be tried")
    twin = copy.deepcopy(part).to("cpu", torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, stack.widths[0], generator=generator, dtype=torch.float64)
    is_implied = len(stack.layers) > 1 and stack.activation is None
    with evaluation_mode(twin):
        for linear in (child for child in twin.children() if isinstance(child, nn.Linear)):
            for parameter in linear.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
        try:
            expected = twin(x)
            twin.training = True  # its children stay in evaluation
            if not _is_close(twin(x), expected):
                own = f"what the forward of {kind} does in training only"
                stack = replace(stack, left_out=(*stack.left_out, own))
            twin.training = False
            if not is_implied and _is_close(_in_order(twin, x), expected):
                return stack
            for activation in ACTIVATIONS if is_implied else ():
                if activation == "identity":
                    continue
                if _is_close(_in_order(twin, x, ACTIVATIONS[activation]), expected):
                    return replace(stack, activation=activation)
            reason = f"a {kind} whose forward is not its children in their order"
        except Exception as error:  # of a stranger's module, of any kind
            line = str(error).splitlines()[0] if str(error) else type(error).__name__
            reason = f"a {kind} that cannot be tried on an input of {tuple(x.shape)} ({line})"
    raise _refusal(part, name, f"{reason}; its Linears may be named one by one")


def _in_order(
    part: nn.Module, x: Tensor, implied: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """The children of ``part`` in their order, ``implied`` after every Linear but the last."""
    children = [child for _, child in children_of(part)]
    last = [child for child in children if isinstance(child, nn.Linear)][-1]
    for child in children:
        x = child(x)
        if implied is not None and isinstance(child, nn.Linear) and child is not last:
            x = implied(x)
    return x


def _is_close(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-6, atol=1e-9)


def check_layers(layers: Sequence[nn.Module], name: str) -> None:
    """A ValueError where one of them is not plain, or they are of several precisions."""
    for layer in layers:
        _check_layer(layer, name)
    if len({(p.dtype, p.device) for layer in layers for p in layer.parameters()}) > 1:
        raise ValueError(f"Expected the layers of {name!r} in one precision, on one device.")


def _check_layer(layer: nn.Module, name: str) -> None:
    kind = type(layer).__name__
    known = next(one for one in KINDS if isinstance(layer, one))
    if isinstance(layer, nn.modules.lazy.LazyModuleMixin):
        raise ValueError(
            f"Expected a {known.__name__} with known widths at {name!r}. Got a {kind}: run the "
            "model once."
        )
    if type(layer) is not known:
        raise ValueError(
            f"Expected a plain {known.__name__} at {name!r}. Got a {kind}, which may compute "
            "something else or be read in another way."
        )
    check_hooks(layer, name)
    if set(layer._parameters) != {"weight", "bias"}:
        raise ValueError(
            f"Expected a plain {kind} at {name!r}. Got one that makes its weight from "
            f"{', '.join(layer._parameters)}."
        )
    if not all(parameter.is_floating_point() for parameter in layer.parameters()):
        raise ValueError(f"Expected real weights at {name!r}. Got {layer.weight.dtype}.")


def check_hooks(part: nn.Module, name: str) -> None:
    hooks = (
        part._forward_hooks,
        part._forward_pre_hooks,
        part._backward_hooks,
        part._backward_pre_hooks,
    )
    if any(hooks):
        raise ValueError(
            f"Expected a {type(part).__name__} without hooks at {name!r}, where they would be lost "
            "(weight_norm, spectral_norm and pruning of torch are hooks). Got one with."
        )


def _refusal(part: nn.Module, name: str, got: str = "") -> ValueError:
    kinds: Sequence[str] = [type(child).__name__ for _, child in children_of(part)]
    listed = ", ".join(kinds[:8]) + (", ..." if len(kinds) > 8 else "")
    got = got or f"a {type(part).__name__}" + (f" of {listed}" if kinds else "")
    return ValueError(
        f"Expected {name!r} to be a Linear, or Linears of fitting widths with an activation "
        f"between them, or a Sequential of two convolutions or more with one. Got {got}."
    )
