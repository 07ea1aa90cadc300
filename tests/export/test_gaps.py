"""A table with gaps, dates and text: the same answers from the result, the module and its files."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch

from torchsparcs import CompactNetwork, SearchConfig, load_result, search, to_onnx
from torchsparcs.command import main
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.writing import to_torch_export
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 300


def gappy(seed=0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": draw.normal(size=ROWS),
            "b": draw.normal(5, 2, ROWS),
            "city": draw.choice(["Rome", "Oslo", "Bern"], ROWS),
            "day": pd.date_range("2023-01-01", periods=ROWS, freq="31h"),
            "c": draw.normal(size=ROWS),
        }
    )
    for name in ("a", "city", "day"):
        table.loc[draw.random(ROWS) < 0.2, name] = None
    return table


@pytest.fixture(scope="module")
def deployed() -> DeployedNetwork:
    """With every input of a network that is made up."""
    table = gappy()
    preprocessing = Preprocessing(Inputs.fit(table), Target.fit(np.arange(ROWS) % 3))
    torch.manual_seed(0)
    width = len(preprocessing.inputs.encoded_names)
    network = CompactNetwork([width, 5, 3], [(1, 0), (2, 1), (2, 0)])
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return DeployedNetwork(network, preprocessing)


def test_nan_goes_in_and_the_same_comes_out(deployed, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs, table = deployed.preprocessing.inputs, gappy(1)
    table.loc[::7, "c"] = np.nan  # where none was missing
    with pytest.warns(UserWarning, match="of 'c'"):
        standard, encoded = inputs.transform(table), inputs.encode(table).astype(np.float32)
    with torch.no_grad():
        expected = deployed.preprocessing.target.probabilities(deployed.network(standard))
    assert np.isnan(encoded).any()
    to_onnx(deployed, tmp_path / "t.onnx", encoded=True)
    session = onnxruntime.InferenceSession(tmp_path / "t.onnx")
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert columns == [*inputs.supplied_names]
    assert "a is missing" not in columns
    assert "city is missing" in columns
    (said,) = session.run(None, {"input": encoded})
    np.testing.assert_allclose(said, expected, rtol=1e-4, atol=1e-4)
    to_torch_export(deployed, tmp_path / "t.pt2")
    program = torch.export.load(tmp_path / "t.pt2").module()
    np.testing.assert_allclose(
        program(torch.from_numpy(encoded)).detach(), expected, rtol=1e-4, atol=1e-4
    )


def test_from_a_file_to_predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, config = gappy(), SearchConfig(steps=30, longest=30, path=2, ways=("asleep",))
    y = table["a"].fillna(3) + 2 * (table["city"] == "Rome")
    y[:4] = np.nan
    with pytest.warns(UserWarning, match="missing in 4 of 300 rows"):
        result = search(table, y, widths=(8,), config=config, validation=2, progress=False)
    assert result.score(table[4:], y[4:], "best") > 0.9
    result = dataclasses.replace(result, settings={**result.settings, "pick": "best"})
    result.save("run")
    again = load_result("run")
    assert again.preprocessing == result.preprocessing
    shuffled = gappy(2)[["day", "c", "city", "a", "b"]].assign(more=1)
    shuffled.to_csv("new.csv", index=False)
    with pytest.raises(SystemExit):
        main(["predict", "run", "new.csv", "-o", "said.csv"])
    said = pd.read_csv("said.csv")["prediction"]
    np.testing.assert_allclose(said, again.predict(shuffled, "best"), rtol=1e-5)
