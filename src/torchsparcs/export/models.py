"""Whole models as data: their tensors, and the networks of this library inside them.

What else was cut needs no record: the shapes of the tensors say how many units its layers have.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from torchsparcs.blocks.layers import is_between, is_layer, weight_of, with_channels, with_weights
from torchsparcs.files.reading import quoted


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of ``model`` by name, each once, on the CPU; a ValueError where some are made."""
    made = [name for name, part in model.named_modules() if parametrize.is_parametrized(part)]
    if made:
        raise ValueError(
            "Expected layers with weights of their own in a model that is saved. Got some that "
            f"make theirs at {quoted(made[:3])}; extract gives plain layers."
        )
    tensors: dict[str, Tensor] = {}
    known: set[tuple[int, int]] = set()
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Expected tensors as the state of a model. Got {name!r}.")
        place = (tensor.data_ptr(), tensor.numel())
        if tensor.numel() and place in known:
            continue  # what is tied in the model is tied in the one it is loaded into
        known.add(place)
        tensors[name] = tensor.detach().cpu().contiguous()
    return tensors


def refilled(
    into: nn.Module, networks: dict[str, nn.Module], tensors: dict[str, Tensor]
) -> nn.Module:
    """A copy of ``into`` with ``networks`` at their names, layers as wide as ``tensors`` say."""
    memo: dict[int, Any] = {}
    for name, network in networks.items():
        memo[id(_at(into, name))] = network
    inside = tuple(f"{name}." for name in networks)
    for name, part in into.named_modules():
        is_plain = not name.startswith(inside) and name not in networks
        if is_plain and (resized := _resized(part, name, tensors)) is not None:
            memo[id(part)] = resized
    model = copy.deepcopy(into, memo)
    try:
        left = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:  # other shapes
        raise ValueError(
            f"Expected the model as it was built before it was cut. Got another: {error}"
        ) from error
    own: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    own |= dict(model.named_buffers(remove_duplicate=False))
    filled = {id(own[name]) for name in tensors if name in own}
    missing = [name for name in left.missing_keys if id(own.get(name)) not in filled]
    if missing or left.unexpected_keys:
        raise ValueError(
            "Expected the model as it was built before it was cut. Got one that lacks "
            f"{quoted(left.unexpected_keys[:3]) or 'nothing'}, and has besides "
            f"{quoted(missing[:3]) or 'nothing'}."
        )
    return model


def _at(into: nn.Module, name: str) -> nn.Module:
    try:
        return into.get_submodule(name)
    except AttributeError as error:
        raise ValueError(
            f"Expected a model with a part at {name!r}, where a network was saved. Got none."
        ) from error


def _resized(part: Any, name: str, tensors: dict[str, Tensor]) -> nn.Module | None:
    """A layer with as many units as in the file, where these are others; else None."""
    weight, bias = (tensors.get(f"{name}.{one}" if name else one) for one in ("weight", "bias"))
    if weight is None:
        return None
    if is_between(part) and weight.shape[:1] != part.weight.shape[:1]:
        kept = torch.zeros(len(part.weight), dtype=torch.bool)
        kept[: len(weight)] = True
        return with_channels(part, kept)
    if is_layer(part) and weight.shape != part.weight.shape:
        turned = weight if weight_of(part) is part.weight else weight.T
        return with_weights(part, turned, bias)
    return None
