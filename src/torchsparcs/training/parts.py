"""Parts of a population, trained one after the other where memory is short.

Members are independent and see the same batches in every part, so the outcome is the same.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, MemberData, is_pair
from torchsparcs.training.history import History

Training = Callable[..., History]  # of (population, data, config, validation, weights)


def part_by_part(
    train: Training,
    population: Any,
    data: Data,
    config: TrainConfig,
    validation: Data | None,
    weights: Tensor | None,
) -> History:
    """``train`` all members at once or, where memory runs out, one half after the other.

    ``population`` has ``members``, ``part(slice)`` and ``replace_part(slice, part)``.
    """
    start = {name: value.detach().cpu().clone() for name, value in population.state_dict().items()}
    try:
        return train(population, data, config, validation, weights)
    except RuntimeError as error:
        if population.members == 1 or not is_out_of_memory(error):
            raise
    population.load_state_dict(start)
    if next(population.parameters()).is_cuda:
        torch.cuda.empty_cache()
    members, histories = population.members, []
    for part in (slice(0, members // 2), slice(members // 2, members)):
        half = population.part(part)
        options = (
            data_of_part(data, members, part),
            config_of_part(config, part),
            None if validation is None else data_of_part(validation, members, part),
            weights if weights is None or weights.dim() == 1 else weights[part],
        )
        histories.append(part_by_part(train, half, *options))
        population.replace_part(part, half)
    return joined(*histories)


def is_out_of_memory(error: RuntimeError) -> bool:
    """On a GPU, or on a CPU, where torch has no error of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def joined(first: History, second: History) -> History:
    """The history of all members from those of two parts."""

    def pairwise(name: str) -> list[Any]:
        both = zip(getattr(first, name), getattr(second, name), strict=True)
        return [mine + other for mine, other in both]

    snapshots = [
        (epoch, {name: torch.cat([value, other[name]]) for name, value in mine.items()})
        for (epoch, mine), (_, other) in zip(first.snapshots, second.snapshots, strict=True)
    ]
    return replace(
        first,
        train_loss=pairwise("train_loss"),
        validation_loss=pairwise("validation_loss"),
        validation_score=pairwise("validation_score"),
        recruited=pairwise("recruited"),
        seconds=pairwise("seconds"),
        snapshots=snapshots,
    )


def data_of_part(data: Data, members: int, part: slice) -> Any:
    """What the members of ``part`` are trained on."""
    if not is_pair(data):
        return data
    whole = MemberData.of(data, members)
    inputs = whole.inputs[part] if whole.own_inputs else whole.inputs
    return inputs, whole.targets[part] if whole.own_targets else whole.targets


def config_of_part(config: TrainConfig, part: slice) -> TrainConfig:
    """How the members of ``part`` are trained."""
    weight, scales = config.penalty_weight, config.member_lr_scales
    return replace(
        config,
        penalty_weight=weight[part] if isinstance(weight, tuple) else weight,
        member_lr_scales=None if scales is None else scales[part],
    )
