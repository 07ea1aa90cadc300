"""Networks of int8 as ONNX: the answers of the whole numbers, but for the rounding of sums."""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

from torchsparcs import CompactNetwork, quantize, to_onnx
from torchsparcs.export import onnx_int8
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 200


def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    found = pd.DataFrame(draw.normal(size=(ROWS, 3)), columns=[*"abc"])
    found.loc[draw.random(ROWS) < 0.2, "a"] = None
    return found.assign(city=draw.choice(["Rome", "Oslo", "Bern"], ROWS))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_it_answers_as_the_whole_numbers_do(kind, tmp_path):
    torch.manual_seed(0)
    y = {"binary": np.arange(ROWS) % 2, "multiclass": np.arange(ROWS) % 3}.get(
        kind, np.linspace(0, 9, ROWS) ** 2 + 0.5
    )
    preprocessing = Preprocessing(Inputs.fit(table()), Target.fit(y))
    widths = [len(preprocessing.inputs.encoded_names), 6, 5, preprocessing.target.outputs]
    network = CompactNetwork(widths, [(1, 0), (2, 1), (3, 2), (3, 0)])
    small = quantize(DeployedNetwork(network, preprocessing), table())
    to_onnx(small, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    rows = small.program.rows(table())
    rows[0] = np.inf
    rows[1, small.program.coded] = 99
    (got,) = session.run(None, {"input": rows})
    raw = torch.from_numpy(small.answers(rows))
    both = torch.cat([-raw, raw], dim=1)
    answers = {"binary": both.sigmoid(), "multiclass": raw.softmax(dim=1)}.get(kind, raw).numpy()
    np.testing.assert_allclose(got, answers, atol=0.01 * np.ptp(answers))
    assert np.median(abs(got - answers)) < 1e-4 * np.ptp(answers)
    model = onnx.load(tmp_path / "model.onnx")
    about = {each.key: json.loads(each.value) for each in model.metadata_props}
    assert about["task"] == kind
    assert about["columns"] == [field.name for field in small.program.fields]
    weights = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert {tuple(t.dims) for t in weights} >= {(6, widths[0]), (5, widths[0] + 6)}


def test_a_model_that_says_something_else_is_not_written(monkeypatch, tmp_path):
    network = quantize(CompactNetwork([3, 4, 1], [(1, 0), (2, 1)]), torch.randn(50, 3))
    honest = onnx_int8._heard
    monkeypatch.setattr(
        onnx_int8, "_heard", lambda graph, *a, **k: graph.add("Neg", honest(graph, *a, **k))
    )
    with pytest.raises(RuntimeError, match=r"something else.*Nothing was written"):
        to_onnx(network, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
