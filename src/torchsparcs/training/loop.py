"""The epochs of one training, from the first or from a checkpoint to the last."""

import contextlib
import copy
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.files.checkpoint import load_checkpoint, save_checkpoint
from torchsparcs.spectral.network import SpectralModule
from torchsparcs.spectral.population import is_silent, members_of
from torchsparcs.training.checkpoint import (
    Generators,
    batch_count,
    fingerprint,
    restore_,
    seeded_generators,
    state_of,
)
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, MemberData, Pair, is_pair, placed
from torchsparcs.training.deadline import Deadline, OutOfTime
from torchsparcs.training.devices import Ranks
from torchsparcs.training.history import History
from torchsparcs.training.progress import training_progress
from torchsparcs.training.step import CapturedStep, TrainingStep
from torchsparcs.training.tasks import Evaluation, evaluate, restored_mode

SAVING_SHARE = 0.02  # of the time may go into checkpoints
HASTE = 0.02  # of a training that its time may be ahead of its steps before it hurries
LOSSES = 64  # of single steps, kept as one tensor


class NonFiniteLossError(RuntimeError):
    """The loss became infinite or NaN; the message names the epoch and the step."""


class TrainingLoop:
    """One training; its state is whole between any two steps.

    ``checkpoint``: the file to save it to. ``is_part``: the module is a part of a population, whose
    other members may be elsewhere. ``deadline``: it ends then with fewer steps, whose schedule
    follows the clock; by the end of the whole it is left as it is, like a training at Ctrl-C.
    """

    def __init__(
        self,
        module: nn.Module,
        data: Data,
        config: TrainConfig,
        validation: Data | None = None,
        weights: Tensor | None = None,
        *,
        checkpoint: Path | None = None,
        ranks: Ranks | None = None,
        is_part: bool = False,
        deadline: Deadline | None = None,
    ):
        self.module, self.config, self.checkpoint = module, config, checkpoint
        self.deadline = deadline
        self.ranks = ranks if ranks is not None else Ranks()
        self.validation, self.is_part = validation, is_part
        self.members = members_of(module)
        parameter = next(module.parameters())
        self.device = parameter.device
        self.data: MemberData | Iterable[Pair]
        if is_pair(data):
            self.data = MemberData.of(data, self.members, parameter)
            if weights is not None:
                self.data = self.data.weighted(weights)
            self.steps_per_epoch = math.ceil(self.data.rows / config.batch_size)
        else:
            self.data = data  # type: ignore[assignment]
            self.steps_per_epoch = min(self.ranks.gather(batch_count(data)))
        if validation is not None and is_pair(validation):
            self.validation = placed(validation, parameter)
        self.is_silent = is_silent(module) and isinstance(self.data, MemberData)
        self.fingerprint = fingerprint(self) if checkpoint is not None else []
        own_targets = isinstance(self.data, MemberData) and self.data.own_targets
        self.ranks.broadcast_(module.state_dict().values())
        self.training_step = TrainingStep(module, config, own_targets, self.ranks, is_part=is_part)
        self.shuffler = torch.Generator().manual_seed(config.seed)
        own = {"shuffler": self.shuffler, "input_dropout": self.training_step.noise}
        self.generators = Generators(own | Generators.of(self.data, self.device, self.is_silent))
        self.epoch_start = self.generators.states()
        self.history = History()
        self.best_state: dict[str, Tensor] | None = None
        self.epoch = self.steps_done = 0  # whole epochs, and steps of the running one
        self.losses: list[Tensor] = []  # of the steps of the running epoch
        self.last_batch: list[Pair] = []
        self.clock = self.saved_at = time.perf_counter()
        self.saving_seconds = 0.0  # that the last checkpoint took

    def run(
        self,
        *,
        resume: bool = False,
        on_epoch: Callable[[History], Any] | None = None,
        progress: bool = False,
    ) -> History:
        """Train to the last epoch, the random numbers and the mode of the caller left alone.

        ``resume``: go on from the checkpoint.
        """
        config, ranks, path = self.config, self.ranks, self.checkpoint
        with (
            seeded_generators(config.seed + ranks.rank, self.device, self.is_silent),
            restored_mode(self.module),
            frozen_transfers(self.module, is_frozen=not config.train_transfers),
            interruption(self.deadline) as is_interrupted,
        ):
            if resume and path is not None:
                restore_(self, ranks.first(lambda: load_checkpoint(path)))
            else:
                self.history.take_snapshot(self.module)
                self._save()
            if ranks.world == 1 and is_interrupted():
                self._stop_for_the_user()
            self._pace()
            take_step = CapturedStep(self.training_step) if config.capture else self.training_step
            with training_progress(config, self.epoch, progress and ranks.is_first) as show:
                while not self._is_over:
                    self.module.train()
                    for batch in self._remaining_batches():
                        self.training_step.set_progress(self._progress())
                        self._close_step(batch, take_step(*batch))
                        if ranks.world == 1 and is_interrupted():
                            self._stop_for_the_user()
                        if self._is_out_of_time:
                            break
                    self._close_epoch()
                    show(self.history)
                    if on_epoch is not None:
                        on_epoch(self.history)
                    if ranks.first(self._is_time_to_save):
                        self._save()
                    if ranks.any(is_interrupted()):
                        self._stop_for_the_user()
        if self.best_state is not None:
            self.module.load_state_dict(self.best_state)
        return self.history

    def _pace(self) -> None:
        """Note the time from here to the deadline, and what is done before it."""
        self.time_left = math.inf if self.deadline is None else self.deadline.left
        self.done_before = self._done()

    def _done(self) -> float:
        """The share of the steps that is done."""
        share = self.steps_done / self.steps_per_epoch if self.steps_per_epoch else 0.0
        return (self.epoch + share) / self.config.epochs

    def _progress(self) -> float:
        """The share of the training that is done: of its steps, or of its time if that is less."""
        done = self._done()
        if self.deadline is None or math.isinf(self.time_left):
            return done
        passed = 1 - self.deadline.left / self.time_left if self.time_left else 1.0
        return max(done, self.done_before + (1 - self.done_before) * passed - HASTE)

    @property
    def _is_out_of_time(self) -> bool:
        return self.deadline is not None and self.deadline.is_over

    @property
    def _is_over(self) -> bool:
        is_last = self.epoch == self.config.epochs or self.history.stopped_early
        return is_last or (self.epoch > 0 and self._is_out_of_time)

    def _is_time_to_save(self) -> bool:
        """Whether it is the end, or ``SAVING_SHARE`` of the time allows a checkpoint."""
        since = time.perf_counter() - self.saved_at
        return self._is_over or self.saving_seconds <= SAVING_SHARE * since

    def _save(self) -> None:
        if self.checkpoint is not None:
            start, path, state = time.perf_counter(), self.checkpoint, state_of(self)
            self.ranks.first(lambda: save_checkpoint(path, state))
            self.saved_at = time.perf_counter()
            self.saving_seconds = self.saved_at - start

    def _remaining_batches(self) -> Iterator[tuple[Tensor, ...]]:
        """The rest of the running epoch; the batches of steps done are drawn and passed over."""
        noise = self.generators.states()
        if self.steps_done == 0:
            self.epoch_start = noise
        self.generators.set_(self.epoch_start)
        batches = iter(self._batches())
        for _ in range(self.steps_done):
            next(batches)
        if self.steps_done:
            self.generators.set_(noise)
        yield from batches

    def _batches(self) -> Iterable[tuple[Tensor, ...]]:
        if not isinstance(self.data, MemberData):
            parameter = next(self.module.parameters())
            return (placed(batch, parameter) for batch in self.ranks.together(self.data))
        order = torch.randperm(self.data.rows, generator=self.shuffler).to(self.device)
        shares = map(self.ranks.share, order.split(self.config.batch_size))
        return map(self.data.weighted_batch, shares)

    def _close_step(self, batch: tuple[Tensor, ...], loss: Tensor) -> None:
        if self.device.type == "cpu":
            self._check_losses([loss], self.steps_done)
        self.losses.append(loss)
        if len(self.losses) % LOSSES == 0:  # one by one they would leave the memory full of holes
            self.losses[-LOSSES:] = torch.stack(self.losses[-LOSSES:]).unbind()
        self.last_batch = [(batch[0], batch[1])]
        self.steps_done += 1

    def _check_losses(self, losses: list[Tensor], first: int) -> None:
        """Name the first step without a finite loss; a population goes on while a member does.

        A part of one goes on whatever happens: its other members may be elsewhere.
        """
        if self.is_part:
            return
        finite = torch.isfinite(torch.stack(losses)).view(len(losses), -1).any(dim=1).tolist()
        if all(finite):
            return
        bad = finite.index(False)
        kept = f" The checkpoint at {self.checkpoint} is the last good one." * bool(self.checkpoint)
        raise NonFiniteLossError(
            f"The loss became {losses[bad].sum().item()} in epoch {self.epoch + 1}, step "
            f"{first + bad + 1}. A smaller learning rate (now {self.config.lr}) or scaled data may "
            f"help, if the data are finite.{kept}"
        )

    def _close_epoch(self) -> None:
        if not self.losses:
            raise ValueError(
                f"Expected data with at least one batch in each epoch. Got none in epoch "
                f"{self.epoch + 1}; a generator can be gone through only once."
            )
        self._check_losses(self.losses, 0)
        self.ranks.broadcast_(self.module.buffers())
        if self.checkpoint is not None and self.members is None and self.last_batch:
            # the last step may have ruined what its own loss did not show
            after = self._evaluated(self.last_batch).loss
            self._check_losses([torch.tensor(after)], self.steps_done)
        history = self.history
        history.train_loss.append(torch.stack(self.losses).double().mean(dim=0).tolist())
        if self.validation is not None:
            result = self._evaluated(self.validation)
            history.validation_loss.append(result.loss)
            history.validation_score.append(result.score)
        spectral = self.training_step.spectral
        history.recruited.append([count for part in spectral for count in part.recruited])
        if history.epochs % self.config.snapshot_every == 0:
            history.take_snapshot(self.module)
        now = time.perf_counter()
        history.seconds.append(now - self.clock)
        self.clock = now
        history.best_epoch = history.epochs
        if self.config.patience is not None:
            self._judge_patience(self.config.patience)
        self.epoch, self.steps_done, self.losses = self.epoch + 1, 0, []
        self.epoch_start = self.generators.states()

    def _evaluated(self, data: Data) -> Evaluation:
        return self.ranks.first(lambda: evaluate(self.module, data, self.config.task))

    def _judge_patience(self, patience: int) -> None:
        history = self.history
        losses = [math.inf if math.isnan(loss) else loss for loss in history.validation_loss]
        history.best_epoch = 1 + losses.index(min(losses))
        if history.best_epoch == history.epochs:
            self.best_state = copy.deepcopy(self.module.state_dict())
        history.stopped_early = history.epochs - history.best_epoch >= patience

    def _stop_for_the_user(self) -> None:
        advice = "Nothing was saved: pass checkpoint=PATH to be able to resume."
        if self.checkpoint is not None:
            if self.losses:
                self._check_losses(self.losses, 0)
            self._save()
            advice = (
                f"Saved to {self.checkpoint}; the same call with resume=True goes on from there."
            )
        if self.deadline is not None:
            raise OutOfTime
        where = f"epoch {self.epoch + 1}, after step {self.steps_done}"
        raise KeyboardInterrupt(f"Training interrupted in {where}. {advice}")


@contextlib.contextmanager
def frozen_transfers(module: nn.Module, *, is_frozen: bool) -> Iterator[None]:
    """Leave the transfers of all spectral networks inside without gradients, if asked."""
    spectral = [part for part in module.modules() if isinstance(part, SpectralModule)]
    transfers = [p for part in spectral for p in part.transfer_parameters if p.requires_grad]
    for parameter in transfers if is_frozen else ():
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in transfers:
            parameter.requires_grad_(True)


@contextlib.contextmanager
def interruption(deadline: Deadline | None) -> Iterator[Callable[[], bool]]:
    """Ctrl-C as a flag, so that a run stops between two steps; pressed again it acts at once.

    Where there is a deadline, it is whoever set it who looks after Ctrl-C.
    """
    if deadline is not None:
        yield lambda: deadline.is_final
        return
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, remember)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
