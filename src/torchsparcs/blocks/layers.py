"""Layers that write or read hidden units, whoever wrote them, with some of their units.

A writer has the units on its outputs, a reader on its inputs; between them stand modules with some
numbers for each unit, as batch normalisation has. A layer of n units may have m rows for each,
row r being of unit r % n (a gate and its values in one matrix), or k columns, column c being of
unit c // k (an image made flat).
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from torchsparcs.spectral.layer_kinds import CONVOLUTIONS, TRANSPOSED
from torchsparcs.spectral.linear_maps import patches

NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
COUNTS_OUT = ("out_features", "out_channels", "nf")
COUNTS_IN = ("in_features", "in_channels", "nx")


def is_layer(module: nn.Module) -> bool:
    """Whether ``module`` has a weight from each unit it reads to each it writes."""
    if isinstance(module, CONVOLUTIONS):
        return module.groups == 1
    return isinstance(module, nn.Linear) or is_transposed(module)


def is_transposed(module: nn.Module) -> bool:
    """Whether ``module`` is a Linear with a weight (in, out), as in GPT-2."""
    weight = getattr(module, "weight", None)
    is_matrix = isinstance(weight, Tensor) and weight.dim() == 2
    return type(module).__name__ == "Conv1D" and is_matrix


def is_between(module: nn.Module) -> bool:
    """Whether ``module`` has numbers, some for each channel, and mixes no channels."""
    if isinstance(module, CONVOLUTIONS):
        return module.groups == module.in_channels == module.out_channels
    return isinstance(module, (*NORMS, nn.PReLU))


def has_own_weights(module: nn.Module) -> bool:
    """Whether the weight of ``module``, if any, is its parameter, and not made of others."""
    return "weight" in module._parameters and not parametrize.is_parametrized(module)


def channel_count(module: Any) -> int:
    """For how many channels a module that stands between has numbers; 1: for all the same."""
    names = ("num_features", "num_parameters", "out_channels")
    return next(getattr(module, name) for name in names if hasattr(module, name))


def weight_of(layer: Any) -> Tensor:
    """(out, in, positions...)."""
    return layer.weight.T if is_transposed(layer) else layer.weight


def axis_of(layer: Any) -> int:
    """The axis of the units in what it reads and writes, counted from the end."""
    is_convolution = isinstance(layer, (*CONVOLUTIONS, *TRANSPOSED))
    return -1 - len(layer.kernel_size) if is_convolution else -1


def patches_of(layer: Any, input: Tensor) -> Tensor:
    """What it reads for each place where it gives something, (places, in, positions)."""
    if isinstance(layer, CONVOLUTIONS):
        return patches(layer, input)
    return input.flatten(0, -2).unsqueeze(-1)


@torch.no_grad()
def with_units(layer: nn.Module, written: Tensor | None, read: Tensor | None) -> nn.Module:
    """A copy of a layer with some of the units that it writes, or reads, (units,) bool."""
    weight, bias = weight_of(layer), getattr(layer, "bias", None)
    if written is not None:
        rows = written.repeat(len(weight) // len(written))
        weight, bias = weight[rows], None if bias is None else bias[rows]
    if read is not None:
        weight = weight[:, read.repeat_interleave(weight.shape[1] // len(read))]
    return _changed(layer, weight, bias)


@torch.no_grad()
def with_weights(layer: nn.Module, weight: Tensor, bias: Tensor | None) -> nn.Module:
    """A copy of a layer with another weight, (out, in, positions...), and bias."""
    return _changed(layer, weight, bias)


@torch.no_grad()
def with_channels(module: Any, kept: Tensor) -> nn.Module:
    """A copy of what stands between with the channels in ``kept``, (channels,) bool."""
    smaller = copy.deepcopy(module)
    count = int(kept.sum())
    for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers()]:
        if tensor.dim() and len(tensor) == len(kept):
            part = tensor[kept].clone()
            is_parameter = isinstance(tensor, nn.Parameter)
            setattr(
                smaller, name, nn.Parameter(part, tensor.requires_grad) if is_parameter else part
            )
    for name in ("num_features", "num_parameters", "in_channels", "out_channels", "groups"):
        if getattr(module, name, None) == len(kept):
            setattr(smaller, name, count)
    return smaller


def _changed(layer: Any, weight: Tensor, bias: Tensor | None) -> nn.Module:
    """A copy of ``layer``, hooks and attributes included, with other numbers."""
    old_weight, old_bias = layer._parameters["weight"], layer._parameters.get("bias")
    memo: dict[int, Any] = {id(old_weight): None, id(old_bias): None}
    smaller = copy.deepcopy(layer, memo)
    turned = weight.T if is_transposed(layer) else weight
    smaller.weight = _like(turned, old_weight)
    smaller.bias = (
        None if bias is None else _like(bias, old_weight if old_bias is None else old_bias)
    )
    for names, count in ((COUNTS_OUT, weight.shape[0]), (COUNTS_IN, weight.shape[1])):
        for name in names:
            if hasattr(layer, name):
                setattr(smaller, name, count)
    return smaller


def _like(values: Tensor, old: Tensor) -> nn.Parameter:
    """A parameter with other numbers than ``old``, of its dtype, and frozen if it is."""
    return nn.Parameter(values.to(old).clone().contiguous(), old.requires_grad)
