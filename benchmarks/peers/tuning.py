"""How long the modules of the contestants are trained, and how their recipe is chosen."""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from contest import Task
from plain import predictor
from torch import nn


class Recipe(NamedTuple):
    """Of AdamW."""

    lr: float
    weight_decay: float


RECIPES = [Recipe(*pair) for pair in product((1e-2, 3e-2), (1e-2, 3e-1))]
RECIPES_MNIST = [Recipe(3e-3, 1e-2), Recipe(1e-2, 1e-2)]


def recipes_for(task: Task) -> list[Recipe]:
    return RECIPES_MNIST if task.is_large else RECIPES


def steps_for(task: Task) -> int:
    """500 up to a thousand rows, then in proportion to the root of them, at most 2,400.

    Twice as many on two_spirals, which is learnt slowly. With batches of 128 that is 55 epochs of
    digits, 128 of two_spirals, 32 of teacher_student, five of MNIST.
    """
    if task.quick:
        return 20
    steps = min(2400, round(500 * max(1, len(task.x) / 1000) ** 0.5))
    return 2 * steps if task.name == "two_spirals" else steps


def chosen(task: Task, seed: int, train: Callable[[Recipe], nn.Module]) -> Recipe:
    """The recipe whose network scores best on the held-out rows, of equals the faster one.

    ``train`` must not see those rows.
    """
    _, _, x_held, y_held = task.held_out(seed)
    return max(
        recipes_for(task), key=lambda one: task.score(y_held, predictor(train(one), task)(x_held))
    )
