"""The search of a table as the paper would do it: its recipe, its pruning, and nothing else."""

import contextlib
import math
from dataclasses import replace
from typing import Any

from torchsparcs.compact.direct import DirectSpace, direct_space, simplified
from torchsparcs.cutting.eigenvalues import prune_eigenvalues
from torchsparcs.cutting.ladder import Ladder
from torchsparcs.fitting.dense import DenseFamily
from torchsparcs.searching.clock import Clock
from torchsparcs.searching.finishing import LINEAR
from torchsparcs.searching.table_search import Outcome, Rung, TableSearch
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.deadline import OutOfTime
from torchsparcs.training.history import History

WEIGHTS = [1e-3, 1e-4, 1e-5]  # the range that the paper names
EPOCHS = 300
EVERY = 10  # rows, of which one says what may be pruned
SHARES = {"linear": 0.2, "training": 0.8}  # what the stages are expected to take


class PaperSearch(TableSearch):
    """One training for each penalty weight by the paper's recipe, pruned by its 5 % rule.

    One in ten of the rows that a fit sees is not trained on but says which eigenvalues may go. The
    linear model is trained in the same way. No network is refitted, fine-tuned or cut further.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.clock = Clock(self.executor, SHARES)

    def run(self, largest: int | None) -> Outcome:
        """Train, prune and judge; nothing larger than ``largest`` is kept."""
        weights = self.penalty_weights or WEIGHTS
        ladder = Ladder(DenseFamily(self.folded, self.executor))
        with self.clock.stage("linear", "the linear model, as the paper trains"):
            self.executor.deadline = None  # it is trained whatever happens
            ends = (self.widths[0], self.widths[-1])
            perceptron, history = self._trained_as_written("paper, linear", ends, [0.0])
            linear = [replace(rung, group=LINEAR) for rung in ladder.top(self._pruned(perceptron))]
        rungs: list[Rung] = []
        with (
            contextlib.suppress(OutOfTime),
            self.clock.stage("training", "training and pruning as the paper does"),
        ):
            population, history = self._trained_as_written("paper", self.widths, weights)
            rungs = ladder.top(self._pruned(population))
        return self._outcome([*linear, *rungs], linear, weights, history, largest)

    def _trained_as_written(
        self, name: str, widths: tuple[int, ...], penalty_weights: list[float]
    ) -> tuple[Population, History]:
        """A population with a group of fits for each weight."""
        folded = self.folded
        each = tuple(weight for weight in penalty_weights for _ in range(folded.fits))
        population = Population(
            widths,
            seeds=[self.seed] * len(each),
            activation=self.activation,
            device=folded.inputs.device,
        )
        batch_size = min(self.config.batch_size, folded.rows)
        recipe = TrainConfig.paper(
            task=folded.loss,
            epochs=min(EPOCHS, math.ceil(self.config.longest * batch_size / folded.rows)),
            batch_size=batch_size,
            penalty="l1",
            penalty_weight=each,
            capture=folded.inputs.is_cuda,
            seed=self.seed,
        )
        weights = folded.member_weights(len(penalty_weights))
        for fit, of_fit in enumerate(weights):  # (rows,)
            of_fit[self._seen(fit)[::EVERY]] = 0
        return population, self.executor.train(name, population, folded.pair, recipe, weights)

    def _seen(self, member: int) -> list[int]:
        """The places, among the rows that some fit is fitted to, that this member's fit sees."""
        fitted = self.folded.folds.fitted[:, self.folded.folds.is_fitted]
        return fitted[member % self.folded.fits].nonzero().squeeze(1).tolist()

    def _pruned(self, population: Population) -> list[list[DirectSpace]]:
        """Groups of fits, each pruned by the rows that it has kept apart."""
        folded = self.folded
        directs = []
        for index in range(population.members):
            rows = self._seen(index)[::EVERY]
            apart = folded.pair[0][rows], folded.pair[1][rows]
            pruned = prune_eigenvalues(population.member(index), apart, folded.loss)
            assert isinstance(pruned, SpectralNetwork)
            directs.append(simplified(direct_space(pruned)))
        return [
            directs[first : first + folded.fits] for first in range(0, len(directs), folded.fits)
        ]
