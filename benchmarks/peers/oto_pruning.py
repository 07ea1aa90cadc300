"""OTO (only_train_once): one training that prunes on its way, by the HESSO optimizer.

As released the package imports with no current torch, and its optimizer asks for a GPU whatever the
model is on. Four shims below, in this process only, let it run; see `shimmed`.

A network of one and one of two hidden layers of 64 (128 and 64 for MNIST) is given to `OTO`,
trained with `oto.hesso` (its AdamW, cosine schedule), and cut by `oto.construct_subnet`, once for
each `target_group_sparsity`. Pruning begins after a tenth of the steps and lasts for three tenths,
in ten periods, as the package's tutorials do. To save time there are five sparsities, and on MNIST
one network and five epochs. The learning rate is chosen for each network at a sparsity of 0.7 by
held-out rows; each sparsity is then trained without them, for the score it expects, and on all
rows.
"""

import importlib
import io
import sys
import tempfile
from contextlib import redirect_stdout

import torch
from contest import Array, Outcome, Task
from plain import batches, handed_in, loss_of, mlp, predictor, tensors
from running import main
from torch import nn
from tuning import steps_for

SPARSITIES = (0.3, 0.5, 0.7, 0.85, 0.95)
LEARNING_RATES, LEARNING_RATES_MNIST = (1e-2, 3e-2), (3e-3, 1e-2)
SHIMS = (
    "runs with four shims: torch.onnx._globals and torch.onnx._optimize_graph put back where the "
    "package looks for them; the module imp, which Python 3.12 no longer has; on a CPU, "
    "Tensor.cuda() made to do nothing"
)


def shimmed(device: str) -> type:
    """The package's `OTO`, imported after what it misses was put in place."""
    from torch.onnx._internal.torchscript_exporter import _globals, utils

    sys.modules.setdefault("torch.onnx._globals", _globals)
    sys.modules.setdefault("imp", importlib)  # only its reload() was of use
    torch.onnx._optimize_graph = utils._optimize_graph
    if device == "cpu":
        torch.Tensor.cuda = lambda tensor, *_, **__: tensor
    from only_train_once import OTO

    return OTO


def trained_and_cut(
    task: Task, x: Array, y: Array, hidden: tuple[int, ...], lr: float, sparsity: float, seed: int
) -> nn.Module:
    torch.manual_seed(seed)
    model = mlp(task.features, hidden, task.outputs).to(task.device)
    steps = 100 if task.quick else steps_for(task)
    rows, targets = tensors(task, x, y)
    with redirect_stdout(io.StringIO()):
        oto = shimmed(task.device)(model=model, dummy_input=rows[:1])
        optimizer = oto.hesso(
            variant="adamw",
            lr=lr,
            target_group_sparsity=sparsity,
            start_pruning_step=steps // 10,
            pruning_steps=3 * steps // 10,
            pruning_periods=10,
        )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    model.train()
    for batch in batches(len(rows), steps):
        optimizer.zero_grad()
        loss_of(task.kind, model(rows[batch]), targets[batch]).backward()
        optimizer.step()
        schedule.step()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        oto.construct_subnet(out_dir=folder)
        return torch.load(oto.compressed_model_path, weights_only=False).eval()


def oto(task: Task, seed: int) -> Outcome:
    x, y, x_held, y_held = task.held_out(seed)
    sparsities = SPARSITIES[:1] if task.quick else SPARSITIES
    rates = LEARNING_RATES_MNIST if task.is_large else LEARNING_RATES
    found, trainings = [], 0
    for hidden in [(128, 64)] if task.is_large else [(64,), (64, 64)]:

        def judged(lr: float, sparsity: float, hidden: tuple[int, ...] = hidden) -> float:
            model = trained_and_cut(task, x, y, hidden, lr, sparsity, seed)
            return task.score(y_held, predictor(model, task)(x_held))

        lr = max(rates, key=lambda lr: judged(lr, 0.7))
        for sparsity in sparsities:
            expected = judged(lr, sparsity)
            model = trained_and_cut(task, task.x, task.y, hidden, lr, sparsity, seed)
            left = [layer.out_features for layer in model[:-1] if isinstance(layer, nn.Linear)]
            found.append(handed_in(model, task, expected, left))
        trainings += len(rates) + 2 * len(sparsities)
    return Outcome(found, trainings, trainings, SHIMS)


if __name__ == "__main__":
    main("OTO")
