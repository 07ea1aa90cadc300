"""Time of a row on simulated chips, where their compilers and simulators are."""

import shutil
from pathlib import Path

import pytest
import torch
from shell import sparcs
from simulated import needs

from torchsparcs import CompactNetwork, SearchConfig, quantize, search, to_c
from torchsparcs.export.timing import SIMULATORS, lacking_simulator, row_time


@pytest.mark.parametrize("chip", SIMULATORS)
def test_a_row_takes_as_long_as_its_network_is_large(chip, tmp_path):
    needs(chip)
    small, large = (CompactNetwork([n, 10, 2], [(1, 0), (2, 1)]) for n in (5, 40))
    for name, network in (("small", small), ("large", large)):
        to_c(network, tmp_path / f"{name}.h")
    to_c(quantize(large, torch.randn(50, 40)), tmp_path / "bytes.h")
    taken = {name: row_time(tmp_path / f"{name}.h", chip) for name in ("small", "large", "bytes")}
    assert taken["small"] < taken["large"] < 20 * taken["small"]
    assert taken["large"] > 3 * 420  # a weight is read, multiplied and added
    if chip != "cortex-m4":
        assert taken["bytes"] < taken["large"] / 1.5


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert lacking_simulator("avr") == "simavr is not here; on Debian: apt install simavr"
    with pytest.raises(ValueError, match=r"simulator for avr to time it: avr-gcc is not here"):
        row_time(Path("model.h"), "avr")


def test_an_export_says_it(tmp_path, monkeypatch):
    needs("avr")
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)).numpy()
    options = {"penalty_weights": [1e-3], "validation": 2, "engine": "local", "progress": False}
    quick = SearchConfig(steps=30, longest=30, epochs=1, ways=("asleep",))
    found = search(x, x[:, 0] - x[:, 1], widths=(2,), config=quick, **options)
    found.save(tmp_path / "run")
    words = ("export", tmp_path / "run", "--format", "c", "--measure", "avr", "--force")
    outcome = sparcs(*words)
    assert outcome.code == 0
    assert "cycles for a row by simavr, " in outcome.out
    assert " ms at 16 MHz" in outcome.out
    there = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "simavr" else there(name))
    said = "avr: how long a row takes a simulator says: simavr is not here; on Debian: apt install"
    assert said in " ".join(sparcs(*words).out.split())
