"""A network of one's own: trained, cut rung by rung, judged on rows it has not seen."""

import itertools
import json
import math
import sys
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sklearn.model_selection import GroupKFold
from torch import nn
from torch.nn import functional as F

from torchsparcs import (
    ChainResult,
    CompactChain,
    CompactNetwork,
    Pooled,
    SearchConfig,
    SpectralChain,
    SpectralCNN,
    SpectralNetwork,
    TrainConfig,
    evaluate,
    load,
    load_result,
    refit,
    search,
    train,
)
from torchsparcs.cutting.ladder import Rung
from torchsparcs.cutting.layers import chain_cuts
from torchsparcs.judging.judgement import Judgement
from torchsparcs.parallel.executor import Engine, Executor
from torchsparcs.searching.network_search import NetworkSearch, tuning_of

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


def rungs_of(result) -> list[int]:
    """The size of what went on at each rung, which comes first of what was judged there."""
    return [
        next(each)[1]
        for _, each in itertools.groupby(
            ((a.cut, a.parameters) for a in result.attempts), lambda pair: pair[0]
        )
    ]


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
            rows = len(judging[0]) + 4  # two right and two wrong, so that none is without doubt
            share = (judged.score * len(judging[0]) + 2) / rows
            error = math.sqrt(share * (1 - share) / rows)
            assert found.standard_error == pytest.approx(error, abs=1e-6)

    def test_what_is_to_be_expected_is_corrected_for_the_choice(self, result, data):
        """Of every network that was judged; on labels without any signal it is chance."""
        assert all(found.expected <= found.score + 1e-6 for found in result.front)
        assert result.best().expected > 0.9
        coins = torch.randint(2, (300,), generator=torch.Generator().manual_seed(5))
        found = small_search((data[0], coins), validation=(data[0][100:], coins[100:])).best()
        assert found.score > 0.5
        assert found.expected < found.score

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
        best = result.best()  # on images of six by six
        first, second = (*best.network.channels[1:-1], 0)[:2]
        if len(best.widths) == 3:
            assert best.macs == 36 * 9 * first + 2 * first
            return
        assert best.macs == 36 * 9 * first + 36 * 9 * first * second + 2 * second

    def test_rungs_get_smaller_by_a_third_at_a_time(self, result):
        sizes = rungs_of(result)
        assert all(after <= 0.7 * before for before, after in itertools.pairwise(sizes))

    def test_picks_as_a_table_does(self, result):
        assert result.pick() is result.smallest()
        assert result.pick("best") is max(result.front, key=lambda found: found.told)
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
    weights = [found.trained.maps[0].weight for found in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("normalise", [True, False])
def test_rows_that_judge_are_not_fitted_to(data, monkeypatch, normalise):
    seen = []

    def spied(module, rows, config, **options):
        seen.append((rows[0], config))
        return train(module, rows, config, **options)

    for name in ("searching.network_search", "cutting.model_ladder"):
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


def test_a_fine_tuning_that_spoils_a_network_is_not_taken(monkeypatch):
    """Before and after it are judged, and both are among the attempts."""

    def spoiling(network, *_, **__):
        for parameter in network.parameters():
            nn.init.zeros_(parameter)

    monkeypatch.setattr("torchsparcs.cutting.model_ladder.train", spoiling)
    torch.manual_seed(0)
    x = torch.randn(200, 6)
    config = TrainConfig(epochs=20, lr=1e-2, batch_size=50)
    network = SpectralNetwork([6, 9, 2])
    found = search(
        x,
        (x[:, 0] > 0).long(),
        network=network,
        validation=0.5,
        config=config,
        device="cpu",
        progress=False,
    )
    whole, first, spoiled = found.attempts[:3]
    assert whole.score > 0.9
    assert first.parameters == spoiled.parameters < whole.parameters
    assert first.score > 0.9
    assert spoiled.score < 0.6


def test_a_fine_tuning_has_some_steps_and_no_more_than_the_training():
    config = TrainConfig(epochs=12, batch_size=10)
    epochs = {rows: tuning_of(config, normalise=True, rows=rows).epochs for rows in (10, 250, 9999)}
    assert epochs == {10: 12, 250: 4, 9999: 2}


def test_it_ends_where_half_of_the_gain_is_lost(result):
    best = min(found.loss for found in result.attempts)
    last = next(found for found in result.attempts if found.cut == result.attempts[-1].cut)
    constant = math.log(2)
    assert last.loss < constant - (constant - best) / 2
    assert last.parameters > 4  # from there on one could still cut


@pytest.mark.parametrize(("first", "expected"), [(0.69, [0.69, 0.7, 0.71]), (0.3, [0.3])])
def test_where_nothing_is_gained_it_goes_on_to_the_smallest(monkeypatch, data, first, expected):
    def rungs(*_, **__):
        for loss in (first, 0.7, 0.71):
            yield Rung(0, 0, "", [], Judgement(loss, 0.5, 0.1, None, 0.5, torch.zeros(1)), 9)

    module = sys.modules["torchsparcs.searching.network_search"]
    monkeypatch.setattr(module, "descend", rungs)
    monkeypatch.setattr(NetworkSearch, "_constant_loss", lambda *_: math.log(2))
    config = TrainConfig(task="multiclass")
    rows = (*data, None, None)
    run = NetworkSearch(offered(), rows, Executor(), torch.device("cpu"), config=config)
    found = run._rungs([nn.Linear(1, 1)], config, None)
    assert [rung.loss for rung in found] == expected


def interrupted_after(count: int, monkeypatch) -> list[int]:
    """The sizes of the rungs before a Ctrl-C."""
    rungs, sizes = NetworkSearch._rungs, []

    def interrupted(*given):
        sizes.clear()
        for rung in rungs(*given):
            if len(sizes) == count:
                raise KeyboardInterrupt
            sizes.append(rung.parameters)
            yield rung

    monkeypatch.setattr(NetworkSearch, "_rungs", interrupted)
    return sizes


def test_after_an_interruption_there_is_what_was_found(data, monkeypatch):
    sizes = interrupted_after(2, monkeypatch)
    with pytest.warns(UserWarning, match="interrupted: these are the networks"):
        result = small_search(data)
    assert rungs_of(result) == sizes
    unreached = pytest.warns(UserWarning, match="No network has at most 1 parameters: the smallest")
    with pytest.warns(UserWarning, match="interrupted: these"), unreached:
        assert len(small_search(data, max_parameters=1).front) == 1


def test_an_interruption_before_anything_was_found_is_one(data, monkeypatch):
    interrupted_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt, match="nothing was changed"):
        small_search(data)


def test_an_interruption_of_the_training_gives_no_advice_that_cannot_be_taken(data, monkeypatch):
    interrupted = Mock(side_effect=KeyboardInterrupt("pass checkpoint=PATH"))
    monkeypatch.setattr(sys.modules["torchsparcs.searching.network_search"], "train", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted in its training; there is no"):
        small_search(data)


class TestResuming:
    @pytest.mark.parametrize("rungs", [0, 2])
    def test_goes_on_where_it_stopped_bit_for_bit(self, data, monkeypatch, tmp_path, rungs):
        whole = small_search(data, validation=2)
        with monkeypatch.context() as patched:
            interrupted_after(rungs, patched)
            with pytest.raises(KeyboardInterrupt):
                small_search(data, validation=2, checkpoint=tmp_path / "parts")
        trained = []
        train_again = sys.modules["torchsparcs.searching.network_search"].train
        monkeypatch.setattr(
            sys.modules["torchsparcs.searching.network_search"],
            "train",
            lambda *given, **options: trained.append(1) or train_again(*given, **options),
        )
        again = small_search(data, validation=2, checkpoint=tmp_path / "parts", resume=True)
        assert not trained
        assert len(again.front) == len(whole.front)
        for one, other in zip(whole.front, again.front, strict=True):
            assert one.score == other.score
            for name, value in one.network.state_dict().items():
                assert torch.equal(value, other.network.state_dict()[name])

    def test_other_rows_and_weights_are_refused(self, data, monkeypatch, tmp_path):
        with monkeypatch.context() as patched:
            interrupted_after(1, patched)
            with pytest.raises(KeyboardInterrupt, match="with resume=True goes on"):
                small_search(data, checkpoint=tmp_path)
        torch.manual_seed(1)
        with pytest.raises(ValueError, match="Got other weights"):
            small_search(data, checkpoint=tmp_path, resume=True, network=SpectralCNN([1, 4, 4, 2]))
        with pytest.raises(ValueError, match="Got other rows"):
            small_search((data[0] + 1, data[1]), checkpoint=tmp_path, resume=True)


class Several(Engine):
    """This process in turns, as if it were two workers."""

    workers, done = 2, 0

    def map(self, function, items):
        for place in reversed(range(len(items))):
            Several.done += 1
            yield place, function(items[place])


class TestFolds:
    def test_every_row_judges_and_the_network_is_fitted_to_all(self, data):
        result = small_search(data, validation=3)
        assert (result.settings["fits"], result.settings["judged_rows"]) == (4, 60)
        assert result.settings["rows"] == 60

    def test_groups_stay_together(self, data):
        result = small_search(data, validation=GroupKFold(2), groups=np.arange(60) // 6)
        assert (result.settings["fits"], result.settings["judged_rows"]) == (3, 60)
        with pytest.raises(ValueError, match="a splitter as the validation where groups"):
            small_search(data, groups=np.arange(60) // 6)

    def test_whoever_trains_the_fits_the_outcome_is_the_same(self, data):
        alone = small_search(data, validation=2)
        shared = small_search(data, validation=2, engine=Several())
        for one, other in zip(alone.front, shared.front, strict=True):
            assert (one.parameters, one.score) == (other.parameters, other.score)
            for name, value in one.network.state_dict().items():
                assert torch.equal(value, other.network.state_dict()[name])
        assert Several.done > 3

    def test_several_go_on_with_what_one_has_begun(self, data, monkeypatch, tmp_path):
        """Of three fits one is done and one begun: a single one is sent to a worker."""
        module, calls, sent = sys.modules["torchsparcs.searching.network_search"], [], []
        whole, original = small_search(data, validation=2), module.train

        def stop(history):
            raise KeyboardInterrupt

        def interrupted(*given, **options):
            calls.append(1)
            return original(*given, **options, on_epoch=stop if len(calls) == 2 else None)

        class Watched(Several):
            def map(self, function, items):
                sent.append(len(items))
                return super().map(function, items)

        options = {"validation": 2, "checkpoint": tmp_path}
        with monkeypatch.context() as patched:
            patched.setattr(module, "train", interrupted)
            with pytest.raises(KeyboardInterrupt):
                small_search(data, **options)
        again = small_search(data, **options, resume=True, engine=Watched())
        assert sent[0] == 1
        assert [found.score for found in again.front] == [found.score for found in whole.front]

    def test_each_fit_is_kept_as_it_is_done(self, data, tmp_path):
        class Lost(Several):
            def map(self, function, items):
                yield next(super().map(function, items))
                raise ConnectionError

        with pytest.raises(ConnectionError):
            small_search(data, validation=2, checkpoint=tmp_path, engine=Lost())
        assert [path.stem for path in tmp_path.glob("training*")] == ["training 2"]

    def test_patience_is_for_rows_held_out(self, data):
        config = TrainConfig(epochs=2, patience=1)
        with pytest.raises(ValueError, match="no patience where folds judge"):
            small_search(data, validation=2, config=config)
        assert small_search(data, config=config).history.epochs

    def test_rows_that_stop_the_training_do_not_judge(self, data, monkeypatch):
        """Nor is the training fitted to them; the fine-tunings after it are."""
        module, seen = sys.modules["torchsparcs.searching.network_search"], []

        def spied(network, rows, config, *, validation=None, **options):
            seen.extend([rows[0], validation[0]])
            return train(network, rows, config, validation=validation, **options)

        monkeypatch.setattr(module, "train", spied)
        judges = data[0][100:150], data[1][100:150]
        config = TrainConfig(epochs=3, patience=1)
        weight = np.arange(1.0, 61.0)
        small_search(data, config=config, validation=judges, sample_weight=weight)
        fitted, stopping, judging = (
            {tuple(row.flatten().tolist()) for row in rows} for rows in (*seen, judges[0])
        )
        assert (len(fitted), len(stopping)) == (54, 6)
        assert not judging & stopping
        assert not fitted & stopping
        assert fitted | stopping == {tuple(row.flatten().tolist()) for row in data[0][:60]}
        with pytest.raises(ValueError, match=r"at least 10 rows to train on.*patience\)\. Got 9"):
            search(data[0][:9], data[1][:9], network=offered(), config=config, validation=judges)

    def test_heavy_rows_are_believed(self):
        """Half of the rows say the opposite of the others; the heavier ones win."""
        x, y = stripes(120, 3)
        y = torch.where(torch.arange(120) % 2 == 1, y, 1 - y)
        config = TrainConfig(epochs=8, batch_size=32, eigenvalue_lr_scale=10)
        options = {"network": offered(), "config": config, "device": "cpu", "progress": False}
        weight = np.where(np.arange(120) % 2 == 1, 30.0, 1.0)
        result = search(x, y, sample_weight=weight, **options)
        other = stripes(100, 4)
        assert result.score(*other, "best") > 0.65

    def test_rows_count_as_much_as_they_weigh(self, data):
        """Rows of weight zero are not there."""
        spoiled, weight = data[1][:60].clone(), np.ones(60)
        spoiled[::3], weight[::3] = 1 - spoiled[::3], 0
        kept = torch.from_numpy(weight > 0)
        weighted = small_search((data[0], spoiled), sample_weight=weight, validation=2)
        without = small_search((data[0][:60][kept], data[1][:60][kept]), validation=2)
        for one, other in zip(weighted.front, without.front, strict=True):
            assert (one.parameters, one.score) == (other.parameters, other.score)


def test_a_dense_network_is_searched_as_well(judging, data, tmp_path):
    torch.manual_seed(0)
    flat = data[0].flatten(1), data[1]
    result = small_search(flat, network=SpectralNetwork([36, 8, 2]))
    assert isinstance(result.best().network, CompactNetwork)
    result.save(tmp_path)
    again = load_result(tmp_path)
    rows = judging[0].flatten(1)
    assert np.array_equal(again.predict(rows, "best"), result.predict(rows, "best"))
    assert again.score(rows, judging[1]) == result.score(rows, judging[1])


def test_one_of_the_sizes_is_the_budget(data, monkeypatch):
    aims = []

    def spied(network, rows, loss, aim):
        aims.append(aim)
        return chain_cuts(network, rows, loss, aim)

    monkeypatch.setattr("torchsparcs.cutting.model_ladder.chain_cuts", spied)
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
    y = x[..., 2:-2].abs()
    y[3, 0, 1] = torch.nan
    with pytest.warns(UserWarning, match="The target is missing in 1 of 60 rows"):
        again = small_search((x, y), network=network)
    assert again.settings["rows"] == found.settings["rows"] - 1


def test_where_nothing_varies(data):
    images = torch.full_like(data[0], 0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = small_search((images, data[1]))
    assert all(math.isfinite(one.loss) for one in found.attempts)


def test_inputs_that_are_not_scaled(data):
    with pytest.warns(UserWarning, match=r"like images / 255.*standard deviation of") as told:
        small_search((100 * data[0], data[1]))
    assert told[0].filename == __file__


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
        for option in ({"widths": (8,)}, {"penalty_weights": (1.0,)}, {"activation": "tanh"}):
            with pytest.raises(ValueError, match=f"Expected no {next(iter(option))} where"):
                small_search(data, **option)

    def test_other_networks(self, data):
        with pytest.raises(ValueError, match="a SpectralChain as the network"):
            small_search(data, network=nn.Conv2d(1, 2, 3))

    def test_the_config_of_a_table(self, data):
        with pytest.raises(ValueError, match="Expected a TrainConfig where a network is given"):
            small_search(data, config=SearchConfig())
        with pytest.raises(ValueError, match="Expected a SearchConfig"):
            search(*data, config=CONFIG)

    @pytest.mark.parametrize("validation", [0.0, 0.7, 1, "some", True])
    def test_validation(self, data, validation):
        with pytest.raises(ValueError, match="Expected validation to be 'auto'"):
            small_search(data, validation=validation)

    @pytest.mark.parametrize("rows", [40, 80])
    def test_targets_of_other_rows(self, data, rows):
        with pytest.raises(ValueError, match="Expected as many rows in X as in y"):
            search(data[0][:60], data[1][:rows], network=offered(), device="cpu")

    def test_a_config_that_says_something_else(self, data):
        for name, option in (("task", {"task": "binary"}), ("seed", {"seed": 5})):
            with pytest.raises(ValueError, match=f"Expected one {name}"):
                small_search(
                    data, config=TrainConfig(**option), task="classification", **{"seed": 4}
                )
        found = small_search(data, config=TrainConfig(epochs=1, seed=5))
        assert found.settings["config"]["seed"] == found.settings["seed"] == 5
        with pytest.raises(ValueError, match="Expected one seed"):
            small_search(data, config=TrainConfig(epochs=1, seed=5), seed=0)

    def test_a_config_that_says_regression_means_it(self, data):
        config, one = TrainConfig(epochs=1, task="regression"), SpectralCNN([1, 2, 1])
        assert small_search(data, config=config, network=one).settings["task"] == "regression"
        unsaid = small_search(data, config=TrainConfig(epochs=1))
        assert unsaid.settings["task"] == "multiclass"

    def test_images_as_bytes_or_in_another_order(self, data):
        with pytest.raises(ValueError, match="floating-point numbers, like images / 255"):
            small_search(((data[0] * 9).byte(), data[1]))
        with pytest.raises(ValueError, match=r"the channels, is 1. Got shape \(2, 6, 6, 1\)"):
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
        with pytest.raises(ValueError, match="Got list and list"):
            search([*data[0]], [*data[1]], network=offered())
        with pytest.raises(ValueError, match="Got Tensor and NoneType"):
            search(data[0], network=offered())


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
        assert not (tmp_path / "networks" / "77.safetensors").exists()
        assert (tmp_path / "mine.txt").exists()

    def test_the_result_comes_back(self, result, judging, tmp_path):
        result.save(tmp_path)
        again = load_result(tmp_path)
        assert again.settings == json.loads(json.dumps(result.settings))
        assert again.attempts == result.attempts
        assert (again.linear, again.preprocessing) == (None, None)
        for one, other in zip(again.front, result.front, strict=True):
            assert (one.parameters, one.macs, one.score) == (
                other.parameters,
                other.macs,
                other.score,
            )
            assert torch.equal(one.answers, other.answers)
        assert np.array_equal(again.predict(judging[0]), result.predict(judging[0]))
        assert torch.equal(again.trained(judging[0]), result.trained(judging[0]))
        assert again.history.epochs == result.history.epochs
        with pytest.raises(ValueError, match="take the candidate's own network"):
            again.deployed()
        with pytest.raises(ValueError, match="Expected a search of a table"):
            refit(again, *judging)

    def test_a_folder_with_files_in_it_is_left_alone(self, result, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(ValueError, match="Expected an empty folder"):
            result.save(tmp_path)
