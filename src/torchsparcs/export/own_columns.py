"""A deployed network that takes a table's own columns: numbers, text and dates, some missing."""

import json
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.onnx_graph import Graph
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
                parts.append(F.embedding(values.long(), self.get_buffer(f"numbers{place}")))
        absent = input[:, :1] * torch.nan
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

    @property
    def interface(self) -> dict[str, tuple[int, list[str]]]:
        """The inputs of an ONNX model, called as the columns are, (rows,): text, else float64."""
        from onnx import TensorProto

        kinds = {True: TensorProto.STRING, False: TensorProto.DOUBLE}
        return {column.name: (kinds[column.name in self.texts], [ROWS]) for column in self.columns}

    @property
    def output_name(self) -> str:
        """``output``, or ``output_`` where a column is called so."""
        name = "output"
        while name in self.interface:
            name += "_"
        return name

    def matrix(self, graph: Graph) -> str:
        """What :meth:`forward` takes, made in ``graph`` of the columns."""
        axis = graph.constant([1], np.int64)
        values = [
            self._coded(graph, column) if column.name in self.texts else column.name
            for column in self.columns
        ]
        return graph.add("Concat", *(graph.add("Unsqueeze", v, axis) for v in values), axis=1)

    def _coded(self, graph: Graph, column: Column) -> str:
        texts = self.texts[column.name]
        code = graph.add(
            "LabelEncoder",
            column.name,
            domain="ai.onnx.ml",
            keys_strings=[*texts.codes],
            values_int64s=[*texts.codes.values()],
            default_int64=len(texts.keys),
        )
        return graph.cast(code, torch.float64)


def _supplied(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """What columns supply, each by the name of its column and its place there."""
    return [(column.name, i) for column in columns for i in range(len(column.supplied_names))]
