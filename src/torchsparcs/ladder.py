"""Trained members cut down size by size, fine-tuned together and judged at every size."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from torchsparcs.compact_population import CompactPopulation
from torchsparcs.config import TrainConfig
from torchsparcs.direct import DirectSpace, direct_space, parameter_count, simplified
from torchsparcs.elimination import cut_to
from torchsparcs.evidence import Evidence, Judgement
from torchsparcs.population import Population
from torchsparcs.training import train

ROWS_PER_SOURCE = 4  # of data, for the least squares of a cut
FEWEST_ROWS = 2000
FEWEST_GROUPS = 3
BELOW_LINEAR = 10  # the smallest size of a ladder is a linear model's divided by that


class Rung(NamedTuple):
    """One group of members at one size."""

    group: int
    judgement: Judgement
    direct: DirectSpace  # of the fit that gives the networks


@dataclass
class Ladder:
    """The members of a population, group by group, on their way down."""

    evidence: Evidence
    directs: list[DirectSpace]
    groups: list[int]  # those that are left

    @classmethod
    def of(cls, population: Population, evidence: Evidence) -> "Ladder":
        members = range(population.members)
        directs = [simplified(direct_space(population.member(i))) for i in members]
        return cls(evidence, directs, list(range(len(directs) // evidence.fits)))

    def top(self) -> list[Rung]:
        """Every group as it was trained."""
        return self._rungs(CompactPopulation(self.directs))

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
        evidence, groups = self.evidence, len(self.groups)
        sizes = [math.floor(size * shrink ** (place / groups)) for place in range(groups)]
        sources = max(d.weights.shape[1] for d in self.directs)
        count = max(FEWEST_ROWS, ROWS_PER_SOURCE * sources)
        inputs = [evidence.some_inputs(fit, count) for fit in range(evidence.fits)]
        uncut = sum(
            parameter_count(d) <= size for d in self.directs[evidence.fits - 1 :: evidence.fits]
        )
        self.directs = [
            cut_to(direct, inputs[index % evidence.fits], sizes[index // evidence.fits])
            for index, direct in enumerate(self.directs)
        ]
        population = CompactPopulation(self.directs).to(evidence.inputs.device)
        weights = evidence.member_weights(groups)
        train(population, evidence.pair, tuning, weights=weights, progress=False)
        self.directs = population.to_directs()
        rungs = self._rungs(population)
        if uncut <= 1 and groups > FEWEST_GROUPS:
            self._leave(max(rungs, key=lambda rung: rung.judgement.loss).group)
        return rungs

    def _leave(self, group: int) -> None:
        place, fits = self.groups.index(group), self.evidence.fits
        del self.groups[place]
        del self.directs[place * fits : (place + 1) * fits]

    def _rungs(self, population: CompactPopulation) -> list[Rung]:
        fits = self.evidence.fits
        judgements = self.evidence.judge(population)
        last = self.directs[fits - 1 :: fits]
        return [
            Rung(group, judgement, direct)
            for group, judgement, direct in zip(self.groups, judgements, last, strict=True)
        ]
