"""Bytes of a chip, by its compiler where that is here."""

import shutil

import pytest
import torch
from generated import has

from torchsparcs import CompactNetwork, quantize, to_c
from torchsparcs.command import options
from torchsparcs.export.measuring import CHIPS, check_chip, measure


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
    with pytest.raises(ValueError, match=r"avr-gcc to measure for avr.*apt install gcc-avr avr-l"):
        check_chip("avr")
    with pytest.raises(ValueError, match=r"cortex-m0, avr, x86\. Got 'z80'"):
        check_chip("z80")


def test_code_that_does_not_compile_is_said(tmp_path):
    if not has("gcc"):
        pytest.skip("no gcc")
    to_c(CompactNetwork([2, 1], [(1, 0)]), tmp_path / "model.h")
    text = (tmp_path / "model.h").read_text().replace("return sum;", "return smu;")
    (tmp_path / "model.h").write_text(text)
    with pytest.raises(ValueError, match=r"(?s)Expected gcc to compile it\..*smu"):
        measure(tmp_path / "model.h", "x86")
