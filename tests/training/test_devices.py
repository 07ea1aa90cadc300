import pytest
import torch

from torchsparcs.training.devices import ROWS_FOR_GPU, resolve_device


@pytest.mark.parametrize(
    ("device", "rows", "expected"),
    [
        ("auto", ROWS_FOR_GPU - 1, "cpu"),
        ("auto", ROWS_FOR_GPU, "cuda"),
        ("cuda", 10, "cuda"),
        ("cpu", 10**9, "cpu"),
    ],
)
def test_few_rows_stay_on_a_cpu_unless_asked_for(monkeypatch, device, rows, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device(device, rows).type == expected
