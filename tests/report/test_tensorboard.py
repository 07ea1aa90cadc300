"""Eigenvalues and losses in TensorBoard."""

import sys

import pytest
import torch
from reports import (
    small_result,
)

from torchsparcs import SpectralNetwork
from torchsparcs.report import log_history
from torchsparcs.report.tensorboard import EigenvalueLogger


class Writer:
    """Remembers what a SummaryWriter would write."""

    def __init__(self):
        self.scalars, self.histograms = {}, {}

    def add_scalar(self, name, value, step):
        self.scalars[name, step] = value

    def add_histogram(self, name, values, step):
        self.histograms[name, step] = values.tolist()

    def flush(self):
        pass


def test_one_step_of_ones_own_loop():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), SpectralNetwork([2, 3, 1]))
    model[1].hidden_eigenvalues[0].data.copy_(torch.tensor([0.0, 2.0, 0.0]))
    writer = Writer()
    EigenvalueLogger(writer).log(model, 7)
    assert writer.histograms == {("eigenvalues/1.layer_0", 7): [0.0, 2.0, 0.0]}
    assert writer.scalars == {("recruited/1.layer_0", 7): 1}


def test_a_whole_history():
    history, writer = small_result("binary").history, Writer()
    with pytest.raises(ValueError, match=r"the history of one network.*history\.member"):
        log_history(history, writer)
    own = history.member(3)
    log_history(own, writer)
    assert writer.scalars["loss/training", own.epochs] == own.train_loss[-1]
    epoch, snapshot = own.snapshots[-1]
    values = snapshot["hidden_eigenvalues.0"]
    assert writer.histograms["eigenvalues/layer_0", epoch] == values.tolist()


def test_into_a_folder(tmp_path):
    pytest.importorskip("tensorboard")
    log_history(small_result("binary").history.member(0), tmp_path / "logs")
    assert list((tmp_path / "logs").glob("events*"))


def test_without_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'torchsparcs\[tensorboard\]'"):
        EigenvalueLogger(tmp_path)
