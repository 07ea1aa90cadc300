"""The files that a network of a front can leave as."""

from collections.abc import Callable
from pathlib import Path

from torchsparcs.export import to_onnx, to_torch_export
from torchsparcs.result import Candidate, SearchResult
from torchsparcs.saving import save

# The ending of the file, what writes it, and what to say about it.
FORMATS: dict[str, tuple[str, Callable[[SearchResult, Candidate, Path], None], str]] = {
    "onnx": (
        ".onnx",
        lambda result, candidate, path: to_onnx(result.deployed(candidate), path),
        "It takes the columns in their own units; their names are in its metadata.",
    ),
    "safetensors": (
        ".safetensors",
        lambda result, candidate, path: save(candidate.network, path),
        "It takes standardised columns: the preprocessing is in {settings}. "
        "torchsparcs.load reads it.",
    ),
    "torch": (
        ".pt2",
        lambda result, candidate, path: to_torch_export(result.deployed(candidate), path),
        "It takes the columns in their own units and needs PyTorch alone: "
        "torch.export.load({path!r}).module()",
    ),
}
