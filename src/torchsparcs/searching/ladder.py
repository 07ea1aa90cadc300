"""Trained members cut down size by size, fine-tuned together and judged at every size."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, direct_space, parameter_count, simplified
from torchsparcs.compact.population import CompactPopulation
from torchsparcs.cutting.neurons import cut_to
from torchsparcs.parallel.executor import Executor
from torchsparcs.searching.folded import FoldedData, Judgement
from torchsparcs.searching.front import LEAST_TOLERANCE
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.loop import NonFiniteLossError

ROWS_PER_SOURCE = 4  # of data, for the least squares of a cut
FEWEST_ROWS = 2000
FEWEST_GROUPS = 3
BETWEEN = 4  # sizes that are tried between two others
CLOSE = 0.95  # of a size is as good as the size itself
BELOW_LINEAR = 10  # the smallest size that is planned is a linear model's divided by that


class Rung(NamedTuple):
    """One group of members at one size, after so many cuts.

    Attributes:
        directs: of every fit; the last one gives the networks.
    """

    group: int
    cut: int
    judgement: Judgement
    directs: list[DirectSpace]

    @property
    def direct(self) -> DirectSpace:
        return self.directs[-1]

    @property
    def parameters(self) -> int:
        return parameter_count(self.direct)


@dataclass
class Ladder:
    """The members of a population, group by group, on their way down."""

    folded: FoldedData
    directs: list[DirectSpace]
    groups: list[int]  # those that are left
    executor: Executor
    cuts: int = 0

    @classmethod
    def of(cls, population: Population, folded: FoldedData, executor: Executor) -> "Ladder":
        members, fits = range(population.members), folded.fits
        directs = [simplified(direct_space(population.member(i))) for i in members]
        ladder = cls(folded, directs, list(range(len(directs) // fits)), executor)
        ladder._cut([parameter_count(direct) for direct in ladder._final])
        return ladder

    def top(self) -> list[Rung]:
        """Every group as it was trained."""
        return self._rungs(CompactPopulation(self.directs))

    def least_squares(self) -> Rung:
        """The linear model in closed form, for a regression."""
        like, directs = self.directs[0], []
        for fit in range(self.folded.fits):
            weights, bias = self.folded.least_squares(fit)
            directs.append(replace(like, weights=weights, bias=bias, layers=like.layers[:0]))
        linear = CompactPopulation(directs)
        (judgement,) = self.executor.first(lambda: self.folded.judge(linear))
        return Rung(0, 0, judgement, directs)

    def sizes(self, shrink: float, largest: int | None) -> list[int]:
        """Numbers of parameters from the largest member downwards, well below a linear model's."""
        size = max(map(parameter_count, self.directs)) * shrink
        size = size if largest is None else min(size, largest)
        outputs, inputs = self.directs[0].outputs, self.directs[0].inputs
        smallest = min(math.floor(size), outputs * max(2, (inputs + 1) // BELOW_LINEAR))
        sizes = []
        while size > smallest:
            sizes.append(math.floor(size))
            size *= shrink
        return [*sizes, smallest]

    def step(self, size: int, shrink: float, tuning: TrainConfig) -> list[Rung]:
        """Cut every member to ``size`` parameters or a little less, fine-tune and judge them.

        The groups are spread over the sizes down to ``size`` · ``shrink``. Once they have all been
        cut, but for one, that with the highest loss leaves at every step, until few are left.
        """
        groups = len(self.groups)
        uncut = sum(parameter_count(d) <= size for d in self._final)
        sizes = [math.floor(size * shrink ** (place / groups)) for place in range(groups)]
        rungs = self._tuned(sizes, tuning)
        if uncut <= 1 and groups > FEWEST_GROUPS:
            self._leave(max(rungs, key=lambda rung: rung.judgement.loss).group)
        return rungs

    def between(self, above: Rung, below: float, tuning: TrainConfig) -> list[Rung]:
        """The group of ``above`` alone, cut to a few sizes between its own and ``below``.

        Nothing comes of it where there is no size between them, or every fine-tuning diverges.
        """
        ratio = (below / above.parameters) ** (1 / (BETWEEN + 1))
        wanted = {math.floor(above.parameters * ratio**place) for place in range(1, BETWEEN + 1)}
        sizes = sorted((size for size in wanted if below < size < above.parameters), reverse=True)
        if not sizes:
            return []
        self.directs, self.groups = above.directs * len(sizes), [above.group] * len(sizes)
        try:
            return self._tuned(sizes, tuning)
        except NonFiniteLossError:
            return []

    def _tuned(self, sizes: list[int], tuning: TrainConfig) -> list[Rung]:
        """Every group cut to its size, fine-tuned and judged."""
        self.cuts += 1
        self._cut(sizes)
        population = CompactPopulation(self.directs).to(self.folded.inputs.device)
        weights = self.folded.member_weights(len(sizes))
        self.executor.train(f"tuning {self.cuts}", population, self.folded.pair, tuning, weights)
        self.directs = population.to_directs()
        return self._rungs(population)

    @property
    def _starts(self) -> range:
        """Where the members of each group begin."""
        return range(0, len(self.directs), self.folded.fits)

    @property
    def _final(self) -> list[DirectSpace]:
        """Of each group, the fit that gives the networks."""
        return self.directs[self.folded.fits - 1 :: self.folded.fits]

    def _cut(self, sizes: list[int]) -> None:
        """Each group to its size; the fits that judge no larger than the one they judge for."""
        fits = self.folded.fits
        sources = max(direct.weights.shape[1] for direct in self.directs)
        count = max(FEWEST_ROWS, ROWS_PER_SOURCE * sources)
        inputs = [self.folded.some_inputs(fit, count) for fit in range(fits)]
        like = self.directs[0]

        def compute() -> list[list[Tensor]]:
            here = like.weights.device
            sent = here if self.executor.engine.workers == 1 else torch.device("cpu")
            directs = [_placed(direct, sent) for direct in self.directs]
            groups = [directs[start : start + fits] for start in self._starts]
            rows = [part.to(sent) for part in inputs]
            work = partial(_cut_group, rows, self.executor.place or here)
            found = self.executor.map(work, list(zip(groups, sizes, strict=True)))
            return [[d.weights, d.bias, d.layers] for group in found for d in group]

        tensors = self.executor.steps.step(f"cut {self.cuts}", compute)
        self.directs = [
            _placed(replace(like, weights=weights, bias=bias, layers=layers), like.weights.device)
            for weights, bias, layers in tensors
        ]

    def _leave(self, group: int) -> None:
        place, fits = self.groups.index(group), self.folded.fits
        del self.groups[place]
        del self.directs[place * fits : (place + 1) * fits]

    def _rungs(self, population: CompactPopulation) -> list[Rung]:
        judgements = self.executor.first(lambda: self.folded.judge(population))
        fits = self.folded.fits
        return [
            Rung(group, self.cuts, judgement, self.directs[start : start + fits])
            for group, judgement, start in zip(self.groups, judgements, self._starts, strict=True)
        ]


def good_enough(rungs: list[Rung]) -> list[Rung]:
    """Those that bear their score out and are within an error of the best of them."""
    trusted = [rung for rung in rungs if rung.judgement.is_borne_out]
    best = max((rung.judgement for rung in trusted), key=lambda one: one.score, default=None)
    if best is None:
        return []
    enough = best.score - max(best.standard_error, LEAST_TOLERANCE)
    return [rung for rung in trusted if rung.judgement.score >= enough]


def is_worth_going_on(rungs: list[Rung], size: int) -> bool:
    """Whether a network of at most ``size`` parameters is within an error of the best so far."""
    return any(rung.parameters <= size for rung in good_enough(rungs))


def landing(
    rungs: list[Rung], *, smallest: int, largest: int | None, shrink: float
) -> tuple[Rung, float] | None:
    """The smallest network within an error of the best, and the next size tried below it.

    None where there is no such network, or hardly a size between the two.
    """
    fitting = [rung for rung in rungs if largest is None or rung.parameters <= largest]
    above = min(good_enough(fitting), key=lambda rung: rung.parameters, default=None)
    if above is None:
        return None
    own = (rung.parameters for rung in rungs if rung.group == above.group)
    tried = (size for size in own if size < above.parameters)
    below = max(smallest, max(tried, default=shrink * above.parameters))
    return None if below > CLOSE * above.parameters else (above, below)


def _cut_group(
    inputs: list[Tensor], device: str | torch.device, item: tuple[list[DirectSpace], int]
) -> list[DirectSpace]:
    """The fits of a group cut to a size on ``device``, those that judge no larger than the last."""
    directs, size = item
    rows = [part.to(device) for part in inputs]
    placed = [_placed(direct, device) for direct in directs]
    last = cut_to(placed[-1], rows[-1], size)
    size = min(size, parameter_count(last))
    judging = zip(placed[:-1], rows[:-1], strict=True)
    cut = [*(cut_to(direct, part, size) for direct, part in judging), last]
    return [_placed(direct, inputs[0].device) for direct in cut]


def _placed(direct: DirectSpace, device: str | torch.device) -> DirectSpace:
    return replace(
        direct,
        weights=direct.weights.to(device),
        bias=direct.bias.to(device),
        layers=direct.layers.to(device),
    )
