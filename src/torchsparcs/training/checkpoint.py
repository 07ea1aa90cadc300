"""What decides how a training goes on: weights, optimizer, random numbers and how far it is."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import MemberData, is_pair
from torchsparcs.training.history import History

if TYPE_CHECKING:
    from torchsparcs.training.loop import TrainingLoop

GPU_LOCKS: dict[int, threading.RLock] = {}


def state_of(loop: "TrainingLoop") -> dict[str, Any]:
    """Everything that :func:`restore_` needs, and what the call that resumes is compared with."""
    ranks, losses = loop.ranks, loop.losses
    return {
        "config": comparable(loop.config),
        "data": loop.fingerprint,
        "module": loop.module.state_dict(),
        "descent": loop.training_step.state_dict(),
        "generators_at_epoch_start": ranks.gather(loop.epoch_start),
        "generators": ranks.gather(loop.generators.states()),
        "position": (loop.epoch, loop.steps_done),
        "losses": torch.stack(losses).cpu() if losses else None,
        "history": loop.history.state_dict(),
        "best_state": loop.best_state,
    }


def restore_(loop: "TrainingLoop", state: dict[str, Any]) -> None:
    """Bring ``loop`` to ``state``; a ValueError where it is that of another training."""
    mine, saved = comparable(loop.config), state["config"]
    if different := [name for name in mine if mine[name] != saved.get(name)]:
        changes = ", ".join(f"{n} was {saved.get(n)!r}, now {mine[n]!r}" for n in different)
        raise ValueError(f"Expected the config of the checkpoint to resume it. Got: {changes}.")
    if state["data"] != loop.fingerprint:
        raise ValueError(
            "Expected the data of the checkpoint to resume it. Got other training or "
            "validation data."
        )
    rank, world = loop.ranks.rank, loop.ranks.world
    if len(state["generators"]) != world:
        raise ValueError(
            f"Expected {len(state['generators'])} processes, as in the checkpoint, to resume "
            f"it. Got {world}."
        )
    try:
        loop.module.load_state_dict(state["module"])
    except RuntimeError as error:
        raise ValueError(
            "Expected the module of the checkpoint to resume it. Got one with other "
            f"parameters: {error}"
        ) from error
    loop.training_step.load_state_dict(state["descent"])
    loop.epoch, loop.steps_done = state["position"]
    losses = state["losses"]
    loop.losses = [] if losses is None else list(losses.to(loop.device))
    loop.history = History(**state["history"])
    loop.best_state = state["best_state"]
    loop.epoch_start = state["generators_at_epoch_start"][rank]
    loop.generators.set_(state["generators"][rank])


def fingerprint(loop: "TrainingLoop") -> list[Any]:
    """Tells data in memory from other data; of batches it only knows how many there are."""
    if isinstance(loop.data, MemberData):
        training = loop.data.fingerprint()
    else:
        training = [loop.steps_per_epoch]
    if loop.validation is None:
        return [training, None]
    if is_pair(loop.validation):
        return [training, MemberData.of(loop.validation, loop.members).fingerprint()]
    return [training, batch_count(loop.validation)]


def batch_count(batches: Any) -> int:
    """How many batches there are, 0 where that is not known."""
    try:
        return len(batches)
    except TypeError:
        return 0


def comparable(config: TrainConfig) -> dict[str, Any]:
    """The config as plain values; a loss function is compared by its name."""
    values = dataclasses.asdict(config)
    if callable(config.task):
        values["task"] = getattr(config.task, "__qualname__", type(config.task).__qualname__)
    return values


class Generators(dict[str, torch.Generator]):
    """Everything that may draw random numbers in a training, by name."""

    @classmethod
    def of(cls, data: Any, device: torch.device, is_silent: bool) -> "Generators":
        """Generators that others draw from too: torch's, a loader's and its sampler's."""
        generators = cls({} if is_silent else {"torch": torch.default_generator})
        if device.type == "cuda":
            generators["cuda"] = torch.cuda.default_generators[device.index or 0]
        for name, owner in (("loader", data), ("sampler", getattr(data, "sampler", None))):
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator):
                generators[name] = generator
        return generators

    def states(self) -> dict[str, Tensor]:
        return {name: generator.get_state() for name, generator in self.items()}

    def set_(self, states: dict[str, Tensor]) -> None:
        """Every generator as it was; a ValueError where they are not the same ones."""
        if self.keys() != states.keys():
            raise ValueError(
                f"Expected generators {', '.join(states)}, as in the checkpoint, to resume it. Got "
                f"{', '.join(self)}: another device or another loader."
            )
        for name, generator in self.items():
            generator.set_state(states[name])


@contextlib.contextmanager
def seeded_generators(seed: int, device: torch.device, is_silent: bool) -> Iterator[None]:
    """Torch's own generators seeded, and back as they were afterwards.

    They are everybody's. A training that draws nothing from them leaves them alone, so that
    trainings in several threads do not meet; on a GPU, one training at a time.
    """
    if is_silent and device.type != "cuda":
        yield
        return
    with contextlib.ExitStack() as stack:
        devices = []
        if device.type == "cuda":
            index, devices = device.index or 0, [device]
            stack.enter_context(GPU_LOCKS.setdefault(index, threading.RLock()))
        stack.enter_context(torch.random.fork_rng(devices))
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
