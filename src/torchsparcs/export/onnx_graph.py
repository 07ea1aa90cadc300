"""ONNX graphs made node by node, by hand or by what torch does to a tensor.

Tracing is for networks of few and plain operations, as this library makes them: it takes
milliseconds where torch's exporter takes seconds.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

OPSET, IR_VERSION = 17, 8
INNER = "sparcs\x1f/"  # how names inside of a graph begin, as none of a column does


class Graph:
    """Nodes and constants of a model that is being made."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The name of what ``operator`` makes of ``inputs``."""
        from onnx import helper

        name = f"{INNER}{operator}_{len(self.nodes)}"
        node = helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"{INNER}constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=kind), name))
        return name

    def cast(self, name: str, kind: torch.dtype) -> str:
        return self.add("Cast", name, to=onnx_kind(kind))

    def model(
        self, inputs: dict[str, tuple[Any, list]], output: str, name: str, columns: int
    ) -> Any:
        """The model that puts out ``output``, (rows, columns) in float32, under another ``name``.

        ``inputs`` have kinds and shapes.
        """
        from onnx import TensorProto, checker, helper

        nodes = [*self.nodes, helper.make_node("Identity", [output], [name], name="answer")]
        given = [helper.make_tensor_value_info(each, *how) for each, how in inputs.items()]
        answer = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", columns])
        domains = {"": OPSET} | {node.domain: 3 for node in nodes if node.domain}
        model = helper.make_model(
            helper.make_graph(nodes, "sparcs", given, [answer], self.constants),
            opset_imports=[helper.make_opsetid(*each) for each in domains.items()],
            ir_version=IR_VERSION,
        )
        checker.check_model(model, full_check=True)
        return model


def onnx_kind(kind: torch.dtype) -> int:
    """The number that ONNX has for a type."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(torch.empty(0, dtype=kind).numpy().dtype)


class Traced(Tensor):
    """A tensor that is a value of a graph as well: what is done to it is done there too.

    The first axis is that of the rows, of which there may be any number.
    """

    graph: Graph
    label: str  # that of the value in the graph

    @classmethod
    def of(cls, value: Tensor, graph: Graph, label: str) -> "Traced":
        traced = value.as_subclass(cls)
        traced.graph, traced.label = graph, label
        return traced

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        plain_args, plain_kwargs = tree_map(_untraced, (args, kwargs))
        result = func(*plain_args, **plain_kwargs)
        if not isinstance(result, Tensor):
            return result  # a shape, a type
        operator = func.__name__.strip("_")
        if operator not in OPERATORS:
            raise NotImplementedError(f"{operator} has no ONNX form here.")
        graph = next(each.graph for each in _flat(args, kwargs) if isinstance(each, Traced))
        return cls.of(result, graph, OPERATORS[operator](graph, *args, **kwargs))


def _untraced(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, Traced) else value


def _flat(args: tuple, kwargs: dict) -> list[Any]:
    values = [*args, *kwargs.values()]
    return [e for value in values for e in (value if isinstance(value, list | tuple) else [value])]


def _named(graph: Graph, value: Any, like: Tensor) -> str:
    """The name of a value; numbers and other tensors become constants of the type of ``like``."""
    if isinstance(value, Traced):
        return value.label
    values = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    return graph.constant(values, np.dtype(str(like.dtype).removeprefix("torch.")))


def _of_two(operator: str) -> Callable[..., str]:
    def added(graph: Graph, one: Any, other: Any) -> str:
        like = one if isinstance(one, Traced) else other
        return graph.add(operator, *(_named(graph, each, like) for each in (one, other)))

    return added


def _of_one(operator: str) -> Callable[..., str]:
    return lambda graph, value: graph.add(operator, value.label)


def _as(kind: torch.dtype) -> Callable[..., str]:
    return lambda graph, value: graph.cast(value.label, kind)


def _linear(graph: Graph, value: Traced, weight: Tensor, bias: Tensor | None = None) -> str:
    numbers = [_named(graph, each, value) for each in (weight, bias) if each is not None]
    return graph.add("Gemm", value.label, *numbers, transB=1)


def _gelu(graph: Graph, value: Traced) -> str:
    half, one, root = (_named(graph, each, value) for each in (0.5, 1.0, math.sqrt(0.5)))
    tail = graph.add("Add", graph.add("Erf", graph.add("Mul", value.label, root)), one)
    return graph.add("Mul", graph.add("Mul", value.label, half), tail)


def _gathered(graph: Graph, value: Any, places: Any, axis: int) -> str:
    return graph.add("Gather", value, graph.constant(places, np.int64), axis=axis)


def _item(graph: Graph, value: Traced, key: Any) -> str:
    """Columns: one of them, some, or a first few."""
    rows, columns = key
    if rows != slice(None):
        raise NotImplementedError("Rows are not chosen.")
    if isinstance(columns, slice):
        columns = [*range(value.shape[1])][columns]
    return _gathered(graph, value.label, columns, axis=1)


def _joined(graph: Graph, values: Any, dim: int) -> str:
    return graph.add("Concat", *(each.label for each in values), axis=dim)


def _either(graph: Graph, condition: Traced, one: Any, other: Any) -> str:
    like = one if isinstance(one, Traced) else other
    names = [_named(graph, each, like) for each in (one, other)]
    return graph.add("Where", condition.label, *names)


def _bounded(graph: Graph, value: Traced, low: Any, high: Any) -> str:
    least = graph.add("Max", value.label, _named(graph, low, value))
    return graph.add("Min", least, _named(graph, high, value))


OF_ONE = ("Neg", "Floor", "Sin", "Cos", "Tanh", "Sigmoid", "IsNaN")
OF_TWO = {
    "add": "Add",
    "radd": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "rmul": "Mul",
    "div": "Div",
    "truediv": "Div",
    "eq": "Equal",
    "le": "LessOrEqual",
    "ge": "GreaterOrEqual",
    "gt": "Greater",
}
# What is added to a graph for a function of torch, by its name; dates and networks need no others.
OPERATORS: dict[str, Callable[..., str]] = {
    **{operator.lower(): _of_one(operator) for operator in OF_ONE},
    **{name: _of_two(operator) for name, operator in OF_TWO.items()},
    "softmax": lambda graph, value, dim: graph.add("Softmax", value.label, axis=dim),
    "silu": lambda graph, value, inplace=False: graph.add(
        "Mul", value.label, graph.add("Sigmoid", value.label)
    ),
    "relu": lambda graph, value, inplace=False: graph.add("Relu", value.label),
    "gelu": _gelu,
    "float": _as(torch.float32),
    "double": _as(torch.float64),
    "long": _as(torch.int64),
    "linear": _linear,
    "index_select": lambda graph, value, dim, places: _gathered(
        graph, value.label, places, axis=value.dim() - 1 if dim == -1 else dim
    ),
    "embedding": lambda graph, places, table, **_: graph.add(
        "Gather", graph.constant(table.numpy(), np.float64), places.label, axis=0
    ),
    "getitem": _item,
    "unsqueeze": lambda graph, value, dim: graph.add(
        "Unsqueeze", value.label, graph.constant([dim], np.int64)
    ),
    "cat": _joined,
    "where": _either,
    "masked_fill": lambda graph, value, mask, fill: _either(graph, mask, fill, value),
    "clamp": _bounded,
}
