"""The end of a search: plain networks, second-order fits, single connections."""

import numpy as np
import pytest
import torch

from torchsparcs import CompactNetwork, SearchConfig, load_result, search
from torchsparcs.compact.direct import DirectSpace, connection_count
from torchsparcs.fitting import fit_rows, lanes
from torchsparcs.fitting.drawing import Shape, drawn
from torchsparcs.fitting.fit_rows import Recipe
from torchsparcs.fitting.second_order import NOBODY, Begun, Rung, SecondOrder
from torchsparcs.searching import finishing
from torchsparcs.searching.finishing import PLAIN

CONFIG = SearchConfig(steps=60, epochs=1, longest=60, ways=("asleep",))
OPTIONS = {"widths": (12,), "penalty_weights": (1e-3,), "validation": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def result():
    """Each of three classes is told by two columns of its own among nine, and a product."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 9))
    y = np.stack([x[:, 3 * k] * x[:, 3 * k + 1] + x[:, 3 * k + 1] for k in range(3)]).argmax(axis=0)
    return search(x, y, config=CONFIG, seed=0, progress=False, **OPTIONS), x, y


def test_networks_lose_single_connections(result):
    found, *_ = result
    sparse = [each for each in found.front if each.network.kept is not None]
    assert sparse
    for each in sparse:
        assert isinstance(each.network, CompactNetwork)
        assert each.parameters == sum(p.numel() for p in each.network.parameters())
        dense = sum(p.numel() for p in each.network.to_direct().weights.split(1))
        assert each.parameters < dense


def test_plain_networks_are_among_the_candidates(result):
    found, *_ = result
    assert any(attempt.member is None for attempt in found.attempts)


def test_the_linear_model_is_no_worse_than_a_tuned_one(result):
    from sklearn.linear_model import LogisticRegression

    found, x, y = result
    tuned = max(LogisticRegression(C=c).fit(x, y).score(x, y) for c in (0.01, 0.1, 1, 10))
    assert found.score(x, y, "linear") > tuned - 0.02


def test_it_goes_through_a_folder(result, tmp_path):
    found, x, _ = result
    found.save(tmp_path / "run")
    again = load_result(tmp_path / "run")
    assert [each.parameters for each in again.front] == [each.parameters for each in found.front]
    assert [each.architecture for each in again.front] == [
        each.architecture for each in found.front
    ]
    for place in range(len(found.front)):
        np.testing.assert_array_equal(again.outputs(x, place), found.outputs(x, place))


def test_it_is_the_same_twice(result):
    found, x, y = result
    again = search(x, y, config=CONFIG, seed=0, progress=False, **OPTIONS)
    assert [(each.parameters, each.loss) for each in again.front] == [
        (each.parameters, each.loss) for each in found.front
    ]


def test_it_goes_on_after_an_interruption(result, tmp_path, monkeypatch):

    found, x, y = result
    descended = lanes.descended
    monkeypatch.setattr(finishing, "descended", lambda *args: 1 / 0)
    options = {"config": CONFIG, "seed": 0, "progress": False, **OPTIONS}
    with pytest.raises(ZeroDivisionError):
        search(x, y, checkpoint=tmp_path, **options)
    monkeypatch.setattr(finishing, "descended", descended)
    again = search(x, y, checkpoint=tmp_path, resume=True, **options)
    assert [each.loss for each in again.front] == [each.loss for each in found.front]


def test_a_budget_bounds_what_is_made(result):
    _, x, y = result
    small = search(x, y, config=CONFIG, max_parameters=40, progress=False, **OPTIONS)
    assert max(each.parameters for each in small.front) <= 40


def test_what_is_asked_for_bounds_the_plain_networks(result):
    _, x, y = result
    options = {**OPTIONS, "config": CONFIG, "progress": False}
    narrow = search(x, y, **{**options, "widths": (2,)})
    assert max(attempt.neurons for attempt in narrow.attempts) <= 2
    linear = search(x, y, **{**options, "widths": ()})
    assert max(attempt.neurons for attempt in linear.attempts) == 0


def test_a_small_budget_is_met_by_cutting(result):
    _, x, y = result
    options = {**OPTIONS, "config": CONFIG, "progress": False}
    small = search(x, y, max_parameters=45, **options)
    assert any(sum(each.widths[1:-1]) for each in small.front)


def test_few_of_many_rows_are_fitted_to_by_every_fit(result, monkeypatch):
    from sklearn.model_selection import PredefinedSplit

    from torchsparcs.fitting import fit_rows

    monkeypatch.setattr(fit_rows, "MOST_ROWS", 100)
    _, x, y = result
    turns = PredefinedSplit(np.arange(len(x)) % 2)
    options = {**OPTIONS, "config": CONFIG, "progress": False, "validation": turns}
    assert search(x, y, **options).best().score > 0.4


def test_the_largest_seed(result):
    _, x, y = result
    options = {**OPTIONS, "config": CONFIG, "progress": False}
    assert search(x[:100], y[:100], seed=2**64 - 1, **options).front


def test_a_refit_brings_no_number_back(result):
    from torchsparcs import refit

    found, x, y = result
    again = refit(found, x, y, steps=5, validation=2, device="cpu", progress=False)
    sizes = {each.parameters for each in (*found.front, found.linear)}
    assert {each.parameters for each in again.front} <= sizes


def test_a_fit_of_few_rows_has_rows_to_be_fitted_to(monkeypatch):
    monkeypatch.setattr(fit_rows, "MOST_ROWS", 10)
    weights = torch.ones(2, 5_000)
    weights[0, 3:] = 0  # it sees three rows of thousands
    some = fit_rows.some_rows(weights, 0)
    assert weights[0, some].sum() == 3
    assert torch.equal(some, some.sort().values)
    assert 200 <= len(some) <= 213


def test_groups_that_can_get_no_smaller_are_left_alone(result):
    """Each size of a network is judged once."""
    drawn = [a for a in result[0].attempts if a.member is None and a.cut]
    assert len({(a.parameters, a.score, a.loss) for a in drawn}) == len(drawn)


@pytest.mark.parametrize("seed", [1, 3, 11])
def test_a_lane_goes_down_to_the_smallest_size(seed):
    """A cut may take more than it was asked for; what is small enough then waits."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 5)))
    pair, weights = (x, x[:, 0] * x[:, 1] + x[:, 2]), torch.ones(1, 200)
    nothing = torch.zeros(1, 5, dtype=torch.float64)
    like = DirectSpace(nothing, nothing[:, 0], torch.zeros(0, dtype=torch.long), "relu")
    rows = fit_rows.FitRows(*pair, weights, pair, weights, "regression")
    groups = lanes.descended(
        rows, 2, 3, False, [drawn(like, Shape(2), 14, seed)], [[fit_rows.Recipe(1e-3)]]
    )
    assert min(connection_count(group[-1]) for group in groups if group) <= 2


def test_networks_that_decay_has_silenced_are_left_out(monkeypatch):
    fitted = SecondOrder.gone_on

    def silenced(self, name, begun):
        found = fitted(self, name, begun)
        for (rung, _), _ in found:
            rung.network.weights[: rung.network.hidden] = 0
        return found

    monkeypatch.setattr(SecondOrder, "gone_on", silenced)
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    result = search(x, np.abs(x[:, 0]), config=CONFIG, progress=False, **OPTIONS)
    assert result.linear in result.front


@pytest.mark.parametrize(("fewest", "expected"), [(100, ["linear", "deeper"]), (400, ["linear"])])
def test_the_best_of_each_size_has_more_turns_where_rows_are_many(monkeypatch, fewest, expected):
    fitted, asked = SecondOrder.fitted, []

    def counted(self, name, begun, usual):
        asked.append(name)
        return fitted(self, name, begun, usual)

    monkeypatch.setattr(SecondOrder, "fitted", counted)
    monkeypatch.setattr(finishing, "DEEP_ROWS", fewest)
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    search(x, np.abs(x[:, 0]), config=CONFIG, progress=False, **OPTIONS)
    assert asked == expected


def test_larger_sizes_are_tried_while_they_are_clearly_better():
    def begun(parameters, loss):
        rung = Rung(PLAIN, 0, "1 hidden", [], NOBODY, parameters)
        return Begun((0, 1000), rung, [], Recipe(1e-3), loss)

    small = begun(90, 0.5)
    assert finishing._is_better_above([small, begun(200, 0.6), begun(300, 0.4)], 100)
    assert not finishing._is_better_above([small, begun(200, 0.498)], 100)
    assert not finishing._is_better_above([], 100)
