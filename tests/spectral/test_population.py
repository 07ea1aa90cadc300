"""A population is its members, side by side."""

import pytest
import torch
from torch import nn

from torchsparcs import (
    Population,
    SpectralNetwork,
    TrainConfig,
    eigenvalue_penalty,
    evaluate,
    extract,
    train,
)

DOUBLE = torch.float64
SEEDS = [3, 1, 4]


def population(**options) -> Population:
    return Population([2, 12, 8, 1], seeds=SEEDS, dtype=DOUBLE, **options)


def alone(seed: int, **options) -> SpectralNetwork:
    network = SpectralNetwork([2, 12, 8, 1], dtype=DOUBLE, **options)
    network.reset_parameters(torch.Generator().manual_seed(seed))
    return network


def data(rows=120, seed=0):
    x = torch.rand(rows, 2, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE) * 2 - 1
    return x, x.abs().sum(dim=1)


def assert_same_weights(first: nn.Module, second: nn.Module) -> None:
    for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


def test_members_start_like_networks_of_their_seeds():
    whole, x = population(), data()[0]
    assert whole(x).shape == (3, 120, 1)
    for index, seed in enumerate(SEEDS):
        assert all(map(torch.equal, whole.member(index).parameters(), alone(seed).parameters()))
        torch.testing.assert_close(whole(x)[index], alone(seed)(x))


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"train_input_eigenvalues": True}])
@pytest.mark.parametrize(
    "training",
    [
        {"penalty_weight": (1e-2, 1e-3, 0.0)},
        {"penalty_weight": (1e-2, 1e-3, 0.0), "penalty": "sparse_group"},
        {"penalty_weight": (1e-2, 1e-3, 0.0), "proximal": False, "schedule": "constant"},
        {"penalty_weight": 1e-3, "member_lr_scales": (0.3, 1.0, 2.0)},
    ],
    ids=["l1", "sparse_group", "subgradient", "learning rates"],
)
def test_a_member_ends_as_it_would_have_ended_alone(options, training):
    shared = {"epochs": 6, "batch_size": 25, "lr": 1e-2}
    whole = population(**options)
    history = train(
        whole, data(), TrainConfig(**shared, **training), validation=data(seed=1), progress=False
    )
    for index, seed in enumerate(SEEDS):
        own = dict(training)
        if isinstance(own["penalty_weight"], tuple):
            own["penalty_weight"] = own["penalty_weight"][index]
        scale = own.pop("member_lr_scales", (1.0,) * 3)[index]
        network = alone(seed, **options)
        config = TrainConfig(**{**shared, "lr": shared["lr"] * scale}, **own)
        expected = train(network, data(), config, validation=data(seed=1), progress=False)
        assert_same_weights(whole.member(index), network)
        mine = history.member(index)
        assert mine.train_loss == pytest.approx(expected.train_loss)
        assert mine.validation_score == pytest.approx(expected.validation_score)
        assert mine.recruited == expected.recruited
        epoch, values = mine.snapshots[-1]
        assert epoch == 6
        torch.testing.assert_close(
            values["hidden_eigenvalues.0"], network.hidden_eigenvalues[0].detach()
        )


@pytest.mark.parametrize("own_inputs", [True, False])
def test_members_can_have_data_of_their_own(own_inputs):
    sets = [data(seed=index if own_inputs else 0) for index in range(3)]
    targets = torch.stack([(index + 1) * y for index, (_, y) in enumerate(sets)])
    inputs = torch.stack([x for x, _ in sets]) if own_inputs else sets[0][0]
    config = TrainConfig(epochs=4, batch_size=25, lr=1e-2)
    whole = population()
    history = train(whole, (inputs, targets), config, validation=(inputs, targets), progress=False)
    for index, seed in enumerate(SEEDS):
        network = alone(seed)
        mine = (sets[index][0], targets[index])
        expected = train(network, mine, config, validation=mine, progress=False)
        assert_same_weights(whole.member(index), network)
        loss = history.member(index).validation_loss
        assert loss == pytest.approx(expected.validation_loss)


def test_as_many_rows_as_members():
    x, y = data(3)
    targets = torch.stack([y, 2 * y, 3 * y])
    for own in (targets, targets.unsqueeze(-1)):
        history = train(population(), (x, own), TrainConfig(epochs=1), progress=False)
        assert len(history.train_loss[-1]) == 3


def test_a_layer_before_the_population_is_no_hindrance():
    model = nn.Sequential(nn.Dropout(0.1), population())
    config = TrainConfig(epochs=2, batch_size=25, penalty_weight=(100.0, 1e-3, 1e-4))
    history = train(model, data(), config, validation=data(), progress=True)
    assert model[1].recruited[0] == [0, 0] == history.recruited[-1][0]


def test_one_diverging_member_does_not_stop_the_others():
    whole = population()
    with torch.no_grad():
        whole.transfers[0][1].fill_(torch.nan)
    history = train(whole, data(), TrainConfig(epochs=2), progress=False)
    assert [loss == loss for loss in history.train_loss[-1]] == [True, False, True]


def test_evaluating_a_population_tells_of_every_member():
    whole, (x, y) = population(), data()
    loss, score = evaluate(whole, (x, y), "regression", batch_size=50)
    for index in range(3):
        alone_loss, alone_score = evaluate(whole.member(index), (x, y), "regression")
        assert loss[index] == pytest.approx(alone_loss)
        assert score[index] == pytest.approx(alone_score)


def test_taking_a_member_out_draws_no_random_numbers():
    whole, state = population(), torch.get_rng_state()
    whole.member(1)
    assert torch.equal(state, torch.get_rng_state())


def test_the_penalty_of_each_member():
    whole = population()
    nn.init.ones_(whole.hidden_eigenvalues[0][1])
    assert eigenvalue_penalty(whole, "l1").tolist() == [0.0, 12.0, 0.0]


def test_bad_input():
    with pytest.raises(ValueError, match="one for each member"):
        Population([2, 1], seeds=[])
    with pytest.raises(ValueError, match=r"without parameters.*Got PReLU"):
        population(activation=nn.PReLU())
    with pytest.raises(ValueError, match=r"\(batch, 2\) or \(3, batch, 2\)\. Got \(4, 5, 2\)"):
        population()(torch.zeros(4, 5, 2, dtype=DOUBLE))
    with pytest.raises(ValueError, match=r"one for each of 3 members\. Got 2"):
        train(population(), data(), TrainConfig(penalty_weight=(1.0, 2.0)), progress=False)
    config = TrainConfig(patience=2)
    with pytest.raises(ValueError, match="no patience for a population"):
        train(population(), data(), config, validation=data(), progress=False)
    with pytest.raises(ValueError, match="extract its members"):
        extract(population())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("proximal", [True, False])
@pytest.mark.parametrize("make", [population, lambda: alone(0)])
def test_captured_steps_end_with_the_same_weights(make, proximal):
    trained = []
    for capture in (False, True):
        network = make().cuda()
        for values in network.hidden_eigenvalues:  # away from zero, where Adam blows rounding up
            values.data.fill_(0.5)
        penalty = "l1" if proximal else "l2_squared"
        config = TrainConfig(
            epochs=5, batch_size=25, lr=1e-2, penalty=penalty, proximal=proximal, capture=capture
        )
        train(network, data(), config, progress=False)
        trained.append(network)
    for a, b in zip(*(network.parameters() for network in trained), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)  # the bias correction rounds


class TestShortOfMemory:
    """A population that does not fit is trained part by part, with the same outcome."""

    @pytest.mark.parametrize("own", [False, True])
    def test_the_outcome_is_that_of_the_whole(self, monkeypatch, own):
        x = torch.rand(60, 3) * 2 - 1
        y = x.abs().sum(dim=1)
        data = (x.repeat(5, 1, 1), torch.stack([y * k for k in range(1, 6)])) if own else (x, y)
        weights = torch.rand(5, 60) + 0.1
        config = TrainConfig(
            epochs=4,
            batch_size=20,
            penalty_weight=(0.0, 1e-4, 1e-3, 1e-2, 0.1),
            member_lr_scales=(1.0, 2.0, 0.5, 1.0, 1.5),
        )
        options = {"validation": data, "weights": weights, "progress": False}
        whole, parts = (Population([3, 6, 1], seeds=range(5)) for _ in range(2))
        expected = train(whole, data, config, **options)
        sizes = []
        forward = Population.forward

        def cramped(population, input):
            if population.members > 2:
                raise torch.OutOfMemoryError("no room")
            sizes.append(population.members)
            return forward(population, input)

        monkeypatch.setattr(Population, "forward", cramped)
        history = train(parts, data, config, **options)
        assert set(sizes) == {1, 2}
        for mine, other in zip(parts.parameters(), whole.parameters(), strict=True):
            assert torch.allclose(mine, other, atol=1e-6)
        assert len(history.snapshots) == len(expected.snapshots)
        assert torch.tensor(history.train_loss).allclose(torch.tensor(expected.train_loss))
        assert history.recruited == expected.recruited

    def test_one_member_that_does_not_fit_is_an_error(self, monkeypatch):
        def cramped(population, input):
            raise torch.OutOfMemoryError("no room")

        monkeypatch.setattr(Population, "forward", cramped)
        with pytest.raises(torch.OutOfMemoryError, match="no room"):
            train(Population([3, 6, 1], seeds=range(3)), (torch.rand(9, 3), torch.rand(9)))
