"""What a network is trained for: the loss it minimises and the score a person reads."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LossFunction = Callable[[Tensor, Tensor], Tensor]
Data = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]


class Task(NamedTuple):
    """One row of :data:`TASKS`.

    ``loss(output, target)`` is a mean over the batch; ``score(output, target)`` is taken once over
    all the data, the larger the better. Shapes: output (n, k); target (n, k), or (n,) for k = 1
    and for classes.
    """

    loss: LossFunction
    score: Callable[[Tensor, Tensor], Tensor]


def _aligned(output: Tensor, target: Tensor) -> Tensor:
    """The target in the shape of the output, so that nothing broadcasts by accident."""
    if target.numel() != output.numel():
        raise ValueError(
            f"Expected targets of shape {tuple(output.shape)}, like the output. "
            f"Got {tuple(target.shape)}."
        )
    return target.reshape(output.shape).to(output.dtype)


def _mean_squared_error(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, _aligned(output, target))


def _binary_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, _aligned(output, target))


def r2_score(output: Tensor, target: Tensor) -> Tensor:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)², the mean over the outputs that vary at all."""
    target = _aligned(output, target)
    residual = (target - output).square().sum(dim=0)
    spread = (target - target.mean(dim=0)).square().sum(dim=0)
    return (1 - residual / spread)[spread > 0].mean()


def _binary_accuracy(output: Tensor, target: Tensor) -> Tensor:
    return ((output > 0) == (_aligned(output, target) > 0.5)).float().mean()


def _class_accuracy(output: Tensor, target: Tensor) -> Tensor:
    return (output.argmax(dim=-1) == target).float().mean()


TASKS: dict[str, Task] = {
    "regression": Task(_mean_squared_error, r2_score),  # one output or many
    "binary": Task(_binary_cross_entropy, _binary_accuracy),  # one logit, or independent labels
    "multiclass": Task(F.cross_entropy, _class_accuracy),
}


def resolve_task(task: str | LossFunction) -> Task:
    """The row of :data:`TASKS`, or for a callable that loss, scored by its negative."""
    if callable(task):
        return Task(task, lambda output, target: -task(output, target))
    if task not in TASKS:
        raise ValueError(f"Expected a task among {', '.join(TASKS)}, or a loss. Got {task!r}.")
    return TASKS[task]


class Evaluation(NamedTuple):
    loss: float
    score: float


@torch.no_grad()
def evaluate(
    module: nn.Module, data: Data, task: str | LossFunction, *, batch_size: int = 8192
) -> Evaluation:
    """Loss and score over ``data``, with the module in evaluation mode; its mode is restored."""
    resolved = resolve_task(task)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    was_training = module.training
    module.eval()
    try:
        pairs = [
            (module(x.to(device)).float(), y.to(device)) for x, y in batches_of(data, batch_size)
        ]
    finally:
        module.train(was_training)
    output, target = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return Evaluation(resolved.loss(output, target).item(), resolved.score(output, target).item())


def batches_of(data: Data, batch_size: int) -> Iterable[tuple[Tensor, Tensor]]:
    """``data`` in order: a pair of tensors cut into batches, or the batches of a loader."""
    if is_tensor_pair(data):
        inputs, targets = data
        return zip(inputs.split(batch_size), targets.split(batch_size), strict=True)
    return data  # type: ignore[return-value]


def is_tensor_pair(data: Data) -> TypeGuard[tuple[Tensor, Tensor]]:
    """Whether ``data`` is (inputs, targets) in memory, checked to be of one length, not empty."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2 and _all_tensors(data)):
        if isinstance(data, Iterable) and not isinstance(data, Tensor):
            return False
        raise ValueError(
            "Expected data to be a pair of tensors (inputs, targets) or an iterable of such "
            f"batches. Got {type(data).__name__}."
        )
    inputs, targets = data
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise ValueError(
            "Expected as many inputs as targets, and at least one. "
            f"Got {len(inputs)} and {len(targets)}."
        )
    return True


def _all_tensors(data: Iterable) -> bool:
    return all(isinstance(part, Tensor) for part in data)
