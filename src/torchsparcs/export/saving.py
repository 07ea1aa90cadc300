"""Networks in files: safetensors with a versioned JSON header. Data, never code."""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.sparse import MOST_SPARSE
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.reading import check_memory, read_as
from torchsparcs.spectral.chain import SpectralChain, SpectralCNN
from torchsparcs.spectral.layer_kinds import described_layer, description_of
from torchsparcs.spectral.network import SpectralNetwork

Network = SpectralNetwork | CompactNetwork | SpectralChain | CompactChain

FORMAT = 1
KEY = "torchsparcs"
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LONGEST = 2**24  # bytes of a header, and 8 more for each byte of the numbers
MOST_NUMBERS = 2**59  # in a tensor: their bytes can be counted
DEEPEST = 2 * 10**7  # layers times connections: that many take seconds to build
INSTEAD = "Write its state_dict() instead, and load that into a network that you build again."


def _are_counts(numbers: Iterable[int]) -> bool:
    return all(0 <= number < 2**31 for number in numbers)


Counts = Annotated[list[int], _are_counts]


# What each kind of network is built from again: its constructor's arguments, layers first.


class SpectralOptions(TypedDict):
    widths: Counts
    bias: bool
    train_input_eigenvalues: bool
    update: str


class CompactOptions(TypedDict):
    widths: Counts
    connections: list[Annotated[tuple[int, int], _are_counts]]
    reads: Counts | None
    biased: Counts
    maximal: tuple[list[int], int, int] | None
    kept: dict[str, Counts] | None  # earlier versions had no such option


class CNNOptions(TypedDict):
    channels: Counts
    kernel_size: Annotated[int, lambda size: 0 < size < 2**31]
    strides: Counts
    bias: bool
    normalise: NotRequired[bool]  # earlier versions had no such option


class ChainOptions(TypedDict):
    maps: list[dict[str, Any]]
    bias: bool
    normalise: NotRequired[bool]


class CompactChainOptions(TypedDict):
    layers: list[dict[str, Any]]
    active: Counts


KINDS: dict[str, tuple[type[Network], type]] = {
    "SpectralNetwork": (SpectralNetwork, SpectralOptions),
    "CompactNetwork": (CompactNetwork, CompactOptions),
    "SpectralCNN": (SpectralCNN, CNNOptions),
    "SpectralChain": (SpectralChain, ChainOptions),
    "CompactChain": (CompactChain, CompactChainOptions),
}
EARLIER = {"normalise": False, "kept": None}
DESCRIBED = {"maps", "layers"}  # those that are modules
LINKS = "connections"


class Header(TypedDict):
    """What a file says of its network beside the tensors."""

    format: int
    kind: str
    activation: str
    options: dict[str, Any]
    sha256: str


def save(network: Network, path: str | Path) -> None:
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
        options = {name: _plain(getattr(network, name)) for name in _arguments(kind)}
    except ValueError as error:
        raise ValueError(f"{error} {INSTEAD}") from error
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    header: Header = {
        "format": FORMAT,
        "kind": kind,
        "activation": network.activation_name,
        "options": options,
        "sha256": _digest(tensors),
    }
    content = safetensors_bytes(tensors, metadata={KEY: json.dumps(header)})
    write_atomically(Path(path), content)


def _arguments(kind: str) -> list[str]:
    """The names of what a network of ``kind`` is built from."""
    return [*KINDS[kind][1].__annotations__]


def _plain(value: Any) -> Any:
    """Modules as what they were made with."""
    return [*map(description_of, value)] if isinstance(value, nn.ModuleList) else value


def load(path: str | Path) -> Network:
    """The network that :func:`save` wrote to ``path``, on the CPU and in evaluation mode.

    A file that is truncated, corrupted, from elsewhere or from a newer version is a ValueError.
    """
    path = Path(path)
    header, tensors = _read(path)
    with _misfits(path):
        network = _built(header)
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


def _built(header: Header) -> Network:
    """The network of a checked header, on meta; a ValueError where no network is like that."""
    options = {name: header["options"][name] for name in _arguments(header["kind"])}
    if described := DESCRIBED & options.keys():
        (name,) = described
        options[name] = [*map(described_layer, options[name])]
    else:
        options["device"] = "meta"
    return KINDS[header["kind"]][0](**options, activation=header["activation"])


def _read(path: Path) -> tuple[Header, dict[str, Tensor]]:
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
            data = _header_data((file.metadata() or {}).get(KEY), path)
            names = file.keys()
            with _misfits(path):
                header = _checked_header(data, len(names))
            tensors = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(
            f"Expected a whole safetensors file. {path} is truncated, corrupted or foreign: {error}"
        ) from error
    if header["sha256"] != _digest(tensors):
        raise ValueError(f"Expected the numbers that were saved. Those in {path} are corrupted.")
    return header, tensors


def _header_data(text: str | None, path: Path) -> dict[str, Any]:
    """What the header says, of a format and a kind that are known."""
    if text is None:
        raise ValueError(f"Expected a file saved by torchsparcs. {path} has no {KEY!r} header.")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    version = data.get("format") if isinstance(data, dict) else None
    if type(version) is not int:
        raise ValueError(f"Expected a {KEY!r} header in JSON. {path} has another.")
    if version > FORMAT:
        raise ValueError(
            f"Expected format {FORMAT} or older. {path} has format {version}: "
            "a newer torchsparcs wrote it."
        )
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"Expected a network among {', '.join(KINDS)}. {path} holds {kind!r}.")
    return data


def _checked_header(data: dict[str, Any], tensors: int) -> Header:
    """``data`` in its types; a ValueError for more of anything than ``tensors`` tell."""
    header: Header = read_as(Header, data, "the header")
    first = _arguments(header["kind"])[0]
    options = EARLIER | header["options"]
    # long lists are refused before anybody looks at what is in them
    for name, what, most in ((first, "layers", tensors + 1), (LINKS, LINKS, tensors)):
        if isinstance(options.get(name), list) and len(options[name]) > most:
            raise ValueError(f"more {what} than tensors")
    options = header["options"] = read_as(KINDS[header["kind"]][1], options, "options")
    layers, links = options[first], options.get(LINKS, ())
    if tensors > 5 * len(layers) + 2 * len(links):
        raise ValueError("more tensors than layers and connections")
    if len(layers) * len(links) > DEEPEST:
        raise ValueError(f"{len(layers)} layers with {len(links)} connections")
    reads = options.get("reads")
    wide = [*layers] if reads is None else [len(reads), *layers[1:]]
    for name in options.get("kept") or ():
        ends = [
            wide[int(end)]
            for end in name.split("_")
            if end.isdecimal() and len(end) < 9 and int(end) < len(layers)
        ]
        if math.prod(ends) > MOST_SPARSE:
            raise ValueError(f"a sparse block with room for {math.prod(ends)} numbers")
    widest = max((layer for layer in layers if isinstance(layer, int)), default=1)
    if (widest * options.get("kernel_size", 1)) ** 2 > MOST_NUMBERS:
        raise ValueError("more numbers than a tensor can have")
    return header


def _digest(tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of all the numbers, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
