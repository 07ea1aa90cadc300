"""The front of a model of one's own, in memory and in a folder."""

import copy
import json
from dataclasses import replace

import pytest
import torch
from models import Vit
from torch import nn

from torchsparcs import ModelFront, RefineConfig, evaluate, extract_front, spectralize
from torchsparcs.cutting.units import macs_of
from torchsparcs.searching import model_front


@pytest.fixture(scope="module")
def given() -> dict:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 5, 8, generator=generator)
    y = x[:, :, 0].mean(dim=1, keepdim=True).expand(-1, 4)
    return {
        "data": (x[:100], y[:100]),
        "validation": (x[100:], y[100:]),
        "task": "regression",
        "config": RefineConfig(epochs=2, batch_size=50, lr=2e-3),
        "progress": False,
    }


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Vit(blocks=2)


@pytest.fixture(scope="module")
def front(model, given) -> ModelFront:
    return extract_front(model, **given, smallest=900)


def test_what_is_smaller_and_no_worse_takes_the_place(model, given, front):
    parameters = [point.parameters for point in front.points]
    losses = [point.loss for point in front.points]
    assert parameters == sorted({*parameters})
    assert parameters[0] <= 900
    assert losses == sorted({*losses}, reverse=True)
    for point in front.points:
        assert sum(p.numel() for p in point.model.parameters()) == point.parameters
        assert macs_of(point.model, given["data"][0][:2]) == point.macs
        found = evaluate(point.model, given["validation"], "regression")
        assert point.loss == pytest.approx(found.loss, rel=1e-5)
        assert point.score == pytest.approx(found.score, rel=1e-5)
        assert not {*point.model.parameters()} & {*model.parameters()}


def test_budgets(front):
    largest = front.points[-1]
    assert front.within(max_parameters=10**9) is largest
    assert front.within(max_macs=front.points[0].macs, max_parameters=10**9) is front.points[0]
    with pytest.raises(ValueError, match=r"at least \d+ parameters\. Got"):
        front.within(max_parameters=5)
    with pytest.raises(ValueError, match="Got neither"):
        front.within()
    assert f"{largest.parameters:,}" in str(front)
    assert repr(front).startswith("ModelFront(")


def test_a_folder_keeps_it(model, given, front, tmp_path):
    front.save(tmp_path / "front")
    again = ModelFront.load(tmp_path / "front", into=copy.deepcopy(model))
    assert again.size == front.size
    assert str(again) == str(front)
    x = given["validation"][0]
    for one, other in zip(front.points, again.points, strict=True):
        assert torch.equal(one.model.eval()(x), other.model(x))
    with pytest.raises(ValueError, match="has one already"):
        front.save(tmp_path / "front")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("format", 2, r"format 1 at .*Got 2"),
        ("size", "bytes", "Expected a front at"),
        ("points", [], "Expected a front at"),
        ("file", "../other.safetensors", "Expected a front at"),
        ("parameters", "many", "Expected a front at"),
    ],
)
def test_damaged_folders(model, front, tmp_path, name, value, message):
    front.save(tmp_path)
    path = tmp_path / "front.json"
    content = json.loads(path.read_text())
    (content if name in content else content["points"][0])[name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        ModelFront.load(tmp_path, into=model)


def test_multiply_adds_are_a_price_too(model, given):
    front = extract_front(model, **given, size="macs", smallest=3500, target="blocks.1.mlp")
    assert front.points[0].macs <= 3500
    assert all(p.model.blocks[0].mlp.fc1.out_features == 12 for p in front.points)


def test_the_front_ends_where_too_much_is_lost():
    class Rung:
        def __init__(self, parameters, loss):
            self.parameters, self.loss = parameters, loss

    rungs = [Rung(100, 0.2), Rung(70, 0.1), Rung(50, 0.5), Rung(30, 0.6), Rung(20, 0.1)]
    passed = [r.parameters for r in model_front._worth_it(iter(rungs), 1.0, None)]
    assert passed == [100, 70, 50]  # half of 0.9 is lost at 0.55
    passed = [r.parameters for r in model_front._worth_it(iter(rungs), 1.0, 40)]
    assert passed == [100, 70, 50, 30]


def test_of_several_outputs_twice_the_own_loss_stands_for_a_constant_answer(
    model, given, monkeypatch
):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = copy.deepcopy(model)

        def forward(self, x):
            return {"values": self.inner(x)}

    def loss(output, target):
        return 1 + (output["values"] - target).square().mean()

    seen, real = [], model_front._worth_it

    def watched(rungs, constant, smallest):
        seen.append(constant)
        return real(rungs, constant, smallest)

    monkeypatch.setattr(model_front, "_worth_it", watched)
    extract_front(Named(), **{**given, "task": loss}, smallest=1200)
    assert seen == [pytest.approx(2 * evaluate(Named(), given["validation"], loss).loss)]


def test_what_has_no_loss_is_not_on_it(model, given, monkeypatch):
    def spoilt(*args, **options):
        for place, rung in enumerate(real(*args, **options)):
            bad = rung.judgement._replace(loss=float("nan"))
            yield replace(rung, judgement=bad) if place else rung

    real = model_front.model_rungs
    monkeypatch.setattr(model_front, "model_rungs", spoilt)
    front = extract_front(model, **given, smallest=1000)
    assert [point.parameters for point in front.points] == [
        sum(parameter.numel() for parameter in model.parameters())
    ]


def test_eigenvalues_become_plain_layers_first(model, given):
    spectral = spectralize(model, target="blocks.*.mlp", example=given["data"][0][:2])
    with torch.no_grad():
        for part in spectral.modules():
            if hasattr(part, "hidden_eigenvalues"):
                part.hidden_eigenvalues[0][:4] = 0
    front = extract_front(spectral, **given, smallest=900)
    assert all(p.model.blocks[0].mlp.fc1.out_features <= 8 for p in front.points)


def test_an_interrupted_one_has_what_was_found(model, given, monkeypatch):
    def interrupted(*args, **options):
        yield from list(real(*args, **options))[:1]
        raise KeyboardInterrupt

    real = model_front._worth_it
    monkeypatch.setattr(model_front, "_worth_it", interrupted)
    with pytest.warns(UserWarning, match="interrupted: this is the front"):
        front = extract_front(model, **given, smallest=1000)
    assert len(front.points) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "bytes"}, "size to be 'parameters' or 'macs'"),
        ({"smallest": 0}, "at least 1"),
        ({"config": {"epochs": 3}}, "a RefineConfig. Got dict"),
        ({"target": "head"}, "name of a feed-forward block"),
    ],
)
def test_refusals(model, given, options, message):
    with pytest.raises(ValueError, match=message):
        extract_front(model, **{**given, **options})
