"""What a training leaves behind: one entry per epoch, and the eigenvalues now and then."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from torchsparcs.network import SpectralNetwork


@dataclass
class History:
    """Per-epoch records of a training.

    Attributes:
        train_loss: mean data loss over the epoch's batches, the penalty not counted.
        validation_loss, validation_score: at the end of each epoch; empty without validation data.
        recruited: neurons recruited in each hidden layer of each spectral network, in order.
        snapshots: (epoch, {parameter name: eigenvalues}) for the hidden layers, epoch 0 first.
        seconds: wall time of each epoch.
        stopped_early: whether patience ran out.
        best_epoch: the epoch whose weights the module was left with.
    """

    train_loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    recruited: list[list[int]] = field(default_factory=list)
    snapshots: list[tuple[int, dict[str, Tensor]]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stopped_early: bool = False
    best_epoch: int | None = None

    @property
    def epochs(self) -> int:
        return len(self.train_loss)

    def take_snapshot(self, module: nn.Module) -> None:
        values = {
            f"{prefix}.hidden_eigenvalues.{layer}".lstrip("."): parameter.detach().cpu().clone()
            for prefix, part in module.named_modules()
            if isinstance(part, SpectralNetwork)
            for layer, parameter in enumerate(part.hidden_eigenvalues)
        }
        self.snapshots.append((self.epochs, values))

    def state_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
