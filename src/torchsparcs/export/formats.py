"""The files that a network of a front can leave as."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchsparcs.export.code import to_c, to_javascript, to_python
from torchsparcs.export.saving import save
from torchsparcs.export.writing import to_onnx, to_torch_export

# Source code, which bare networks can leave as too.
CODE = {"c": to_c, "python": to_python, "javascript": to_javascript}
# The ending of the file, what writes it, and what to say about it.
FORMATS: dict[str, tuple[str, Callable[[Any, Path], None], str]] = {
    "onnx": (
        ".onnx",
        to_onnx,
        "It takes the columns of the table that the network reads, each by its name.",
    ),
    "safetensors": (
        ".safetensors",
        lambda deployed, path: save(deployed.network, path),
        "It takes standardised columns: the preprocessing is in {settings}. "
        "torchsparcs.load reads it.",
    ),
    "torch": (
        ".pt2",
        to_torch_export,
        "It takes the encoded columns in their own units and needs PyTorch alone: "
        "torch.export.load({path!r}).module()",
    ),
    "c": (
        ".h",
        to_c,
        "One C99 header, for C++ and Arduino too; its comment says what it takes and gives.",
    ),
    "python": (
        ".py",
        to_python,
        "It imports nothing, for MicroPython too; its comment says what it takes and gives.",
    ),
    "javascript": (
        ".mjs",
        to_javascript,
        "An ES module, for pages and Node; its comment says what it takes and gives.",
    ),
}
