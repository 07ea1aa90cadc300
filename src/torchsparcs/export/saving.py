"""Networks in files: safetensors with a versioned JSON header. Data, never code."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from torchsparcs.export.headers import (
    FORMAT,
    KEY,
    KINDS,
    MODEL,
    Network,
    built,
    checked_header,
    description,
    header_data,
)
from torchsparcs.export.models import refilled, tensors_of
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.reading import check_memory
from torchsparcs.spectral.network import SpectralNetwork

Model = TypeVar("Model", bound=nn.Module)

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LONGEST = 2**24  # bytes of a header, and 8 more for each byte of the numbers


def save(network: nn.Module, path: str | Path) -> None:
    """Write ``network`` to ``path``, whole or not at all.

    It is a network of this library, or any model, cut or not: of that the tensors are written, and
    what the networks of this library inside it are made of. :func:`load` puts them into a model
    that is built as this one was before.

    What is no data cannot be saved: an activation that is not one of the named ones, and in a chain
    maps other than convolutions, transposed ones, Linears, ``Pooled`` and ``nn.Embedding``.
    """
    if not isinstance(network, nn.Module):
        raise ValueError(f"Expected a network or a model. Got {type(network).__name__}.")
    if type(network).__name__ in KINDS:
        tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
        header: dict[str, Any] = {
            "format": FORMAT,
            **description(network),
            "sha256": _digest(tensors),
        }
    else:
        inner = {n: m for n, m in network.named_modules() if type(m).__name__ in KINDS}
        tensors = tensors_of(network)
        header = {
            "format": FORMAT,
            "kind": MODEL,
            "networks": {name: description(one) for name, one in inner.items()},
            "sha256": _digest(tensors),
        }
    content = safetensors_bytes(tensors, metadata={KEY: json.dumps(header)})
    write_atomically(Path(path), content)


@overload
def load(path: str | Path) -> Network: ...
@overload
def load(path: str | Path, *, into: Model) -> Model: ...
def load(path: str | Path, *, into: nn.Module | None = None) -> nn.Module:
    """The network that :func:`save` wrote to ``path``, on the CPU and in evaluation mode.

    A file that is truncated, corrupted, from elsewhere or from a newer version is a ValueError.

    Args:
        into: where a whole model was saved, one that is built as that was before it was cut. What
            comes back is a copy of it, with the networks and the layers of the file.
    """
    path = Path(path)
    header, tensors = _read(path)
    if (header["kind"] == MODEL) is not (into is not None):
        which = "a whole model: give load one that was built like it, into=" * (into is None)
        raise ValueError(f"Expected {which or 'a whole model'}. {path} holds {header['kind']!r}.")
    if into is not None:
        networks = {
            name: _network(path, one, _inside(name, tensors))
            for name, one in header["networks"].items()
        }
        return refilled(into, networks, tensors).eval()
    return _network(path, header, tensors)


def _inside(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the part ``name``, by their names in it."""
    start = f"{name}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def _network(path: Path, header: Any, tensors: dict[str, Tensor]) -> Any:
    """The network of a checked header with ``tensors``."""
    with _misfits(path):
        network = built(header)
        types = {tensor.dtype for tensor in tensors.values()}
        if len(types) != 1 or not types <= {*TYPES}:
            raise ValueError(f"its numbers are of the types {', '.join(sorted(map(str, types)))}")
        try:
            network.load_state_dict(tensors, strict=True, assign=True)
        except RuntimeError as error:  # other names or shapes
            raise ValueError(str(error)) from error
    if isinstance(network, SpectralNetwork) and not network.train_input_eigenvalues:
        network.input_eigenvalues = torch.zeros_like(
            network.input_eigenvalues, device="cpu", dtype=network.output_eigenvalues.dtype
        )
    for parameter in network.parameters():
        parameter.requires_grad_()
    return network.eval()


@contextlib.contextmanager
def _misfits(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"Expected a network saved by torchsparcs. The header of {path} does not fit its "
            f"tensors: {error}"
        ) from error


def _read(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """The header and the tensors, which are not touched before the header has been looked at."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected a network file. There is none at {path}.")
    size = path.stat().st_size
    check_memory(path, size, copies=2)
    try:
        with path.open("rb") as start:
            length = int.from_bytes(start.read(8), "little")
        if length > LONGEST + 8 * max(size - length, 0):
            raise SafetensorError("its header is longer than any network needs")
        with safe_open(path, framework="pt") as file:
            data = header_data((file.metadata() or {}).get(KEY), path)
            names = file.keys()
            with _misfits(path):
                header = checked_header(data, len(names))
                if header["kind"] == MODEL:
                    for name, one in header["networks"].items():
                        count = sum(tensor.startswith(f"{name}.") for tensor in names)
                        one |= checked_header({**one, "format": FORMAT, "sha256": ""}, count)
            tensors = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(
            f"Expected a whole safetensors file. {path} is truncated, corrupted or foreign: {error}"
        ) from error
    if header["sha256"] != _digest(tensors):
        raise ValueError(f"Expected the numbers that were saved. Those in {path} are corrupted.")
    return header, tensors


def _digest(tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of all the numbers, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
