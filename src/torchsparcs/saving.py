"""Networks in files: safetensors with a versioned JSON header. Data, never code."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from torchsparcs.checkpoints import write_atomically
from torchsparcs.compact import CompactNetwork
from torchsparcs.network import SpectralNetwork

FORMAT = 1
KEY = "torchsparcs"
# What each kind of network is built from again; the names are constructor arguments.
KINDS: dict[str, tuple[type[SpectralNetwork | CompactNetwork], tuple[str, ...]]] = {
    "SpectralNetwork": (
        SpectralNetwork,
        ("widths", "bias", "train_input_eigenvalues", "update"),
    ),
    "CompactNetwork": (CompactNetwork, ("widths", "connections", "reads", "biased", "maximal")),
}


def save(network: SpectralNetwork | CompactNetwork, path: str | Path) -> None:
    """Write ``network`` to ``path``, whole or not at all.

    An activation that is not one of the named ones cannot be saved.
    """
    kind = type(network).__name__
    if kind not in KINDS:
        raise ValueError(f"Expected a network among {', '.join(KINDS)}. Got {kind}.")
    if not network.has_named_activation:
        raise ValueError(
            "Expected an activation given by its name: a function cannot be written to a file. "
            f"Got {network.activation_name}."
        )
    options = {name: getattr(network, name) for name in KINDS[kind][1]}
    header: dict[str, Any] = {
        "format": FORMAT,
        "kind": kind,
        "activation": network.activation_name,
        "options": options,
    }
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    header["sha256"] = _digest(tensors)
    content = safetensors_bytes(tensors, metadata={KEY: json.dumps(header)})
    write_atomically(Path(path), lambda file: file.write(content))


def load(path: str | Path) -> SpectralNetwork | CompactNetwork:
    """The network that :func:`save` wrote to ``path``, on the CPU.

    A file that is truncated, corrupted, from elsewhere or from a newer version is a ValueError.
    """
    path = Path(path)
    header, tensors = _read(path)
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"Expected a network among {', '.join(KINDS)}. {path} holds {kind!r}.")
    network_type, names = KINDS[kind]
    try:
        if len(header["options"]["widths"]) > len(tensors) + 1:
            raise ValueError("more layers than tensors")
        options = {name: header["options"][name] for name in names}
        network = network_type(**options, activation=header["activation"], device="meta")
        network.load_state_dict(tensors, strict=True, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected a network saved by torchsparcs. The header of {path} does not fit its "
            f"tensors: {error}"
        ) from error
    if isinstance(network, SpectralNetwork) and not network.train_input_eigenvalues:
        network.input_eigenvalues = torch.zeros_like(
            network.input_eigenvalues, device="cpu", dtype=network.output_eigenvalues.dtype
        )
    for parameter in network.parameters():
        parameter.requires_grad_()
    return network


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        raise FileNotFoundError(f"Expected a network file. There is none at {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"Expected a whole safetensors file. {path} is truncated, corrupted or foreign: {error}"
        ) from error
    if KEY not in metadata:
        raise ValueError(f"Expected a file saved by torchsparcs. {path} has no {KEY!r} header.")
    try:
        header = json.loads(metadata[KEY])
        version = header["format"]
        newer = version > FORMAT
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"Expected a {KEY!r} header in JSON. {path} has another.") from error
    if not newer and header.get("sha256") != _digest(tensors):
        raise ValueError(f"Expected the numbers that were saved. Those in {path} are corrupted.")
    if newer:
        raise ValueError(
            f"Expected format {FORMAT} or older. {path} has format {version}: "
            "a newer torchsparcs wrote it."
        )
    return header, tensors


def _digest(tensors: dict[str, Tensor]) -> str:
    """Of all the numbers, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
