"""Bytes of a chip, by its compiler where that is here."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from generated import has

from torchsparcs import CompactNetwork, quantize, to_c
from torchsparcs.command import options
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.export.measuring import CHIPS, lacking, measure
from torchsparcs.export.predicting import FLOAT, INT8, error_of, formulas, predict_cost
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_command_line_knows_the_chips():
    assert [*CHIPS] == [*options.CHIPS]


@pytest.mark.parametrize("chip", CHIPS)
def test_flash_and_stack(chip, tmp_path):
    if not has(CHIPS[chip].compiler):
        pytest.skip(f"no {CHIPS[chip].compiler}")
    small, large = (CompactNetwork([n, 30, 2], [(1, 0), (2, 1)]) for n in (8, 40))
    for name, network in (("small", small), ("large", large)):
        to_c(network, tmp_path / f"{name}.h")
    to_c(quantize(large, torch.randn(50, 40)), tmp_path / "bytes.h")
    costs = {name: measure(tmp_path / f"{name}.h", chip) for name in ("small", "large", "bytes")}
    numbers = {name: 4 * net.parameter_count for name, net in (("small", small), ("large", large))}
    assert numbers["small"] < costs["small"].flash < numbers["small"] + 4000
    grown = costs["large"].flash - costs["small"].flash
    assert abs(grown - (numbers["large"] - numbers["small"])) < 400  # memcpy may come in
    assert costs["bytes"].flash < costs["large"].flash
    assert 4 * (40 + 30) <= costs["large"].stack < 4 * (40 + 30) + 200
    assert 40 + 30 <= costs["bytes"].stack < costs["large"].stack


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert lacking("avr") == "avr-gcc is not here; on Debian: apt install gcc-avr avr-libc"
    with pytest.raises(ValueError, match=r"compiler for avr to measure it: avr-gcc is not here"):
        measure(Path("model.h"), "avr")
    with pytest.raises(ValueError, match=r"cortex-m0, avr, x86\. Got 'z80'"):
        lacking("z80")


@pytest.mark.parametrize("chip", CHIPS)
def test_the_formula_is_close_to_the_compiler(chip, tmp_path):
    """On networks like those it was fitted to; the data are counted exactly."""
    if not has(CHIPS[chip].compiler):
        pytest.skip(f"no {CHIPS[chip].compiler}")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 12))).add_prefix("x")
    preprocessing = Preprocessing(Inputs.fit(table), Target.fit(np.arange(100) % 4))
    torch.manual_seed(0)
    network = CompactNetwork([12, 9, 4], [(1, 0), (2, 1), (2, 0)])
    deployed = DeployedNetwork(network, preprocessing)
    for each in (deployed, quantize(deployed, table)):
        to_c(each, tmp_path / "model.h")
        cost, said = measure(tmp_path / "model.h", chip), predict_cost(each, chip)
        assert said.data == cost.data
        assert abs(said.flash - cost.flash) < 0.08 * cost.flash
        assert abs(said.stack - cost.stack) < 0.5 * cost.stack


def test_the_formulas_are_the_recorded_ones():
    record = json.loads((RESULTS / "flash.json").read_text())["cpu"]["chips"]
    assert {*record} == {*CHIPS}
    for chip, kinds in record.items():
        for kind in (FLOAT, INT8):
            assert formulas()[chip][kind] == kinds[kind]
    assert error_of("avr") == record["avr"][FLOAT]["error"]


def test_code_that_does_not_compile_is_said(tmp_path):
    if not has("gcc"):
        pytest.skip("no gcc")
    to_c(CompactNetwork([2, 1], [(1, 0)]), tmp_path / "model.h")
    text = (tmp_path / "model.h").read_text().replace("return sum;", "return smu;")
    (tmp_path / "model.h").write_text(text)
    with pytest.raises(ValueError, match=r"(?s)Expected gcc to compile it\..*smu"):
        measure(tmp_path / "model.h", "x86")
