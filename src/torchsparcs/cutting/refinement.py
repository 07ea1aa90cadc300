"""A dense network made smaller by itself, as long as the validation loss allows it.

A cut neuron or block is not simply missing afterwards: each layer that heard it is refitted to its
old input signal from the sources it has left, so duplicates cost nothing to remove.
"""

import math
from collections.abc import Callable

import torch

from torchsparcs.compact.direct import (
    DirectSpace,
    connected_blocks,
    layer_slices,
    parameter_count,
    simplified,
)
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.cutting.ladder import RefineConfig, constant_loss, some_rows
from torchsparcs.cutting.neurons import eliminated, without_block
from torchsparcs.cutting.signs import reoriented
from torchsparcs.training.data import Data, is_pair, placed
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import LossFunction, check_data, evaluate
from torchsparcs.training.train import train

SHARE_PER_ROUND = 0.1  # of the neurons, cut before the Gram matrix is formed anew


def refine(
    network: CompactNetwork,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    config: RefineConfig | None = None,
    *,
    progress: bool = True,
) -> CompactNetwork:
    """A smaller network whose validation loss is within the tolerance of ``network``'s.

    Neurons go first, then whole blocks between layers (where a layer loses its hidden sources,
    its neurons move up and the network becomes shallower; a skip connection that ReLU, GELU or
    SiLU neurons can carry by changing their sign is moved into them), and after a fine-tuning of
    what is left both once more.
    """
    with cutting_progress(progress) as show:
        refining = _Refining(network, data, validation, task, config or RefineConfig(), show)
        direct = refining.fewer_neurons(simplified(network.to_direct()))
        direct = refining.fewer_blocks(direct)
        direct = refining.fine_tuned(direct)
        direct = refining.fewer_neurons(direct)
        direct = refining.fewer_blocks(direct)
        return refining.compact(direct)


class _Refining:
    """The state of a refinement: the data, and how much loss is allowed."""

    def __init__(
        self,
        network: CompactNetwork,
        data: Data,
        validation: Data,
        task: str | LossFunction,
        config: RefineConfig,
        show: Callable[[str], None],
    ):
        check_data(network, data, task)
        check_data(network, validation, task, name="validation data")
        weight = next(network.parameters())
        # what is in memory is brought into place once, not at every look
        self.data = placed(data, weight) if is_pair(data) else data
        self.validation = placed(validation, weight) if is_pair(validation) else validation
        self.network, self.task, self.config, self.show = network, task, config, show
        places = math.prod(data[0].shape[1:-1]) if is_pair(data) else 1  # of a row
        count = max(1, config.rows // max(1, places))
        rows = [x.flatten(0, -2) for x, _ in some_rows(data, count, config.seed, weight)]
        self.inputs = torch.cat(rows)[: config.rows].double()
        self.allowance = config.tolerance * abs(constant_loss(network, validation, task))
        self.best = evaluate(network, validation, task).loss

    @property
    def limit(self) -> float:
        return self.best + self.allowance

    def compact(self, direct: DirectSpace) -> CompactNetwork:
        parameter = next(self.network.parameters())
        return CompactNetwork.from_direct(
            direct, maximal=self.network.maximal, dtype=parameter.dtype
        )

    def loss(self, direct: DirectSpace) -> float:
        return evaluate(self.compact(direct), self.validation, self.task).loss

    def fine_tuned(self, direct: DirectSpace) -> DirectSpace:
        """Fine-tune for a few epochs; ``direct`` itself where that did not help."""
        compact, config = self.compact(direct), self.config
        training = config.tuning(self.task)
        try:
            train(compact, self.data, training, progress=False)
        except NonFiniteLossError:
            return direct
        tuned = compact.to_direct()
        loss = self.loss(tuned)
        if not loss <= self.loss(direct):
            return direct
        self.best = min(self.best, loss)
        return tuned

    def fewer_neurons(self, direct: DirectSpace) -> DirectSpace:
        """Backward elimination: the cheapest neurons first, as long as the loss allows it."""
        share = SHARE_PER_ROUND
        while direct.hidden:
            self.show(f"{direct.hidden} neurons left, loss allowed {self.limit:.4g}")
            count = max(1, int(share * direct.hidden))
            candidate = simplified(eliminated(direct, self.inputs, count))
            if self.loss(candidate) <= self.limit:
                direct = candidate
            elif count == 1:
                break
            else:
                share /= 2
        return direct

    def fewer_blocks(self, direct: DirectSpace) -> DirectSpace:
        """Cut blocks one after the other, from the output back, where the loss allows it."""
        tried: set[tuple[int, int, int]] = set()
        while True:
            depth = len(layer_slices(direct)[0])
            blocks = sorted(connected_blocks(direct), reverse=True)
            todo = [pair for pair in blocks if (*pair, depth) not in tried]
            todo = [pair for pair in todo if sum(t == pair[0] for t, _ in blocks) > 1]
            if not todo:
                return direct
            tried.add((*todo[0], depth))
            self.show(f"{len(blocks)} blocks left, trying layer {todo[0][1]} to {todo[0][0]}")
            direct = self._without_block(direct, *todo[0])

    def _without_block(self, direct: DirectSpace, target: int, source: int) -> DirectSpace:
        turned = reoriented(direct, self.inputs, target, source)
        for origin in (direct,) if turned is direct else (direct, turned):
            candidate = without_block(origin, self.inputs, target, source)
            if parameter_count(simplified(candidate)) >= parameter_count(direct):
                continue
            loss = self.loss(candidate)
            if self.limit < loss <= self.limit + self.config.slack * self.allowance:
                candidate = self.fine_tuned(candidate)
                loss = self.loss(candidate)
            if loss <= self.limit:
                return simplified(candidate)
        return direct
