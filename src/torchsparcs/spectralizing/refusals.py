"""Checks of what cannot be replaced in a model, with errors that say why."""

from collections.abc import Sequence

from torch import nn

from torchsparcs.files.reading import quoted

BY_CALL = (
    "With example=, what the model is called with, blocks are found however they are written; they "
    "stay where they are."
)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def check_layers(layers: Sequence[nn.Module], kinds: Sequence[type[nn.Module]], name: str) -> None:
    """Raise a ValueError where a layer is not plainly of ``kinds``, or they differ in precision."""
    for layer in layers:
        known = next(kind for kind in kinds if isinstance(layer, kind))
        _check_layer(layer, known, name)
    if len({(p.dtype, p.device) for layer in layers for p in layer.parameters()}) > 1:
        raise ValueError(f"Expected the layers of {name!r} in one precision, on one device.")


def _check_layer(layer: nn.Module, known: type[nn.Module], name: str) -> None:
    kind = type(layer).__name__
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


def check_hooks(module: nn.Module, name: str) -> None:
    """Raise a ValueError where ``module`` has hooks."""
    if any(getattr(module, hooks) for hooks in HOOKS):
        raise ValueError(
            f"Expected a {type(module).__name__} without hooks at {name!r}, where they would be "
            "lost (weight_norm, spectral_norm and pruning of torch are hooks). Got one with."
        )


def check_alone(model: nn.Module, name: str, layers: Sequence[nn.Module]) -> None:
    """Raise a ValueError where ``model`` has the module at ``name`` or a layer in two places."""
    modules = list(model.named_modules(remove_duplicate=False))
    for replaced in (model.get_submodule(name), *layers):
        places = [place for place, module in modules if module is replaced]
        if len(places) > 1:
            raise ValueError(
                f"Expected a target that stands in one place. Got {name!r}, shared by "
                f"{quoted(places)}."
            )
    parameters = list(model.named_parameters(remove_duplicate=False))
    for tensor in (parameter for layer in layers for parameter in layer.parameters()):
        owners = [owner for owner, parameter in parameters if parameter is tensor]
        if len(owners) > 1:
            raise ValueError(
                f"Expected a target with parameters of its own. Got {name!r}, where one tensor is "
                f"{quoted(owners)}."
            )


def no_stack(module: nn.Module, name: str, got: str = "") -> ValueError:
    """The error for a ``module`` that is no stack, by default with what it is made of."""
    kinds = [type(child).__name__ for child in module._modules.values() if child is not None]
    listed = ", ".join(kinds[:8]) + (", ..." if len(kinds) > 8 else "")
    got = got or f"a {type(module).__name__}" + (f" of {listed}" if kinds else "")
    return ValueError(
        f"Expected {name!r} to be a Linear, or Linears of fitting widths with an activation "
        f"between them, or a Sequential of two convolutions or more with one. Got {got}. {BY_CALL}"
    )
