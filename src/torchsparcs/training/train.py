"""Training any module, spectral networks inside it or not: one call, resumable bit for bit."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torchsparcs.spectral.population import members_of
from torchsparcs.training.checkpoint import comparable
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, data_of_members, digest, is_pair, placed
from torchsparcs.training.deadline import Deadline
from torchsparcs.training.devices import Ranks
from torchsparcs.training.history import History
from torchsparcs.training.loop import TrainingLoop
from torchsparcs.training.nests import tensors_in
from torchsparcs.training.tasks import check_data


class Training(NamedTuple):
    """What is trained, on what and how."""

    module: Any
    data: Data
    config: TrainConfig
    validation: Data | None = None
    weights: Tensor | None = None

    def part(self, members: slice) -> "Training":
        """The training of a copy of some of the members of a population."""
        population, _, config, validation, weights = self
        count = population.members
        return Training(
            population.part(members),
            data_of_members(self.data, count, members),
            config.of_members(members),
            None if validation is None else data_of_members(validation, count, members),
            weights if weights is None or weights.dim() == 1 else weights[members],
        )

    def described(self) -> dict[str, Any]:
        """What processes that share a training must have in common; batches are their own."""
        state = self.module.state_dict()
        return {
            "data": _digest(self.data),
            "weights": None if self.weights is None else digest([torch.as_tensor(self.weights)]),
            "validation": None if self.validation is None else _digest(self.validation),
            "module": [(name, value.shape, value.dtype) for name, value in state.items()],
            **comparable(self.config),
        }


def train(
    module: nn.Module,
    data: Data,
    config: TrainConfig | None = None,
    *,
    validation: Data | None = None,
    weights: Tensor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool | Literal["auto"] = False,
    on_epoch: Callable[[History], Any] | None = None,
    progress: bool = True,
    _is_part: bool = False,
    _deadline: Deadline | None = None,
) -> History:
    """Train ``module`` in place, on the device where it is, and say how it went.

    >>> import torch
    >>> from torchsparcs import SpectralNetwork
    >>> x = torch.rand(200, 2) * 2 - 1
    >>> network = SpectralNetwork([2, 50, 1])
    >>> config = TrainConfig(task="regression", epochs=3)
    >>> history = train(network, (x, x.abs().sum(1)), config, progress=False)
    >>> history.epochs
    3

    Inputs and regression targets are best scaled to mean zero and variance one: the defaults
    expect that.

    Args:
        data: (inputs, targets) in memory, shuffled and batched on the module's device, or any
            iterable of such batches that can be gone through once per epoch (a ``DataLoader``).
        config: the task, how long, how fast, and how much an eigenvalue costs.
        validation: data of either form, for the history and for early stopping.
        weights: how much each row of data in memory counts, (rows,), or for a population (members,
            rows); a row of weight zero is not there for that member.
        checkpoint: a file that holds the state after a whole epoch, written at the start,
            at the end, between them as often as takes no more than a fiftieth of the time, and
            where Ctrl-C stopped. The same call with ``resume=True`` goes on from there and ends
            with the same weights, bit for bit, as a run that was never interrupted.
        resume: True needs a checkpoint, False refuses one, ``"auto"`` goes on if there is one.
        on_epoch: called with the history after every epoch, the module as it is then.
        progress: show a bar with the loss and the recruits.

    Every part of the module is left in the mode, training or evaluation, in which it came. A
    population that does not fit into memory is trained one half after the other, with the same
    outcome, unless it has a checkpoint, ``on_epoch`` or several processes.

    Where ``torch.distributed`` has several processes (after ``init_process_group`` under
    ``torchrun``, or after ``fabric.launch()``), all of them make the same call and share every
    batch of data in memory: up to rounding the outcome is that of one process, the same in all of
    them, and the first one writes the checkpoint. Of a loader, each process goes through its own.
    Batch normalisation, and a loss function of your own, see the rows of one process.
    """
    path = None if checkpoint is None else Path(checkpoint)
    # a part of a population that is shared out is trained by this process alone
    ranks = Ranks() if _is_part else Ranks.current()
    with ranks.same_call() as given:
        config = config if config is not None else TrainConfig()
        if not isinstance(config, TrainConfig):
            raise ValueError(f"Expected a TrainConfig. Got {type(config).__name__}.")
        whole = Training(module, data, config, validation, weights)
        _check_options(whole)
        if ranks.world > 1:
            given |= whole.described()
            given |= {"checkpoint": path is not None, "resume": resume}
    is_begun = path is not None and ranks.first(path.exists)
    if resume is True and not is_begun:
        where = "no checkpoint was named" if path is None else f"there is none at {path}"
        raise ValueError(f"Expected a checkpoint to resume from. Got nothing: {where}.")
    if is_begun and not resume:
        raise ValueError(
            f"Expected no checkpoint at {path}. Got one: pass resume=True to go on from it, or "
            "remove it to start anew."
        )
    population: Any = module  # where it is one
    is_plain = _is_part or (path is None and on_epoch is None and ranks.world == 1)
    is_divisible = is_plain and hasattr(module, "replace_part") and is_pair(data)
    start = {k: v.detach().cpu().clone() for k, v in module.state_dict().items() if is_divisible}
    # Members are independent and see the same batches in every part: where memory is short, one
    # half after the other ends as both would have ended together.
    todo: list[slice | None] = [None]  # parts of a population, None for all of it
    histories = []
    while todo:
        members = todo.pop(0)
        part, file = (whole, path) if members is None else (whole.part(members), None)
        try:
            check_data(part.module, part.data, config.task)
            if part.validation is not None:
                check_data(part.module, part.validation, config.task, name="validation data")
            until = None if _deadline is None else _deadline.part(1 / (1 + len(todo)))
            loop = TrainingLoop(
                *part, checkpoint=file, ranks=ranks, is_part=_is_part, deadline=until
            )
            histories.append(
                loop.run(resume=is_begun and file is not None, on_epoch=on_epoch, progress=progress)
            )
            if members is not None:
                population.replace_part(members, part.module)
            continue
        except RuntimeError as error:
            if not is_divisible or part.module.members == 1 or not is_out_of_memory(error):
                raise
        if members is None:
            module.load_state_dict(start)
        if next(module.parameters()).is_cuda:
            torch.cuda.empty_cache()
        first, end = (0, population.members) if members is None else (members.start, members.stop)
        middle = (first + end) // 2
        todo[:0] = [slice(first, middle), slice(middle, end)]
    return reduce(History.joined, histories)


def _digest(data: Data) -> str:
    return digest(tensors_in(placed(data, None))) if is_pair(data) else "batches"


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU, or a CPU, for which torch has no error of its own, is out of memory."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _check_options(training: Training) -> None:
    """A ValueError for what cannot go together."""
    module, data, config, validation, weights = training
    if weights is not None and (callable(config.task) or not is_pair(data)):
        raise ValueError(
            "Expected data in memory and a task by its name where rows have weights. Got "
            f"{type(data).__name__} and {config.task!r}."
        )
    if config.patience is not None and validation is None:
        raise ValueError("Expected validation data for early stopping (patience). Got none.")
    if config.patience is not None and members_of(module) is not None:
        raise ValueError(
            "Expected no patience for a population, whose members stop at no one epoch. "
            f"Got {config.patience}."
        )
    if any(isinstance(part, DistributedDataParallel) for part in module.modules()):
        raise ValueError(
            "Expected the module itself: train shares the work among processes on its own. "
            "Got one wrapped in DistributedDataParallel."
        )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ValueError("Expected a module with something to train. All of it is frozen.")
