"""Replacement of layers inside any module by spectral networks, which ``extract`` undoes."""

import copy
import fnmatch
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from torchsparcs.files.reading import quoted
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.layer_kinds import another
from torchsparcs.spectral.network import SpectralNetwork, checked_widths
from torchsparcs.spectralizing.functions import Activation, is_idle
from torchsparcs.spectralizing.refusals import check_alone
from torchsparcs.spectralizing.stacks import (
    CONVOLUTIONAL,
    LINEAR,
    Stack,
    is_convolutional,
    read_stack,
    stack_names,
)
from torchsparcs.spectralizing.starts import start_from_


def spectralize(
    module: nn.Module,
    *,
    target: str | Sequence[str],
    hidden: Sequence[int] | None = None,
    activation: str | Callable[[Tensor], Tensor] | None = None,
    keep_weights: bool = False,
) -> Any:
    """A copy of ``module`` in which what stands at ``target`` has become a spectral network.

    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    >>> spectralize(model, target="2", hidden=[50])
    Sequential(
      (0): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1))
      (1): Flatten(start_dim=1, end_dim=-1)
      (2): SpectralNetwork(144 → 50 → 10, relu, recruited 0 of 50)
    )
    >>> stack = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU())
    >>> spectralize(stack, target="")
    Sequential(
      (0): SpectralChain(3 → 8 → 16, relu, recruited 0 of 8)
      (3): ReLU()
    )

    An ``nn.Linear`` becomes a :class:`SpectralNetwork`, and so do Linears with an activation
    between them: an ``nn.Sequential``, or any module that calls its children in the order in which
    they were registered, such as the MLP of a transformer block. An ``nn.Sequential`` of
    convolutions with an activation between them becomes a :class:`SpectralChain` of such
    convolutions. It may end in ``nn.AdaptiveAvgPool2d(1)``, ``nn.Flatten()`` and Linears, which
    then belong to it; if it has other Linears, these are what is replaced.

    What stands before the first layer and after the last stays, an activation for example. Between
    them dropout has no place in a spectral network and is left out, with a warning; where
    convolutions are batch-normalised the chain is normalised in its own way. The network has a bias
    if any of what it replaces had, their precision, device and mode, and it is trainable even if
    they were frozen.

    Refused is what others depend on: a layer that stands in two places, shares its parameters,
    has hooks, or belongs to an ``nn.MultiheadAttention``, which reads its weights directly.

    Args:
        target: dotted names, as ``module.named_modules()`` gives them, or patterns like
            ``"blocks.*.mlp"``, which find Linears and stacks of them, never convolutions; ``""`` is
            the module itself.
        hidden: the widths of the hidden layers, the same for each target. By default those of the
            stack; a single Linear has none. Of convolutions there are as many as there were.
        activation: by default that of the stack, and ``"relu"`` for a single Linear.
        keep_weights: start from the function that stood there instead of a random linear map. For
            a Linear that is the same perceptron, and needs hidden widths of at least the rank of
            its weight and bias; for a stack the same network with each neuron recruited. That
            needs as many hidden layers, one neuron more in each where later layers have a bias,
            and an activation with f(h) − f(−h) = κh: ReLU, GELU and SiLU have it, tanh has not.
            Weights of convolutions cannot be kept.

    Shape:
        - of what is replaced, input (..., in_features) and output (..., out_features) for Linears
    """
    if hidden is not None and (
        isinstance(hidden, str) or not isinstance(hidden, Sequence) or not len(hidden)
    ):
        raise ValueError(f"Expected hidden to be widths, at least one. Got {hidden!r}.")
    several = isinstance(target, Sequence) and not isinstance(target, str)
    targets = list(target) if several else [target]
    names = _resolved(module, targets)
    # a deep copy that finds these already copied copies all the rest
    memo: dict[int, Any] = {}
    for name in names:
        replaced = module.get_submodule(name)
        stack = _read(module, name, is_named=name in targets)
        if stack.left_out:
            lost = ", ".join(stack.left_out)
            warnings.warn(
                f"Left out between the layers of {name!r}: {lost}.", UserWarning, stacklevel=2
            )
        network = _network(stack, hidden, activation, keep_weights, name).train(replaced.training)
        memo[id(replaced)] = _with_neighbours(network, stack, memo)
    result = copy.deepcopy(module, memo)
    for name in names:
        _disable_fast_paths_(result, name)
    return result


def _read(module: nn.Module, name: str, *, is_named: bool) -> Stack:
    """The stack at ``name`` in ``module``, or a ValueError where it cannot be replaced.

    Convolutions are, which start afresh, only where ``name`` was given and not found by a pattern.
    """
    if any(isinstance(outer, nn.MultiheadAttention) for outer in _ancestors(module, name)):
        raise ValueError(
            "Expected a target outside nn.MultiheadAttention, which reads the weights of its "
            f"Linears directly. Got {name!r}."
        )
    target = module.get_submodule(name)
    kind = CONVOLUTIONAL if is_named and is_convolutional(target) else LINEAR
    stack = read_stack(target, name, kind)
    check_alone(module, name, stack.layers)
    return stack


def _network(
    stack: Stack,
    hidden: Sequence[int] | None,
    activation: Activation | None,
    keep_weights: bool,
    name: str,
) -> SpectralNetwork | SpectralChain:
    """A spectral network for the place of ``stack``."""
    of_stack = "relu" if stack.activation is None else stack.activation
    function = copy.deepcopy(of_stack if activation is None else activation)
    first, *between, last = stack.widths
    widths = [first, *(between if hidden is None else hidden), last]
    if stack.convolves:
        if keep_weights:
            raise ValueError(
                "Expected Linears where weights are kept: convolutions start afresh, as one linear "
                f"map. Got {name!r}."
            )
        return _chain(stack, widths, function, name)
    if len(widths) == 2:
        raise ValueError(f"Expected hidden widths for a single Linear. Got none for {name!r}.")
    weight = stack.layers[0].weight
    options: Any = {"bias": stack.has_bias, "device": weight.device, "dtype": weight.dtype}
    network = SpectralNetwork(widths, activation=function, **options)
    if keep_weights and activation is not None and len(stack.maps) > 1:
        raise ValueError(
            "Expected no other activation where the weights of a stack are kept. "
            f"Got {network.activation_name}."
        )
    if keep_weights:
        start_from_(network, stack, name)
    return network


def _chain(stack: Stack, channels: list[int], activation: Activation, name: str) -> SpectralChain:
    """A chain of maps like those of ``stack`` that starts as one linear map.

    Where the stack normalises its channels the chain does, too, in its own way.
    """
    if len(channels) != len(stack.widths):
        raise ValueError(
            f"Expected hidden to be channels between the layers of {name!r}, like "
            f"{stack.widths[1:-1]}. Got {channels[1:-1]}."
        )
    counts, weight = checked_widths(channels), stack.layers[0].weight
    try:
        maps = [
            another(one, pair, bias=False, device=weight.device, dtype=weight.dtype)
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


# --- names ----------------------------------------------------------------------------------------


def _resolved(module: nn.Module, targets: Sequence[Any]) -> list[str]:
    """The names that ``targets`` stand for, each once and none inside another."""
    known = [name for name, _ in module.named_modules(remove_duplicate=False)]
    names: dict[str, None] = {}
    for target in targets:
        matches = [target] if target in known else _matches(module, known, target)
        if not matches:
            can_be = [
                name for kind in (LINEAR, CONVOLUTIONAL) for name in stack_names(module, kind)
            ]
            raise ValueError(
                "Expected the name of a Linear, of a stack of them, or a pattern of such names, or "
                f"the name of a stack of convolutions. Got {target!r}. "
                f"There are {quoted(list(dict.fromkeys(can_be))) or 'none'}."
            )
        names.update(dict.fromkeys(matches))
    if not names:
        raise ValueError("Expected at least one target. Got none.")
    for inner in names:
        outer = next((name for name in names if _is_inside(inner, name)), None)
        if outer is not None:
            raise ValueError(f"Expected targets apart. Got {inner!r}, which is inside {outer!r}.")
    return list(names)


def _matches(module: nn.Module, known: Sequence[str], pattern: Any) -> list[str]:
    """The names under ``pattern`` of what can be replaced, or one that cannot and will say why.

    A pattern that fits a stack and the Linears inside it means the stack.
    """
    if not isinstance(pattern, str):
        raise ValueError(f"Expected target to be a name or several. Got {pattern!r}.")

    def among(names: Sequence[str]) -> list[str]:
        return [name for name in names if name and fnmatch.fnmatchcase(name, pattern)]

    stacks, others = among(stack_names(module, LINEAR)), among(known)
    convolving = [name for name in others if is_convolutional(module.get_submodule(name))]
    if convolving and not stacks:
        raise ValueError(
            "Expected stacks of convolutions by their names, because they start afresh: patterns "
            f"find Linears only. Got {pattern!r}, which fits {quoted(convolving)}."
        )
    whole = [name for name in stacks if not any(_is_inside(name, other) for other in stacks)]
    return whole or others[:1]


def _is_inside(name: str, outer: str) -> bool:
    return name != outer and (outer == "" or name.startswith(f"{outer}."))


def _ancestors(module: nn.Module, name: str) -> list[nn.Module]:
    """The modules around ``name``, from ``module`` inwards."""
    keys = name.split(".") if name else []
    return [module.get_submodule(".".join(keys[:depth])) for depth in range(len(keys))]


def _with_neighbours(network: nn.Module, stack: Stack, memo: dict[int, Any]) -> nn.Module:
    """``network`` with copies, under their names, of what comes before and after it."""
    before, after = (
        {key: copy.deepcopy(other, memo) for key, other in others if not is_idle(other)}
        for others in (stack.before, stack.after)
    )
    if not before and not after:
        return network
    sequence = nn.Sequential(OrderedDict(before | {stack.first: network} | after))
    sequence.training = network.training
    return sequence


def _disable_fast_paths_(module: nn.Module, name: str) -> None:
    """Keep torch's encoder, in evaluation, from reading the weights of the Linears at ``name``."""
    for outer in _ancestors(module, name):
        if isinstance(outer, nn.TransformerEncoderLayer):
            outer.activation_relu_or_gelu = 0
        elif isinstance(outer, nn.TransformerEncoder):
            outer.use_nested_tensor = False
