"""Training any module, spectral networks inside it or not: one call, resumable bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from torchsparcs.files.checkpoints import interruption, load_checkpoint
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, is_pair
from torchsparcs.training.generators import own_numbers
from torchsparcs.training.history import History
from torchsparcs.training.loop import TrainingLoop
from torchsparcs.training.parts import part_by_part
from torchsparcs.training.progress import training_progress
from torchsparcs.training.ranks import Ranks
from torchsparcs.training.tasks import restored_mode


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
    config = config if config is not None else TrainConfig()
    if not isinstance(config, TrainConfig):
        raise ValueError(f"Expected a TrainConfig. Got {type(config).__name__}.")
    path = None if checkpoint is None else Path(checkpoint)
    ranks = Ranks.current()
    found = path is not None and ranks.first(path.exists)
    if resume is True and not found:
        where = "no checkpoint was named" if path is None else f"there is none at {path}"
        raise ValueError(f"Expected a checkpoint to resume from. Got nothing: {where}.")
    if found and not resume:
        raise ValueError(
            f"Expected no checkpoint at {path}. Got one: pass resume=True to go on from it, or "
            "remove it to start anew."
        )
    plain = path is None and on_epoch is None and ranks.world == 1
    if isinstance(module, Population) and is_pair(data) and plain:

        def once(*part: Any) -> History:
            return _trained(TrainingLoop(*part), None, None, progress)

        return part_by_part(once, module, data, config, validation, weights)
    epochs = TrainingLoop(module, data, config, validation, weights, path, ranks)
    return _trained(epochs, path if found else None, on_epoch, progress)


def train_alone(
    module: nn.Module,
    data: Data,
    config: TrainConfig,
    weights: Tensor | None = None,
    *,
    checkpoint: Path | None = None,
    progress: bool = False,
) -> History:
    """:func:`train` in this process, whatever others do, from ``checkpoint`` where there is one.

    The members of a population end with the same bits among any others; that takes a little longer.
    """
    epochs = TrainingLoop(module, data, config, None, weights, checkpoint, alike=True)
    found = checkpoint is not None and checkpoint.exists()
    return _trained(epochs, checkpoint if found else None, None, progress)


def _trained(
    epochs: TrainingLoop,
    resume_from: Path | None,
    on_epoch: Callable[[History], Any] | None,
    progress: bool,
) -> History:
    """``epochs`` to their end, the random numbers and the mode of the caller left alone."""
    config, ranks = epochs.config, epochs.ranks
    numbers = own_numbers(config.seed + ranks.rank, epochs.device, epochs.is_silent)
    with numbers, restored_mode(epochs.module), interruption() as interrupted:
        if resume_from is not None:
            epochs.restore(ranks.first(lambda: load_checkpoint(resume_from)))
        shown, exact = progress and ranks.is_first, config.proximal
        with training_progress(config.epochs, epochs.epoch, shown, counts_recruits=exact) as show:

            def tell(history: History) -> None:
                show(history)
                if on_epoch is not None:
                    on_epoch(history)

            epochs.to_the_end(interrupted, tell)
    return epochs.history
