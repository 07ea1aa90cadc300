"""Training any module, spectral networks inside it or not: one call, resumable bit for bit."""

import contextlib
import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.capture import CapturedStep
from torchsparcs.checkpoints import interruption, load_checkpoint, save_checkpoint
from torchsparcs.history import History
from torchsparcs.network import SpectralModule
from torchsparcs.optimization import parameter_groups
from torchsparcs.penalties import PENALTIES, eigenvalue_penalty, shrink_eigenvalues_
from torchsparcs.population import Population
from torchsparcs.progress import training_progress
from torchsparcs.tasks import (
    Data,
    LossFunction,
    MemberData,
    evaluate,
    is_tensor_pair,
    resolve_task,
)

SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
    "constant": lambda progress: 1.0,
}
AMP_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the outcome of a training, beside the module and the data.

    Attributes:
        task: a name from ``TASKS`` (regression, binary, multiclass), or a loss(output, target).
        schedule: of every learning rate, ``cosine`` (down to zero) or ``constant``.
        eigenvalue_lr_scale: how much faster the hidden eigenvalues learn than the rest.
        transfer_weight_decay: decoupled decay of the transfers alone.
        weight_decay: decoupled decay of the parameters outside spectral networks.
        penalty: a name from ``PENALTIES``; ``penalty_weight`` is the paper's ρ, one number or, for
            a population, one for each member.
        penalty_warmup: share of the training over which ρ rises linearly from zero.
        proximal: take the proximal step (exact zeros); otherwise add the penalty to the loss.
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

    task: str | LossFunction = "regression"
    epochs: int = 100
    batch_size: int = 256
    lr: float = 2e-3
    schedule: str = "cosine"
    eigenvalue_lr_scale: float = 30.0
    transfer_weight_decay: float = 1.0
    weight_decay: float = 0.0
    penalty: str = "l1"
    penalty_weight: float | tuple[float, ...] = 1e-4
    penalty_warmup: float = 0.0
    proximal: bool = True
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
        for name in ("epochs", "batch_size", "snapshot_every", "patience"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"Expected {name} to be a positive integer. Got {value!r}.")
        for name in (
            "lr",
            "eigenvalue_lr_scale",
            "transfer_weight_decay",
            "weight_decay",
            "penalty_weight",
            "member_lr_scales",
        ):
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (0.0 if value is None else value,)
            if not all(math.isfinite(number) and number >= 0 for number in values):
                raise ValueError(f"Expected {name} to be finite and not negative. Got {value!r}.")
        if self.capture and self.amp == "float16":
            raise ValueError(
                "Expected capture without float16, whose loss scaling varies. Got both."
            )
        if not 0 <= self.penalty_warmup <= 1:
            raise ValueError(
                f"Expected penalty_warmup to be between 0 and 1. Got {self.penalty_warmup!r}."
            )


class NonFiniteLossError(RuntimeError):
    """The loss became infinite or NaN; the message names the epoch and the step."""


def train(
    module: nn.Module,
    data: Data,
    config: TrainConfig | None = None,
    *,
    validation: Data | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> History:
    """Train ``module`` in place, on the device where it is, and say how it went.

    >>> from torchsparcs import SpectralNetwork
    >>> x = torch.rand(200, 2) * 2 - 1
    >>> network = SpectralNetwork([2, 50, 1])
    >>> config = TrainConfig(task="regression", epochs=3)
    >>> history = train(network, (x, x.abs().sum(1)), config, progress=False)
    >>> history.epochs
    3

    Args:
        data: (inputs, targets) in memory, shuffled and batched on the module's device, or any
            iterable of such batches that can be gone through once per epoch (a ``DataLoader``).
        validation: data of either form, for the history and for early stopping.
        checkpoint: a file that always holds the state after the last whole epoch. The same call
            with ``resume=True`` goes on from there and ends with the same weights, bit for bit,
            as a run that was never interrupted.
    """
    config = config or TrainConfig()
    if config.patience is not None and validation is None:
        raise ValueError("Expected validation data for early stopping (patience). Got none.")
    if config.patience is not None and any(isinstance(p, Population) for p in module.modules()):
        raise ValueError("Expected no patience for a population: its members stop at no one epoch.")
    path = None if checkpoint is None else Path(checkpoint)
    if resume and (path is None or not path.exists()):
        raise ValueError(f"Expected a checkpoint to resume from. There is none at {path}.")
    if path is not None and path.exists() and not resume:
        raise ValueError(
            f"There is a checkpoint at {path} already: pass resume=True to go on from it, "
            "or remove it to start anew."
        )
    run = _Run(module, data, config, validation, path)
    devices = [run.device] if run.device.type == "cuda" else []
    with torch.random.fork_rng(devices), interruption() as interrupted:
        torch.manual_seed(config.seed)
        if resume:
            assert path is not None
            run.restore(load_checkpoint(path))
        with training_progress(config.epochs, progress) as show:
            run.to_the_end(interrupted, show)
    return run.history


class _Run:
    """The state of one training; whole between any two steps."""

    def __init__(
        self,
        module: nn.Module,
        data: Data,
        config: TrainConfig,
        validation: Data | None,
        checkpoint: Path | None,
    ):
        self.module, self.config, self.checkpoint = module, config, checkpoint
        self.validation = validation
        self.device = next(module.parameters()).device
        self.loss = resolve_task(config.task).loss
        self.spectral = [p for p in module.modules() if isinstance(p, SpectralModule)]
        self.members = next((p.members for p in self.spectral if isinstance(p, Population)), None)
        self.forward = torch.compile(module) if config.compile else module
        self.data: MemberData | Data = data
        if is_tensor_pair(data):
            self.data = MemberData(*data, self.members).to(self.device)
            self.steps_per_epoch = math.ceil(self.data.rows / config.batch_size)
        else:
            self.steps_per_epoch = len(data) if isinstance(data, Sized) else 0

        self.captures = config.capture and self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self._groups(), weight_decay=config.weight_decay, capturable=self.captures
        )
        self.base_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.penalty_weight = self._per_member(config.penalty_weight)
        self.lr_scales = self._per_member(config.member_lr_scales or 1.0)
        self.pace = torch.ones(
            (), device=self.device, dtype=torch.float64
        )  # warm-up of the penalty, 0 to 1
        if self.captures:
            for group in self.optimizer.param_groups:
                group["lr"] = torch.tensor(group["lr"], device=self.device)
        self.replay: CapturedStep | None = None
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.amp == "float16")
        self.shuffler = torch.Generator().manual_seed(config.seed)
        self.history = History()
        self.best_loss = math.inf
        self.best_state: dict[str, Tensor] | None = None
        self.epoch = self.step = 0
        self.losses: list[Tensor] = []  # of the steps of the running epoch
        self.epoch_start = self._generator_states()
        self.clock = time.perf_counter()

    def _groups(self) -> list[dict[str, Any]]:
        if not self.spectral:
            return [{"params": list(self.module.parameters()), "lr": self.config.lr}]
        return parameter_groups(
            self.module,
            self.config.lr,
            eigenvalue_lr_scale=self.config.eigenvalue_lr_scale,
            transfer_weight_decay=self.config.transfer_weight_decay,
        )

    def to_the_end(self, interrupted: Callable[[], bool], show: Callable[[History], None]) -> None:
        if self.epoch == self.step == 0:
            self.history.take_snapshot(self.module)
        while self.epoch < self.config.epochs and not self.history.stopped_early:
            self.module.train()
            for x, y in self._remaining_batches():
                self._take_step(x, y)
                if interrupted():
                    self._stop_for_the_user()
            self._close_epoch()
            show(self.history)
            if self.checkpoint is not None:
                save_checkpoint(self.checkpoint, self.state())
        if self.best_state is not None:
            self.module.load_state_dict(self.best_state)

    def _remaining_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The rest of the running epoch; batches before ``self.step`` are drawn and passed over."""
        noise = self._generator_states()
        if self.step == 0:
            self.epoch_start = noise
        self._set_generator_states(self.epoch_start)
        batches = iter(self._batches())
        for _ in range(self.step):
            next(batches)
        if self.step:
            self._set_generator_states(noise)
        for x, y in batches:
            yield x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    def _batches(self) -> Iterable[tuple[Tensor, Tensor]]:
        if not isinstance(self.data, MemberData):
            return self.data  # type: ignore[return-value]
        order = torch.randperm(self.data.rows, generator=self.shuffler).to(self.device)
        return map(self.data.batch, order.split(self.config.batch_size))

    def _take_step(self, x: Tensor, y: Tensor) -> None:
        share = self.step / self.steps_per_epoch if self.steps_per_epoch else 0.0
        self._set_pace((self.epoch + share) / self.config.epochs)
        if self.captures and self.replay is None and self.step >= 3:
            self.replay = CapturedStep(self._descend, x, y)
        if self.replay is not None and self.replay.fits(x, y):
            loss = self.replay(x, y)
        else:
            loss = self._descend(x, y)
        self.losses.append(loss)
        self.step += 1

    def _set_pace(self, progress: float) -> None:
        """Learning rates and penalty weight for this point of the training, 0 to 1."""
        factor = SCHEDULES[self.config.schedule](progress)
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr * factor)
            else:
                group["lr"] = lr * factor
        if self.config.penalty_warmup > 0:
            self.pace.fill_(min(1.0, progress / self.config.penalty_warmup))

    def _descend(self, x: Tensor, y: Tensor) -> Tensor:
        """One step of the optimizer and, where asked for, of the proximal map; returns the loss."""
        config = self.config
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self._loss(self.forward(x), y)
        if self.device.type == "cpu":
            self._check_losses([loss], self.step)
        total = loss.sum()
        weight = self.penalty_weight * self.pace
        if self.spectral and not config.proximal:
            total = total + (weight * eigenvalue_penalty(self.module, config.penalty)).sum()
        before = [p.detach().clone() for p in self._scaled_parameters()]
        self.scaler.scale(total).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        for parameter, old in zip(self._scaled_parameters(), before, strict=True):
            scales = self.lr_scales.to(old.dtype).view(-1, *[1] * (parameter.dim() - 1))
            parameter.data.copy_(old + scales * (parameter.data - old))
        if self.spectral and config.proximal:
            threshold = weight * self.lr_scales
            shrink_eigenvalues_(
                self.module, self.optimizer, threshold.unsqueeze(-1), config.penalty
            )
        return loss.detach()

    def _loss(self, output: Tensor, target: Tensor) -> Tensor:
        """A scalar, or one loss for each member, (members,)."""
        if self.members is None:
            return self.loss(output, target)
        own = isinstance(self.data, MemberData) and self.data.own_targets
        return torch.vmap(self.loss, in_dims=(0, 0 if own else None))(output, target)

    def _scaled_parameters(self) -> list[nn.Parameter]:
        """Those whose steps are scaled member by member: none unless that is asked for."""
        return list(self.module.parameters()) if self.config.member_lr_scales else []

    def _per_member(self, value: float | tuple[float, ...]) -> Tensor:
        values = value if isinstance(value, tuple) else (value,)
        if len(values) > 1 and len(values) != self.members:
            raise ValueError(
                f"Expected one number, or one for each of {self.members or 1} members. "
                f"Got {len(values)}."
            )
        return torch.tensor(values, device=self.device, dtype=torch.float64).squeeze(0)

    def _autocast(self) -> contextlib.AbstractContextManager:
        if self.config.amp is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=AMP_DTYPES[self.config.amp])

    def _check_losses(self, losses: list[Tensor], first: int) -> None:
        """Name the first step without a finite loss; a population goes on while a member does."""
        finite = torch.isfinite(torch.stack(losses)).view(len(losses), -1).any(dim=1).tolist()
        if all(finite):
            return
        bad = finite.index(False)
        kept = f" The checkpoint at {self.checkpoint} is the last good one." * bool(self.checkpoint)
        raise NonFiniteLossError(
            f"The loss became {losses[bad].sum().item()} in epoch {self.epoch + 1}, step "
            f"{first + bad + 1}. A smaller learning rate (now {self.config.lr}) or scaled data may "
            f"help.{kept}"
        )

    def _close_epoch(self) -> None:
        if not self.losses:
            raise ValueError("Expected data with at least one batch in each epoch. Got none.")
        self._check_losses(self.losses, 0)
        history = self.history
        history.train_loss.append(torch.stack(self.losses).float().mean(dim=0).tolist())
        if self.validation is not None:
            result = evaluate(self.module, self.validation, self.config.task, self.members)
            history.validation_loss.append(result.loss)
            history.validation_score.append(result.score)
        history.recruited.append([count for part in self.spectral for count in part.recruited])
        if history.epochs % self.config.snapshot_every == 0:
            history.take_snapshot(self.module)
        now = time.perf_counter()
        history.seconds.append(now - self.clock)
        self.clock = now
        history.best_epoch = history.epochs
        if self.config.patience is not None:
            self._judge_patience(self.config.patience)
        self.epoch, self.step, self.losses = self.epoch + 1, 0, []
        self.epoch_start = self._generator_states()

    def _judge_patience(self, patience: int) -> None:
        history = self.history
        if history.validation_loss[-1] < self.best_loss:
            self.best_loss = history.validation_loss[-1]
            self.best_state = copy.deepcopy(self.module.state_dict())
        best = 1 + history.validation_loss.index(min(history.validation_loss))
        history.best_epoch = best
        history.stopped_early = history.epochs - best >= patience

    def _stop_for_the_user(self) -> None:
        advice = "Nothing was saved: pass checkpoint=PATH to be able to resume."
        if self.checkpoint is not None:
            save_checkpoint(self.checkpoint, self.state())
            advice = (
                f"Saved to {self.checkpoint}; the same call with resume=True goes on from there."
            )
        raise KeyboardInterrupt(
            f"Training interrupted in epoch {self.epoch + 1}, after step {self.step}. {advice}"
        )

    # --- what a checkpoint holds ---

    def state(self) -> dict[str, Any]:
        return {
            "config": _comparable(self.config),
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generators_at_epoch_start": self.epoch_start,
            "generators": self._generator_states(),
            "position": (self.epoch, self.step),
            "losses": torch.stack(self.losses).cpu() if self.losses else None,
            "history": self.history.state_dict(),
            "best_loss": self.best_loss,
            "best_state": self.best_state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        mine, saved = _comparable(self.config), state["config"]
        if different := [name for name in mine if mine[name] != saved.get(name)]:
            raise ValueError(
                f"Expected the config of the checkpoint to resume it. {', '.join(different)} "
                "differ: " + ", ".join(f"{name} was {saved.get(name)}" for name in different) + "."
            )
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.step = state["position"]
        losses = state["losses"]
        self.losses = [] if losses is None else list(losses.to(self.device))
        self.history = History(**state["history"])
        self.best_loss, self.best_state = state["best_loss"], state["best_state"]
        self.epoch_start = state["generators_at_epoch_start"]
        self._set_generator_states(state["generators"])

    def _generator_states(self) -> dict[str, Tensor]:
        states = {"shuffler": self.shuffler.get_state(), "torch": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states

    def _set_generator_states(self, states: dict[str, Tensor]) -> None:
        self.shuffler.set_state(states["shuffler"])
        torch.set_rng_state(states["torch"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], self.device)


def _comparable(config: TrainConfig) -> dict[str, Any]:
    """The config as plain values; a loss function is compared by its name."""
    values = dataclasses.asdict(config)
    if callable(config.task):
        values["task"] = getattr(config.task, "__qualname__", type(config.task).__qualname__)
    return values
