"""A plain training loop in torch, for the contestants that are modules."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import pairwise

import numpy as np
import torch
from contest import Array, Found, Task
from torch import Tensor, nn
from torch.nn import functional as F

BATCH = 128  # as `search` has by default


def loss_of(kind: str, outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the classes, or the squared error; two classes have one logit."""
    if kind == "multiclass":
        return F.cross_entropy(outputs, y)
    y = y.reshape(outputs.shape)
    if kind == "binary":
        return F.binary_cross_entropy_with_logits(outputs, y)
    return F.mse_loss(outputs, y)


def tensors(task: Task, x: Array, y: Array) -> tuple[Tensor, Tensor]:
    """Rows as float32, classes as int64 where there are more than two."""
    target = torch.int64 if task.kind == "multiclass" else torch.float32
    on = task.device
    return torch.as_tensor(x, dtype=torch.float32, device=on), torch.as_tensor(y).to(on, target)


def mlp(features: int, hidden: Iterable[int], outputs: int) -> nn.Sequential:
    sizes = [features, *hidden, outputs]
    layers: list[nn.Module] = []
    for of, to in pairwise(sizes):
        layers += [nn.Linear(of, to), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def fit(
    module: nn.Module,
    task: Task,
    x: Array,
    y: Array,
    *,
    steps: int,
    lr: float,
    weight_decay: float = 0.0,
    after_step: Callable[[float], None] | None = None,
) -> nn.Module:
    """AdamW with a cosine schedule on batches of 128, row order from torch's generator.

    ``after_step`` is called with the learning rate of the step.
    """
    module.to(task.device).train()
    rows, targets = tensors(task, x, y)
    optimizer = torch.optim.AdamW(module.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    for batch in batches(len(rows), steps):
        loss = loss_of(task.kind, module(rows[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if after_step is not None:
            after_step(schedule.get_last_lr()[0])
        schedule.step()
    return module.eval()


def batches(rows: int, steps: int) -> Iterable[Tensor]:
    done = 0
    while done < steps:
        for batch in torch.randperm(rows).split(min(BATCH, rows)):
            yield batch
            done += 1
            if done == steps:
                return


@torch.no_grad()
def outputs_of(module: nn.Module, task: Task, x: Array) -> Array:
    rows = torch.as_tensor(np.asarray(x), dtype=torch.float32, device=task.device)
    return module(rows).cpu().numpy()


def predictor(module: nn.Module, task: Task) -> Callable[[Array], Array]:
    return lambda x: task.predictions(outputs_of(module, task, x))


def onnx_writer(module: nn.Module, features: int) -> Callable[[object], object]:
    """Through torch.onnx alone, as anybody with a module would."""

    def write(path: object) -> object:
        example = torch.zeros(2, features)
        batch = torch.export.Dim("batch")
        return torch.onnx.export(
            deepcopy(module).cpu(),  # the module itself stays where it predicts
            (example,),
            path,
            dynamo=True,
            dynamic_shapes=({0: batch},),
            verbose=False,
        )

    return write


def handed_in(
    module: nn.Module, task: Task, expected: float, hidden: Iterable[int], skips: bool = False
) -> Found:
    """A module as it is: every parameter counts."""
    hidden = tuple(hidden)
    return Found(
        task.chain(hidden),
        hidden,
        skips,
        sum(parameter.numel() for parameter in module.parameters()),
        expected,
        predictor(module, task),
        onnx_writer(module, task.features),
    )
