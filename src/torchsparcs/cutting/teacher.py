"""The model before its cuts as the teacher of what is left of it.

A fine-tuning minimises (1 − s) · loss + s · (D + c · E): s is the share of the teacher, D how far
answers are from its answers, E how far the outputs of blocks that were cut are from theirs there,
c the loss of a constant answer, by which such distances compare with losses.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.training.config import TrainConfig
from torchsparcs.training.nests import called, tensors_in
from torchsparcs.training.tasks import LossFunction, evaluation_mode, resolve_task

LEAST_VARIANCE = 1e-6  # of the mean square: less is rounding


class Answer(NamedTuple):
    """What a pupil and its teacher give, and outputs of blocks of both, one after the other."""

    own: Any
    said: Any
    blocks: list[tuple[Tensor, Tensor]]


class Teacher:
    """A model that fine-tunings of others, cut from it, listen to.

    Args:
        share: s, from 0 to 1.
        places: names of modules that give something as wide as before, whatever was cut.
        scale: c, of which the size counts: a loss of one's own may be below zero.
    """

    def __init__(
        self,
        model: nn.Module,
        task: str | LossFunction,
        share: float,
        places: Sequence[str],
        scale: float,
    ):
        self.model, self.task, self.share, self.places = model, task, share, places
        self.scale = abs(scale)

    def taught(self, pupil: nn.Module, tuning: TrainConfig) -> tuple[nn.Module, TrainConfig]:
        """``pupil`` beside its teacher, and the config of its fine-tuning."""
        return Taught(pupil, self), replace(tuning, task=self.loss)

    def loss(self, answer: Answer, target: Any) -> Tensor:
        """The loss of a batch, of which ``answer`` is what a :class:`Taught` gives."""
        own = resolve_task(self.task).loss(answer.own, target)
        distance = DISTANCES.get(self.task) if isinstance(self.task, str) else None
        if distance is not None:
            said = distance(answer.own, answer.said)
        else:
            said = self.scale * _mean_error([*zip(*map(_numbers, answer[:2]), strict=True)], own)
        heard = self.scale * _mean_error(answer.blocks, own)
        return (1 - self.share) * own + self.share * (said + heard)


class Taught(nn.Module):
    """A model whose every call is one of its teacher as well, which is no part of it."""

    def __init__(self, pupil: nn.Module, teacher: Teacher):
        super().__init__()
        self.pupil = pupil
        self.teacher = teacher  # no module: its parameters are none of this one

    def forward(self, *inputs: Any, **named: Any) -> Answer:
        given = named or (inputs if len(inputs) > 1 else inputs[0])
        own, mine = _heard(self.pupil, self.teacher.places, given)
        with evaluation_mode(self.teacher.model):
            said, theirs = _heard(self.teacher.model, self.teacher.places, given)
        return Answer(own, said, [*zip(mine, theirs, strict=True)])


def _heard(model: nn.Module, places: Sequence[str], given: Any) -> tuple[Any, list[Tensor]]:
    """What ``model`` gives, and its modules at ``places``, in the order of places and calls."""
    heard: dict[str, list[Tensor]] = {name: [] for name in places}

    def keep(name: str, _: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
        heard[name].append(output)
        return output.clone()  # others may write into it

    hooks = [
        model.get_submodule(name).register_forward_hook(partial(keep, name)) for name in places
    ]
    try:
        return called(model, given), [one for name in places for one in heard[name]]
    finally:
        for hook in hooks:
            hook.remove()


def _numbers(answer: Any) -> list[Tensor]:
    """What of an answer can be near another."""
    return [one for one in tensors_in(answer) if one.is_floating_point() and one.dim()]


def _mean_error(pairs: Sequence[tuple[Tensor, Tensor]], like: Tensor) -> Tensor:
    """Squared errors by the variance of what the teacher says, their mean over the pairs."""
    errors = [(own - said).square().mean() * _weight_of(said) for own, said in pairs]
    return torch.stack(errors).mean() if errors else like.new_zeros(())


def _weight_of(said: Tensor) -> Tensor:
    """One by the variance; of a batch that says one thing, as a single number, by its square.

    What is zero throughout has no scale, and no weight.
    """
    square = said.square().mean()
    variance = said.var(correction=min(1, said.numel() - 1))
    spread = torch.where(variance > LEAST_VARIANCE * square, variance, square)
    return torch.where(spread > torch.finfo(said.dtype).tiny, spread.reciprocal(), 0)


def _divergence(own: Tensor, said: Tensor) -> Tensor:
    """Σ p log (p / q) over classes, the mean over rows and places."""
    logs = own.log_softmax(dim=-1), said.log_softmax(dim=-1)
    return F.kl_div(*logs, reduction="none", log_target=True).sum(dim=-1).mean()


def _divergence_of_labels(own: Tensor, said: Tensor) -> Tensor:
    """The same where each output is a label by itself."""
    share = said.sigmoid()
    gap = F.binary_cross_entropy_with_logits
    return gap(own, share) - gap(said, share)


# How far the outputs of a task are from others; else by squared errors.
DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "multiclass": _divergence,
    "binary": _divergence_of_labels,
}
