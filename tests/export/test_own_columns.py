"""ONNX that takes a table's own columns: text, dates, orders and gaps, with onnxruntime alone."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from torchsparcs import CompactNetwork, to_onnx
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

onnxruntime = pytest.importorskip("onnxruntime")
ROWS = 240


def mixed(seed=0) -> pd.DataFrame:
    """A column of each kind, most of them with gaps."""
    draw = np.random.default_rng(seed)
    cities = np.array([f"città {letter}" for letter in "abcdefghijklmnopqrstuvwxyzäöüßçéèñø"])
    table = pd.DataFrame(
        {
            "output": draw.normal(1.7e9, 30, ROWS),  # a name that is taken, and far from zero
            "input": draw.integers(0, 9, ROWS),
            "city": draw.choice(cities, ROWS, p=np.r_[[0.2] * 3, [0.4 / 32] * 32]),
            "soil": draw.choice(["clay", "sand"], ROWS),
            "grade": draw.choice(["bad", "fair", "good"], ROWS),
            "born": pd.date_range("1999-12-30", periods=ROWS, freq="31h"),
            "flag": [None, 1.0] * (ROWS // 2),
            "planet": "Earth",
            "yes": draw.random(ROWS) < 0.5,
        }
    )
    for name in ("output", "city", "grade", "born"):
        table.loc[draw.random(ROWS) < 0.1, name] = None
    return table


def deployed(reads=None, y=None) -> DeployedNetwork:
    """A network that is made up, of all inputs or those at ``reads``."""
    inputs = Inputs.fit(mixed(), kinds={"grade": ["bad", "fair", "good"]})
    target = Target.fit(np.arange(ROWS) % 3 if y is None else y)
    width = len(inputs.encoded_names if reads is None else reads)
    torch.manual_seed(0)
    whole = len(inputs.encoded_names)
    network = CompactNetwork([whole, 5, target.outputs], [(1, 0), (2, 1), (2, 0)], reads=reads)
    assert network.inputs_read == width
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return DeployedNetwork(network, Preprocessing(inputs, target))


def given(session, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """What the how-to says that a session takes."""
    kinds = json.loads(session.get_modelmeta().custom_metadata_map["kinds"])
    feed = {}
    for name, kind in kinds.items():
        column = table[name]
        if kind in ("text", "ordered"):
            texts = [str(x).removesuffix(".0") if x == x and x is not None else "" for x in column]
            feed[name] = np.array(texts, dtype=object)
        elif kind == "date":
            days = (column - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
            feed[name] = days.to_numpy(np.float64)
        else:
            feed[name] = column.to_numpy(np.float64)
    return feed


@pytest.mark.parametrize("is_regression", [False, True])
@pytest.mark.filterwarnings("ignore:Categories that were not seen", "ignore:Missing values where")
def test_every_kind_of_column_goes_in_as_it_is(tmp_path, is_regression):
    module = deployed(y=np.linspace(1e5, 2e5, ROWS) if is_regression else None)
    to_onnx(module, tmp_path / "t.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "t.onnx")
    table = mixed(1)
    table.loc[::5, "city"], table.loc[::7, "soil"] = "never seen", None
    table.loc[::9, "grade"] = "worst"
    (got,) = session.run(None, given(session, table))
    inputs, target = module.preprocessing.inputs, module.preprocessing.target
    with torch.no_grad():
        output = module.network(inputs.transform(table))
    expected = target.predict(output)[:, None] if is_regression else target.probabilities(output)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert len(np.unique(got[:, 0])) > ROWS / 4  # of numbers, many end at the bounds
    assert [each.name for each in session.get_outputs()] == ["output_"]
    (one,) = session.run(None, {name: rows[:1] for name, rows in given(session, table).items()})
    np.testing.assert_allclose(one, got[:1], rtol=1e-5)


def test_only_columns_that_are_read_go_in(tmp_path):
    names = deployed().preprocessing.inputs.encoded_names
    module = deployed([names.index("input"), names.index("born: hour")])
    to_onnx(module, tmp_path / "t.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "t.onnx")
    types = {each.name: (each.type, each.shape) for each in session.get_inputs()}
    assert types == dict.fromkeys(("input", "born"), ("tensor(double)", ["rows"]))
    table = mixed(2)
    (got,) = session.run(None, given(session, table))
    with torch.no_grad():
        output = module.network(module.preprocessing.inputs.transform(table, module.network.reads))
    expected = module.preprocessing.target.probabilities(output)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_column_may_be_called_like_a_part_of_the_model(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)))
    frame.columns = ["constant_0", "Unsqueeze_0", "Concat_3"]
    inputs, target = Inputs.fit(frame), Target.fit(frame["Concat_3"] * 2 + 1)
    module = DeployedNetwork(CompactNetwork([3, 1], [(1, 0)]), Preprocessing(inputs, target))
    to_onnx(module, tmp_path / "t.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "t.onnx")
    assert [each.name for each in session.get_inputs()] == [*frame]


def test_encoded_columns_are_those_of_a_deployed_network(tmp_path):
    with pytest.raises(ValueError, match=r"a deployed network where .* Got CompactNetwork"):
        to_onnx(CompactNetwork([2, 1], [(1, 0)]), tmp_path / "t.onnx", encoded=True)
