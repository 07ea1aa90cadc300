"""Dense networks of a table as a family: cut in direct space, fine-tuned as one population."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, parameter_count
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.population import CompactPopulation
from torchsparcs.cutting.neurons import cut_to
from torchsparcs.parallel.executor import Executor
from torchsparcs.searching.folded import FoldedData, Judgement
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.history import History
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.tasks import predict

ROWS_PER_SOURCE = 4  # of data, for the least squares of a cut
FEWEST_ROWS = 2000


class DenseFamily:
    """Groups of fits in direct space, on the rows of ``folded``.

    ``history`` is that of the last fine-tuning.
    """

    def __init__(self, folded: FoldedData, executor: Executor, *, progress: bool = False):
        self.folded, self.executor, self.progress = folded, executor, progress
        self.history = History()

    def size(self, network: DirectSpace) -> int:
        return parameter_count(network)

    def cut(
        self, name: str, groups: list[list[DirectSpace]], sizes: list[int]
    ) -> list[dict[str, list[DirectSpace]]]:
        """Cut each group to its size, fits that judge no larger than the one they judge for."""
        like, here = groups[0][0], groups[0][0].weights.device
        sources = max(direct.weights.shape[1] for group in groups for direct in group)
        count = max(FEWEST_ROWS, ROWS_PER_SOURCE * sources)
        inputs = [self.folded.some_inputs(fit, count) for fit in range(self.folded.fits)]

        def compute() -> list[list[list[Tensor]]]:
            sent = here if self.executor.engine.workers == 1 else torch.device("cpu")
            rows = [part.to(sent) for part in inputs]
            work = partial(_cut_group, rows, self.executor.place or here)
            todo = [[_to(direct, sent) for direct in group] for group in groups]
            found = self.executor.map(work, list(zip(todo, sizes, strict=True)))
            return [[[d.weights, d.bias, d.layers] for d in group] for group in found]

        return [
            {"plain": [_to(_like(like, *tensors), here) for tensors in group]}
            for group in self.executor.steps.step(name, compute)
        ]

    def tune(
        self, name: str, groups: list[list[DirectSpace]], tuning: TrainConfig
    ) -> list[list[DirectSpace] | None]:
        """Fine-tune all groups as one population; only where all diverge is there nothing."""
        population, weights = self._population(groups), self.folded.member_weights(len(groups))
        try:
            self.history = self.executor.train(
                name, population, self.folded.pair, tuning, weights, progress=self.progress
            )
        except NonFiniteLossError:
            return [None] * len(groups)
        fits, tuned = self.folded.fits, population.to_directs()
        return [tuned[start : start + fits] for start in range(0, len(tuned), fits)]

    def judge(self, groups: list[list[DirectSpace]]) -> list[Judgement]:
        outputs, _, _ = predict(self._population(groups), self.folded.judging)
        return self.executor.first(lambda: self.folded.judge_outputs(outputs))

    def least_squares(self, like: DirectSpace) -> list[DirectSpace]:
        """The linear model of each fit in closed form, for a regression."""
        fits = map(self.folded.least_squares, range(self.folded.fits))
        return [_like(like, weights, bias, like.layers[:0]) for weights, bias in fits]

    def _population(self, groups: list[list[DirectSpace]]) -> CompactPopulation:
        directs = [direct for group in groups for direct in group]
        return CompactPopulation(directs).to(self.folded.inputs.device)


def compact(direct: DirectSpace) -> CompactNetwork:
    """The network of a candidate."""
    return CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float32)


def _cut_group(
    inputs: list[Tensor], device: str | torch.device, item: tuple[list[DirectSpace], int]
) -> list[DirectSpace]:
    """The fits of a group cut to a size on ``device``, those that judge no larger than the last."""
    directs, size = item
    rows = [part.to(device) for part in inputs]
    there = [_to(direct, device) for direct in directs]
    last = cut_to(there[-1], rows[-1], size)
    size = min(size, parameter_count(last))
    judging = zip(there[:-1], rows[:-1], strict=True)
    cut = [*(cut_to(direct, part, size) for direct, part in judging), last]
    return [_to(direct, inputs[0].device) for direct in cut]


def _to(direct: DirectSpace, device: str | torch.device) -> DirectSpace:
    tensors = (direct.weights, direct.bias, direct.layers)
    return _like(direct, *(tensor.to(device) for tensor in tensors))


def _like(direct: DirectSpace, weights: Tensor, bias: Tensor, layers: Tensor) -> DirectSpace:
    return replace(direct, weights=weights, bias=bias, layers=layers)
