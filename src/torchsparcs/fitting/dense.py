"""Dense networks of a table as a family: cut in direct space, fine-tuned as one population."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace, connection_count, parameter_count
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.compact.population import CompactPopulation
from torchsparcs.cutting.neurons import cut_to
from torchsparcs.fitting.folded import FoldedData, Judgement
from torchsparcs.parallel.executor import Executor
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.deadline import Deadline, Turn
from torchsparcs.training.history import History
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.tasks import predict

ROWS_PER_SOURCE = 4  # of data, for the least squares of a cut
FEWEST_ROWS = 2000

Work = Callable[[list[DirectSpace], Any, Deadline], list[list[DirectSpace]]]


class DenseFamily:
    """Groups of fits in direct space, on the rows of ``folded``.

    ``history`` is that of the last fine-tuning.
    """

    def __init__(self, folded: FoldedData, executor: Executor, *, progress: bool = False):
        self.folded, self.executor, self.progress = folded, executor, progress
        self.history = History()

    def size(self, network: DirectSpace) -> int:
        return connection_count(network)

    def cut(
        self, name: str, groups: list[list[DirectSpace]], sizes: list[int]
    ) -> list[dict[str, list[DirectSpace]]]:
        """Cut each group to its size, fits that judge no larger than the one they judge for."""
        sources = max(direct.weights.shape[1] for group in groups for direct in group)
        count = max(FEWEST_ROWS, ROWS_PER_SOURCE * sources)
        rows = [self.folded.some_inputs(fit, count) for fit in range(self.folded.fits)]
        found = self.shared_out(name, partial(_cut_group, rows), groups, sizes)
        return [{"plain": group} for (group,) in found]

    def shared_out(
        self, name: str, work: Work, groups: list[list[DirectSpace]], options: Sequence[Any]
    ) -> list[list[list[DirectSpace]]]:
        """The groups that ``work`` makes of each group and its option, on any worker, in its time.

        It is given to ``work`` where it is done; what was kept under ``name`` is not done again.
        """
        like, here = groups[0][0], groups[0][0].weights.device

        def compute() -> list[list[list[list[Tensor]]]]:
            sent = here if self.executor.engine.workers == 1 else torch.device("cpu")
            turn = self.executor.turn(len(groups))
            there = partial(_worked, work, turn, self.executor.place or here)
            todo = [[_to(direct, sent) for direct in group] for group in groups]
            numbers = [sum(map(connection_count, group)) for group in groups]
            order = sorted(range(len(groups)), key=numbers.__getitem__, reverse=True)
            items = [(todo[place], options[place]) for place in order]  # the longest first
            found = dict(zip(order, self.executor.map(there, items), strict=True))
            return [
                [[[d.weights, d.bias, d.layers] for d in group] for group in found[place]]
                for place in range(len(groups))
            ]

        return [
            [[_to(_like(like, *tensors), here) for tensors in group] for group in made]
            for made in self.executor.steps.step(name, compute)
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
    return CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float32, sparse=True)


def _worked(
    work: Work, turn: Turn, device: str | torch.device, item: tuple[list[DirectSpace], Any]
) -> list[list[DirectSpace]]:
    """What ``work`` makes on ``device`` of the networks of ``item``, brought back to their own."""
    directs, option = item
    home = directs[0].weights.device
    made = work([_to(direct, device) for direct in directs], option, turn.begun())
    return [[_to(direct, home) for direct in group] for group in made]


def _cut_group(
    inputs: list[Tensor], directs: list[DirectSpace], size: int, deadline: Deadline
) -> list[list[DirectSpace]]:
    """The fits of a group cut to a size, those that judge no larger than the last.

    Half of a cut is of no use: it is done whatever the deadline.
    """
    rows = [part.to(directs[0].weights.device) for part in inputs]
    last = cut_to(directs[-1], rows[-1], size)
    size = min(size, parameter_count(last))
    judging = zip(directs[:-1], rows[:-1], strict=True)
    return [[*(cut_to(direct, part, size) for direct, part in judging), last]]


def _to(direct: DirectSpace, device: str | torch.device) -> DirectSpace:
    tensors = (direct.weights, direct.bias, direct.layers)
    return _like(direct, *(tensor.to(device) for tensor in tensors))


def _like(direct: DirectSpace, weights: Tensor, bias: Tensor, layers: Tensor) -> DirectSpace:
    return replace(direct, weights=weights, bias=bias, layers=layers)
