"""A deployed network that takes a table's own columns: numbers, text and dates, some missing."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.tables.dates import PARTS
from torchsparcs.tables.encoding import KINDS, Column
from torchsparcs.tables.entries import number

UNSEEN = "\0"  # a text that no column has
ROWS = "rows"


class TextCodes:
    """The texts of a column that mean something, and the numbers that each of them becomes.

    The code of a text is its place among ``keys``, that of any other text their number, and that
    of a missing one, the empty text, one more.

    Shape:
        - numbers (keys + 2, supplied)
    """

    def __init__(self, column: Column):
        own = column.categories or ()
        only = number(own[0]) if len(own) == 1 else None
        self.keys = (*own, *([str(only)] if only is not None and str(only) not in own else []))
        entries = np.array([*self.keys, UNSEEN, None], dtype=object)
        self.numbers = torch.from_numpy(KINDS[column.kind].encode(column, entries).values)

    @property
    def codes(self) -> dict[str, int]:
        """The code of each text, the empty one included."""
        return {"": len(self.keys) + 1} | {key: code for code, key in enumerate(self.keys)}


class ColumnNetwork(nn.Module):
    """From a table's own columns, as one matrix, to the answers of a :class:`DeployedNetwork`.

    Only columns that the network reads are there: numbers as they are, dates as days since
    2000-01-01 00:00, of texts the codes of :class:`TextCodes`; NaN for a missing number or date.

    Shape:
        - input (rows, columns), float64
        - output as that of the deployed network
    """

    def __init__(self, deployed: DeployedNetwork):
        super().__init__()
        self.deployed = deployed
        inputs = deployed.preprocessing.inputs
        self.columns = inputs.columns_read(deployed.network.reads)
        self.texts = {c.name: TextCodes(c) for c in self.columns if c.kind in ("text", "ordered")}
        for place, column in enumerate(self.columns):
            if column.name in self.texts:
                self.register_buffer(f"numbers{place}", self.texts[column.name].numbers)
        plain = [place for place, column in enumerate(self.columns) if column.kind == "number"]
        ours = [self.columns[place] for place in plain]
        ours += [column for column in self.columns if column.kind != "number"]
        order = {each: i for i, each in enumerate(_supplied(ours))}
        places = [order.get(each, len(order)) for each in _supplied(inputs.columns)]
        self.plain: Tensor  # the columns of numbers, which come first
        self.places: Tensor  # of what the deployed network takes; behind all of ours is a NaN
        self.register_buffer("plain", torch.tensor(plain).long())
        self.register_buffer("places", torch.tensor(places))

    def forward(self, input: Tensor) -> Tensor:
        parts = [input[:, self.plain]]
        for place, column in enumerate(self.columns):
            if column.kind == "number":
                continue
            values = input[:, place]
            if column.kind == "date":
                parts += [PARTS[part](values).unsqueeze(1) for part in column.categories or ()]
            else:
                parts.append(self.get_buffer(f"numbers{place}")[values.long()])
        absent = torch.full_like(input[:, :1], torch.nan)
        return self.deployed(torch.cat([*parts, absent], dim=1)[:, self.places])

    @property
    def example(self) -> Tensor:
        """Rows of columns, (3, columns): the mean or the first text, others, and all missing."""
        inputs, columns = self.deployed.preprocessing.inputs, []
        first = dict(zip(inputs.encoded_names, range(len(inputs.mean)), strict=True))
        for column in self.columns:
            if column.name in self.texts:
                keys = len(self.texts[column.name].keys)
                columns.append([0.0, keys - 1.0, keys + 1.0])
                continue
            place = first[column.supplied_names[0]]
            mean, scale = inputs.mean[place], inputs.scale[place]
            columns.append([mean, mean + scale, np.nan])
        return torch.tensor(columns, dtype=torch.float64).T.contiguous()

    def feed(self, rows: Tensor) -> dict[str, np.ndarray]:
        """What an ONNX session takes, by the names of the columns, for a matrix of ``rows``."""
        given = {}
        for place, column in enumerate(self.columns):
            values = rows[:, place].cpu().numpy()
            if column.name in self.texts:
                text = {code: key for key, code in self.texts[column.name].codes.items()}
                values = np.array([text[int(code)] for code in values], dtype=object)
            given[column.name] = values
        return given

    @property
    def metadata(self) -> dict[str, str]:
        """That of the deployed network, with the columns and their kinds."""
        kinds = {column.name: column.kind for column in self.columns}
        columns = {"columns": [*kinds], "kinds": kinds}
        texts = {name: json.dumps(value, ensure_ascii=False) for name, value in columns.items()}
        return self.deployed.metadata | texts

    def with_columns(self, model: Any) -> Any:
        """``model``, the ONNX form of this network, with an input for each column.

        They are called as the columns are and have the shape (rows,): text is text, all else
        float64. The output is called ``output``, or ``output_`` where a column is called so.
        """
        from onnx import TensorProto, compose, helper

        model = compose.add_prefix(model, "network/")
        graph = model.graph
        (inner,), (outer,) = list(graph.input), list(graph.output)
        nodes, given, parts = [], [], []
        axis = helper.make_tensor("columns/axis", TensorProto.INT64, [1], [1])
        for place, column in enumerate(self.columns):
            is_text = column.name in self.texts
            kind = TensorProto.STRING if is_text else TensorProto.DOUBLE
            given.append(helper.make_tensor_value_info(column.name, kind, [ROWS]))
            value = column.name
            if is_text:
                nodes += self._label_nodes(column, f"columns/{place}")
                value = f"columns/{place}/number"
            parts.append(f"columns/{place}/column")
            nodes.append(helper.make_node("Unsqueeze", [value, axis.name], parts[-1:]))
        nodes.append(helper.make_node("Concat", parts, [inner.name], axis=1))
        name = _free("output", [column.name for column in self.columns])
        nodes += [*graph.node, helper.make_node("Identity", [outer.name], [name])]
        shape = [ROWS, outer.type.tensor_type.shape.dim[1].dim_value]
        answer = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        whole = helper.make_graph(nodes, "sparcs", given, [answer], [*graph.initializer, axis])
        domains = [*model.opset_import, helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(whole, opset_imports=domains, ir_version=model.ir_version)

    def _label_nodes(self, column: Column, name: str) -> list[Any]:
        from onnx import TensorProto, helper

        codes, count = self.texts[column.name].codes, len(self.texts[column.name].keys)
        label = helper.make_node(
            "LabelEncoder",
            [column.name],
            [f"{name}/code"],
            domain="ai.onnx.ml",
            keys_strings=[*codes],
            values_int64s=[*codes.values()],
            default_int64=count,
        )
        cast = helper.make_node("Cast", [f"{name}/code"], [f"{name}/number"], to=TensorProto.DOUBLE)
        return [label, cast]


def _supplied(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """What columns supply, each by the name of its column and its place there."""
    return [(column.name, i) for column in columns for i in range(len(column.supplied_names))]


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
