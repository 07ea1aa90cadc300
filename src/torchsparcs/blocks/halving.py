"""A trial: a block does without half of its units, and nobody but its readers may notice.

Gradients do not tell of what passes a comparison, ``detach`` or the number of units. So writers
give noise, with all units and with half of them, and readers what they gave before: of the units
that are left readers must hear the same both times, and the outputs of the model must stay. That
is looked at on an example, and says nothing of what a model does with others alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsparcs.blocks.layers import axis_of, has_own_weights, with_channels, with_units
from torchsparcs.training.nests import called, tensors_in
from torchsparcs.training.tasks import evaluation_mode

TOLERANCE = 1e-3  # of the largest number: other sizes may be rounded in another way


class Halving:
    """A model before the trial: what its layers gave, and its outputs."""

    def __init__(self, model: nn.Module, layers: Sequence[str], example: Any):
        self.model, self.example = model, example
        self.given: dict[str, list[Tensor]] = {name: [] for name in layers}

        def keep(name: str, _: nn.Module, inputs: tuple, named: dict, output: Tensor) -> None:
            self.given[name].append(output.clone())

        self.outputs = self._called({name: partial(keep, name) for name in layers})

    def reason_against(
        self, writers: Sequence[str], readers: Sequence[str], between: Sequence[str], units: int
    ) -> str:
        """In words, why units of such a block cannot go; else empty."""
        parts = {one: self.model.get_submodule(one) for one in (*writers, *readers, *between)}
        if units < 2 or not all(has_own_weights(part) for part in parts.values()):
            return ""  # none can go
        generator = torch.Generator().manual_seed(0)
        all_units = torch.ones(units, dtype=torch.bool)
        for gone in torch.randperm(units, generator=generator).chunk(2):
            kept = all_units.clone()
            kept[gone] = False
            noise = {
                name: [_noise(given, generator) for given in self.given[name]] for name in writers
            }
            smaller = {name: with_channels(parts[name], kept) for name in between}
            smaller |= {name: with_units(parts[name], kept, None) for name in writers}
            smaller |= {name: with_units(parts[name], None, kept) for name in readers}
            try:
                whole = self._trial(noise, readers, all_units)
                with _in_place_of(parts, smaller):
                    half = self._trial(noise, readers, kept)
            except Exception as error:  # whatever the model says of such units
                lines = str(error).strip().splitlines() or [type(error).__name__]
                return f"with other units, or fewer, the model fails ({lines[0]})"
            for name in readers:
                axis = axis_of(parts[name])
                expected = [
                    _part(one, kept.repeat_interleave(one.shape[axis] // units), axis)
                    for one in whole.heard[name]
                ]
                if not _are_alike(half.heard[name], expected):
                    return (
                        "units are mixed on the way, or counted, by something that has no "
                        f"gradient: without others {name!r} hears other things of them"
                    )
            for one in (whole, half):
                if not _are_alike(one.outputs, self.outputs):
                    return "the model hears them elsewhere too, by something that has no gradient"
        return ""

    def _trial(
        self, noise: dict[str, list[Tensor]], readers: Sequence[str], kept: Tensor
    ) -> "Trial":
        """A call where writers give ``noise`` of the units that are kept."""
        heard: dict[str, list[Tensor]] = {name: [] for name in readers}
        left = {name: iter(parts) for name, parts in noise.items()}
        given = {name: iter(self.given[name]) for name in readers}

        def write(name: str, module: nn.Module, *_: Any) -> Tensor:
            whole, axis = next(left[name]), axis_of(module)
            return _part(whole, kept.repeat(whole.shape[axis] // len(kept)), axis)

        def replay(name: str, _: nn.Module, inputs: tuple, named: dict, output: Tensor) -> Tensor:
            heard[name].append((*inputs, *named.values())[0].clone())
            return next(given[name]).clone()

        hooks = {name: partial(write, name) for name in noise}
        hooks |= {name: partial(replay, name) for name in readers}
        return Trial(heard, self._called(hooks))

    def _called(self, hooks: dict[str, Any]) -> list[Tensor]:
        """The outputs of the model; what it draws is the same each time."""
        handles = [
            self.model.get_submodule(name).register_forward_hook(hook, with_kwargs=True)
            for name, hook in hooks.items()
        ]
        devices = {p.device for p in self.model.parameters() if p.device.type == "cuda"}
        try:
            with evaluation_mode(self.model), torch.random.fork_rng([*devices]):
                return [one.clone() for one in tensors_in(called(self.model, self.example))]
        finally:
            for handle in handles:
                handle.remove()


class Trial(NamedTuple):
    """What readers heard, call by call, and the outputs of the model."""

    heard: dict[str, list[Tensor]]
    outputs: list[Tensor]


def _noise(given: Tensor, generator: torch.Generator) -> Tensor:
    """Random numbers in the place of ``given``, about as large."""
    size = given.double().square().mean().sqrt().item() or 1.0
    return (size * torch.randn(given.shape, generator=generator)).to(given)


def _part(whole: Tensor, kept: Tensor, axis: int) -> Tensor:
    """A copy of what is kept along an axis."""
    return whole.index_select(axis, kept.nonzero().squeeze(1).to(whole.device))


def _are_alike(ones: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return len(ones) == len(others) and all(map(_is_alike, ones, others))


def _is_alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    size = other.detach().abs().nan_to_num(0, 0, 0)
    scale = size.max().item() if size.numel() else 0.0
    share = max(TOLERANCE, torch.finfo(one.dtype).eps ** 0.5)
    return torch.allclose(one, other, rtol=0, atol=share * scale, equal_nan=True)


@contextmanager
def _in_place_of(parts: dict[str, nn.Module], others: dict[str, nn.Module]) -> Iterator[None]:
    """Modules are like ``others`` for a while, wherever a model holds them."""
    own = {name: part.__dict__ for name, part in parts.items()}
    try:
        for name, part in parts.items():
            object.__setattr__(part, "__dict__", others[name].__dict__)
        yield
    finally:
        for name, part in parts.items():
            object.__setattr__(part, "__dict__", own[name])
