"""Backward elimination of inputs, neurons and blocks of a dense network, by ``removal``'s formula.

A source q costs Σ_i g_i W_iq² / P_qq over its listeners i, g_i the gain from i to the output. So
duplicates and linear combinations of other sources cost nothing.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchsparcs.compact.direct import (
    DirectSpace,
    activities,
    from_biased,
    is_read,
    keep_neurons,
    layer_slices,
    parameter_count,
    simplified,
    with_bias,
)
from torchsparcs.cutting.removal import cut_to_budget, remove_sources_
from torchsparcs.cutting.signs import reoriented

RIDGE = 1e-8  # relative to the mean square of each source
WIDEST_REFIT = 2048  # with more inputs than that, their own weights are left as they are
MANY_SOURCES = 25  # for so many one goes at a time, for twice as many two, and so on
ALIKE = 0.5  # partial correlation of two sources that must not go together
TURNED = 0.1  # signs are changed where that divides the cost of a skip connection by ten
BLOCKS_EVERY = 0.9  # whole blocks are looked at again when the size has fallen by this factor,
JUMP = 10.0  # or when the next source costs that many times what the last one did


class Elimination:
    """A network from which inputs, hidden neurons and blocks are removed one by one.

    The activities are those of the network as it came; form a new one after many cuts.

    Shape: sources are numbered I inputs, a constant, H hidden neurons (S = I + 1 + H in all);
    listeners are numbered H hidden neurons, O outputs. An error of output o counts ``fisher``,
    (O,), times its square, or simply its square. Where there are more inputs than rows (or
    than 2048) the F free sources, whose weights are refitted, are those after them; else F = S.
    """

    def __init__(
        self,
        direct: DirectSpace,
        inputs: Tensor,
        *,
        fisher: Tensor | None = None,
        ridge: float = RIDGE,
    ):
        self.direct, self.fisher, self.ridge = direct, fisher, ridge
        self.sources, self.slopes = activities(direct, inputs)
        self.power = self.sources.square().mean(dim=0)  # (S,), what goes where nothing is refitted
        self.weights = with_bias(direct)  # (H + O, S)
        self.first = direct.inputs + 1  # hidden neuron
        # from fewer rows than inputs, least squares would copy any input from the others
        most = min(WIDEST_REFIT, len(inputs))
        self.fixed = direct.inputs if direct.inputs > most else 0  # sources that are not refitted
        self.layers = layer_slices(direct)[0]  # rows of each layer, the outputs last
        starts = [self.first + rows.start for rows in self.layers]
        self.levels = [slice(0, direct.inputs), *map(slice, starts, starts[1:])]  # their sources
        self.alive = torch.ones(direct.hidden, dtype=torch.bool, device=self.weights.device)
        self.precisions = self._precisions()

    def costs(self) -> Tensor:
        """The growth of the squared error of the output without each source, (S,)."""
        gain = self._gain()
        cost = torch.zeros_like(self.weights[0])
        for rows, matrix in zip(self.layers, self.precisions, strict=True):
            precision = self._diagonal(matrix)
            felt = gain[rows] @ self.weights[rows].square()
            unfitted = felt * self.power
            cost += torch.where(precision > 0, felt / precision.clamp_min(1e-300), unfitted)
        return cost

    def savings(self) -> Tensor:
        """The parameters that go with each source, (S,): what hears it, and what it hears."""
        saved = torch.zeros_like(self.weights[0])
        for layer, rows in enumerate(self.layers):
            heard = (self.weights[rows] != 0).any(dim=0)
            saved += heard * self._living(rows)
            if layer < len(self.layers) - 1:
                saved[self.first + rows.start : self.first + rows.stop] += heard.sum()
        return saved

    @property
    def parameters(self) -> int:
        """The parameters that are left, whole blocks as ``parameter_count`` has them."""
        heard = torch.stack([(self.weights[rows] != 0).any(dim=0) for rows in self.layers])
        read = int(heard[:, : self.first - 1].any(dim=0).sum())
        sizes = [read, *map(self._living, self.layers)]
        total = 0
        for rows, mine in zip(self.layers, heard, strict=True):
            connected = (bool(mine[level].any()) for level in self.levels)
            columns = sum(n for n, c in zip(sizes, connected, strict=False) if c)
            total += self._living(rows) * (columns + int(mine[self.first - 1]))
        return total

    def remove(self, sources: Tensor) -> None:
        """Remove ``sources`` (n,) from every layer; hidden neurons among them are gone."""
        for layer in range(len(self.layers)):
            self.remove_block(layer, sources)
        neurons = sources[sources >= self.first] - self.first
        self.weights[neurons] = 0
        self.alive[neurons] = False

    def cheapest_block(self) -> tuple[float, int, Tensor]:
        """The block with the lowest cost for a parameter: that ratio, its layer, its sources.

        A layer keeps at least one block.
        """
        best = (torch.inf, -1, self.alive.new_empty(0).long())
        for layer, rows in enumerate(self.layers):
            heard = (self.weights[rows] != 0).any(dim=0)
            blocks = [n for n, level in enumerate(self.levels[: layer + 1]) if heard[level].any()]
            for source in blocks if len(blocks) > 1 else ():
                rate, sources = self.block_rate(layer, source)
                best = min(best, (rate, layer, sources), key=lambda found: found[0])
        return best

    def block_rate(self, layer: int, source: int) -> tuple[float, Tensor]:
        """What a block costs for each of its parameters, and its sources; nothing if it is gone.

        Taking the sources q of a block from a layer costs W_q (P_qq)⁻¹ W_qᵀ for each of its rows.
        """
        rows, precision, level = self.layers[layer], self.precisions[layer], self.levels[source]
        heard = (self.weights[rows, level] != 0).any(dim=0)
        sources = heard.nonzero().squeeze(1) + level.start
        if not len(sources):
            return 0.0, sources
        if not (self._diagonal(precision)[sources] > 0).all():
            return torch.inf, sources
        places = sources - self.fixed
        block = self.weights[rows][:, sources]
        refit = torch.linalg.solve(precision[places[:, None], places], block.T).T
        error = (refit * block).sum(dim=1)
        cost = (self._gain()[rows] @ error).item()
        return cost / (len(sources) * self._living(rows)), sources

    def remove_block(self, layer: int, sources: Tensor) -> None:
        """Remove ``sources`` (n,) from one layer, its weights refitted."""
        rows, precision = self.layers[layer], self.precisions[layer]
        known = sources[self._diagonal(precision)[sources] > 0]
        if len(known):
            remove_sources_(self.weights[rows, self.fixed :], precision, known - self.fixed)
        self.weights[rows, sources] = 0

    def unlike(self, sources: Tensor) -> Tensor:
        """The ``sources`` (n,) that can go together: none does the work of one before it."""
        free = sources[sources >= self.fixed]
        if len(free) < 2:
            return sources
        places = free - self.fixed
        likeness = torch.zeros(len(free), len(free)).to(self.weights)
        for precision in self.precisions:
            part = precision[places[:, None], places]
            scale = part.diagonal().clamp_min(1e-300).sqrt()
            likeness = torch.maximum(likeness, (part / scale / scale[:, None]).abs())
        kept: list[int] = []
        for place in range(len(free)):
            if not kept or likeness[place, kept].max() < ALIKE:
                kept.append(place)
        return torch.cat([sources[sources < self.fixed], free[kept]])

    def result(self) -> DirectSpace:
        return keep_neurons(from_biased(self.direct, self.weights), self.alive)

    def _living(self, rows: slice) -> int:
        if rows.start == self.direct.hidden:
            return self.direct.outputs
        return int(self.alive[rows].sum())

    def _gain(self) -> Tensor:
        """The squared output error for each unit of squared error in a row's signal, (H + O,)."""
        outgoing = self.weights[:, self.first :]
        gain = torch.ones_like(self.weights[:, 0])
        if self.fisher is not None:
            gain[self.direct.hidden :] = self.fisher
        for rows in reversed(self.layers[:-1]):
            felt = gain[rows.stop :] @ outgoing[rows.stop :, rows].square()
            gain[rows] = self.slopes[rows] * felt
        return gain

    def _diagonal(self, precision: Tensor) -> Tensor:
        """The diagonal of P, zero where it is not known, (S,)."""
        return torch.nn.functional.pad(precision.diagonal(), (self.fixed, 0))

    def _precisions(self) -> list[Tensor]:
        """The inverse Gram matrices of the free sources each layer hears, else zero, (F, F)."""
        sources = self.sources[:, self.fixed :]
        gram = damped(sources.T @ sources / len(sources), self.ridge)
        precisions = []
        for rows in self.layers:
            heard = (self.weights[rows, self.fixed :] != 0).any(dim=0).nonzero().squeeze(1)
            precision = torch.zeros_like(gram)
            precision[heard[:, None], heard] = torch.linalg.inv(gram[heard[:, None], heard])
            precisions.append(precision)
        return precisions


def eliminated(direct: DirectSpace, inputs: Tensor, count: int) -> DirectSpace:
    """``direct`` without the ``count`` hidden neurons that cost least."""
    elimination = Elimination(direct, inputs)
    for _ in range(min(count, direct.hidden)):
        costs = elimination.costs()[elimination.first :]
        neuron = int(torch.where(elimination.alive, costs, torch.inf).argmin())
        elimination.remove(torch.tensor([elimination.first + neuron], device=inputs.device))
    return elimination.result()


class NeuronCutting:
    """A dense network as a :class:`Cutting`; its options are those of :class:`Elimination`.

    What goes next is an input, a hidden neuron or a whole block. Once a block is gone neurons may
    hear one layer alone, and signs can change that could not before: it begins anew.
    """

    def __init__(self, direct: DirectSpace, inputs: Tensor, **options: Any):
        self.inputs, self.options = inputs, options
        self._begin(simplified(direct))

    def _begin(self, direct: DirectSpace) -> None:
        elimination = Elimination(direct, self.inputs, **self.options)
        self.elimination = _turned(elimination, self.inputs)
        self.direct = self.elimination.direct
        sources = self.elimination.weights.shape[1]
        self.is_source = torch.ones(sources, dtype=torch.bool, device=self.inputs.device)
        self.is_source[self.direct.inputs] = False  # the constant stays
        self.looked_at = self.rate = float("inf")  # the size when blocks were last looked at
        self._look()

    def _look(self) -> None:
        """Find what goes next: ``rate`` is what it costs for a parameter, infinite if nothing."""
        elimination, before = self.elimination, self.rate
        self.parameters = elimination.parameters
        heard = (elimination.weights != 0).any(dim=0) & self.is_source
        self.block: tuple[int, Tensor] | None = None
        if heard.sum() <= 1:
            self.rate = float("inf")
            return
        rates = elimination.costs() / elimination.savings().clamp_min(1)
        rates = torch.where(heard, rates, torch.inf)
        # one by one, or a few at once while there are many
        count = max(1, int(heard.sum()) // MANY_SOURCES)
        self.cheapest = rates.topk(count, largest=False).indices
        self.rate = rates[self.cheapest[0]].item()
        if self.parameters < BLOCKS_EVERY * self.looked_at or self.rate > JUMP * before:
            self.looked_at = self.parameters
            rate, layer, sources = elimination.cheapest_block()
            if rate < self.rate:
                self.rate, self.block = rate, (layer, sources)

    def step(self) -> None:
        """Remove the cheapest source or block."""
        if self.block is not None:
            self.elimination.remove_block(*self.block)
            self._begin(self.result())
        else:
            self.elimination.remove(self.elimination.unlike(self.cheapest))
            self._look()

    def result(self) -> DirectSpace:
        return simplified(self.elimination.result())


def cut_to(direct: DirectSpace, inputs: Tensor, parameters: int) -> DirectSpace:
    """``direct`` with at most ``parameters`` of them, or as few as there can be."""
    direct = simplified(direct)
    if parameter_count(direct) <= parameters:
        return direct
    cutting = NeuronCutting(direct, inputs)
    cut_to_budget([cutting], parameters)
    small = cutting.result()
    if is_read(small).any() or parameters < 2 * direct.outputs:
        return small
    return _line(cutting.direct, cutting.elimination.sources)


def _turned(elimination: Elimination, inputs: Tensor) -> Elimination:
    """The same function, signs changed where that makes a skip to the outputs ten times cheaper.

    A network that learned max(−h, 0) where max(h, 0) would do needs a skip connection for the rest.
    """
    if elimination.fixed:
        return elimination
    direct, outputs = elimination.direct, len(elimination.layers) - 1
    best, share = elimination, TURNED
    for source in range(outputs):
        before, sources = elimination.block_rate(outputs, source)
        other = reoriented(direct, inputs, outputs + 1, source) if len(sources) else direct
        if other is direct:
            continue
        turned = Elimination(other, inputs, fisher=elimination.fisher, ridge=elimination.ridge)
        after, _ = turned.block_rate(outputs, source)
        if after < share * before and turned.parameters <= elimination.parameters:
            best, share = turned, after / before
    return best


def _line(direct: DirectSpace, sources: Tensor) -> DirectSpace:
    """The least-squares fit of the outputs from one input, the one that fits best."""
    x = sources[:, : direct.inputs]
    y = sources @ with_bias(direct)[direct.hidden :].T
    centred = x - x.mean(dim=0)
    slopes = y.T @ centred / centred.square().sum(dim=0).clamp_min(1e-300)  # (O, I)
    explained = (slopes.square() * centred.square().sum(dim=0)).sum(dim=0)
    best = torch.arange(direct.inputs, device=x.device) == explained.argmax()
    weights = slopes * best
    return replace(
        direct,
        weights=weights,
        bias=y.mean(dim=0) - weights @ x.mean(dim=0),
        layers=direct.layers[:0],
    )


def without_block(direct: DirectSpace, inputs: Tensor, target: int, source: int) -> DirectSpace:
    """Remove the block (target, source), its signal refitted into the target's other sources."""
    elimination = Elimination(direct, inputs)
    heard = (elimination.weights[elimination.layers[target - 1]] != 0).any(dim=0)
    level = elimination.levels[source]
    sources = heard[level].nonzero().squeeze(1) + level.start
    if source == 0 and elimination.fixed:  # inputs without a precision: only neurons take over
        rows, free = elimination.layers[target - 1], elimination.sources[:, elimination.fixed :]
        signal = elimination.sources[:, sources] @ elimination.weights[rows][:, sources].T
        refit = signal.T @ free / len(free) @ elimination.precisions[target - 1]
        elimination.weights[rows, elimination.fixed :] += refit
    elimination.remove_block(target - 1, sources)
    return from_biased(direct, elimination.weights)


def damped(gram: Tensor, ridge: float = RIDGE) -> Tensor:
    result = gram.clone()
    result.diagonal().mul_(1 + ridge).add_(1e-12)
    return result
