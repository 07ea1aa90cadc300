"""The epochs of one training, from the first or from a checkpoint to the last."""

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torchsparcs.files.checkpoints import save_checkpoint
from torchsparcs.spectral.population import is_silent, members_of
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, MemberData, Pair, is_pair, placed
from torchsparcs.training.generators import Generators, set_states, shared_generators, states_of
from torchsparcs.training.history import History
from torchsparcs.training.ranks import Ranks
from torchsparcs.training.step import TrainingStep
from torchsparcs.training.tasks import Evaluation, check_data, evaluate

SAVING_SHARE = 0.02  # of the time may go into checkpoints
LOSSES = 64  # of single steps, kept as one tensor


class NonFiniteLossError(RuntimeError):
    """The loss became infinite or NaN; the message names the epoch and the step."""


class TrainingLoop:
    """One training; its state is whole between any two steps.

    ``checkpoint``: the file to save it to. ``alike``: the module is a part of a population, whose
    other members may be elsewhere.
    """

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
        self.stepper = TrainingStep(module, config, own_targets, self.ranks, alike=alike)
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
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise ValueError("Expected a module with something to train. All of it is frozen.")
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
        loss = self.stepper.step(batch, (self.epoch + share) / self.config.epochs)
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
        spectral = self.stepper.spectral
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
            "descent": self.stepper.state_dict(),
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
        self.stepper.load_state_dict(state["descent"])
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
        own = {"shuffler": self.shuffler, "input_dropout": self.stepper.noise}
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
