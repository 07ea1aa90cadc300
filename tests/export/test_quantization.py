"""Networks of int8: the same bits in C as here, and close to the network in float."""

import numpy as np
import pandas as pd
import pytest
import torch
from generated import compiled, has, run_c
from simulated import SIMULATORS, needs, run_on
from torch import nn

from torchsparcs import CompactNetwork, QuantizedNetwork, quantize, to_c
from torchsparcs.export import quantization
from torchsparcs.export.blocks import Block
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

ROWS = 300


def table(seed=0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "city": draw.choice(["Rome", "Oslo", "Bern"], ROWS),
            "a": draw.normal(size=ROWS),
            "b": draw.normal(500, 20, ROWS),
            "c": draw.exponential(3, ROWS),
        }
    )
    found.loc[draw.random(ROWS) < 0.2, "a"] = None
    return found


def deployed(y, hidden=(8, 6)) -> DeployedNetwork:
    preprocessing = Preprocessing(Inputs.fit(table()), Target.fit(y))
    widths = [len(preprocessing.inputs.encoded_names), *hidden, preprocessing.target.outputs]
    pairs = [(t, t - 1) for t in range(1, len(widths))] + [(len(widths) - 1, 0)] * bool(hidden)
    return DeployedNetwork(CompactNetwork(widths, pairs), preprocessing)


def labels() -> np.ndarray:
    return np.array(["low", "mid", "high"])[np.digitize(table()["c"], [1, 3])]


@pytest.fixture(scope="module")
def networks() -> dict[str, QuantizedNetwork]:
    torch.manual_seed(0)
    bare = CompactNetwork([30, 12, 2], [(1, 0), (2, 1)])
    nn.init.sparse_(bare.block(1, 0).weight, 0.9, std=0.5)
    return {
        "classes": quantize(deployed(labels()), table()),
        "value": quantize(deployed(table()["b"] * 7), table()),
        "line": quantize(deployed(labels(), hidden=()), table()),
        "bare": quantize(bare, torch.randn(ROWS, 30)),
        "dense": quantize(CompactNetwork([30, 24, 9], [(1, 0), (2, 1)]), torch.randn(ROWS, 30)),
    }


def given(name: str, network: QuantizedNetwork) -> np.ndarray:
    """Rows as the code takes them: as they were, missing, infinite, far beyond, and no codes."""
    X = torch.randn(ROWS, 30) if name in ("bare", "dense") else table(1)
    rows = network.program.rows(X)
    draw = np.random.default_rng(2)
    for value in (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e4, 0.5):
        rows[draw.random(rows.shape) < 0.03] = value
    bits = draw.integers(0, 2**32, rows.shape, dtype=np.uint32).view(np.float32)
    return np.concatenate([rows, np.where(np.isnan(bits), np.float32(np.nan), bits)])


@pytest.mark.skipif(not has("gcc"), reason="no gcc")
def test_c_computes_the_same_bits(networks, tmp_path):
    for name, network in networks.items():
        to_c(network, tmp_path / f"{name}.h")
    to_c(networks["value"], tmp_path / "soft.h")  # as on chips without floats
    text = (tmp_path / "soft.h").read_text()
    (tmp_path / "soft.h").write_text(f"#define SOFT_WITHOUT_FLOATS\n{text}")
    host = compiled(tmp_path, [*networks, "soft"])
    for name, network in networks.items():
        rows = given(name, network)
        got = run_c(host, name, rows)[:, : network.program.outputs]
        np.testing.assert_array_equal(got.astype(np.float32), network.answers(rows), name)
        if name == "value":
            soft = run_c(host, "soft", rows)[:, :1]
            np.testing.assert_allclose(soft, got, rtol=2.0**-22)
            assert (soft != got).any()
    text = (tmp_path / "classes.h").read_text()
    assert "A number beyond the range that int8 was fitted to counts as its end." in text
    assert "static const uint8_t classes_model[]" in text  # all of it, for one loop
    assert "classes_weights" not in text
    assert "static const int8_t dense_weights_1_0[]" in (tmp_path / "dense.h").read_text()


@pytest.mark.parametrize("chip", SIMULATORS)
def test_chips_compute_them_too(chip, networks, tmp_path):
    """Of values the last bit may differ where no floating-point unit is."""
    needs(chip)
    for name, network in networks.items():
        to_c(network, tmp_path / f"{name}.h")
        rows, outputs = given(name, network)[::40], network.program.outputs
        got, expected = run_on(chip, tmp_path, name, rows)[:, :outputs], network.answers(rows)
        near = 0 if network.program.classes or chip == "cortex-m4" else 2.0**-22
        np.testing.assert_allclose(got, expected, rtol=near, err_msg=name)


def test_it_is_close_to_the_network():
    torch.manual_seed(0)
    float_network = deployed(labels())
    inputs = float_network.preprocessing.inputs
    network, other = quantize(float_network, table()), table(1)
    with torch.no_grad():
        expected = float_network.network(inputs.transform(other)).numpy()
    error = np.sqrt(((network.outputs(other) - expected) ** 2).mean() / expected.var())
    assert 1e-4 < error < 0.02
    value = deployed(table()["b"] * 7, hidden=())
    outputs = quantize(value, table()).outputs(other)[:, 0]
    with torch.no_grad():
        raw = value.network(inputs.transform(other))
    expected = value.preprocessing.target.predict(raw)
    assert abs(outputs - expected).max() < 0.02 * np.ptp(expected)


def test_the_rounding_is_repaired(monkeypatch):
    """What is left of a weight goes to others: closer than each rounded by itself."""

    def error() -> float:
        found = []
        for seed in range(3):
            torch.manual_seed(seed)
            network = CompactNetwork([20, 16, 16, 4], [(1, 0), (2, 1), (3, 2)])
            rows = torch.randn(400, 20) @ torch.randn(20, 20)
            away = quantize(network, rows[:200]).outputs(rows[200:])
            found.append(np.abs(away - network(rows[200:]).detach().numpy()).mean())
        return np.mean(found)

    repaired = error()

    def forget(weights, precision, gone):
        weights[:, gone] = 0

    monkeypatch.setattr(quantization, "remove_sources_", forget)
    assert repaired < 0.9 * error()


def test_the_score_is_that_of_its_answers(networks):
    network, y = networks["classes"], labels()
    answers = np.array(["high", "low", "mid"])[network.outputs(table()).argmax(axis=1)]
    assert network.score(table(), y) == pytest.approx((answers == y).mean())
    value, b = networks["value"], table()["b"] * 7
    left = ((value.outputs(table())[:, 0] - b) ** 2).mean() / b.var(ddof=0)
    assert value.score(table(), b) == pytest.approx(1 - left, rel=1e-3)


def test_columns_of_one_value_or_none_have_a_range():
    rows = torch.zeros(5, 3)
    rows[:, 0] = torch.arange(5)
    rows[:, 1] = 7
    network = CompactNetwork([3, 2], [(1, 0)])
    expected = network(rows).detach().numpy()
    np.testing.assert_allclose(quantize(network, rows).outputs(rows), expected, atol=0.1)
    tiny = quantize(network, rows * 1e-38)
    assert np.isfinite(tiny.outputs(rows * 1e-38)).all()
    empty = table().assign(a=np.nan)
    assert np.isfinite(quantize(deployed(labels()), empty).outputs(empty)).all()


def test_classes_are_compared_as_sums(networks):
    classes, value = networks["classes"].layers[-1], networks["value"].layers[-1]
    assert classes.scales.shape == (1,)
    assert classes.bias.shape == (3,)
    assert value.scales.shape == (1,)
    assert networks["bare"].layers[-1].scales.shape == (2,)


def test_bytes_of_neurons_that_differ():
    """Shifts of their own where a neuron is a thousand times another."""
    torch.manual_seed(0)
    rows = torch.randn(ROWS, 6)
    plain = CompactNetwork([6, 5, 1], [(1, 0), (2, 1)])
    uneven = CompactNetwork([6, 5, 1], [(1, 0), (2, 1)])
    with torch.no_grad():
        uneven.block(1, 0).bias[0] = 9e3  # far beyond its weights: its sums are large
    for network, shifts in ((plain, 1), (uneven, 5)):
        found = quantize(network, rows)
        assert found.layers[0].shifts.shape == (shifts,)
        expected = network(rows).detach().numpy()
        error = found.outputs(rows) - expected
        assert abs(error).max() < 0.05 * abs(expected).max()


@pytest.mark.parametrize("shift", [0, 3, 20])
def test_sums_of_all_sizes_are_bytes(shift):
    """No product leaves 31 bits, and the largest sum that was seen is no end of the range."""
    block = Block(0, np.full((2, 4), 127, np.int8))
    bias = np.array([5 << shift, -(3 << shift)], np.int32)
    layer = quantization.QuantizedLayer(bias, (block,), np.ones(2, np.float32))
    high = np.array([40_000.0 + (5 << shift), 3.0])
    hidden = quantization._of_hidden(layer, high)
    largest = abs(bias) + 128 * 4 * 127
    sums = np.array([[int(high[0]), largest[1]], [-5, 0], largest], np.int32)
    kept = (sums.astype(np.int64) >> hidden.first) * hidden.factors
    assert (kept + 2.0**hidden.shifts < 2**31).all()
    found = quantization._active(hidden, sums)
    assert found[0, 0] >= 110
    assert found[0, 1] == 127
    assert found[1].tolist() == [-128, -128]


def test_what_cannot_be_int8_is_refused(networks):
    rows = torch.randn(20, 3)
    network = CompactNetwork([3, 4, 1], [(1, 0), (2, 1)], activation="tanh")
    with pytest.raises(ValueError, match=r"ReLUs for int8\. Got tanh\."):
        quantize(network, rows)
    line = CompactNetwork([3, 1], [(1, 0)], activation="tanh")  # of nothing hidden
    assert quantize(line, rows).outputs(rows).shape == (20, 1)
    with pytest.raises(ValueError, match=r"Expected rows to find the ranges.*Got none"):
        quantize(line, rows[:0])
    with pytest.raises(ValueError, match=r"Expected rows of shape .* up to 2. Got \(20, 2\)"):
        quantize(line, rows[:, :2])
    wide = CompactNetwork([70_000, 1], [(1, 0)])
    with pytest.raises(ValueError, match=r"at most 65,536 inputs and neurons.*Got 70,000"):
        quantize(wide, rows)
    with pytest.raises(ValueError, match="Expected finite rows"):
        quantize(line, torch.full((2, 3), torch.nan))
    with pytest.raises(ValueError, match="Got a bare one"):
        networks["bare"].score(torch.randn(3, 30), [0, 1, 0])
