"""What it costs to measure the columns that a network reads, and the front of score against that.

A column that is read at all is paid for once, whatever is made of it. Columns without a price cost
nothing. The search itself knows nothing of prices; after it, linear models and plain networks are
fitted without the dearest column, without the two dearest and so on. Of these and of everything
that was judged, what is better than all that costs no more is on the front.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.fitting import fitted
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.fitting.dense import DenseFamily, compact
from torchsparcs.fitting.drawing import LINEAR, Shape, drawn
from torchsparcs.fitting.fit_rows import FitRows
from torchsparcs.fitting.second_order import FEWEST_TURNS
from torchsparcs.judging.candidates import Candidate, corrected, on_the_front
from torchsparcs.judging.correction import expected_scores
from torchsparcs.searching.strategies import SearchConfig
from torchsparcs.searching.table_search import TableSearch
from torchsparcs.tables.columns import check_known
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.training.deadline import NEVER

Costs = Mapping[str, float]

MOST_PRICES = 6  # at which columns are left out
STARTS = ((LINEAR, 0.0), (Shape(1, skip=True), 60.0), (Shape(1, skip=True), 200.0))
DECAYS = (3e-4, 3e-3, 3e-2)
TURNS = 80


def checked_costs(costs: Any, names: Sequence[str]) -> dict[str, float]:
    """The prices of columns among ``names``; a ValueError for anything but numbers from zero on."""
    if not isinstance(costs, Mapping):
        raise ValueError(f"Expected costs by the names of columns. Got {costs!r}.")
    check_known("columns with a cost", [*costs], names)
    for name, cost in costs.items():
        if not isinstance(cost, Real) or not 0 <= float(cost) < math.inf:
            raise ValueError(f"Expected a cost from 0 on for {name!r}. Got {cost!r}.")
    return {name: float(cost) for name, cost in costs.items()}


def with_costs(candidates: Sequence[Candidate], inputs: Inputs, costs: Costs) -> list[Candidate]:
    """The same candidates, each with the sum over the columns that it reads."""
    found = []
    for each in candidates:
        assert isinstance(each.network, CompactNetwork)
        read = inputs.columns_read(each.network.reads)
        cost = math.fsum(costs.get(column.name, 0.0) for column in read)
        found.append(replace(each, cost=cost))
    return found


def cheaper_networks(
    run: TableSearch, some: Candidate, inputs: Inputs, costs: Costs
) -> list[Candidate]:
    """Networks that read only the columns below some price, one price after another.

    ``some`` is any network of the search ``run``, for what goes in and out.
    """
    folded, seed, family = run.whole, run.seed, DenseFamily(run.whole, run.executor)
    rows, like = FitRows.of(folded, seed), _like(some, run)
    turns = max(FEWEST_TURNS, round(TURNS * min(1.0, run.config.steps / SearchConfig.steps)))
    networks, decays, kinds = [], [], []
    for is_kept in _cheap_inputs(inputs, costs):
        for shape, size in STARTS:
            width = shape.width(int(is_kept.sum()), like.outputs, size)
            if shape.layers and not width:
                continue
            for decay in DECAYS:
                drawings = [drawn(like, shape, width, seed + fit) for fit in range(folded.fits)]
                networks += [_without(each, ~is_kept) for each in drawings]
                decays += [decay] * folded.fits
                kinds.append(shape)
    if not networks:
        return []
    weights = rows.weights.repeat(len(kinds), 1)
    pair = rows.inputs, rows.targets
    deadline = run.clock.deadline or NEVER
    found = fitted(networks, pair, weights, decays, rows.task, turns=turns, deadline=deadline)
    starts = range(0, len(found), folded.fits)
    groups = [found[start : start + folded.fits] for start in starts]
    judgements = [family.judge([group])[0] for group in groups]
    return [
        run.sizing.weighed(
            Candidate.of(compact(group[-1]), judgement, 0.0 if shape.layers else None, None)
        )
        for group, judgement, shape in zip(groups, judgements, kinds, strict=True)
        if judgement.is_borne_out
    ]


def _like(some: Candidate, run: TableSearch) -> DirectSpace:
    """A network with the inputs and outputs of ``some``, on the device of the rows."""
    assert isinstance(some.network, CompactNetwork)
    direct, device = some.network.to_direct(), run.folded.inputs.device
    tensors = {name: getattr(direct, name).to(device) for name in ("weights", "bias", "layers")}
    return replace(direct, **tensors, activation=run.activation)


def _cheap_inputs(inputs: Inputs, costs: Costs) -> list[Tensor]:
    """Which inputs of the network come from columns below a price, for each of some prices."""
    price = torch.tensor(
        [costs.get(column.name, 0.0) for column in inputs.columns for _ in column.encoded_names]
    )
    prices = sorted({each for each in price.tolist() if each > price.min()})
    stride = math.ceil(len(prices) / MOST_PRICES)
    return [price < each for each in prices[::-1][::stride]]


def _without(direct: DirectSpace, is_left_out: Tensor) -> DirectSpace:
    """``direct`` without the weights of some inputs; where they are zero they stay so."""
    weights = direct.weights.clone()
    weights[:, : direct.inputs][:, is_left_out.to(weights.device)] = 0.0
    return replace(direct, weights=weights)


def front_by_cost(
    candidates: Sequence[Candidate], limits: Mapping[str, int] | None = None
) -> list[Candidate]:
    """Those with a better score than all that cost no more, with the score to be expected.

    It is that of the best network that costs no more, among those that are small enough.
    """
    small = [
        each
        for each in candidates
        if all(getattr(each, size) <= most for size, most in (limits or {}).items())
    ]
    judged = [(each.parts, each.cost or 0.0) for each in small if each.parts is not None]
    expected = expected_scores([part for part, _ in judged], [cost for _, cost in judged])
    return corrected(on_the_front(small, size="cost"), expected, size="cost")
