"""The recipe of a training, checked at the door."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchsparcs.spectral.penalties import PENALTIES
from torchsparcs.training.tasks import LossFunction, resolve_task

SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
    "warm_cosine": lambda progress: min(1.0, 0.05 + progress / 0.1) * SCHEDULES["cosine"](progress),
    "constant": lambda progress: 1.0,
}
AMP_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Unstated(str):
    """A default that nobody asked for, where asking for it means more."""


DEFAULT_TASK = Unstated("regression")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the outcome of a training, beside the module and the data.

    Attributes:
        task: a name from ``TASKS`` (regression, binary, multiclass), "quantile 0.9" or another
            for a regression of that quantile, or a loss(output, target).
        schedule: of every learning rate, ``cosine`` (down to zero), ``warm_cosine`` (the same
            after a rise over the first tenth, for networks already trained) or ``constant``.
        eigenvalue_lr_scale: how much faster the hidden eigenvalues learn than the rest.
        transfer_weight_decay: decoupled decay of the transfers alone.
        train_transfers: False leaves the transfers, the eigenvectors, as they are: only eigenvalues
            learn, and what is outside spectral networks.
        weight_decay: decoupled decay of the parameters outside spectral networks.
        penalty: a name from ``PENALTIES``; ``penalty_weight`` is the paper's ρ, one number or, for
            a population, one for each member.
        layer_penalty_scales: factors on ρ for each penalised layer, from the input on; by default
            all are one. The authors' code has (1 + ``INCREMENT``, 1) for two hidden layers.
        penalty_warmup: share of the training over which ρ rises linearly from zero.
        proximal: take the proximal step (exact zeros); otherwise add the penalty to the loss.
        input_dropout: share of the inputs that is set to zero, their mean, at random in each step.
        patience: stop after that many epochs without a lower validation loss, and go back to the
            weights of the best one.
        amp: ``bfloat16`` or ``float16`` for automatic mixed precision.
        compile: run the module through ``torch.compile``.
        capture: on a GPU, record the whole step once as a CUDA graph and replay it; for modules
            whose step does the same work every time, many times faster where networks are small.
        member_lr_scales: for a population, a factor on every learning rate of each member.
        seed: of the shuffling and of any noise inside the module.
        snapshot_every: epochs between two eigenvalue snapshots of the history.
    """

    task: str | LossFunction = DEFAULT_TASK
    epochs: int = 100
    batch_size: int = 256
    lr: float = 2e-3
    schedule: str = "cosine"
    eigenvalue_lr_scale: float = 30.0
    transfer_weight_decay: float = 1.0
    train_transfers: bool = True
    weight_decay: float = 0.0
    penalty: str = "l1"
    penalty_weight: float | tuple[float, ...] = 1e-4
    layer_penalty_scales: tuple[float, ...] | None = None
    penalty_warmup: float = 0.0
    proximal: bool = True
    input_dropout: float = 0.0
    patience: int | None = None
    amp: str | None = None
    compile: bool = False
    capture: bool = False
    member_lr_scales: tuple[float, ...] | None = None
    seed: int = 0
    snapshot_every: int = 1

    def __post_init__(self) -> None:
        resolve_task(self.task)
        for name, known in (("schedule", SCHEDULES), ("penalty", PENALTIES)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"Expected {name} to be one of {', '.join(known)}. Got {getattr(self, name)!r}."
                )
        if self.amp is not None and self.amp not in AMP_DTYPES:
            raise ValueError(f"Expected amp to be None, bfloat16 or float16. Got {self.amp!r}.")
        check_counts(self, "epochs", "batch_size", "snapshot_every", "patience")
        check_amounts(
            self,
            "lr",
            "eigenvalue_lr_scale",
            "transfer_weight_decay",
            "weight_decay",
            "penalty_weight",
            "layer_penalty_scales",
            "penalty_warmup",
            "input_dropout",
            "member_lr_scales",
        )
        if not isinstance(self.seed, int):
            raise ValueError(f"Expected seed to be an integer. Got {self.seed!r}.")
        if self.capture and self.amp == "float16":
            raise ValueError(
                "Expected capture without float16, whose loss scaling varies. Got both."
            )
        for name in ("penalty_warmup", "input_dropout"):
            if getattr(self, name) > 1:
                raise ValueError(
                    f"Expected {name} to be between 0 and 1. Got {getattr(self, name)!r}."
                )

    @classmethod
    def paper(cls, **options: Any) -> "TrainConfig":
        """The recipe of the paper: plain Adam at one constant rate, the penalty in the loss.

        Its "L2" is, as the authors' code has it, the norm itself, one for each layer; ``options``
        replace anything.

        >>> config = TrainConfig.paper(penalty="l1", penalty_weight=5e-4, epochs=300)
        >>> config.proximal, config.schedule, config.eigenvalue_lr_scale
        (False, 'constant', 1.0)
        """
        recipe: dict[str, Any] = {
            "lr": 1e-3,
            "schedule": "constant",
            "eigenvalue_lr_scale": 1.0,
            "transfer_weight_decay": 0.0,
            "penalty": "l2",
            "proximal": False,
        }
        return cls(**{**recipe, **options})

    def of_members(self, part: slice) -> "TrainConfig":
        """The recipe for some of the members of a population."""
        weight, scales = self.penalty_weight, self.member_lr_scales
        return replace(
            self,
            penalty_weight=weight[part] if isinstance(weight, tuple) else weight,
            member_lr_scales=None if scales is None else scales[part],
        )


def check_counts(config: Any, *names: str) -> None:
    """A ValueError unless each of these attributes is a positive integer, or None."""
    for name in names:
        value = getattr(config, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"Expected {name} to be a positive integer. Got {value!r}.")


def check_amounts(config: Any, *names: str) -> None:
    """A ValueError unless each is a finite number >= 0, a tuple of them, or None."""
    for name in names:
        value = getattr(config, name)
        numbers = value if isinstance(value, tuple) else () if value is None else (value,)
        sound = all(isinstance(n, (int, float)) and math.isfinite(n) and n >= 0 for n in numbers)
        if not sound or value == ():
            raise ValueError(f"Expected {name} to be finite and not negative. Got {value!r}.")
