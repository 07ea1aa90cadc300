"""The random numbers of a training: seeded for it, saved with it; those of others left alone."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

GPU_LOCKS: dict[int, threading.RLock] = {}

Generators = dict[str, torch.Generator]


@contextlib.contextmanager
def own_numbers(seed: int, device: torch.device, is_silent: bool) -> Iterator[None]:
    """Torch's own generators seeded, and back as they were afterwards.

    They are everybody's. A training that draws nothing from them leaves them alone, so that
    trainings in several threads do not meet; on a GPU, one training at a time.
    """
    if device.type == "cuda":
        index = device.index or 0
        with GPU_LOCKS.setdefault(index, threading.RLock()), torch.random.fork_rng([device]):
            torch.default_generator.manual_seed(seed)
            torch.cuda.default_generators[index].manual_seed(seed)
            yield
    elif is_silent:
        yield
    else:
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            yield


def shared_generators(data: Any, device: torch.device, is_silent: bool) -> Generators:
    """Those beside a training's own that may draw: torch's, a loader's and its sampler's."""
    generators = {} if is_silent else {"torch": torch.default_generator}
    if device.type == "cuda":
        generators["cuda"] = torch.cuda.default_generators[device.index or 0]
    for name, owner in (("loader", data), ("sampler", getattr(data, "sampler", None))):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            generators[name] = generator
    return generators


def states_of(generators: Generators) -> dict[str, Tensor]:
    return {name: generator.get_state() for name, generator in generators.items()}


def set_states(generators: Generators, states: dict[str, Tensor]) -> None:
    """Every generator as it was; a ValueError where they are not the same ones."""
    if generators.keys() != states.keys():
        raise ValueError(
            f"Expected generators {', '.join(states)}, as in the checkpoint, to resume it. Got "
            f"{', '.join(generators)}: another device or another loader."
        )
    for name, generator in generators.items():
        generator.set_state(states[name])
