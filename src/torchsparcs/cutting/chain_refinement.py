"""A compact chain made smaller rung by rung: cut, fine-tuned, judged."""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import torch

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.normalised_chain import NormalisedChain
from torchsparcs.cutting.layers import as_good_as, cuts_to
from torchsparcs.cutting.refinement import RefineConfig, constant_loss, last_within
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, Pair, in_memory
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import LossFunction, evaluate
from torchsparcs.training.train import train

SHRINK = 0.7  # of the parameters are left on the next rung
HASTE = 0.5  # of them, above the size that was asked for
JUDGED_AT_ONCE = 4  # batches of the training: without gradients they take less memory
LOOKED_AT = 2000  # training rows that a cut looks at


class Rung(NamedTuple):
    """A network on the way down, and how it does on the validation data."""

    network: CompactChain
    loss: float
    score: float

    @property
    def parameters(self) -> int:
        return self.network.parameter_count


def rungs(
    network: CompactChain,
    data: Pair,
    validation: Data,
    tuning: TrainConfig,
    through: int | None = None,
    *,
    normalise: bool = False,
) -> Iterator[Rung]:
    """``network``, then one with at most 0.7 of the parameters, and so on, as small as it gets.

    Each is cut from the one before and fine-tuned on all of ``data`` as ``tuning`` says. Where a
    layer might go, all ways are fine-tuned; without it is taken unless validation notices. Where
    the score falls, half of the decay is tried as well, and stays where it is better: a smaller
    network needs less. One of the sizes on the way is ``through``, and halves lead there. With
    ``normalise`` signals are normalised in the fine-tuning, which is folded into the layers again.
    """
    x, y = data
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(tuning.seed))
    some = order[:LOOKED_AT].to(x.device)
    constant = constant_loss(network, validation, tuning.task)

    def judged(network: CompactChain) -> Rung:
        batch = JUDGED_AT_ONCE * tuning.batch_size
        return Rung(network, *evaluate(network, validation, tuning.task, batch_size=batch))

    def tuned(cut: CompactChain, how: TrainConfig) -> Rung:
        fitted = NormalisedChain(cut, x[some]) if normalise else copy.deepcopy(cut)
        train(fitted, data, how, progress=False)
        return judged(fitted.folded() if isinstance(fitted, NormalisedChain) else fitted)

    rung = judged(network)
    while True:
        yield rung
        size = rung.parameters
        aim = int(SHRINK * size)
        if through is not None and through < size:
            aim = max(through, int(HASTE * size))
        found = []
        for cut in cuts_to(rung.network, (x[some], y[some]), tuning.task, aim):
            if cut.parameter_count < size:
                with contextlib.suppress(NonFiniteLossError):  # the other may do better
                    found.append((tuned(cut, tuning), cut))
        if not found:
            return
        limit = as_good_as(found[0][0].loss, constant)
        shorter = [one for one in found[1:] if one[0].loss <= limit]
        best, cut = min(shorter, key=lambda one: one[0].parameters, default=found[0])
        if best.score < rung.score and tuning.weight_decay:
            less = dataclasses.replace(tuning, weight_decay=tuning.weight_decay / 2)
            with contextlib.suppress(NonFiniteLossError):
                again = tuned(cut, less)
                if again.score > best.score:
                    best, tuning = again, less
        rung = best


def refine_chain(
    network: CompactChain,
    data: Data,
    validation: Data,
    task: str | LossFunction,
    config: RefineConfig | None = None,
    *,
    normalise: bool = False,
    progress: bool = True,
) -> CompactChain:
    """The smallest network on the way down whose validation loss is within the tolerance."""
    config = config or RefineConfig()
    like = next(network.parameters())
    here, there = in_memory(data, like), in_memory(validation, like)
    tuning = config.tuning(task, schedule="warm_cosine")
    allowance = config.tolerance * constant_loss(network, there, task)
    with cutting_progress(progress) as show:
        found = rungs(network, here, there, tuning, normalise=normalise)
        return last_within(found, allowance, show).network
