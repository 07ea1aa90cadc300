"""Names and patterns of what is to be replaced in a model."""

import fnmatch
from collections.abc import Sequence
from typing import Any

from torch import nn

from torchsparcs.files.reading import quoted
from torchsparcs.spectralizing.refusals import BY_CALL
from torchsparcs.spectralizing.stacks import CONVOLUTIONAL, LINEAR, is_convolutional, stack_names


def resolved(module: nn.Module, targets: Sequence[Any]) -> dict[str, str]:
    """The names that ``targets`` stand for, with these, each once and none inside another."""
    known = [name for name, _ in module.named_modules(remove_duplicate=False)]
    names: dict[str, str] = {}
    for target in targets:
        matches = [target] if target in known else _matches(module, known, target)
        if not matches:
            can_be = [
                name for kind in (LINEAR, CONVOLUTIONAL) for name in stack_names(module, kind)
            ]
            raise ValueError(
                "Expected the name of a Linear, of a stack of them, or a pattern of such names, or "
                f"the name of a stack of convolutions. Got {target!r}. "
                f"There are {quoted(list(dict.fromkeys(can_be))) or 'none'}. {BY_CALL}"
            )
        names = dict.fromkeys(matches, target) | names
    if not names:
        raise ValueError("Expected at least one target. Got none.")
    for inner in names:
        outer = next((name for name in names if _is_inside(inner, name)), None)
        if outer is not None:
            raise ValueError(f"Expected targets apart. Got {inner!r}, which is inside {outer!r}.")
    return names


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


def ancestors(module: nn.Module, name: str) -> list[nn.Module]:
    """The modules around ``name``, from ``module`` inwards."""
    keys = name.split(".") if name else []
    return [module.get_submodule(".".join(keys[:depth])) for depth in range(len(keys))]
