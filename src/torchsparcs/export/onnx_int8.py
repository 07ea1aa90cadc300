"""Networks of int8 as ONNX: quantised and dequantised values around plain layers (QDQ).

The model takes one matrix ``input`` (rows, fields), float32, as the generated C does: its metadata
name the fields and the texts of codes. Bytes are made by QuantizeLinear, weights are int8 with the
scale of their neuron, and runtimes that know int8 may compute with whole numbers.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from torchsparcs.export.onnx_graph import Graph
from torchsparcs.export.program import Field, Program
from torchsparcs.export.quantization import QuantizedLayer, QuantizedNetwork
from torchsparcs.files.atomic import write_atomically
from torchsparcs.version import __version__

BYTES_OFF = 2  # that rounding may move a hidden byte, as sums are floats here


def to_onnx_int8(network: QuantizedNetwork, path: str | Path) -> None:
    """Write ``network`` as an ONNX model in QDQ form, checked with onnxruntime.

    Its ``output`` (rows, outputs) is what the C puts out, but for the rounding of sums: of classes
    their probabilities, of a regression its values.
    """
    try:
        import onnxruntime
        from onnx import TensorProto
    except ImportError as error:
        raise ImportError(
            "Exporting needs onnx and onnxruntime: pip install 'torchsparcs[onnx]'."
        ) from error
    program, graph = network.program, Graph()
    outputs = _layers(network, graph, _bytes(network, graph))
    answer = _answer(program, graph, outputs)
    model = graph.model(
        {"input": (TensorProto.FLOAT, ["rows", _width(program)])},
        answer,
        "output",
        len(program.classes) or program.outputs,
    )
    for name, value in _metadata(program).items():
        model.metadata_props.add(key=name, value=json.dumps(value, ensure_ascii=False))
    content = model.SerializeToString()
    _check(network, onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]))
    write_atomically(Path(path), content)


def _width(program: Program) -> int:
    return len(program.fields)


def _metadata(program: Program) -> dict[str, Any]:
    return {
        "columns": [field.name for field in program.fields],
        "texts": {str(i): field.texts for i, field in enumerate(program.fields) if field.texts},
        "target": [] if program.target is None else [*program.target.names],
        "task": program.task,
        "classes": [*program.classes],
        "version": f"torchsparcs {__version__}",
    }


def _bytes(network: QuantizedNetwork, graph: Graph) -> str:
    """The bytes of all features, as floats (rows, features)."""
    program, inputs = network.program, network.inputs
    parts = []
    if program.numbers:
        places = graph.constant([number.field for number in program.numbers], np.int64)
        x = graph.add("Gather", "input", places, axis=1)
        is_missing = _is_missing(graph, x)
        middles = graph.constant(inputs.middles[None])
        there = graph.add("Where", is_missing, middles, x)
        steps = graph.constant(1 / inputs.inverses.astype(np.float64))
        scaled = graph.add("Sub", there, middles)
        known = _as_byte(graph, scaled, steps, np.zeros(len(program.numbers)))
        known = graph.add("Max", known, graph.constant(-127))
        fills = graph.constant(inputs.fills[None])
        parts.append(graph.add("Where", is_missing, fills, known))
    ones = [_is_missing(graph, _column(graph, told.field)) for told in program.indicators]
    chosen = {place: _chosen(graph, program.fields[place], place) for place in program.coded}
    for field, level in program.levels:
        ones.append(graph.add("Equal", chosen[field], graph.constant(level)))
    floats = [graph.add("Cast", one, to=1) for one in ones]
    parts += [graph.add("Mul", one, graph.constant(127)) for one in floats]
    return graph.add("Concat", *parts, axis=1)


def _column(graph: Graph, place: int) -> str:
    return graph.add("Gather", "input", graph.constant([place], np.int64), axis=1)


def _is_missing(graph: Graph, x: str) -> str:
    return graph.add("Or", graph.add("IsNaN", x), graph.add("IsInf", x))


def _chosen(graph: Graph, field: Field, place: int) -> str:
    """The level that a code chooses, -1 for none, (rows, 1)."""
    x = _column(graph, place)
    is_whole = graph.add("Equal", x, graph.add("Floor", x))
    is_below = graph.add("Less", x, graph.constant(len(field.texts)))
    is_known = graph.add("And", graph.add("GreaterOrEqual", x, graph.constant(0)), is_below)
    known = graph.add("Where", graph.add("And", is_whole, is_known), x, graph.constant(field.other))
    return graph.add("Where", _is_missing(graph, x), graph.constant(field.missing), known)


def _as_byte(graph: Graph, x: str, steps: str, zeros: np.ndarray) -> str:
    """``x`` (rows, n) in ``steps`` (n,), rounded into a byte, which is again a float."""
    zero = graph.constant(zeros, np.int8)
    q = graph.add("QuantizeLinear", x, steps, zero, axis=1)
    one, none = graph.constant(np.ones(len(zeros))), graph.constant(np.zeros(len(zeros)), np.int8)
    return graph.add("DequantizeLinear", q, one, none, axis=1)


def _layers(network: QuantizedNetwork, graph: Graph, sources: str) -> str:
    """What the last layer puts out, (rows, outputs)."""
    for layer in network.layers[:-1]:
        heard = _heard(graph, layer, sources, width=_sources(network, layer))
        active = graph.add("Relu", heard)
        exact = layer.scales * 2.0 ** (layer.first + layer.shift) / layer.factors
        bytes_ = _as_byte(graph, active, graph.constant(exact), np.full(len(layer.bias), -128))
        sources = graph.add("Concat", sources, bytes_, axis=1)
    last = network.layers[-1]
    return _heard(graph, last, sources, width=_sources(network, last))


def _sources(network: QuantizedNetwork, layer: QuantizedLayer) -> int:
    place = next(i for i, each in enumerate(network.layers) if each is layer)
    return network.program.starts[place]


def _heard(graph: Graph, layer: QuantizedLayer, sources: str, *, width: int) -> str:
    """What the neurons hear: whole weights and biases, times the scale of each neuron."""
    neurons = len(layer.bias)
    whole = np.zeros((neurons, width), dtype=np.int8)
    for block in layer.blocks:
        whole[:, block.first : block.last] = block.weights
    scales = np.broadcast_to(layer.scales, neurons)
    scale, none = graph.constant(scales), graph.constant(np.zeros(neurons), np.int8)
    weights = graph.add("DequantizeLinear", graph.constant(whole, np.int8), scale, none, axis=0)
    bias = graph.constant(layer.bias, np.int32)
    offset = graph.add("DequantizeLinear", bias, scale, axis=0)
    return graph.add("Gemm", sources, weights, offset, transB=1)


def _answer(program: Program, graph: Graph, outputs: str) -> str:
    if program.task == "regression":
        return outputs
    if program.task == "binary":
        both = graph.add("Concat", graph.add("Neg", outputs), outputs, axis=1)
        return graph.add("Sigmoid", both)
    return graph.add("Softmax", outputs, axis=1)


def _check(network: QuantizedNetwork, session: Any) -> None:
    """A RuntimeError unless the model answers as the whole numbers do, over all their range."""
    program, inputs = network.program, network.inputs
    draw = np.random.default_rng(0)
    rows = np.zeros((64, len(program.fields)), dtype=np.float32)
    for place, number in enumerate(program.numbers):
        reach = 140 / inputs.inverses[place]
        rows[:, number.field] = inputs.middles[place] + draw.uniform(-reach, reach, len(rows))
    for place in program.coded:
        rows[:, place] = draw.integers(-1, len(program.fields[place].texts) + 1, len(rows))
    rows[draw.random(rows.shape) < 0.05] = np.nan
    (got,) = session.run(None, {"input": rows})
    raw = network.answers(rows)
    expected, room = (
        _answered(program, raw),
        BYTES_OFF * 127 * float(network.layers[-1].scales.max()),
    )
    slack = room if program.task == "regression" else max(room, 1e-5)
    if not np.allclose(got, expected, rtol=1e-4, atol=slack + 1e-5 * np.abs(raw).max()):
        raise RuntimeError(
            "The ONNX model computes something else than the network of int8: they differ by "
            f"{abs(got - expected).max()}. Nothing was written."
        )


def _answered(program: Program, raw: np.ndarray) -> np.ndarray:
    """Probabilities of classes, or the values themselves, of what a network puts out."""
    if program.task == "regression":
        return raw
    if program.task == "binary":
        return 1 / (1 + np.exp(-np.hstack([-raw, raw])))
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
