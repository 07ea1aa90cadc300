"""Files that run without this library: ONNX and torch.export."""

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.files.atomic import write_atomically
from torchsparcs.spectral.network import SpectralNetwork


def to_onnx(
    network: nn.Module,
    path: str | Path,
    *,
    example: torch.Tensor | None = None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write ``network`` as an ONNX model with a dynamic batch axis, checked with onnxruntime.

    The model's input is called ``input`` and its output ``output``.

    Args:
        example: an input, (batch, ...); needed for chains and modules of others.
        metadata: texts by name, which travel in the file; a ``DeployedNetwork`` has its own.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Exporting needs onnx, onnxscript and onnxruntime: pip install 'torchsparcs[onnx]'."
        ) from error
    module = copy.deepcopy(network).eval()
    example = _example_of(network) if example is None else example
    if metadata is None and isinstance(network, DeployedNetwork):
        metadata = network.metadata
    with _quiet_exporter():
        program = torch.onnx.export(
            module,
            (example,),
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=_free_batch(),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for name, text in (metadata or {}).items():
        model.metadata_props.add(key=name, value=text)
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (example, example[:1]):
        (got,) = session.run(["output"], {"input": rows.cpu().numpy()})
        with torch.no_grad():
            expected = module(rows).cpu().numpy()
        if not np.allclose(got, expected, rtol=1e-5, atol=1e-5 * max(1.0, abs(expected).max())):
            raise RuntimeError(
                f"The ONNX model computes something else than the network: they differ by "
                f"{abs(got - expected).max()}. Nothing was written."
            )
    write_atomically(Path(path), lambda file: file.write(content))


def to_torch_export(
    network: nn.Module, path: str | Path, *, example: torch.Tensor | None = None
) -> None:
    """Write ``network`` as a ``torch.export`` program with a dynamic batch axis, a .pt2 file.

    PyTorch alone runs it: ``torch.export.load(path).module()``.

    Args:
        example: an input, (batch, ...); needed for chains and modules of others.
    """
    example = _example_of(network) if example is None else example
    module = copy.deepcopy(network).eval()
    program = torch.export.export(module, (example,), dynamic_shapes=_free_batch())
    write_atomically(Path(path), lambda file: torch.export.save(program, file))


def _example_of(network: nn.Module) -> torch.Tensor:
    """Two rows that ``network`` takes, (2, inputs)."""
    if isinstance(network, DeployedNetwork):
        return network.example
    if not isinstance(network, CompactNetwork | SpectralNetwork):
        raise ValueError(
            f"Expected an example input to export a {type(network).__name__}. Got none."
        )
    parameter = next(network.parameters())
    generator = torch.Generator().manual_seed(0)
    shape = (2, network.widths[0])
    return torch.randn(shape, generator=generator, dtype=parameter.dtype).to(parameter.device)


def _free_batch() -> tuple[dict[int, Any]]:
    return ({0: torch.export.Dim("batch")},)


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Deprecations inside the exporter, and its notes on packages it misses, help no user."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
