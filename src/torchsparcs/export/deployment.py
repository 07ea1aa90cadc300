"""A picked network with its preprocessing, as one module to export."""

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.sparse import with_zeros
from torchsparcs.files.atomic import write_atomically
from torchsparcs.files.reading import quoted
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.version import __version__


class DeployedNetwork(nn.Module):
    """From encoded columns in their own units to probabilities, or to values in theirs.

    The encoded columns are ``preprocessing.inputs.supplied_names``: numbers as they are in the
    table, NaN where they are missing, zeros and ones for text, the parts of dates. The network is
    a copy: where this module goes, it goes alone.

    Args:
        about: lines on how the network was found, for the comments of generated code.

    Shape:
        - input (rows, supplied columns); float64 where columns are far from zero for their spread,
          which float32, and so an ONNX file, does not resolve: a warning names them
        - output (rows, classes) for classification, (rows, outputs) for regression
    """

    def __init__(
        self, network: CompactNetwork, preprocessing: Preprocessing, about: Sequence[str] = ()
    ):
        super().__init__()
        self.network = copy.deepcopy(network)
        self.preprocessing = preprocessing
        self.about = tuple(about)
        inputs, target = preprocessing.inputs, preprocessing.target
        self.mean: Tensor
        self.scale: Tensor
        self.output_mean: Tensor
        self.output_scale: Tensor
        self.sources: Tensor  # of what tells that a number is missing, its supplied column
        self.order: Tensor  # of the network's inputs: supplied columns, then what tells
        told = [*inputs.indicators]
        numbers = [place for place in range(len(inputs.mean)) if place not in inputs.indicators]
        self.register_buffer("sources", torch.tensor([*inputs.indicators.values()]).long())
        self.register_buffer("order", torch.tensor([*numbers, *told]).argsort())
        for name, values in (
            ("mean", inputs.mean),
            ("scale", inputs.scale),
            ("output_mean", target.mean),
            ("output_scale", target.scale),
        ):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        self._warn_of_coarse_columns()

    def _warn_of_coarse_columns(self) -> None:
        limits = torch.finfo(torch.float32)
        size = self.mean.abs() + 10 * self.scale
        coarse = (size * limits.eps > 1e-3 * self.scale) | (size > limits.max)
        large = self.output_mean.abs() + 10 * self.output_scale > limits.max
        inputs, target = self.preprocessing.inputs, self.preprocessing.target
        columns = [*zip(inputs.encoded_names, coarse.tolist(), strict=True)]
        columns += zip(target.names, large.tolist(), strict=False)  # classes have no scale
        if found := [name for name, is_coarse in columns if is_coarse]:
            warnings.warn(
                f"float32 is too coarse for {quoted(found, 3)}: the exported network answers less "
                "well than this one. Subtract a constant from such columns.",
                stacklevel=3,
            )

    def forward(self, input: Tensor) -> Tensor:
        values = input.double()
        if len(self.sources):
            told = values[:, self.sources].isnan().double()
            values = torch.cat([values, told], dim=1)[:, self.order]
        standard = (values - self.mean) / self.scale
        output = self.network(standard.masked_fill(values.isnan(), 0.0).float())
        task = self.preprocessing.target.task
        if task == "regression":
            return (output.double() * self.output_scale + self.output_mean).float()
        if task == "binary":
            return torch.cat([-output, output], dim=-1).sigmoid()
        return output.softmax(dim=-1)

    @property
    def example(self) -> Tensor:
        """Rows of supplied columns, (3, supplied): the mean, one scale above it, all missing."""
        is_supplied = self.order < len(self.order) - len(self.sources)
        mean, scale = self.mean[is_supplied], self.scale[is_supplied]
        return torch.stack([mean, mean + scale, torch.full_like(mean, torch.nan)]).float()

    @property
    def metadata(self) -> dict[str, str]:
        """What a file needs beside the network, as texts: lists are JSON."""
        target = self.preprocessing.target
        values = {
            "columns": self.preprocessing.inputs.supplied_names,
            "target": target.names,
            "task": target.task,
            "classes": target.classes,
            "version": f"torchsparcs {__version__}",
        }
        return {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in values.items()
        }


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
    module = with_zeros(copy.deepcopy(network).eval())
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
    model.graph.ClearField("value_info")  # of Gemm's weights as they lay before: quantisers stumble
    _clear_notes(model)
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
    write_atomically(Path(path), content)


def to_torch_export(
    network: nn.Module, path: str | Path, *, example: torch.Tensor | None = None
) -> None:
    """Write ``network`` as a ``torch.export`` program with a dynamic batch axis, a .pt2 file.

    PyTorch alone runs it: ``torch.export.load(path).module()``.

    Args:
        example: an input, (batch, ...); needed for chains and modules of others.
    """
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
