"""Networks as files that run without this library: ONNX, and programs of ``torch.export``."""

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
from torch.fx import GraphModule
from torch.nn.attention import SDPBackend, sdpa_kernel

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.sparse import with_zeros
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.onnx_graph import Graph, Traced, onnx_kind
from torchsparcs.export.onnx_int8 import to_onnx_int8
from torchsparcs.export.own_columns import ColumnNetwork
from torchsparcs.export.quantization import QuantizedNetwork
from torchsparcs.export.several import InARow, named_tensors
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.reading import quoted
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.training.nests import called, rows_in, tensors_in

TALKATIVE = (  # loggers of the exporter
    "torch.onnx._internal.exporter._registration",
    "onnxscript.optimizer._constant_folding",
)


def to_onnx(
    network: nn.Module | QuantizedNetwork,
    path: str | Path,
    *,
    example: Any = None,
    metadata: dict[str, str] | None = None,
    encoded: bool = False,
) -> None:
    """Write ``network`` as an ONNX model with a dynamic batch axis, checked with onnxruntime.

    The model of a ``DeployedNetwork`` has an input for each column of the table that it reads:
    text (rows,), or numbers (rows,) in float64. Any other model's input is called ``input``, the
    output ``output``; several are called by the names they have in dicts, or ``input_0`` and so on.
    One of int8, by :func:`quantize`, has the form of
    :mod:`torchsparcs.export.onnx_int8`.

    Args:
        example: an input, (batch, ...), a tuple of several or a dict of named ones; needed for
            chains and modules of others. The first axis of all is the batch.
        metadata: texts by name, which travel in the file; a ``DeployedNetwork`` has its own.
        encoded: whether a ``DeployedNetwork`` takes one ``input`` of encoded columns instead,
            (rows, columns) in float32.
    """
    if isinstance(network, QuantizedNetwork):
        return to_onnx_int8(network, path)
    is_one = example is None or isinstance(example, torch.Tensor)
    is_plain = _is_plain(network) and is_one and (example is None or example.dim() == 2)
    try:
        import onnx  # noqa: F401
        import onnxruntime

        if not is_plain:
            import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Exporting needs onnx, onnxscript and onnxruntime: pip install 'torchsparcs[onnx]'."
        ) from error
    if isinstance(network, DeployedNetwork):
        if encoded:
            network.warn_of_coarse_columns()
        else:
            network = ColumnNetwork(network)
    elif encoded:
        raise ValueError(
            f"Expected a deployed network where columns are encoded. Got {type(network).__name__}."
        )
    module = with_zeros(copy.deepcopy(network).eval())
    example = _example_of(network) if example is None else example
    if metadata is None and isinstance(network, (DeployedNetwork, ColumnNetwork)):
        metadata = network.metadata
    names = [name for name, _ in named_tensors(example, "input")]
    if is_plain:
        module, example = module.cpu(), example.cpu()
        model = _traced(module, example)
    else:
        model = _exported(module, example, names)
    for name, text in (metadata or {}).items():
        model.metadata_props.add(key=name, value=text)
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (example, rows_in(example, slice(1))):
        if isinstance(network, ColumnNetwork):
            answers = session.run(None, network.feed(rows))
        else:
            tensors = [tensor.cpu().numpy() for tensor in tensors_in(rows)]
            answers = session.run(None, dict(zip(names, tensors, strict=True)))
        with torch.no_grad():
            outputs = [output.cpu().numpy() for output in tensors_in(called(module, rows))]
        for got, expected in zip(answers, outputs, strict=True):
            most = 1e-5 * max(1.0, abs(expected).max(initial=0))
            if not np.allclose(got, expected, rtol=1e-5, atol=most):
                raise RuntimeError(
                    f"The ONNX model computes something else than the network: they differ by "
                    f"{abs(got - expected).max()}. Nothing was written."
                )
    write_atomically(Path(path), content)


def _is_plain(network: nn.Module) -> bool:
    """Whether it is one of ours, of float32 and an activation that has a name."""
    bare = network.network if isinstance(network, DeployedNetwork) else network
    return (
        isinstance(bare, CompactNetwork)
        and bare.has_named_activation
        and next(bare.parameters()).dtype == torch.float32
    )


def _traced(module: nn.Module, example: torch.Tensor) -> Any:
    """The ONNX model of a network of ours, by what it does to ``example`` (rows, inputs)."""
    graph, name, output = Graph(), "input", "output"
    given: dict[str, Any] = {name: (onnx_kind(example.dtype), ["rows", example.shape[1]])}
    if isinstance(module, ColumnNetwork):
        given, name, output = module.interface, module.matrix(graph), module.output_name
    with torch.no_grad():
        answer = module(Traced.of(example, graph, name))
    return graph.model(given, answer.label, output, answer.shape[1])


def _exported(module: nn.Module, example: Any, names: list[str]) -> Any:
    """The ONNX model of any module, by torch's exporter."""
    with torch.no_grad():
        answer = called(module, example)
    outputs = [name for name, _ in named_tensors(answer, "output")]
    if not (isinstance(example, torch.Tensor) and isinstance(answer, torch.Tensor)):
        module = InARow(module, example)
    tensors = tuple(tensors_in(example))
    if not outputs or len({*names, *outputs}) < len(names) + len(outputs):
        raise ValueError(
            "Expected inputs and outputs with names of their own, at least one of each. Got "
            f"{quoted(names)} and {quoted(outputs)}."
        )
    # as other kernels lay out what attention gives, it could not be taken apart
    with _quiet_exporter(), sdpa_kernel(SDPBackend.MATH):
        program = torch.onnx.export(
            module,
            tensors,
            input_names=names,
            output_names=outputs,
            dynamic_shapes=_free_batch(len(tensors), isinstance(module, InARow)),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.graph.ClearField("value_info")  # of Gemm's weights as they lay before: quantisers stumble
    _clear_notes(model)
    return model


def to_torch_export(
    network: nn.Module, path: str | Path, *, example: torch.Tensor | None = None
) -> None:
    """Write ``network`` as a ``torch.export`` program with a dynamic batch axis, a .pt2 file.

    PyTorch alone runs it: ``torch.export.load(path).module()``.

    Args:
        example: an input, (batch, ...); needed for chains and modules of others.
    """
    if isinstance(network, DeployedNetwork):
        network.warn_of_coarse_columns()
    example = _example_of(network) if example is None else example
    module = with_zeros(copy.deepcopy(network).eval())
    program = torch.export.export(module, (example,), dynamic_shapes=_free_batch())
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, GraphModule) else ():
            node.meta.pop("stack_trace", None)  # which has the paths of this machine
    write_atomically(Path(path), lambda file: torch.export.save(program, file))


def _clear_notes(message: Any) -> None:
    """Empty the notes in every part of an ONNX model: they have the paths of this machine."""
    for name in {*message.DESCRIPTOR.fields_by_name} & {"metadata_props", "doc_string"}:
        message.ClearField(name)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                _clear_notes(part)


def _example_of(network: nn.Module) -> torch.Tensor:
    """Two rows that ``network`` takes, (2, inputs)."""
    if isinstance(network, (DeployedNetwork, ColumnNetwork)):
        return network.example
    if not isinstance(network, CompactNetwork | SpectralNetwork):
        raise ValueError(
            f"Expected an example input to export a {type(network).__name__}. Got none."
        )
    parameter = next(network.parameters())
    generator = torch.Generator().manual_seed(0)
    shape = (2, network.widths[0])
    return torch.randn(shape, generator=generator, dtype=parameter.dtype).to(parameter.device)


def _free_batch(count: int = 1, is_row: bool = False) -> tuple[Any, ...]:
    """The first axis is free, of each of so many tensors, which are one argument ``*tensors``."""
    batch = torch.export.Dim("batch")
    free = tuple({0: batch} for _ in range(count))
    return (free,) if is_row else free


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Deprecations inside the exporter, packages it misses, constants it cannot fold: no news."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
