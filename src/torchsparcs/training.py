"""Training any module, spectral networks inside it or not: one call, resumable bit for bit."""

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torchsparcs.checkpoints import interruption, load_checkpoint, save_checkpoint
from torchsparcs.chunks import part_by_part
from torchsparcs.config import TrainConfig
from torchsparcs.data import Data, MemberData, Pair, is_pair, placed
from torchsparcs.descent import Descent
from torchsparcs.generators import (
    Generators,
    own_numbers,
    set_states,
    shared_generators,
    states_of,
)
from torchsparcs.history import History
from torchsparcs.population import Population, is_silent, members_of
from torchsparcs.progress import training_progress
from torchsparcs.ranks import Ranks
from torchsparcs.tasks import Evaluation, check_data, evaluate, restored_mode

SAVING_SHARE = 0.02  # of the time may go into checkpoints
LOSSES = 64  # of single steps, kept as one tensor


class NonFiniteLossError(RuntimeError):
    """The loss became infinite or NaN; the message names the epoch and the step."""


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
        validation: data of either form, for the history and for early stopping.
        weights: how much each row of data in memory counts, (rows,), or for a population (members,
            rows); a row of weight zero is not there for that member.
        checkpoint: a file that holds the state after a whole epoch, written at the start,
            at the end, between them as often as takes no more than a fiftieth of the time, and
            where Ctrl-C stopped. The same call with
            ``resume=True`` goes on from there and ends with the same weights, bit for bit, as a
            run that was never interrupted.
        resume: True needs a checkpoint, False refuses one, ``"auto"`` goes on if there is one.
        on_epoch: called with the history after every epoch, the module as it is then.

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

        def once(
            population: nn.Module,
            data: Data,
            config: TrainConfig,
            validation: Data | None,
            weights: Tensor | None,
        ) -> History:
            run = _Run(population, data, config, validation, weights)
            return _trained(run, None, None, progress)

        return part_by_part(once, module, data, config, validation, weights)
    run = _Run(module, data, config, validation, weights, path, ranks)
    return _trained(run, path if found else None, on_epoch, progress)


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
    run = _Run(module, data, config, None, weights, checkpoint, alike=True)
    found = checkpoint is not None and checkpoint.exists()
    return _trained(run, checkpoint if found else None, None, progress)


def _trained(
    run: "_Run",
    resume_from: Path | None,
    on_epoch: Callable[[History], Any] | None,
    progress: bool,
) -> History:
    """``run`` to its end, the random numbers and the mode of the caller left alone."""
    numbers = own_numbers(run.config.seed + run.ranks.rank, run.device, run.is_silent)
    with numbers, restored_mode(run.module), interruption() as interrupted:
        if resume_from is not None:
            run.restore(run.ranks.first(lambda: load_checkpoint(resume_from)))
        shown = progress and run.ranks.is_first
        exact = run.config.proximal
        with training_progress(run.config.epochs, run.epoch, shown, counts_recruits=exact) as show:

            def tell(history: History) -> None:
                show(history)
                if on_epoch is not None:
                    on_epoch(history)

            run.to_the_end(interrupted, tell)
    return run.history


class _Run:
    """The state of one training; whole between any two steps."""

    def __init__(
        self,
        module: nn.Module,
        data: Data,
        config: TrainConfig,
        validation: Data | None,
        weights: Tensor | None,
        checkpoint: Path | None = None,
        ranks: Ranks | None = None,
        *,
        alike: bool = False,
    ):
        self.module, self.config, self.checkpoint = module, config, checkpoint
        self.ranks = ranks if ranks is not None else Ranks()
        self.validation, self.alike = validation, alike
        self.members = members_of(module)
        self._check(data, weights)
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
            self.steps_per_epoch = min(self.ranks.gather(_length(data)))
        if validation is not None and is_pair(validation):
            self.validation = placed(validation, parameter)
        self.is_silent = is_silent(module) and isinstance(self.data, MemberData)
        self.fingerprint = self._fingerprint() if checkpoint is not None else []
        own_targets = isinstance(self.data, MemberData) and self.data.own_targets
        self.ranks.start_alike_(module.state_dict().values())
        self.descent = Descent(module, config, own_targets, self.ranks, alike=alike)
        self.shuffler = torch.Generator().manual_seed(config.seed)
        self.history = History()
        self.best_state: dict[str, Tensor] | None = None
        self.epoch = self.step = 0
        self.losses: list[Tensor] = []  # of the steps of the running epoch
        self.last_batch: list[Pair] = []
        self.epoch_start = self._generator_states()
        self.clock = self.saved_at = time.perf_counter()
        self.saving_seconds = 0.0  # that the last checkpoint took

    def _check(self, data: Data, weights: Tensor | None) -> None:
        config, module = self.config, self.module
        if weights is not None and (callable(config.task) or not is_pair(data)):
            raise ValueError(
                "Expected data in memory and a task by its name where rows have weights. Got "
                f"{type(data).__name__} and {config.task!r}."
            )
        if config.patience is not None and self.validation is None:
            raise ValueError("Expected validation data for early stopping (patience). Got none.")
        if config.patience is not None and self.members is not None:
            raise ValueError(
                "Expected no patience for a population, whose members stop at no one epoch. "
                f"Got {config.patience}."
            )
        if any(isinstance(part, DistributedDataParallel) for part in module.modules()):
            raise ValueError(
                "Expected the module itself: train shares the work among processes on its own. "
                "Got one wrapped in DistributedDataParallel."
            )
        check_data(module, data, config.task)
        if self.validation is not None:
            check_data(module, self.validation, config.task, name="validation data")

    def to_the_end(self, interrupted: Callable[[], bool], tell: Callable[[History], None]) -> None:
        if not self.history.snapshots:  # nothing was done before
            self.history.take_snapshot(self.module)
            self._save()
        while self.epoch < self.config.epochs and not self.history.stopped_early:
            self.module.train()
            for batch in self._remaining_batches():
                self._take_step(batch)
                if self.ranks.world == 1 and interrupted():
                    self._stop_for_the_user()
            self._close_epoch()
            tell(self.history)
            if self.ranks.first(self._is_time_to_save):
                self._save()
            if self.ranks.any(interrupted()):
                self._stop_for_the_user()
        if self.best_state is not None:
            self.module.load_state_dict(self.best_state)

    def _is_time_to_save(self) -> bool:
        """At the end, and before that as often as ``SAVING_SHARE`` of the time allows."""
        over = self.epoch == self.config.epochs or self.history.stopped_early
        since = time.perf_counter() - self.saved_at
        return over or self.saving_seconds <= SAVING_SHARE * since

    def _save(self) -> None:
        if self.checkpoint is not None:
            start, path, state = time.perf_counter(), self.checkpoint, self.state()
            self.ranks.first(lambda: save_checkpoint(path, state))
            self.saved_at = time.perf_counter()
            self.saving_seconds = self.saved_at - start

    def _remaining_batches(self) -> Iterator[tuple[Tensor, ...]]:
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
        yield from batches

    def _batches(self) -> Iterable[tuple[Tensor, ...]]:
        if not isinstance(self.data, MemberData):
            parameter = next(self.module.parameters())
            return (placed(batch, parameter) for batch in self.ranks.together(self.data))
        order = torch.randperm(self.data.rows, generator=self.shuffler).to(self.device)
        shares = map(self.ranks.share, order.split(self.config.batch_size))
        return map(self.data.weighted_batch, shares)

    def _take_step(self, batch: tuple[Tensor, ...]) -> None:
        share = self.step / self.steps_per_epoch if self.steps_per_epoch else 0.0
        loss = self.descent.step(batch, (self.epoch + share) / self.config.epochs)
        if self.device.type == "cpu":
            self._check_losses([loss], self.step)
        self.losses.append(loss)
        if len(self.losses) % LOSSES == 0:  # one by one they would leave the memory full of holes
            self.losses[-LOSSES:] = torch.stack(self.losses[-LOSSES:]).unbind()
        self.last_batch = [(batch[0], batch[1])]
        self.step += 1

    def _check_losses(self, losses: list[Tensor], first: int) -> None:
        """Name the first step without a finite loss; a population goes on while a member does.

        A part of one goes on whatever happens: its other members may be elsewhere.
        """
        if self.alike:
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
        self.ranks.start_alike_(self.module.buffers())
        if self.checkpoint is not None and self.members is None and self.last_batch:
            # the last step may have ruined what its own loss did not show
            after = self._evaluated(self.last_batch).loss
            self._check_losses([torch.tensor(after)], self.step)
        history = self.history
        history.train_loss.append(torch.stack(self.losses).double().mean(dim=0).tolist())
        if self.validation is not None:
            result = self._evaluated(self.validation)
            history.validation_loss.append(result.loss)
            history.validation_score.append(result.score)
        spectral = self.descent.spectral
        history.recruited.append([count for part in spectral for count in part.recruited])
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
        raise KeyboardInterrupt(
            f"Training interrupted in epoch {self.epoch + 1}, after step {self.step}. {advice}"
        )

    # --- what a checkpoint holds ---

    def state(self) -> dict[str, Any]:
        return {
            "config": _comparable(self.config),
            "data": self.fingerprint,
            "module": self.module.state_dict(),
            "descent": self.descent.state_dict(),
            "generators_at_epoch_start": self.ranks.gather(self.epoch_start),
            "generators": self.ranks.gather(self._generator_states()),
            "position": (self.epoch, self.step),
            "losses": torch.stack(self.losses).cpu() if self.losses else None,
            "history": self.history.state_dict(),
            "best_state": self.best_state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        mine, saved = _comparable(self.config), state["config"]
        if different := [name for name in mine if mine[name] != saved.get(name)]:
            changes = ", ".join(f"{n} was {saved.get(n)!r}, now {mine[n]!r}" for n in different)
            raise ValueError(f"Expected the config of the checkpoint to resume it. Got: {changes}.")
        if state["data"] != self.fingerprint:
            raise ValueError(
                "Expected the data of the checkpoint to resume it. Got other training or "
                "validation data."
            )
        if len(state["generators"]) != self.ranks.world:
            raise ValueError(
                f"Expected {len(state['generators'])} processes, as in the checkpoint, to resume "
                f"it. Got {self.ranks.world}."
            )
        try:
            self.module.load_state_dict(state["module"])
        except RuntimeError as error:
            raise ValueError(
                "Expected the module of the checkpoint to resume it. Got one with other "
                f"parameters: {error}"
            ) from error
        self.descent.load_state_dict(state["descent"])
        self.epoch, self.step = state["position"]
        losses = state["losses"]
        self.losses = [] if losses is None else list(losses.to(self.device))
        self.history = History(**state["history"])
        self.best_state = state["best_state"]
        self.epoch_start = state["generators_at_epoch_start"][self.ranks.rank]
        self._set_generator_states(state["generators"][self.ranks.rank])

    def _fingerprint(self) -> list[Any]:
        """Of the data in memory; of batches only how many there are."""
        if isinstance(self.data, MemberData):
            training = self.data.fingerprint()
        else:
            training = [self.steps_per_epoch]
        if self.validation is None:
            return [training, None]
        if is_pair(self.validation):
            return [training, MemberData.of(self.validation, self.members).fingerprint()]
        return [training, _length(self.validation)]

    def _generators(self) -> Generators:
        """Everything that draws numbers: shuffling, noise, and a loader's own generators."""
        own = {"shuffler": self.shuffler, "input_dropout": self.descent.noise}
        return own | shared_generators(self.data, self.device, self.is_silent)

    def _generator_states(self) -> dict[str, Tensor]:
        return states_of(self._generators())

    def _set_generator_states(self, states: dict[str, Tensor]) -> None:
        set_states(self._generators(), states)


def _length(data: Any) -> int:
    """How many batches there are, 0 where that is not known."""
    try:
        return len(data)
    except TypeError:
        return 0


def _comparable(config: TrainConfig) -> dict[str, Any]:
    """The config as plain values; a loss function is compared by its name."""
    values = dataclasses.asdict(config)
    if callable(config.task):
        values["task"] = getattr(config.task, "__qualname__", type(config.task).__qualname__)
    return values
