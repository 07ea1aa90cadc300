"""What a network is trained for: the loss it minimises and the score a person reads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
    """Of one network; of a population each is a list with a number for every member."""

    loss: float
    score: float


@torch.no_grad()
def evaluate(
    module: nn.Module,
    data: Data,
    task: str | LossFunction,
    members: int | None = None,
    *,
    batch_size: int = 8192,
) -> Evaluation:
    """Loss and score over ``data``, with the module in evaluation mode; its mode is restored.

    With ``members`` the output is (members, rows, k), and so may the inputs and targets be.
    """
    resolved = resolve_task(task)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    was_training = module.training
    module.eval()
    try:
        pairs = [
            (module(x.to(device)).float(), y.to(device))
            for x, y in batches_of(data, batch_size, members)
        ]
    finally:
        module.train(was_training)
    outputs, targets = zip(*pairs, strict=True)
    if members is None:
        output, target = torch.cat(outputs), torch.cat(targets)
        return Evaluation(
            resolved.loss(output, target).item(), resolved.score(output, target).item()
        )
    output = torch.cat(outputs, dim=1)
    own = is_tensor_pair(data) and MemberData(*data, members).own_targets
    target = torch.cat(targets, dim=1 if own else 0)
    each = [(output[i], target[i] if own else target) for i in range(members)]
    return Evaluation(
        [resolved.loss(*pair).item() for pair in each],  # type: ignore[arg-type]
        [resolved.score(*pair).item() for pair in each],  # type: ignore[arg-type]
    )


def batches_of(
    data: Data, batch_size: int, members: int | None = None
) -> Iterable[tuple[Tensor, Tensor]]:
    """``data`` in order: a pair of tensors cut into batches, or the batches of a loader."""
    if is_tensor_pair(data):
        whole = MemberData(*data, members)
        return map(whole.batch, torch.arange(whole.rows).split(batch_size))
    return data  # type: ignore[return-value]


def is_tensor_pair(data: Data) -> TypeGuard[tuple[Tensor, Tensor]]:
    """Whether ``data`` is (inputs, targets) in memory rather than batches to go through."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2 and _all_tensors(data)):
        if isinstance(data, Iterable) and not isinstance(data, Tensor):
            return False
        raise ValueError(
            "Expected data to be a pair of tensors (inputs, targets) or an iterable of such "
            f"batches. Got {type(data).__name__}."
        )
    return True


def _all_tensors(data: Iterable) -> bool:
    return all(isinstance(part, Tensor) for part in data)


@dataclass(frozen=True)
class MemberData:
    """Inputs and targets in memory, shared by all members or with a leading axis of them.

    Shape:
        - inputs (rows, N₀), or (members, rows, N₀) for a population
        - targets (rows, ...), or (members, rows, ...)
    """

    inputs: Tensor
    targets: Tensor
    members: int | None = None

    def __post_init__(self) -> None:
        if self.own_inputs and len(self.inputs) != self.members:
            raise ValueError(
                f"Expected inputs for {self.members} members. Got {tuple(self.inputs.shape)}."
            )
        if self.targets.shape[1 if self.own_targets else 0] != self.rows or self.rows == 0:
            raise ValueError(
                "Expected as many inputs as targets, and at least one. "
                f"Got shapes {tuple(self.inputs.shape)} and {tuple(self.targets.shape)}."
            )

    @property
    def own_inputs(self) -> bool:
        return self.members is not None and self.inputs.dim() == 3

    @property
    def rows(self) -> int:
        return self.inputs.shape[1 if self.own_inputs else 0]

    @property
    def own_targets(self) -> bool:
        """Targets with as many rows as inputs in their first axis are everybody's."""
        if self.members is None or self.targets.dim() < 2 or len(self.targets) == self.rows:
            return False
        return self.targets.shape[:2] == (self.members, self.rows)

    def to(self, device: torch.device) -> "MemberData":
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        inputs = self.inputs[:, rows] if self.own_inputs else self.inputs[rows]
        targets = self.targets[:, rows] if self.own_targets else self.targets[rows]
        return inputs, targets
