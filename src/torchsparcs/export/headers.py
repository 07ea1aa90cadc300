"""What a network file says beside its tensors: the kind of a network, and what it is built from."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from torch import nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.sparse import MOST_SPARSE
from torchsparcs.files.reading import read_as
from torchsparcs.spectral.chain import SpectralChain, SpectralCNN
from torchsparcs.spectral.layer_kinds import described_layer, description_of
from torchsparcs.spectral.network import SpectralNetwork

Network = SpectralNetwork | CompactNetwork | SpectralChain | CompactChain

FORMAT = 1
KEY = "torchsparcs"
MODEL = "model"  # the kind of a file with any other module
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


class ModelHeader(TypedDict):
    """What a file says of a whole model: the networks of this library in it, by name."""

    format: int
    kind: str
    networks: dict[str, dict[str, Any]]
    sha256: str


def description(network: Any) -> Any:
    """What ``network``, of a known kind, is made of beside its tensors."""
    kind = type(network).__name__
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
    return {"kind": kind, "activation": network.activation_name, "options": options}


def _arguments(kind: str) -> list[str]:
    """The names of what a network of ``kind`` is built from."""
    return [*KINDS[kind][1].__annotations__]


def _plain(value: Any) -> Any:
    """Modules as what they were made with."""
    return [*map(description_of, value)] if isinstance(value, nn.ModuleList) else value


def built(header: Header) -> Network:
    """The network of a checked header, on meta; a ValueError where no network is like that."""
    options = {name: header["options"][name] for name in _arguments(header["kind"])}
    if described := DESCRIBED & options.keys():
        (name,) = described
        options[name] = [*map(described_layer, options[name])]
    else:
        options["device"] = "meta"
    return KINDS[header["kind"]][0](**options, activation=header["activation"])


def header_data(text: str | None, path: Path) -> dict[str, Any]:
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
    if not isinstance(kind, str) or kind not in (*KINDS, MODEL):
        raise ValueError(f"Expected a network among {', '.join(KINDS)}. {path} holds {kind!r}.")
    return data


def checked_header(data: dict[str, Any], tensors: int) -> Any:
    """``data`` in its types; a ValueError for more of anything than ``tensors`` tell."""
    if data.get("kind") == MODEL:
        return read_as(ModelHeader, data, "the header")
    if data.get("kind") not in KINDS:
        raise ValueError(f"a network is a {data.get('kind')!r}")
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
