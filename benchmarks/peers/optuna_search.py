"""Optuna over depth, widths, learning rate and weight decay of plain MLPs.

A study with two objectives, as Optuna documents it: the score on the held-out rows, to be
maximised, and the number of parameters, to be minimised. The sampler is multi-objective TPE:
NSGA-II, the default for two objectives, would spend all 40 trials on its first generation of 50. On
MNIST there is time for 15 trials of five epochs. A trial draws zero to two hidden layers of 2 to
128 neurons (on a log scale), the learning rate and the decay of AdamW, and trains on four fifths of
the training rows. Trials cannot be stopped early: Optuna's pruners know one objective only. The
networks of the Pareto front are then fitted to all training rows.
"""

import math

import optuna
from contest import Found, Outcome, Task
from plain import fit, handed_in, mlp, predictor
from running import main
from torch import nn
from tuning import steps_for

TRIALS, TRIALS_MNIST = 40, 15


class Diverged(Exception):
    """The trial failed, the study goes on."""


def hidden_of(trial: optuna.trial.BaseTrial) -> list[int]:
    depth = trial.suggest_int("depth", 0, 2)
    return [trial.suggest_int(f"width_{place}", 2, 128, log=True) for place in range(depth)]


def fitted(task: Task, trial: optuna.trial.BaseTrial, x: object, y: object) -> nn.Module:
    """The network of a trial; one that is finished suggests its values again."""
    return fit(
        mlp(task.features, hidden_of(trial), task.outputs),
        task,
        x,
        y,
        steps=steps_for(task),
        lr=trial.suggest_float("lr", 1e-3, 1e-1, log=True),
        weight_decay=trial.suggest_float("weight_decay", 1e-4, 1.0, log=True),
    )


def optuna_search(task: Task, seed: int) -> Outcome:
    x, y, x_held, y_held = task.held_out(seed)

    def objective(trial: optuna.Trial) -> tuple[float, int]:
        module = fitted(task, trial, x, y)
        score = task.score(y_held, predictor(module, task)(x_held))
        if math.isinf(score):
            raise Diverged
        return score, sum(parameter.numel() for parameter in module.parameters())

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
    trials = 3 if task.quick else TRIALS_MNIST if task.is_large else TRIALS
    study.optimize(objective, n_trials=trials, catch=Diverged)

    def refitted(trial: optuna.trial.FrozenTrial) -> Found:
        again = optuna.trial.FixedTrial(trial.params)
        module = fitted(task, again, task.x, task.y)
        return handed_in(module, task, trial.values[0], hidden_of(again))

    front = {tuple(trial.values): trial for trial in study.best_trials}  # equals once
    found = [refitted(trial) for trial in front.values()]
    trainings = trials + len(found)
    return Outcome(found, trainings, trainings)


if __name__ == "__main__":
    main("Optuna")
