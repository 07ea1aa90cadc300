"""The search of a table as the paper would do it: its recipe, its pruning, and nothing else."""

import math
from dataclasses import replace

from torchsparcs.compact.direct import DirectSpace, direct_space, simplified
from torchsparcs.cutting.eigenvalues import prune_eigenvalues
from torchsparcs.cutting.ladder import Ladder
from torchsparcs.searching.dense import DenseFamily
from torchsparcs.searching.finishing import LINEAR
from torchsparcs.searching.table_search import Outcome, TableSearch
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.history import History
from torchsparcs.training.progress import stage

WEIGHTS = [1e-3, 1e-4, 1e-5]  # the range that the paper names
EPOCHS = 300
EVERY = 10  # rows, of which one says what may be pruned


class PaperSearch(TableSearch):
    """One training for each penalty weight by the paper's recipe, pruned by its 5 % rule.

    One in ten of the rows that a fit sees is not trained on but says which eigenvalues may go. The
    linear model is trained in the same way. No network is refitted, fine-tuned or cut further.
    """

    def run(self, largest: int | None) -> Outcome:
        """Train, prune and judge; nothing larger than ``largest`` is kept."""
        weights = self.penalty_weights or WEIGHTS
        ladder = Ladder(DenseFamily(self.folded, self.executor))
        with stage("training as the paper does", self.progress):
            population, history = self._trained_as_written("paper", self.widths, weights)
            ends = (self.widths[0], self.widths[-1])
            perceptron, _ = self._trained_as_written("paper, linear", ends, [0.0])
        with stage("pruning by eigenvalues", self.progress):
            rungs = ladder.top(self._pruned(population))
        linear = [replace(rung, group=LINEAR) for rung in ladder.top(self._pruned(perceptron))]
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
