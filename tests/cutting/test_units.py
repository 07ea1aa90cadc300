"""Plain blocks of anybody's model lose what their readers can do without."""

import copy

import pytest
import torch
from anybodys import Gated, Residuals, settled
from models import Bert, Vit, gap
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from torchsparcs import (
    CompactChain,
    CompactNetwork,
    RefineConfig,
    SpectralNetwork,
    evaluate,
    extract,
    load,
    save,
)
from torchsparcs.blocks.finding import blocks_of
from torchsparcs.cutting.unit_layers import heard_by_readers
from torchsparcs.cutting.units import BlockCuts, UnitCutting, macs_of

CONFIG = RefineConfig(epochs=1, lr=1e-4)


def cut(model: nn.Module, x: torch.Tensor, share: float, unit: str = "parameters") -> nn.Module:
    """``model`` with that share of what it has, refitted to what it said, not fine-tuned."""
    cuts = BlockCuts(blocks_of(model, x[:2])[0], x[:2], unit)
    with torch.no_grad():
        y = model.eval()(x)
    small = cuts.cut(model, [(x, y)], "regression", int(share * cuts.size(model)))["units"]
    assert cuts.size(small) <= share * cuts.size(model)
    return small


def twice_(writer: nn.Module) -> None:
    """Make the second half of the units copies of the first."""
    with torch.no_grad():
        for parameter in writer.parameters():
            half = len(parameter) // 2
            parameter[half:] = parameter[:half]


@pytest.mark.parametrize("act", [nn.ReLU(), nn.Tanh(), nn.Softplus()])
def test_copies_go_first_and_nobody_notices(act):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 20), act, nn.Linear(20, 3)), 3 * torch.randn(300, 5)
    twice_(model[0])
    small = cut(model, x, 0.55)
    assert small[0].out_features == small[2].in_features == 10
    assert gap(small, model, x) < 0.05 * model(x).std()


@pytest.mark.parametrize("is_one", [False, True])
def test_a_gate_goes_with_its_value(is_one):
    torch.manual_seed(0)
    model, x = Gated(is_one), torch.randn(60, 5, 8)
    for name in ("gate_up_proj",) if is_one else ("gate_proj", "up_proj"):
        writer = getattr(model, name)
        for part in writer.weight.data.split(12):
            part[6:] = part[:6]
    small = cut(model, x, 0.55)
    assert small.down_proj.in_features == 6
    assert gap(small, model, x) < 0.02


@pytest.mark.parametrize("unit", ["parameters", "macs"])
def test_convolutions_with_norms_between(unit):
    torch.manual_seed(0)
    model, x = settled(Residuals()), torch.randn(50, 1, 4, 4)
    small = cut(model, x, 0.7, unit)
    widths = [small.first.conv1.out_channels, small.first.conv2.out_channels]
    assert small.first.bn1.num_features == small.first.conv2.in_channels == widths[0] < 6
    assert small.first.bn2.running_var.shape == (widths[1],)
    depthwise = small.second.conv[3]
    assert depthwise.groups == depthwise.in_channels == small.second.conv[0].out_channels
    plain = copy.deepcopy(model)
    torch.manual_seed(1)
    for name in ("first.conv2", "first.conv3", "second.conv.6"):
        nn.init.zeros_(plain.get_submodule(name).weight)  # as if nothing were read
    assert gap(small, model, x) < 0.5 * gap(plain, model, x)


def test_a_normalisation_without_parameters_loses_units_too():
    layers = nn.Linear(5, 8), nn.BatchNorm1d(8, affine=False), nn.ReLU(), nn.Linear(8, 3)
    small = cut(nn.Sequential(*layers), torch.randn(40, 5), 0.6)
    assert len(small[1].running_mean) == small[1].num_features == small[0].out_features < 8


@pytest.mark.parametrize(
    ("unit", "each"),
    [("parameters", 3 + 2 + 1 + (9 + 1) + 2 + 2), ("macs", 36 * 3 + 9 * 9 + 9 * 2)],
)
def test_what_stands_between_goes_and_counts_too(unit, each):
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.PReLU(8)),
        *(nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8), nn.BatchNorm2d(8)),
        *(nn.PReLU(), nn.Conv2d(8, 2, 1, bias=False)),  # one number for all units
    )
    x = torch.randn(40, 3, 6, 6)
    cuts = BlockCuts(blocks_of(settled(model), x)[0], x, unit)
    rows, whole = [(x, torch.randn(40, 2, 3, 3))], cuts.size(model)
    heard = heard_by_readers(model, cuts.blocks, rows, "regression")
    cutting = UnitCutting(model, cuts.blocks, heard, unit, cuts.sizes(model))
    before, price, rate = cutting.parameters, cutting.prices[0].min().item(), cutting.rate
    assert price / rate == pytest.approx(each)
    cutting.step()
    assert before - cutting.parameters == whole - cuts.size(cutting.result()) == each
    small = cuts.cut(model, rows, "regression", whole - 3 * each)["units"]
    assert cuts.size(small) == whole - 3 * each


def test_multiply_adds_by_hand():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))
    assert macs_of(model, torch.zeros(4, 2, 6, 6)) == 16 * 9 * 2 * 3 + 48 * 5
    up = nn.ConvTranspose2d(4, 6, 2, stride=2)  # each of 5 · 7 places meets every weight
    assert macs_of(up, torch.zeros(1, 4, 5, 7)) == 5 * 7 * 4 * 6 * 4


@pytest.mark.parametrize(
    ("whole", "x"),
    [
        (CompactNetwork([5, 20, 9, 3], [(1, 0), (2, 1), (3, 2), (3, 1)]), torch.randn(60, 5)),
        (
            CompactChain([nn.Conv2d(2, 9, 3), nn.Conv2d(9, 6, 3), nn.Conv2d(6, 3, 1)], [9, 6, 0]),
            torch.randn(30, 2, 6, 6),
        ),
    ],
    ids=["dense", "convolutions"],
)
def test_a_compact_network_that_loses_units_knows_it(whole, x, tmp_path):
    small = cut(whole, x, 0.6)
    assert small.architecture != whole.architecture
    save(small, tmp_path / "small.safetensors")
    again = load(tmp_path / "small.safetensors")
    assert torch.equal(again(x), small.eval()(x))
    assert again.architecture == small.architecture


def test_biases_stay_free_where_weights_are_frozen():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    small = cut(model, torch.randn(40, 5), 0.6)
    frozen = [name for name, p in small.named_parameters() if not p.requires_grad]
    assert frozen == ["0.weight", "2.bias"]


@pytest.fixture
def given() -> dict:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, 5, 8, generator=generator)
    y = x[:, :, 0].mean(dim=1, keepdim=True).expand(-1, 4)
    return {
        "data": (x[:80], y[:80]),
        "validation": (x[80:], y[80:]),
        "task": "regression",
        "config": CONFIG,
        "progress": False,
    }


class TestExtract:
    def test_a_budget_is_kept(self, given):
        torch.manual_seed(0)
        model = Vit(blocks=2)
        before = copy.deepcopy(model.state_dict())
        small = extract(model, **given, max_parameters=900)
        assert sum(p.numel() for p in small.parameters()) <= 900
        assert {*small.state_dict()} == {*before}
        assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
        assert evaluate(small, given["validation"], "regression").loss < 1

    def test_a_budget_of_multiply_adds_and_some_blocks(self, given):
        model = Vit(blocks=2)
        most = macs_of(model, given["data"][0]) - 5 * 2 * 8 * 6
        small = extract(model, **given, target="blocks.1.mlp", max_macs=most)
        assert macs_of(small, given["data"][0]) <= most
        assert small.blocks[0].mlp.fc1.out_features == 12
        assert small.blocks[1].mlp.fc1.out_features <= 6

    def test_without_a_budget_the_loss_decides(self, given):
        given["config"] = RefineConfig(epochs=1, lr=1e-4, tolerance=1e9)
        small = extract(Vit(blocks=1), **given)
        assert small.blocks[0].mlp.fc1.out_features == 1

    def test_one_that_cannot_be_reached(self, given):
        expected = r"budget that can be reached\. Got 20 {}: with a unit"
        with pytest.raises(ValueError, match=expected.format("macs")):
            extract(Vit(blocks=1), **given, max_macs=20)
        head = nn.Sequential(nn.Flatten(), nn.Linear(40, 8), SpectralNetwork([8, 3, 4]))
        with pytest.raises(ValueError, match=expected.format("parameters")):  # 328 are besides
            extract(head, **given, max_parameters=20)

    def test_spectral_networks_have_one_too(self, given):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), SpectralNetwork([40, 12, 4]))
        nn.init.normal_(model[1].hidden_eigenvalues[0])
        small = extract(model, **given, max_parameters=100)
        assert 0 < sum(p.numel() for p in small.parameters()) <= 100

    @pytest.mark.parametrize(
        ("model", "options", "message"),
        [
            (Vit(), {"target": "head"}, r"Got 'head'\. 'head' reads 'blocks.0.mlp.fc2'"),
            (Vit(), {"max_parameters": 9, "max_macs": 9}, "one budget"),
            (Vit(), {"max_parameters": 0}, "one budget, at least 1"),
            (
                SpectralNetwork([8, 3, 4]),
                {"max_macs": 9},
                "max_parameters for a model with spectral",
            ),
            (SpectralNetwork([8, 3, 4]), {"target": "*"}, "no target where spectral networks"),
        ],
    )
    def test_refusals(self, given, model, options, message):
        with pytest.raises(ValueError, match=message):
            extract(model, **given, **options)

    def test_layers_that_make_their_weights_are_left_alone(self, given):
        model = nn.Sequential(nn.Flatten(), weight_norm(nn.Linear(40, 6)), nn.Linear(6, 4))
        with pytest.raises(ValueError, match=r"weights of their own\. Got '1'"):
            extract(model, **given)

    def test_without_data_there_is_nothing_to_go_by(self):
        with pytest.raises(ValueError, match="with a SpectralNetwork inside"):
            extract(Bert())
        with pytest.raises(ValueError, match="data, validation and task where there is a budget"):
            extract(SpectralNetwork([8, 3, 4]), max_parameters=9)
