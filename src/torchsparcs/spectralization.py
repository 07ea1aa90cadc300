"""From Linears inside any module to spectral networks, the way that ``extract`` comes back."""

import copy
import fnmatch
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from torchsparcs.network import SpectralNetwork
from torchsparcs.stacks import Stack, is_idle, read_stack, stack_names
from torchsparcs.starts import start_from_
from torchsparcs.tables import quoted


def spectralize(
    module: nn.Module,
    *,
    target: str | Sequence[str],
    hidden: Sequence[int],
    activation: str | Callable[[Tensor], Tensor] | None = None,
    keep_weights: bool = False,
) -> Any:
    """A copy of ``module`` in which what stands at ``target`` has become a ``SpectralNetwork``.

    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    >>> spectralize(model, target="2", hidden=[50])
    Sequential(
      (0): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1))
      (1): Flatten(start_dim=1, end_dim=-1)
      (2): SpectralNetwork(144 → 50 → 10, relu, recruited 0 of 50)
    )

    What is replaced is an ``nn.Linear``, or Linears with an activation between them: an
    ``nn.Sequential``, or any module that calls its children in the order in which they were
    registered, such as the MLP of a transformer block. What such a module does before its first
    Linear and after its last stays. Dropout between the Linears has no place in a spectral network
    and is left out, with a warning. The network has a bias if any of the Linears had, their
    precision, device and mode, and it is trainable even if they were frozen.

    Refused is what others depend on: a Linear that stands in two places, shares its parameters,
    has hooks, or belongs to an ``nn.MultiheadAttention``, which reads its weights directly.

    Args:
        target: dotted names, as ``module.named_modules()`` gives them, or patterns like
            ``"blocks.*.mlp"``; ``""`` is the module itself.
        hidden: the widths of the hidden layers, the same for each target.
        activation: by default that of the stack, and ``"relu"`` for a single Linear.
        keep_weights: start from the function that stood there instead of a random perceptron. For
            a Linear that is the same perceptron, and needs hidden widths of at least the rank of
            its weight and bias; for a stack the same network with each neuron recruited. That
            needs as many hidden layers, one neuron more in each where later layers have a bias,
            and an activation with f(h) − f(−h) = κh: ReLU, GELU and SiLU have it, tanh has not.

    Shape:
        - of what is replaced, input (..., in_features) and output (..., out_features)
    """
    if isinstance(hidden, str) or not isinstance(hidden, Sequence) or not len(hidden):
        raise ValueError(f"Expected hidden to be widths, at least one. Got {hidden!r}.")
    several = isinstance(target, Sequence) and not isinstance(target, str)
    names = _resolved(module, list(target) if several else [target])
    # a deep copy that finds these already copied copies all the rest
    memo: dict[int, Any] = {}
    for name in names:
        part = module.get_submodule(name)
        if any(isinstance(outer, nn.MultiheadAttention) for outer in _ancestors(module, name)):
            raise ValueError(
                "Expected a target outside nn.MultiheadAttention, which reads the weights of its "
                f"Linears directly. Got {name!r}."
            )
        stack = read_stack(part, name)
        _check_alone(module, part, stack, name)
        if stack.left_out:
            lost = ", ".join(stack.left_out)
            warnings.warn(
                f"Left out between the Linears of {name!r}: {lost}.", UserWarning, stacklevel=2
            )
        own = "relu" if stack.activation is None else stack.activation
        function = own if activation is None else activation
        network = SpectralNetwork(
            [stack.widths[0], *hidden, stack.widths[-1]],
            activation=copy.deepcopy(function),
            bias=stack.has_bias,
            device=stack.linears[0].weight.device,
            dtype=stack.linears[0].weight.dtype,
        )
        if keep_weights and activation is not None and len(stack.linears) > 1:
            raise ValueError(
                "Expected no other activation where the weights of a stack are kept. "
                f"Got {network.activation_name}."
            )
        if keep_weights:
            start_from_(network, stack, name)
        network.train(part.training)
        memo[id(part)] = _in_its_place(network, stack, part, memo)
    result = copy.deepcopy(module, memo)
    for name in names:
        _leave_fast_paths_(result, name)
    return result


# --- names ----------------------------------------------------------------------------------------


def _resolved(module: nn.Module, targets: Sequence[Any]) -> list[str]:
    """The names that ``targets`` stand for, each once and none inside another."""
    known = [name for name, _ in module.named_modules(remove_duplicate=False)]
    names: dict[str, None] = {}
    for target in targets:
        found = [target] if target in known else _matches(module, known, target)
        if not found:
            raise ValueError(
                "Expected the name of a Linear, of a stack of them, or a pattern of such names. "
                f"Got {target!r}. There are {quoted(stack_names(module)) or 'none'}."
            )
        names.update(dict.fromkeys(found))
    if not names:
        raise ValueError("Expected at least one target. Got none.")
    for inner in names:
        outer = next((name for name in names if _is_inside(inner, name)), None)
        if outer is not None:
            raise ValueError(f"Expected targets apart. Got {inner!r}, which is inside {outer!r}.")
    return list(names)


def _matches(module: nn.Module, known: Sequence[str], pattern: Any) -> list[str]:
    """What can be replaced under ``pattern``, or else what cannot, which will be told why."""
    if not isinstance(pattern, str):
        raise ValueError(f"Expected target to be a name or several. Got {pattern!r}.")

    def among(names: Sequence[str]) -> list[str]:
        return [name for name in names if name and fnmatch.fnmatchcase(name, pattern)]

    return among(stack_names(module)) or among(known)[:1]


def _is_inside(name: str, outer: str) -> bool:
    return name != outer and (outer == "" or name.startswith(f"{outer}."))


def _ancestors(module: nn.Module, name: str) -> list[nn.Module]:
    """The modules around ``name``, from ``module`` inwards."""
    path = name.split(".") if name else []
    return [module.get_submodule(".".join(path[:depth])) for depth in range(len(path))]


# --- what others depend on ------------------------------------------------------------------------


def _check_alone(module: nn.Module, part: nn.Module, stack: Stack, name: str) -> None:
    """A ValueError where something else than its place in ``module`` depends on ``part``."""
    places = list(module.named_modules(remove_duplicate=False))
    for own in (part, *stack.linears):
        found = [place for place, other in places if other is own]
        if len(found) > 1:
            raise ValueError(
                f"Expected a target that stands in one place. Got {name!r}, shared by "
                f"{quoted(found)}."
            )
    owners = [
        (id(parameter), f"{place}.{key}" if place else key)
        for place, other in module.named_modules()
        for key, parameter in other._parameters.items()
    ]
    for parameter in (p for linear in stack.linears for p in linear.parameters()):
        found = [owner for identity, owner in owners if identity == id(parameter)]
        if len(found) > 1:
            raise ValueError(
                f"Expected a target with parameters of its own. Got {name!r}, where one tensor is "
                f"{quoted(found)}."
            )


def _in_its_place(
    network: SpectralNetwork, stack: Stack, part: nn.Module, memo: dict[int, Any]
) -> nn.Module:
    """``network`` with copies, under their names, of what comes before and after it."""
    before, after = (
        {key: copy.deepcopy(other, memo) for key, other in others if not is_idle(other)}
        for others in (stack.before, stack.after)
    )
    if not before and not after:
        return network
    chain = nn.Sequential()
    for key, other in (before | {stack.first: network} | after).items():
        chain.add_module(key, other)
    chain.training = part.training
    return chain


def _leave_fast_paths_(module: nn.Module, name: str) -> None:
    """In evaluation torch's own encoder reads the weights of its Linears, unless told not to."""
    for outer in _ancestors(module, name):
        if isinstance(outer, nn.TransformerEncoderLayer):
            outer.activation_relu_or_gelu = 0
        elif isinstance(outer, nn.TransformerEncoder):
            outer.use_nested_tensor = False
