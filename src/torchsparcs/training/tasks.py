"""What a network is trained for: the loss it minimises and the score a person reads."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs.spectral.population import members_of
from torchsparcs.training.data import Data, MemberData, Pair, batches_of, is_pair
from torchsparcs.training.nests import called, mapped, rows_of, tensors_in
from torchsparcs.training.quantiles import pinball, quantile_level

LossFunction = Callable[[Any, Any], Tensor]


class Task(NamedTuple):
    """What is to be minimised and what is read. Shapes: output (n, k); target (n, k), or (n,).

    Where there are several places in a row, (n, places, k), a row counts with their mean.

    Attributes:
        loss: of (output, target), a mean over the batch.
        score: of (output, target), taken once over all the data; the larger the better.
        check: of (target, outputs), raises ValueError for targets the task cannot have.
        losses, scores: of (output, target), (n,) each, with ``loss`` and ``score`` as their means;
            None where only a mean is known. ``scores`` also takes the share of each row, (n,).
        drawn: of (output, generator), targets around the output to take gradients at, since in a
            good fit to numbers the residuals say nothing; None where those of the data will do.
    """

    loss: LossFunction
    score: LossFunction
    check: Callable[[Tensor, int], None]
    losses: LossFunction | None = None
    scores: Callable[..., Tensor] | None = None
    drawn: Callable[[Tensor, torch.Generator], Tensor] | None = None

    def felt(self, output: Tensor, target: Tensor, generator: torch.Generator) -> Tensor:
        """The loss whose gradients tell what an error of the output means."""
        return self.loss(output, self.drawn(output, generator) if self.drawn else target)


def _task_of_rows(
    losses: LossFunction,
    scores: Callable[..., Tensor],
    check: Callable[[Tensor, int], None],
    drawn: Callable[[Tensor, torch.Generator], Tensor] | None = None,
) -> Task:
    return Task(
        loss=lambda output, target: losses(output, target).mean(),
        score=lambda output, target: scores(output, target).mean(),
        check=check,
        losses=losses,
        scores=scores,
        drawn=drawn,
    )


def _aligned(output: Tensor, target: Tensor) -> Tensor:
    """The target in the shape of the output, so that nothing broadcasts by accident."""
    is_column = output.shape[-1:] == (1,) and target.shape == output.shape[:-1]
    if target.shape != output.shape and not is_column:
        raise ValueError(
            f"Expected as many numbers a row as there are outputs, {tuple(output.shape[1:])}. Got "
            f"{tuple(target.shape[1:])}; classes are whole numbers with task='multiclass'."
        )
    return target.reshape(output.shape).to(output.dtype)


def _with_noise(output: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(output.shape, generator=generator, dtype=output.dtype)
    return output.detach() + noise.to(output.device)


def _squared_errors(output: Tensor, target: Tensor) -> Tensor:
    return (output - _aligned(output, target)).square().mean(dim=-1)


def _binary_cross_entropies(output: Tensor, target: Tensor) -> Tensor:
    losses = F.binary_cross_entropy_with_logits(output, _aligned(output, target), reduction="none")
    return losses.mean(dim=-1)


def _cross_entropies(output: Tensor, target: Tensor) -> Tensor:
    if target.shape != output.shape[:-1] or target.is_floating_point():
        raise ValueError(
            "Expected integers as class labels, one for each row, or for each place where outputs "
            f"are (rows, places, classes). Got rows of shape {tuple(target.shape[1:])} of "
            f"{target.dtype} for outputs of {tuple(output.shape[1:])}."
        )
    losses = F.cross_entropy(output.movedim(-1, 1), target.long(), reduction="none")
    return _of_rows(losses)


def _of_rows(values: Tensor) -> Tensor:
    """The mean over the places of each row, (n,)."""
    return values.flatten(1).mean(dim=1) if values.dim() > 1 else values


def _r2_scores(output: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
    """1 − (y − ŷ)² / Var y, the mean over the outputs that vary; NaN where none does.

    Its mean over the rows, each with its ``share`` (n,) that sum to one, is R².
    """
    target = _aligned(output, target)
    if share is None:
        share = target.new_full((len(target),), 1 / len(target))
    share = share.to(target.dtype).view(-1, *[1] * (target.dim() - 1))
    spread = (share * (target - (share * target).sum(dim=0)).square()).sum(dim=0)
    varying = spread > 0
    return (1 - (target - output).square() / spread)[:, varying].mean(dim=-1)


def _hits_of_labels(output: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
    return ((output > 0) == (_aligned(output, target) > 0.5)).float().mean(dim=-1)


def _hits_of_classes(output: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
    return _of_rows((output.argmax(dim=-1) == target).float())


def _check_numbers(target: Tensor, outputs: int) -> None:
    if not torch.isfinite(target).all():
        raise ValueError(_not_finite("targets", target))


def _check_probabilities(target: Tensor, outputs: int) -> None:
    _check_numbers(target, outputs)
    low, high = target.min().item(), target.max().item()
    if low < 0 or high > 1:
        raise ValueError(
            f"Expected binary targets between 0 and 1. Got values from {low} to {high}."
        )


def _check_classes(target: Tensor, outputs: int) -> None:
    if target.is_floating_point() or target.is_complex():
        raise ValueError(f"Expected integers as class labels. Got {target.dtype}.")
    low, high = int(target.min()), int(target.max())
    if low < 0 or high >= outputs:
        raise ValueError(
            f"Expected class labels from 0 to {outputs - 1}, for {outputs} outputs. "
            f"Got labels from {low} to {high}."
        )


TASKS: dict[str, Task] = {
    # one output or many; the score is R²
    "regression": _task_of_rows(_squared_errors, _r2_scores, _check_numbers, _with_noise),
    # one logit, or independent labels; the score is accuracy
    "binary": _task_of_rows(_binary_cross_entropies, _hits_of_labels, _check_probabilities),
    "multiclass": _task_of_rows(_cross_entropies, _hits_of_classes, _check_classes),
}


def resolve_task(task: str | LossFunction) -> Task:
    """The row of :data:`TASKS`, or for a callable that loss, scored by its negative.

    "quantile 0.9" is a regression of that quantile.
    """
    if callable(task) and not isinstance(task, type):
        return Task(
            task, lambda output, target: -task(output, target), lambda target, outputs: None
        )
    if isinstance(task, str) and (level := quantile_level(task)) is not None:
        losses = partial(_pinballs, level)
        return _task_of_rows(losses, _r2_scores, _check_numbers, _with_noise)
    if not isinstance(task, str) or task not in TASKS:
        raise ValueError(
            f"Expected a task among {', '.join(TASKS)}, 'quantile 0.9' or another, or a loss. Got "
            f"{task!r}."
        )
    return TASKS[task]


def _pinballs(level: float, output: Tensor, target: Tensor) -> Tensor:
    return pinball(_aligned(output, target) - output, level).mean(dim=-1)


def check_data(
    module: nn.Module,
    data: Data,
    task: str | LossFunction,
    *,
    name: str = "data",
) -> None:
    """A ValueError for data in memory that ``module`` cannot be trained or judged with.

    The first rows go through the module, so shapes are checked as they will be used.
    """
    if not is_pair(data):
        return
    resolved, members = resolve_task(task), members_of(module)
    whole = MemberData.of(data, members, _parameter(module))
    for part in tensors_in(whole.inputs):
        if not torch.isfinite(part).all():
            raise ValueError(f"{_not_finite('inputs', part)} Look at the {name}.")
    x, y = whole.batch(torch.arange(min(2, whole.rows)))
    with evaluation_mode(module):
        try:
            output = _outputs(module, x, task)
        except (RuntimeError, ValueError) as error:
            is_one = isinstance(x, Tensor) and not x.is_floating_point()
            if not is_one or not _takes(module, x.to(_parameter(module).dtype)):
                raise
            raise ValueError(
                f"Expected inputs as floating-point numbers, like images / 255. Got {x.dtype}."
            ) from error
    if isinstance(output, Tensor):
        resolved.check(whole.targets, output.shape[-1])
    if members is None:
        _try_loss(resolved.loss, output, y)
    else:
        _try_loss(resolved.loss, output[0], y[0] if whole.own_targets else y)


def _takes(module: nn.Module, x: Tensor) -> bool:
    """Whether ``module`` can be called with ``x``."""
    try:
        called(module, x)
    except (RuntimeError, ValueError):
        return False
    return True


def _try_loss(loss: LossFunction, output: Any, target: Any) -> None:
    """A ValueError unless it gives one number for them, row by row."""
    with warnings.catch_warnings():
        # torch's own losses warn where an output of (rows, 1) meets targets of (rows,)
        warnings.filterwarnings("error", "Using a target size", UserWarning)
        try:
            value = loss(output, target)
        except UserWarning as error:
            raise ValueError(
                f"Expected outputs and targets of one shape. Got {tuple(output.shape)} and "
                f"{tuple(target.shape)} of the first rows: all pairs of rows would be compared."
            ) from error
    if value.numel() != 1:
        raise ValueError(
            f"Expected a loss that gives one number. Got one of shape {tuple(value.shape)}."
        )


class Evaluation(NamedTuple):
    """Loss and score of a network; of a population, lists with a number for every member."""

    loss: Any
    score: Any


def evaluate(
    module: nn.Module,
    data: Data,
    task: str | LossFunction,
    *,
    batch_size: int = 8192,
) -> Evaluation:
    """Loss and score over ``data``, with the module in evaluation mode; its mode is restored.

    Of a loss function of your own that takes other things than one tensor and another, it is the
    mean over the batches, by their rows.
    """
    resolved, members = resolve_task(task), members_of(module)
    with evaluation_mode(module):
        answers = _answers(module, data, batch_size, task)
        first = [*islice(answers, 1)]
        if first and not all(isinstance(part, Tensor) for part in first[0]):
            return _mean_over(chain(first, answers), resolved)
        output, target, own = _joined(module, data, [*first, *answers])
    if members is None:
        return Evaluation(
            resolved.loss(output, target).item(), resolved.score(output, target).item()
        )
    each = [(output[i], target[i] if own else target) for i in range(members)]
    return Evaluation(
        [resolved.loss(*pair).item() for pair in each],
        [resolved.score(*pair).item() for pair in each],
    )


def _mean_over(answers: Iterable[Pair], task: Task) -> Evaluation:
    total, rows = 0.0, 0
    for output, target in answers:
        count = rows_of(target)
        total, rows = total + count * task.loss(output, target).item(), rows + count
    return Evaluation(total / rows, -total / rows)


def _answers(
    module: nn.Module, data: Data, batch_size: int, task: str | LossFunction = "regression"
) -> Iterator[Pair]:
    """What ``module`` gives for each batch, and its targets."""
    for x, y in batches_of(data, batch_size, members_of(module), _parameter(module)):
        yield _outputs(module, x, task), y


def predict(
    module: nn.Module, data: Data, *, batch_size: int = 8192
) -> tuple[Tensor, Tensor, bool]:
    """Outputs and targets of all the data, and whether the targets have an axis of members.

    Of a population the outputs are (members, rows, k).
    """
    with evaluation_mode(module):
        return _joined(module, data, [*_answers(module, data, batch_size)])


def _joined(module: nn.Module, data: Data, pairs: list[Pair]) -> tuple[Tensor, Tensor, bool]:
    members = members_of(module)
    if not pairs:
        raise ValueError("Expected data with at least one batch. Got none.")
    outputs, targets = zip(*pairs, strict=True)
    own = members is not None and is_pair(data) and MemberData.of(data, members).own_targets
    output = torch.cat(outputs, dim=0 if members is None else 1)
    return output, torch.cat(targets, dim=1 if own else 0), own


def gives_tensors(module: nn.Module, data: Data) -> bool:
    """Whether what ``module`` gives, and the targets of ``data``, are one tensor each."""
    batches = islice(batches_of(data, 1, members_of(module), _parameter(module)), 1)
    with evaluation_mode(module):
        return all(isinstance(part, Tensor) for x, y in batches for part in (called(module, x), y))


@contextlib.contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, and back."""
    with restored_mode(module), torch.no_grad():
        module.eval()
        yield


@contextlib.contextmanager
def restored_mode(module: nn.Module) -> Iterator[None]:
    """Every submodule gets back the mode, training or evaluation, that it had."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _outputs(module: nn.Module, x: Any, task: str | LossFunction) -> Any:
    output = called(module, x)
    if not isinstance(output, Tensor) and not callable(task):
        raise ValueError(
            "Expected a module that gives one tensor, or a loss(output, target) of your own as the "
            f"task, which takes what it gives. Got a {type(output).__name__} from "
            f"{type(module).__name__}."
        )
    return mapped(_in_full, output)


def _in_full(output: Tensor) -> Tensor:
    return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output


def _parameter(module: nn.Module) -> Tensor:
    parameter = next((p for p in module.parameters() if p.is_floating_point()), None)
    if parameter is None:
        raise ValueError(f"Expected a module with parameters. Got {type(module).__name__}.")
    return parameter


def _not_finite(what: str, values: Tensor) -> str:
    count = int((~torch.isfinite(values)).sum())
    return f"Expected finite {what}. Got {count} values that are NaN or infinite."
