"""Replacement of layers inside any module by spectral networks, which ``extract`` undoes."""

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeVar, overload

from torch import Tensor, nn

from torchsparcs.blocks.finding import blocks_of, check_own_weights, matching
from torchsparcs.blocks.spectral import spectralize_block_
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
)
from torchsparcs.spectralizing.starts import start_from_
from torchsparcs.spectralizing.targets import ancestors, resolved

Widths = Sequence[int] | Mapping[str, Sequence[int]]
Model = TypeVar("Model", bound=nn.Module)


@overload
def spectralize(
    module: nn.Module,
    *,
    target: Literal[""],
    hidden: Widths | None = None,
    activation: str | Callable[[Tensor], Tensor] | None = None,
    keep_weights: bool = False,
    example: None = None,
) -> Any: ...
@overload
def spectralize(
    module: Model,
    *,
    target: str | Sequence[str],
    hidden: Widths | None = None,
    activation: str | Callable[[Tensor], Tensor] | None = None,
    keep_weights: bool = False,
    example: Any = None,
) -> Model: ...
def spectralize(
    module: nn.Module,
    *,
    target: str | Sequence[str],
    hidden: Widths | None = None,
    activation: str | Callable[[Tensor], Tensor] | None = None,
    keep_weights: bool = False,
    example: Any = None,
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

    With an ``example`` blocks are found by what a call of the model does, however it is written:
    layers that write hidden units, others that read them, and between them what keeps units apart,
    like any activation, dropout, batch normalisation or a gate. Such a block stays where it is and
    computes what it did; each of its hidden units now has an eigenvalue, −1 at first, and is silent
    and goes where a penalty makes that zero. It has no skip connection of its own.

    >>> class Mlp(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.down, self.gate, self.up = nn.Linear(9, 4), nn.Linear(4, 9), nn.Linear(4, 9)
    ...
    ...     def forward(self, x):
    ...         return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))
    >>> import torch
    >>> from torchsparcs import extract
    >>> model = spectralize(Mlp(), target="", example=torch.randn(2, 4))
    >>> extract(model)
    Mlp(
      (down): Linear(in_features=9, out_features=4, bias=True)
      (gate): Linear(in_features=4, out_features=9, bias=True)
      (up): Linear(in_features=4, out_features=9, bias=True)
    )

    Refused is what others depend on: a layer that stands in two places, shares its parameters,
    has hooks, or belongs to an ``nn.MultiheadAttention``, which reads its weights directly.

    Args:
        target: dotted names, as ``module.named_modules()`` gives them, or patterns like
            ``"blocks.*.mlp"``, which find Linears and stacks of them, never convolutions; ``""`` is
            the module itself.
        hidden: the widths of the hidden layers, the same for each target. By default those of the
            stack; a single Linear has none. Of convolutions there are as many as there were. A dict
            has them by target.
        activation: by default that of the stack, and ``"relu"`` for a single Linear.
        keep_weights: start from the function that stood there instead of a random linear map. For
            a Linear that is the same perceptron, and needs hidden widths of at least the rank of
            its weight and bias; for a stack the same network with each neuron recruited. That
            needs as many hidden layers, one neuron more in each where later layers have a bias,
            and an activation with f(h) − f(−h) = κh: ReLU, GELU and SiLU have it, tanh has not.
            Weights of convolutions cannot be kept.
        example: what the model is called with, for blocks as they are in anybody's model: an input,
            a tuple of several, or a dict of named ones. Their weights are kept, and patterns find
            convolutions as well.

    Shape:
        - of what is replaced, input (..., in_features) and output (..., out_features) for Linears
    """
    several = isinstance(target, Sequence) and not isinstance(target, str)
    targets = list(target) if several else [target]
    if example is not None:
        if hidden is not None or activation is not None:
            raise ValueError(
                "Expected neither hidden nor activation with an example: blocks stay as they are. "
                f"Got {hidden!r} and {activation!r}."
            )
        return _with_eigenvalues(module, [*map(str, targets)], example)
    names = resolved(module, targets)
    _check_targets_of_widths(hidden, targets)
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
        widths = _widths(hidden, names[name])
        network = _network(stack, widths, activation, keep_weights, name).train(replaced.training)
        memo[id(replaced)] = _with_neighbours(network, stack, memo)
    result = copy.deepcopy(module, memo)
    for name in names:
        _disable_fast_paths_(result, name)
    return result


def _with_eigenvalues(module: nn.Module, targets: Sequence[str], example: Any) -> nn.Module:
    """A copy of ``module`` whose blocks at ``targets`` have eigenvalues where they stand."""
    blocks, reasons = blocks_of(module, example)
    chosen = matching(blocks, reasons, targets)
    check_own_weights(module, chosen)
    result = copy.deepcopy(module)
    for block in chosen:
        spectralize_block_(result, block, example)
    return result


def _check_targets_of_widths(hidden: Any, targets: Sequence[Any]) -> None:
    others = [*map(str, hidden.keys() - {*targets})] if isinstance(hidden, Mapping) else []
    if others:
        raise ValueError(
            f"Expected hidden widths by target, {quoted([*targets])}. Got some for "
            f"{quoted(sorted(others))}."
        )


def _widths(hidden: Any, target: str) -> Sequence[int] | None:
    """The hidden widths that were asked for at ``target``."""
    if isinstance(hidden, Mapping):
        if target not in hidden:
            raise ValueError(
                f"Expected hidden widths for each target. Got none for {target!r}, only for "
                f"{quoted([*map(str, hidden)])}."
            )
        hidden = hidden[target]
    if hidden is not None and (
        isinstance(hidden, str) or not isinstance(hidden, Sequence) or not len(hidden)
    ):
        raise ValueError(f"Expected hidden to be widths, at least one. Got {hidden!r}.")
    return hidden


def _read(module: nn.Module, name: str, *, is_named: bool) -> Stack:
    """The stack at ``name`` in ``module``, or a ValueError where it cannot be replaced.

    Convolutions are, which start afresh, only where ``name`` was given and not found by a pattern.
    """
    if any(isinstance(outer, nn.MultiheadAttention) for outer in ancestors(module, name)):
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
    if keep_weights and not stack.convolves:  # later biases take a constant neuron
        between = [width + stack.needs_constant for width in between]
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
    for outer in ancestors(module, name):
        if isinstance(outer, nn.TransformerEncoderLayer):
            outer.activation_relu_or_gelu = 0
        elif isinstance(outer, nn.TransformerEncoder):
            outer.use_nested_tensor = False
