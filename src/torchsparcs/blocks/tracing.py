"""A call of a model, taken apart at its linear layers.

What each layer gives is made a leaf of the graph of gradients. So the graph behind the input of a
layer ends at the layers that it hears directly, whatever functions, modules or residual sums stand
between: the model may be written in any way.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.blocks.layers import is_between, is_layer
from torchsparcs.training.nests import called, tensors_in
from torchsparcs.training.tasks import restored_mode


@dataclass(eq=False)
class Call:
    """A call of the layer ``name``: what it heard, and what it gave as a leaf."""

    name: str
    module: nn.Module
    input: Tensor
    output: Tensor


@dataclass(frozen=True)
class Trace:
    """The calls in their order, and the leaves that the outputs of the model depend on.

    Modules that stand between layers and have no parameters, as a normalisation may, give theirs
    times a leaf of their own, which is one: ``marks`` are these by name.
    """

    calls: list[Call]
    ends: set[int]
    marks: dict[str, Tensor]


@torch.inference_mode(False)
@torch.enable_grad()
def traced(model: nn.Module, example: Any) -> Trace:
    """The calls of the layers of ``model``, in evaluation, where it is given ``example``.

    ``example`` is an input, a tuple of several, or a dict of named ones.
    """
    calls: list[Call] = []
    marks: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., Tensor]:
        def hook(module: nn.Module, inputs: tuple, named: dict, output: Tensor) -> Tensor:
            leaf = output.detach().requires_grad_()
            # copies: others may write into both
            heard = (*inputs, *named.values())[0].clone()
            calls.append(Call(name, module, heard, leaf))
            return leaf.clone()

        return hook

    def mark(name: str) -> Callable[..., Tensor]:
        def hook(_: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
            return output * marks.setdefault(name, output.new_ones(()).requires_grad_())

        return hook

    layers = {id(m): (name, m) for name, m in model.named_modules() if is_layer(m)}
    hooks = [m.register_forward_hook(keep(name), with_kwargs=True) for name, m in layers.values()]
    hooks += [
        m.register_forward_hook(mark(name))
        for name, m in model.named_modules()
        if is_between(m) and not [*m.parameters()]
    ]
    frozen = [p for p in model.parameters() if p.is_floating_point() and not p.requires_grad]
    try:
        for parameter in frozen:
            parameter.requires_grad_()
        with restored_mode(model):
            model.eval()
            output = called(model, example)
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for hook in hooks:
            hook.remove()
    ends = {leaf for tensor in tensors_in(output) for leaf in leaves_of(tensor)}
    return Trace(calls, ends, marks)


def leaves_of(tensor: Tensor) -> dict[int, None]:
    """The ids of the leaves behind ``tensor`` in the graph of gradients, the nearest first."""
    if tensor.grad_fn is None:
        return {id(tensor): None} if tensor.requires_grad else {}
    leaves: dict[int, None] = {}
    seen, todo = {tensor.grad_fn}, deque([tensor.grad_fn])
    while todo:
        node = todo.popleft()
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = None
        for behind, _ in node.next_functions:
            if behind is not None and behind not in seen:
                seen.add(behind)
                todo.append(behind)
    return leaves
