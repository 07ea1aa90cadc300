import itertools
import json
import math
import sys
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchsparcs import (
    ChainResult,
    CompactChain,
    Pooled,
    SearchConfig,
    SpectralChain,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    evaluate,
    load,
    load_result,
    search,
    train,
)
from torchsparcs.cutting.chain_refinement import Rung, rungs
from torchsparcs.cutting.layers import cuts_to
from torchsparcs.searching.chain_search import candidates

CONFIG = TrainConfig(epochs=6, batch_size=32, eigenvalue_lr_scale=10, penalty_weight=1e-3)


def stripes(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Waves, upright or lying, (rows, 1, 6, 6), and which of both."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (rows,), generator=generator)
    phase = 2 * math.pi * torch.rand(rows, 1, 1, generator=generator)
    waves = torch.sin(torch.arange(6.0) + phase).expand(-1, 6, -1)
    pictures = torch.where(y.view(-1, 1, 1) == 1, waves, waves.mT).unsqueeze(1)
    return pictures + torch.randn(rows, 1, 6, 6, generator=generator) / 4, y


def offered(**options) -> SpectralCNN:
    torch.manual_seed(0)
    return SpectralCNN([1, 4, 4, 2], **options)


@pytest.fixture(scope="module")
def data():
    return stripes(300, 0)


@pytest.fixture(scope="module")
def judging():
    return stripes(200, 1)


@pytest.fixture(scope="module")
def result(data, judging) -> ChainResult:
    return search(
        *data, network=offered(), validation=judging, config=CONFIG, device="cpu", progress=False
    )


def small_search(data, **options):
    config = TrainConfig(epochs=1, batch_size=64)
    return search(
        data[0][:60],
        data[1][:60],
        **{"network": offered(), "config": config, "device": "cpu", "progress": False, **options},
    )


class TestTheFront:
    def test_each_is_better_than_all_smaller_ones(self, result):
        sizes = [found.parameters for found in result.front]
        scores = [found.score for found in result.front]
        assert sizes == sorted(sizes)
        assert len({*sizes}) == len(sizes)
        assert scores == sorted(scores)
        assert len({*scores}) == len(scores)

    def test_finds_the_stripes_with_a_fraction_of_the_parameters(self, result):
        small = result.smallest()
        assert small.score > 0.95
        assert small.parameters < result.attempts[0].parameters / 5

    def test_scores_are_those_of_the_networks_on_the_rows_that_judge(self, result, judging):
        for found in result.front:
            judged = evaluate(found.network, judging, "multiclass")
            assert (found.loss, found.score) == pytest.approx((judged.loss, judged.score), abs=1e-6)
            share = found.score * (1 - found.score) / len(judging[0])
            assert found.standard_error == pytest.approx(math.sqrt(share), abs=1e-6)

    def test_networks_are_plain(self, result):
        plain = (nn.Conv2d, nn.Linear)
        leaves = [
            part
            for found in result.front
            for part in found.network.layers.modules()
            if not list(part.children())
        ]
        assert leaves
        assert all(isinstance(part, plain) for part in leaves)

    def test_multiply_adds_are_counted_by_hand(self, result):
        whole = result.attempts[0]  # 1 → 4 + n → 4 + 2 → 2 on images of six by six
        first, second = whole.network.channels[1:-1]
        assert whole.macs == 36 * 9 * first + 36 * 9 * first * second + 2 * second

    def test_rungs_get_smaller_by_a_third_at_a_time(self, result):
        sizes = [found.parameters for found in result.attempts]
        assert all(after <= 0.7 * before for before, after in itertools.pairwise(sizes))

    def test_picks_as_a_table_does(self, result):
        assert result.pick() is result.smallest()
        assert result.pick("best") is result.front[-1]
        assert result.pick(0) is result.front[0]
        assert result.pick(result.front[0]).macs > 0
        assert result.within(result.best().parameters) is result.best()
        with pytest.raises(ValueError, match="best, smallest and 0 to"):
            result.pick("linear")

    def test_nothing_larger_than_asked_for(self, data):
        found = small_search(data, max_parameters=60)
        assert found.best().parameters <= 60 < found.attempts[0].parameters


def test_the_network_that_was_given_stays_as_it_is(data):
    network = offered()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    found = small_search(data, network=network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert any(found.trained.recruited)


def test_the_same_seed_gives_the_same_networks(data):
    one, two, other = (small_search(data, seed=seed) for seed in (3, 3, 4))
    weights = [found.attempts[0].network.layers[0].weight for found in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("normalise", [True, False])
def test_rows_that_judge_are_not_fitted_to(data, monkeypatch, normalise):
    seen = []

    def spied(module, rows, config, **options):
        seen.append((rows[0], config))
        return train(module, rows, config, **options)

    for name in ("chain_search", "chain_refinement"):
        monkeypatch.setattr(sys.modules[f"torchsparcs.{name}"], "train", spied)
    found = small_search(data, validation=0.25, network=offered(normalise=normalise))
    assert (found.settings["rows"], found.settings["judged_rows"]) == (45, 15)
    assert len(seen) > 1
    kept = {tuple(row.flatten().tolist()) for row in data[0][:60]}
    for rows, _ in seen:
        fitted = {tuple(row.flatten().tolist()) for row in rows}
        assert len(fitted) == 45
        assert fitted < kept
    assert all(torch.equal(rows, seen[0][0]) for rows, _ in seen)
    training, tuning = seen[0][1], seen[1][1]
    assert tuning.lr == training.lr / (1 if normalise else 2)
    assert tuning.weight_decay == training.transfer_weight_decay / (4 if normalise else 2)


@pytest.mark.parametrize(("error", "layers"), [(0.0, 1), (0.3, 2)])
def test_a_layer_goes_where_after_fine_tuning_nobody_misses_it(monkeypatch, error, layers):
    """Two ways to cut, one of them shorter and off by ``error``; nothing is trained."""
    x = torch.randn(50, 1, 6, generator=torch.Generator().manual_seed(0))

    def same(count: int, off: float = 0.0) -> CompactChain:
        """The identity in so many layers, and a constant error."""
        convolutions = [nn.Conv1d(1, 1, 1) for _ in range(count)]
        for one in convolutions:
            nn.init.ones_(one.weight)
            nn.init.zeros_(one.bias)
        nn.init.constant_(convolutions[-1].bias, off)
        return CompactChain(convolutions, [0] * count)

    module = sys.modules["torchsparcs.cutting.chain_refinement"]
    monkeypatch.setattr(module, "cuts_to", lambda *_: [same(2), same(1, error)])
    monkeypatch.setattr(module, "train", lambda *_, **__: None)
    found = rungs(same(3), (x, x), (x, x), TrainConfig())
    assert len(next(found).network.layers) == 3
    assert len(next(found).network.layers) == layers


@pytest.mark.parametrize(
    ("cost", "decays"),
    [
        (lambda decay, layers: decay - layers, [1.0, 0.5, 0.5, 0.25]),  # it is better, and stays
        (lambda decay, layers: -decay - layers, [1.0, 0.5, 1.0, 0.5]),  # it is not
        (lambda decay, layers: decay + 9 * layers, [1.0, 1.0]),  # the score does not fall
    ],
)
def test_where_the_score_falls_half_of_the_decay_is_tried(monkeypatch, cost, decays):
    """The last bias is what a network costs, set by the decay and the number of layers."""
    tried = []

    def bias_set(network, data, config, **_):
        tried.append(config.weight_decay)
        with torch.no_grad():
            network.layers[-1].bias.fill_(cost(config.weight_decay, len(network.layers)))

    module = sys.modules["torchsparcs.cutting.chain_refinement"]
    monkeypatch.setattr(module, "train", bias_set)
    monkeypatch.setattr(
        module, "cuts_to", lambda one, *_: [CompactChain(one.layers[1:], one.active[1:])]
    )
    monkeypatch.setattr(
        module, "evaluate", lambda one, *_, **__: (0.0, -one.layers[-1].bias.item())
    )
    whole = CompactChain([nn.Conv1d(1, 1, 1) for _ in range(4)], [0] * 4)
    nn.init.constant_(whole.layers[-1].bias, cost(1.0, 4))
    x = torch.randn(8, 1, 3)
    found = rungs(whole, (x, x), (x, x), TrainConfig(weight_decay=1.0))
    assert [len(next(found).network.layers) for _ in range(3)] == [4, 3, 2]
    assert tried == decays


def test_it_ends_where_half_of_the_gain_is_lost(result):
    best, last = min(found.loss for found in result.attempts), result.attempts[-1]
    constant = math.log(2)
    assert last.loss < constant - (constant - best) / 2
    assert last.parameters > 4  # from there on one could still cut


def test_where_nothing_is_gained_it_goes_on_to_the_smallest(monkeypatch):
    constant = math.log(2)
    made = [Rung(CompactChain([nn.Conv1d(1, 1, 1)], [0]), loss, 0.5) for loss in (0.69, 0.7, 0.71)]
    module = sys.modules["torchsparcs.searching.chain_search"]
    monkeypatch.setattr(module, "rungs", lambda *_, **__: iter(made))
    monkeypatch.setattr(module, "extract", lambda one: one)
    monkeypatch.setattr(module, "constant_loss", lambda *_: constant)
    monkeypatch.setattr(module, "_candidate", lambda rung, *_: rung.loss)
    found = candidates(offered(), None, None, TrainConfig(task="multiclass"))
    assert list(found) == [0.69, 0.7, 0.71]
    made[0] = made[0]._replace(loss=0.3)
    assert list(candidates(offered(), None, None, TrainConfig(task="multiclass"))) == [0.3]


def test_after_an_interruption_there_is_what_was_found(data, monkeypatch):
    module, whole = sys.modules["torchsparcs.searching.chain_search"], []

    def interrupted(*given):
        for found in candidates(*given):
            yield whole.append(found.parameters) or found
            if len(whole) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(module, "candidates", interrupted)
    with pytest.warns(UserWarning, match="interrupted: these are the networks"):
        result = small_search(data)
    assert [found.parameters for found in result.attempts] == whole
    whole.clear()
    unreached = pytest.warns(UserWarning, match="No network has at most 1 parameters: the smallest")
    with pytest.warns(UserWarning, match="interrupted: these"), unreached:
        assert len(small_search(data, max_parameters=1).front) == 1
    monkeypatch.setattr(module, "candidates", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match="nothing was changed"):
        small_search(data)


def test_an_interruption_of_the_training_gives_no_advice_that_cannot_be_taken(data, monkeypatch):
    interrupted = Mock(side_effect=KeyboardInterrupt("pass checkpoint=PATH"))
    monkeypatch.setattr(sys.modules["torchsparcs.searching.chain_search"], "train", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted in its training; there is no"):
        small_search(data)


def test_one_of_the_sizes_is_the_budget(data, monkeypatch):
    aims = []

    def spied(network, rows, loss, aim):
        aims.append(aim)
        return cuts_to(network, rows, loss, aim)

    monkeypatch.setattr(sys.modules["torchsparcs.cutting.chain_refinement"], "cuts_to", spied)
    whole = small_search(data).attempts[0].parameters
    aims.clear()
    small_search(data, max_parameters=whole - 9)
    assert aims[0] == whole - 9
    aims.clear()
    small_search(data, max_parameters=whole // 3)
    assert aims[0] == whole // 2


@pytest.mark.parametrize(("offset", "scale"), [(5, 1), (0, 100), (0, 0.01)])
def test_targets_far_from_where_a_network_starts(offset, scale):
    x = torch.randn(60, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    y = x.mean(dim=(1, 2, 3)) / x.mean(dim=(1, 2, 3)).std()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = SpectralCNN([1, 2, 2, 1])
        small_search((x, y), network=network)
        with pytest.raises(UserWarning, match=r"mean 0 and variance 1.*standardise"):
            small_search((x, scale * y + offset), network=network)


def test_numbers_as_targets_make_it_a_regression():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 1, 9, generator=generator)
    network = SpectralChain([nn.Conv1d(1, 2, 3, bias=False), nn.Conv1d(2, 1, 3, bias=False)])
    found = small_search((x, x[..., 2:-2].abs()), network=network)
    assert found.settings["task"] == "regression"


def test_where_nothing_varies(data):
    images = torch.full_like(data[0], 0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = small_search((images, data[1]))
    assert all(math.isfinite(one.loss) for one in found.attempts)


def test_inputs_that_are_not_scaled(data):
    with pytest.warns(UserWarning, match=r"like images / 255.*standard deviation of"):
        small_search((100 * data[0], data[1]))


class TestRefusals:
    def test_one_hot(self, data):
        one_hot = F.one_hot(data[1], 2).float()
        with pytest.raises(ValueError, match=r"Got a column for each: take y\.argmax\(1\)"):
            small_search((data[0], one_hot))
        small_search((data[0], one_hot), task="regression")

    def test_a_network_that_is_frozen(self, data):
        with pytest.raises(ValueError, match=r"something to train\. All of it is frozen"):
            small_search(data, network=offered().requires_grad_(False))

    def test_what_only_a_table_has(self, data):
        for option in ({"widths": (8,)}, {"sample_weight": np.ones(60)}, {"engine": "ray"}):
            with pytest.raises(ValueError, match=f"Expected no {next(iter(option))} where"):
                small_search(data, **option)

    def test_other_networks(self, data):
        with pytest.raises(ValueError, match="Expected a SpectralChain as the network"):
            small_search(data, network=SpectralNetwork([36, 4, 2]))

    def test_the_config_of_a_table(self, data):
        with pytest.raises(ValueError, match="Expected a TrainConfig where a network is given"):
            small_search(data, config=SearchConfig())
        with pytest.raises(ValueError, match="Expected a SearchConfig"):
            search(*data, config=CONFIG)

    @pytest.mark.parametrize("validation", [0.0, 0.7, 3, "some", True])
    def test_validation(self, data, validation):
        with pytest.raises(ValueError, match="Expected validation to be 'auto'"):
            small_search(data, validation=validation)

    @pytest.mark.parametrize("rows", [40, 80])
    def test_targets_of_other_rows(self, data, rows):
        with pytest.raises(ValueError, match="Expected as many inputs as targets"):
            search(data[0][:60], data[1][:rows], network=offered(), device="cpu")

    def test_a_config_that_says_something_else(self, data):
        for name, option in (("task", {"task": "binary"}), ("seed", {"seed": 5})):
            with pytest.raises(ValueError, match=f"Expected one {name}"):
                small_search(
                    data, config=TrainConfig(**option), task="classification", **{"seed": 4}
                )
        assert (
            small_search(data, config=TrainConfig(epochs=1, seed=5)).settings["config"]["seed"] == 5
        )

    def test_images_as_bytes_or_in_another_order(self, data):
        with pytest.raises(ValueError, match="floating-point numbers, like images / 255"):
            small_search(((data[0] * 9).byte(), data[1]))
        with pytest.raises(ValueError, match=r"Got rows of shape \(6, 6, 1\)"):
            small_search((data[0].movedim(1, -1), data[1]))
        with pytest.raises(ValueError, match="that are numbers, classes from 0"):
            small_search((data[0], np.array(["a"] * 300)))

    def test_too_little_to_judge_by(self, data):
        with pytest.raises(ValueError, match="at least 5 rows to judge by"):
            search(data[0][:20], data[1][:20], network=offered(), device="cpu")
        with pytest.raises(ValueError, match="Expected targets that vary"):
            small_search((data[0], torch.zeros_like(data[1])))

    def test_what_cannot_be_cut_before_it_is_trained(self, data):
        class Turned(nn.Module):
            in_channels, out_channels, channel_axis = 4, 4, -3

            def forward(self, x):
                return x.flip(-1)

        conv = nn.Conv2d(1, 4, 3, bias=False)
        network = SpectralChain([conv, Turned(), Pooled(4, 2)], example=data[0][:1])
        with pytest.raises(ValueError, match="weight"):
            small_search(data, network=network, config=TrainConfig(epochs=10**6))

    def test_tasks_and_labels(self, data):
        with pytest.raises(ValueError, match="Expected a task among auto"):
            small_search(data, task="ranking")
        with pytest.raises(ValueError, match="class labels from 0 to 1"):
            small_search((data[0], data[1] + 1))
        with pytest.raises(ValueError, match="Got list and NoneType"):
            search(list(data[0]), None, network=offered())


class TestTheFolder:
    def test_networks_come_back(self, result, judging, tmp_path):
        result.save(tmp_path / "run")
        rows = json.loads((tmp_path / "run" / "front.json").read_text())["front"]
        for row, found in zip(rows, result.front, strict=True):
            again = load(tmp_path / "run" / row["network"])
            assert isinstance(again, CompactChain)
            assert torch.equal(again(judging[0]), found.network(judging[0]))
        spectral = load(tmp_path / "run" / "networks" / "trained.safetensors")
        assert torch.equal(spectral(judging[0]), result.trained(judging[0]))
        table = (tmp_path / "run" / "front.csv").read_text().splitlines()
        assert len(table) == 1 + len(result.front)

    def test_by_force_what_was_there_goes(self, result, tmp_path):
        (tmp_path / "networks").mkdir()
        for name in ("settings.json", "networks/77.safetensors", "mine.txt"):
            (tmp_path / name).write_text("{}")
        result.save(tmp_path, force=True)
        assert not (tmp_path / "settings.json").exists()
        assert not (tmp_path / "networks" / "77.safetensors").exists()
        assert (tmp_path / "mine.txt").exists()
        with pytest.raises(FileNotFoundError, match="a search of a network"):
            load_result(tmp_path)

    def test_a_folder_with_files_in_it_is_left_alone(self, result, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(ValueError, match="Expected an empty folder"):
            result.save(tmp_path)
