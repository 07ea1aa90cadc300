"""Networks in files: safetensors with a versioned JSON header. Data, never code."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.checkpoints import write_atomically
from torchsparcs.files.limits import check_memory
from torchsparcs.spectral.chain import SpectralChain, SpectralCNN
from torchsparcs.spectral.layer_kinds import described_layer, description_of
from torchsparcs.spectral.network import SpectralNetwork

FORMAT = 1
KEY = "torchsparcs"
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LONGEST = 2**24  # bytes of a header, and 8 more for each byte of the numbers
WIDEST = 2**63  # what a tensor can have along an axis
DEEPEST = 2 * 10**7  # layers times connections: that many take seconds to build
# What comes of a header that says anything at all; to nest too deep is a RuntimeError.
MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# What each kind of network is built from again; the names are constructor arguments, layers first.
KINDS: dict[
    str,
    tuple[type[SpectralNetwork | CompactNetwork | SpectralChain | CompactChain], tuple[str, ...]],
] = {
    "SpectralNetwork": (
        SpectralNetwork,
        ("widths", "bias", "train_input_eigenvalues", "update"),
    ),
    "CompactNetwork": (CompactNetwork, ("widths", "connections", "reads", "biased", "maximal")),
    "SpectralCNN": (SpectralCNN, ("channels", "kernel_size", "strides", "bias", "normalise")),
    "SpectralChain": (SpectralChain, ("maps", "bias", "normalise")),
    "CompactChain": (CompactChain, ("layers", "active")),
}
DESCRIBED = ("maps", "layers")  # those that are modules
EARLIER = {"normalise": False}  # what earlier versions had no option for
INSTEAD = "Write its state_dict() instead, and load that into a network that you build again."


def save(
    network: SpectralNetwork | CompactNetwork | SpectralChain | CompactChain, path: str | Path
) -> None:
    """Write ``network`` to ``path``, whole or not at all.

    What is no data cannot be saved: an activation that is not one of the named ones, and in a chain
    maps other than convolutions, transposed ones, Linears, ``Pooled`` and ``nn.Embedding``.
    """
    kind = type(network).__name__
    if kind not in KINDS:
        raise ValueError(f"Expected a network among {', '.join(KINDS)}. Got {kind}.")
    if not network.has_named_activation:
        raise ValueError(
            "Expected an activation given by its name: a function cannot be written to a file. "
            f"Got {network.activation_name}. {INSTEAD}"
        )
    if len([*network.parameters()]) < len([*network.named_parameters(remove_duplicate=False)]):
        raise ValueError(f"Expected layers with numbers of their own. Got shared ones. {INSTEAD}")
    try:
        options = {name: _plain(getattr(network, name)) for name in KINDS[kind][1]}
    except ValueError as error:
        raise ValueError(f"{error} {INSTEAD}") from error
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


def _plain(value: Any) -> Any:
    """Modules as what they were made with."""
    return [*map(description_of, value)] if isinstance(value, nn.ModuleList) else value


def load(path: str | Path) -> SpectralNetwork | CompactNetwork | SpectralChain | CompactChain:
    """The network that :func:`save` wrote to ``path``, on the CPU and in evaluation mode.

    A file that is truncated, corrupted, from elsewhere or from a newer version is a ValueError.
    """
    path = Path(path)
    header, tensors = _read(path)
    network_type, names = KINDS[header["kind"]]
    try:
        types = {tensor.dtype for tensor in tensors.values()}
        if len(types) != 1 or not types <= {*TYPES}:
            raise ValueError(f"its numbers are of the types {', '.join(sorted(map(str, types)))}")
        given = {**EARLIER, **header["options"]}
        options = {name: given[name] for name in names}
        if names[0] in DESCRIBED:
            options[names[0]] = [*map(described_layer, options[names[0]])]
        else:
            options["device"] = "meta"
        network = network_type(**options, activation=header["activation"])
        network.load_state_dict(tensors, strict=True, assign=True)
    except MISFITS as error:
        raise _misfit(path, error) from error
    if isinstance(network, SpectralNetwork) and not network.train_input_eigenvalues:
        network.input_eigenvalues = torch.zeros_like(
            network.input_eigenvalues, device="cpu", dtype=network.output_eigenvalues.dtype
        )
    for parameter in network.parameters():
        parameter.requires_grad_()
    return network.eval()


def _misfit(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"Expected a network saved by torchsparcs. The header of {path} does not fit its "
        f"tensors: {error}"
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
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
            header = _header((file.metadata() or {}).get(KEY), path)
            names = file.keys()
            try:
                _check_counts(header, len(names))
            except MISFITS as error:
                raise _misfit(path, error) from error
            tensors = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(
            f"Expected a whole safetensors file. {path} is truncated, corrupted or foreign: {error}"
        ) from error
    if header.get("sha256") != _digest(tensors):
        raise ValueError(f"Expected the numbers that were saved. Those in {path} are corrupted.")
    return header, tensors


def _header(text: str | None, path: Path) -> dict[str, Any]:
    if text is None:
        raise ValueError(f"Expected a file saved by torchsparcs. {path} has no {KEY!r} header.")
    try:
        header = json.loads(text)
        version = header["format"]
        if type(version) is not int:
            raise TypeError("a format is a whole number")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"Expected a {KEY!r} header in JSON. {path} has another.") from error
    if version > FORMAT:
        raise ValueError(
            f"Expected format {FORMAT} or older. {path} has format {version}: "
            "a newer torchsparcs wrote it."
        )
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"Expected a network among {', '.join(KINDS)}. {path} holds {kind!r}.")
    return header


def _check_counts(header: dict[str, Any], tensors: int) -> None:
    """A ValueError for more of anything than ``tensors`` tell: it would take long to build."""
    options = header["options"]
    layers, connections = options[KINDS[header["kind"]][1][0]], options.get("connections") or ()
    if len(layers) > tensors + 1:
        raise ValueError("more layers than tensors")
    if len(connections) > tensors:
        raise ValueError("more connections than tensors")
    if tensors > 5 * len(layers) + 2 * len(connections):
        raise ValueError("more tensors than layers and connections")
    if len(layers) * len(connections) > DEEPEST:
        raise ValueError(f"{len(layers)} layers with {len(connections)} connections")
    if any(isinstance(width, int) and width >= WIDEST for width in layers):
        raise ValueError("more neurons than can be counted")


def _digest(tensors: dict[str, Tensor]) -> str:
    """Of all the numbers, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
