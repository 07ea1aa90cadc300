"""Torch-Pruning: MLPs of 128 and of 128-128 neurons, pruned step by step and fine-tuned.

The documented loop: BasePruner with the importance of its quickstart (the l2 norm of the weights
into and out of a neuron), the outputs ignored, one fine-tuning after each of ten steps (six on
MNIST, to save time), from 128 neurons to one in each hidden layer. Two hidden layers are pruned
both layer by layer, the default, and with global_pruning, which ranks the neurons of all layers
together. Learning rate and weight decay of AdamW are chosen for each of the two MLPs on the
held-out rows before anything is pruned, among four settings (two on MNIST). A fine-tuning takes 0.4
of the steps of the training, with a new optimizer, at the same learning rate. All this sees four
fifths of the training rows; the rest give the score to expect at each step. A copy of what a step
leaves is then fine-tuned once more, on all of them, and handed in. (Pruning a second network on all
rows leaves other neurons, of which that score says little.)
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import partial

import torch
import torch_pruning as tp
from contest import Array, Outcome, Task
from plain import fit, handed_in, mlp, predictor
from running import main
from torch import nn
from tuning import Recipe, chosen, recipes_for, steps_for

WIDEST = 128
WIDTHS = (64, 48, 32, 24, 16, 12, 8, 4, 2, 1)  # of a layer, or on average
WIDTHS_MNIST = (64, 32, 16, 8, 4, 1)
STRATEGIES = {(WIDEST,): [False], (WIDEST, WIDEST): [False, True]}  # of global_pruning
TUNE_SHARE = 0.4


def trained(
    task: Task, x: Array, y: Array, hidden: tuple[int, ...], recipe: Recipe
) -> nn.Sequential:
    module = mlp(task.features, hidden, task.outputs)
    return fit(module, task, x, y, steps=steps_for(task), **recipe._asdict())


def fine_tuned(
    task: Task, x: Array, y: Array, module: nn.Sequential, recipe: Recipe
) -> nn.Sequential:
    steps = round(TUNE_SHARE * steps_for(task))
    return fit(module, task, x, y, steps=steps, **recipe._asdict())


def pruned(
    task: Task, x: Array, y: Array, module: nn.Sequential, recipe: Recipe, overall: bool
) -> Iterator[nn.Sequential]:
    """The trained network, then what each step leaves of it, fine-tuned: always the same module."""
    widths = WIDTHS[::5] if task.quick else WIDTHS_MNIST if task.is_large else WIDTHS
    pruner = tp.pruner.BasePruner(
        module,
        torch.zeros(2, task.features, device=task.device),
        importance=tp.importance.GroupMagnitudeImportance(p=2),
        global_pruning=overall,
        iterative_steps=len(widths),
        # shares of the neurons that are gone after each step, none before the first
        iterative_pruning_ratio_scheduler=lambda _, __: [0.0, *(1 - w / WIDEST for w in widths)],
        ignored_layers=[module[-1]],
    )
    yield module
    for _ in widths:
        pruner.step()
        yield fine_tuned(task, x, y, module, recipe)


def hidden_of(module: nn.Sequential) -> list[int]:
    return [layer.out_features for layer in module[:-1] if isinstance(layer, nn.Linear)]


def torch_pruning(task: Task, seed: int) -> Outcome:
    x, y, x_held, y_held = task.held_out(seed)
    found, trainings = [], 0
    for hidden, ways in STRATEGIES.items():
        recipe = chosen(task, seed, partial(trained, task, x, y, hidden))
        large = trained(task, x, y, hidden, recipe)
        trainings += len(recipes_for(task)) + 1
        for overall in ways:
            for module in pruned(task, x, y, deepcopy(large), recipe, overall):
                expected = task.score(y_held, predictor(module, task)(x_held))
                final = fine_tuned(task, task.x, task.y, deepcopy(module), recipe)
                found.append(handed_in(final, task, expected, hidden_of(final)))
    runs = sum(map(len, STRATEGIES.values()))
    tunings = 2 * len(found) - runs  # before the first step only the copy is tuned
    return Outcome(found, trainings, trainings + tunings)


if __name__ == "__main__":
    main("Torch-Pruning")
