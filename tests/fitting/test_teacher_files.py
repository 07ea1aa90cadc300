"""ONNX files as teachers that take something else than the table has: they are told."""

import numpy as np
import onnx
import pandas as pd
import pytest

from torchsparcs import SearchConfig, search
from torchsparcs.fitting.teachers import Teacher
from torchsparcs.tables.target import Target

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
Y = np.where(FRAME["a"] > 0, "up", "down")
FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8


def file_of(folder, kind, **shapes):
    """A file with inputs of a ``kind``, by their names, that says how far the first one is up."""
    first = next(iter(shapes))
    given = [
        onnx.helper.make_tensor_value_info(name, kind, [None, width])
        for name, width in shapes.items()
    ]
    said = onnx.helper.make_tensor_value_info("chance", FLOAT, [None, 1])
    nodes = [
        onnx.helper.make_node("Cast", [first], ["number"], to=FLOAT),
        onnx.helper.make_node("ReduceMax", ["number"], ["most"], axes=[1]),
        onnx.helper.make_node("Sigmoid", ["most"], ["chance"]),
    ]
    graph = onnx.helper.make_graph(nodes, "other", given, [said])
    opset = [onnx.helper.make_opsetid("", 13)]
    path = folder / "other.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        (FLOAT, {"rows": 3}, "it takes 3 columns, the table has 2"),
        (FLOAT, {"a": 1, "z": 1}, "it takes 'z', which is no column of the table"),
        (UINT8, {"rows": 2}, r"it takes tensor\(uint8\) as 'rows'"),
        (UINT8, {"a": 1, "b": 1}, r"it takes tensor\(uint8\) as 'a'"),
    ],
)
def test_other_inputs_are_told_before_anything_is_done(tmp_path, kind, inputs, words):
    path, quick = file_of(tmp_path, kind, **inputs), SearchConfig(steps=20)
    with pytest.raises(ValueError, match=rf"table: other\.onnx ended with ValueError: {words}$"):
        search(FRAME, Y, teacher=path, config=quick, progress=False)


@pytest.mark.parametrize("inputs", [{"rows": 2}, {"rows": None}, {"a": 1, "b": 1}])
def test_inputs_that_fit_are_taken(tmp_path, inputs):
    said = Teacher(file_of(tmp_path, FLOAT, **inputs), Target.fit(Y)).answers(FRAME)[:, 0]
    first = FRAME["a"] if "a" in inputs else FRAME.max(axis=1)
    np.testing.assert_allclose(said, 1 / (1 + np.exp(-first)), rtol=1e-5)
