import itertools
import json
import math

import pytest
import torch
from torch import nn

from torchsparcs import (
    ChainResult,
    CompactChain,
    SearchConfig,
    SpectralChain,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    evaluate,
    load,
    search,
)
from torchsparcs.report.chains import chain_page, chain_words

CONFIG = TrainConfig(epochs=6, batch_size=32, eigenvalue_lr_scale=10, penalty_weight=1e-3)


def stripes(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Waves, upright or lying, (rows, 1, 6, 6), and which of both."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (rows,), generator=generator)
    phase = 2 * math.pi * torch.rand(rows, 1, 1, generator=generator)
    waves = torch.sin(torch.arange(6.0) + phase).expand(-1, 6, -1)
    pictures = torch.where(y.view(-1, 1, 1) == 1, waves, waves.mT).unsqueeze(1)
    return pictures + torch.randn(rows, 1, 6, 6, generator=generator) / 4, y


def offered() -> SpectralCNN:
    torch.manual_seed(0)
    return SpectralCNN([1, 4, 4, 2])


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
            share = found.score * (1 - found.score) / (len(judging[0]) - 1)
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


def test_rows_that_judge_are_not_fitted_to(data):
    found = small_search(data, validation=0.25)
    assert (found.settings["rows"], found.settings["judged_rows"]) == (45, 15)
    assert small_search(data).settings["judged_rows"] == 6


def test_numbers_as_targets_make_it_a_regression():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 1, 9, generator=generator)
    network = SpectralChain([nn.Conv1d(1, 2, 3, bias=False), nn.Conv1d(2, 1, 3, bias=False)])
    found = small_search((x, x[..., 2:-2].abs()), network=network)
    assert found.settings["task"] == "regression"


class TestRefusals:
    def test_what_only_a_table_has(self, data):
        for option in ({"widths": (8,)}, {"checkpoint": "folder"}, {"engine": "ray"}):
            with pytest.raises(ValueError, match="where a network is given"):
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

    def test_tasks_and_labels(self, data):
        with pytest.raises(ValueError, match="Expected a task among auto"):
            small_search(data, task="ranking")
        with pytest.raises(ValueError, match="class labels from 0 to 1"):
            small_search((data[0], data[1] + 1))
        with pytest.raises(ValueError, match="Expected X and y"):
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

    def test_a_folder_with_files_in_it_is_left_alone(self, result, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(ValueError, match="Expected an empty folder"):
            result.save(tmp_path)


class TestThePage:
    def test_says_what_was_found(self, result):
        words, small = chain_words(result), result.smallest()
        assert f"**{small.parameters} parameters**" in words
        assert all(found.architecture in words for found in result.front)
        assert "200 held-out rows" in words
        assert "Offered were the channels 1 → 4 → 4 → 2" in words

    def test_is_one_file_with_three_figures(self, result, tmp_path):
        path = result.report(tmp_path / "page.html")
        assert path.read_text().count("data:image/svg+xml;base64") == 3
        assert "not in this run" not in chain_page(result)
        with pytest.raises(ValueError, match="not there yet"):
            result.report(path)
        result.report(path, force=True)
