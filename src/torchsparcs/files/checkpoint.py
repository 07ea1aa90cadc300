"""Checkpoints: nested plain values and tensors as safetensors and a digest. Data, never code."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from torchsparcs.files.atomic import write_atomically

VERSION = 2  # 1 was a pickle
KEY = "torchsparcs"
PLAIN = (str, int, float, bool, type(None))
DIGEST = 32  # bytes of a SHA-256
LONG = 16  # a list of so many numbers becomes a tensor
NUMBERS = {float: torch.float64, int: torch.int64}


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    write_atomically(path, packed({"version": VERSION, **state}))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved; anything but a whole checkpoint is a ValueError."""
    try:
        state = unpacked(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"Expected a torchsparcs checkpoint. {path} cannot be read: {error}"
        ) from error
    version = state.get("version") if isinstance(state, dict) else None
    if version != VERSION:
        raise ValueError(
            f"Expected a torchsparcs checkpoint of version {VERSION}. Got {version!r} in {path}."
        )
    return state


def packed(state: Any) -> bytes:
    """Bytes that hold ``state``: dicts, lists and tuples of tensors, numbers, texts and None.

    >>> unpacked(packed({"step": 3, "history": [(0, torch.ones(2))]}))
    {'step': 3, 'history': [(0, tensor([1., 1.]))]}
    """
    tensors: list[Tensor] = []
    outline = json.dumps(_outline(state, tensors))
    named = {str(place): tensor for place, tensor in enumerate(tensors)}
    content = tensors_to_bytes(named, metadata={KEY: outline})
    return content + hashlib.sha256(content).digest()


def unpacked(content: bytes) -> Any:
    """What was :func:`packed`, on the CPU; anything else is a ValueError."""
    try:
        content, digest = content[:-DIGEST], content[-DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("It is cut short or was changed.")
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        return _filled(json.loads(header["__metadata__"][KEY]), tensors_from_bytes(content))
    except (SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"Expected a state that was packed. {error}") from error


def _outline(value: Any, tensors: list[Tensor]) -> Any:
    """``value`` as JSON, [kind, content], with tensors by their place among ``tensors``."""
    if isinstance(value, Tensor):
        tensors.append(value.detach().cpu().clone(memory_format=torch.contiguous_format))
        return ["tensor", len(tensors) - 1]
    if isinstance(value, dict):
        pairs = [[_outline(key, tensors), _outline(item, tensors)] for key, item in value.items()]
        return ["dict", pairs]
    if type(value) in (list, tuple):
        kinds = {type(item) for item in value}
        if type(value) is list and len(value) > LONG and len(kinds) == 1 and kinds <= {*NUMBERS}:
            tensors.append(torch.tensor(value, dtype=NUMBERS[kinds.pop()]))
            return ["numbers", len(tensors) - 1]
        return [type(value).__name__, [_outline(item, tensors) for item in value]]
    if not isinstance(value, PLAIN):
        raise TypeError(f"Expected plain values and tensors. Got {type(value).__name__}.")
    return value


def _filled(outline: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(outline, list):
        return outline
    kind, content = outline
    return READERS[kind](content, tensors)


READERS = {
    "tensor": lambda place, tensors: tensors[str(place)],
    "numbers": lambda place, tensors: tensors[str(place)].tolist(),
    "dict": lambda pairs, tensors: {
        _filled(key, tensors): _filled(item, tensors) for key, item in pairs
    },
    "list": lambda items, tensors: [_filled(item, tensors) for item in items],
    "tuple": lambda items, tensors: tuple(_filled(item, tensors) for item in items),
}
