"""Progress in a notebook: one line that is kept up to date, without widgets."""

import sys
from types import ModuleType

import pytest
import torch

from torchsparcs import SearchConfig, SpectralNetwork, TrainConfig, search, train
from torchsparcs.training import notebook

X = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
Y = X[:, :1] * 2


@pytest.fixture
def lines(monkeypatch) -> list[tuple[int, str]]:
    """What a kernel is told: the number of the line, and its text."""
    told, begun = [], []

    class Handle:
        def __init__(self):
            self.number = len(begun)
            begun.append(self)

        def update(self, bundle, raw):
            assert raw
            told.append((self.number, bundle["text/plain"]))

    def display(bundle, raw, display_id):
        assert raw
        assert display_id
        handle = Handle()
        handle.update(bundle, raw)
        return handle

    kernel = ModuleType("IPython.display")
    kernel.display = display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(notebook, "EVERY", 0.0)
    return told


def test_training_is_one_line(lines, capsys):
    network, config = SpectralNetwork([2, 4, 1]), TrainConfig(task="regression", epochs=3)
    train(network, (X, Y), config, progress=True)
    assert [number for number, _ in lines] == [0, 0, 0]
    assert lines[-1][1].startswith("training 3 of 3 epochs  loss ")
    assert capsys.readouterr() == ("", "")


def test_a_search_is_one_line_that_ends_with_its_stages(lines, capsys):
    config = SearchConfig(steps=20, epochs=1, path=2, ways=("asleep",))
    options = {"widths": (8,), "penalty_weights": (1e-3,), "validation": 2, "engine": "local"}
    search(X.numpy(), Y[:, 0].numpy(), config=config, device="cpu", **options)
    assert {number for number, _ in lines} == {0}
    assert lines[-1][1].endswith(" s")
    assert "left" not in lines[-1][1]
    assert capsys.readouterr() == ("", "")


def test_updates_are_not_too_many(lines, monkeypatch):
    monkeypatch.setattr(notebook, "EVERY", 60.0)
    line = notebook.NotebookLine()
    for text in "abc":
        line.update(text)
    line.update("d", is_last=True)
    assert lines == [(0, "a"), (0, "d")]
