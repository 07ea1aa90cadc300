"""Eigenvalue histograms and recruited neurons in TensorBoard, during a training or after it.

Needs pip install 'torchsparcs[tensorboard]'.
"""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from torchsparcs.training.history import History


class EigenvalueLogger:
    """Writes the hidden eigenvalues of the spectral networks inside a module, step by step.

    >>> logger = EigenvalueLogger("runs/one")  # doctest: +SKIP
    >>> for step in range(100):  # doctest: +SKIP
    ...     train_one_step(network)
    ...     logger.log(network, step)
    >>> logger.close()  # doctest: +SKIP

    Args:
        where: a folder, or a ``SummaryWriter`` of your own, which is left open.
    """

    def __init__(self, where: Any):
        self.is_own = isinstance(where, (str, Path))
        self.writer = _writer(where) if self.is_own else where

    def log(self, module: nn.Module, step: int) -> None:
        """A histogram and a count of recruited neurons for every hidden layer."""
        seen = History()
        seen.take_snapshot(module)
        self._write(seen.snapshots[0][1], step)

    def log_history(self, history: History) -> None:
        """Everything that a training recorded; of a population take ``history.member(index)``."""
        for epoch, values in enumerate(history.train_loss, start=1):
            self._scalar("loss/training", values, epoch)
        for epoch, values in enumerate(history.validation_loss, start=1):
            self._scalar("loss/validation", values, epoch)
        for epoch, values in enumerate(history.validation_score, start=1):
            self._scalar("score/validation", values, epoch)
        for epoch, snapshot in history.snapshots:
            self._write(snapshot, epoch)

    def close(self) -> None:
        """Write what is left; a writer that was given stays open."""
        self.writer.flush()
        if self.is_own:
            self.writer.close()

    def __enter__(self) -> "EigenvalueLogger":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _write(self, snapshot: dict[str, Tensor], step: int) -> None:
        for name, values in snapshot.items():
            layer = name.replace("hidden_eigenvalues.", "layer_")
            self.writer.add_histogram(f"eigenvalues/{layer}", values, step)
            self.writer.add_scalar(f"recruited/{layer}", int(values.count_nonzero()), step)

    def _scalar(self, name: str, value: Any, step: int) -> None:
        if isinstance(value, list):
            raise ValueError(
                "Expected the history of one network. Got that of a population: take "
                "history.member(index)."
            )
        self.writer.add_scalar(name, value, step)


def log_history(history: History, where: Any) -> None:
    """Write the history of a training to the folder ``where``, or with a ``SummaryWriter``."""
    with EigenvalueLogger(where) as logger:
        logger.log_history(history)


def _writer(folder: Any) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "Logs for TensorBoard need it: pip install 'torchsparcs[tensorboard]'."
        ) from error
    return SummaryWriter(str(folder))
