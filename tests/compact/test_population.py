"""Members of any shape compute, train and end in a population as they would alone."""

import pytest
import torch
from torch import nn

from torchsparcs import CompactNetwork, TrainConfig, evaluate, train
from torchsparcs.compact.direct import DirectSpace, direct_space
from torchsparcs.compact.population import CompactPopulation
from torchsparcs.spectral.population import Population, members_of

DOUBLE = torch.float64
X = torch.randn(80, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
Y = torch.stack([X.prod(dim=1), X[:, 0].abs()], dim=1)
# widths, connections, inputs read: from no hidden layer to three, the deepest not the widest
SHAPES = [
    ([3, 4, 2], [(1, 0), (2, 0), (2, 1)], None),
    ([3, 2], [(1, 0)], [0, 2]),
    ([3, 2, 5, 2], [(1, 0), (2, 1), (3, 0), (3, 2)], [1]),
    ([3, 1, 2, 3, 2], [(t, s) for t in range(1, 5) for s in range(t)], [1, 2]),
    ([3, 6, 1, 2], [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2)], None),
]


def networks(activation="relu") -> list[CompactNetwork]:
    torch.manual_seed(0)
    return [
        CompactNetwork(w, c, reads=r, activation=activation, dtype=DOUBLE) for w, c, r in SHAPES
    ]


def population(members, dtype=DOUBLE) -> CompactPopulation:
    return CompactPopulation([member.to_direct() for member in members], dtype=dtype)


def assert_same(mine: DirectSpace, other: DirectSpace, **tolerance):
    assert torch.equal(mine.layers, other.layers)
    torch.testing.assert_close(mine.weights, other.weights, **tolerance)
    torch.testing.assert_close(mine.bias, other.bias, **tolerance)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(1, 2)])
def test_members_compute_what_they_compute_alone(activation, order):
    members = networks(activation)[order]
    output = population(members)(X)
    for index, member in enumerate(members):
        torch.testing.assert_close(output[index], member(X), rtol=1e-12, atol=1e-12)


def test_members_of_a_spectral_population_too():
    whole = Population([3, 5, 4, 2], seeds=range(3), dtype=DOUBLE)
    for eigenvalues in whole.hidden_eigenvalues:
        nn.init.normal_(eigenvalues)
    directs = [direct_space(whole.member(index)) for index in range(3)]
    torch.testing.assert_close(CompactPopulation(directs, dtype=DOUBLE)(X), whole(X))


def test_there_and_back():
    members = networks()
    for member, back in zip(members, population(members).to_directs(), strict=True):
        assert_same(back, member.to_direct(), rtol=0, atol=0)
    assert population(members, torch.float32)(X.float()).dtype == torch.float32
    (single, *_) = population(members, torch.float32).to_directs()
    assert single.weights.dtype == DOUBLE


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_a_member_ends_as_it_would_have_ended_alone(task):
    y = Y if task == "regression" else (Y[:, 0] > 0).long()
    config = TrainConfig(task=task, epochs=8, batch_size=20, lr=1e-2, weight_decay=0.1)
    members = networks("tanh")
    whole = population(members)
    history = train(whole, (X, y), config, validation=(X, y), progress=False)
    for index, member in enumerate(members):
        expected = train(member, (X, y), config, validation=(X, y), progress=False)
        assert_same(whole.to_directs()[index], member.to_direct(), rtol=1e-5, atol=1e-5)
        mine = history.member(index)
        assert mine.train_loss == pytest.approx(expected.train_loss)
        assert mine.validation_score == pytest.approx(expected.validation_score)
        assert mine.train_loss[-1] < mine.train_loss[0]


def test_zero_connections_stay_exactly_zero():
    members = networks("sigmoid")
    with torch.no_grad():
        for member in members:
            for block in member.blocks.values():
                block.weight[0, 0] = 0
    whole = population(members)
    before = whole.to_directs()
    zeros = [parameter == 0 for parameter in (whole.from_inputs, *whole.from_hidden)]
    config = TrainConfig(epochs=5, batch_size=20, lr=1e-2, weight_decay=0.5)
    train(whole, (X, Y), config, progress=False)
    for old, new in zip(before, whole.to_directs(), strict=True):
        assert torch.equal(old.weights == 0, new.weights == 0)
        assert not torch.isclose(old.weights, new.weights).all()
    for zero, parameter in zip(zeros, (whole.from_inputs, *whole.from_hidden), strict=True):
        assert zero.any()
        assert (parameter[zero] == 0).all()


def test_every_member_is_evaluated():
    members = networks()
    whole = population(members)
    assert members_of(nn.Sequential(nn.Identity(), whole)) == 5
    loss, score = evaluate(whole, (X, Y), "regression", batch_size=30)
    for index, member in enumerate(members):
        alone = evaluate(member, (X, Y), "regression")
        assert (loss[index], score[index]) == pytest.approx(tuple(alone))
