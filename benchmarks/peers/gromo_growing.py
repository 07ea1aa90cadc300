"""GroMo: networks that grow, by the recipe of its "GrowingContainer tutorial".

A `GrowingMLP` with one, and one with two, hidden layers of two neurons is trained and grown in
turns: `compute_statistics` over the rows it is fitted to, `compute_optimal_updates`, a line search
over the tutorial's scaling factors, `apply_change`; with two hidden layers they take turns. The
tutorial's factor 0 is left out: it adds neurons without any weights, which never learn. A growth
adds half of a layer's neurons, or as many as the library finds: never more than the layer after it
has, so one at a time before a single output. Growing ends at 64 neurons in a layer or after 20
stages; the library has no rule for that. Every stage trains with AdamW for 120 steps, or three
epochs where that is more; the optimizer is made anew because a growth replaces the layers' tensors.

The learning rate and the activation (SELU, the library's default, or ReLU) are chosen for each
number of layers by the best stage on held-out rows, between equals by the mean of the stages; the
choice is then grown again on all rows. On MNIST, to save time, there are ten stages of one epoch
each, with the first learning rate and SELU. Every stage is handed in, a copy of the `GrowingMLP` as
it stands.
"""

import copy
from collections.abc import Iterator
from itertools import product
from statistics import mean

import torch
from contest import Array, Outcome, Task
from gromo.containers.growing_mlp import GrowingMLP
from gromo.utils.training_utils import compute_statistics
from plain import BATCH, fit, handed_in, predictor, tensors
from running import main
from torch import Tensor, nn

FACTORS = (0.1, 0.5, 1.0)
ACTIVATIONS = (nn.SELU, nn.ReLU)
LEARNING_RATES = (1e-2, 3e-2)
WIDEST = 64
STAGES, STAGES_MNIST = 20, 10
THRESHOLD = 1e-6  # of a new neuron's singular value; at the default, 1e-3, one comes at a time
CHUNK = 1024

LOSSES = {
    "multiclass": nn.CrossEntropyLoss,
    "binary": nn.BCEWithLogitsLoss,
    "regression": nn.MSELoss,
}
Rows = list[tuple[Tensor, Tensor]]


def grow(model: GrowingMLP, task: Task, rows: Rows, index: int) -> None:
    """Add neurons to hidden layer `index`, those that would lower the loss most."""
    loss = LOSSES[task.kind](reduction="sum")
    model.set_growing_layers(index=index)
    compute_statistics(model, rows, loss, device=torch.device(task.device))
    width = model.layers[index].out_features
    model.compute_optimal_updates(
        statistical_threshold=THRESHOLD, maximum_added_neurons=max(1, width // 2)
    )
    model.reset_computation()
    model.dummy_select_update()

    @torch.no_grad()
    def tried(factor: float) -> float:
        model.set_scaling_factor(factor)
        return sum(float(loss(model.extended_forward(x), y)) for x, y in rows)

    model.set_scaling_factor(min(FACTORS, key=tried))
    model.apply_change()


def stages(
    task: Task, x: Array, y: Array, layers: int, lr: float, activation: type[nn.Module]
) -> Iterator[GrowingMLP]:
    """A copy of the network after the training of each stage."""
    model = GrowingMLP(
        task.features,
        task.outputs,
        hidden_size=2,
        number_hidden_layers=layers,
        activation=activation(),
        device=torch.device(task.device),
    )
    inputs, targets = tensors(task, x, y)
    targets = targets if task.kind == "multiclass" else targets.reshape(len(x), -1)
    rows = list(zip(inputs.split(CHUNK), targets.split(CHUNK), strict=True))
    epoch = -(-len(x) // BATCH)
    steps = 20 if task.quick else epoch if task.is_large else max(120, 3 * epoch)
    for stage in range(3 if task.quick else STAGES_MNIST if task.is_large else STAGES):
        if stage:
            grow(model, task, rows, (stage - 1) % layers)
        fit(model, task, x, y, steps=steps, lr=lr)
        yield copy.deepcopy(model)
        if max(layer.out_features for layer in model.layers[:-1]) >= WIDEST:
            return


def gromo(task: Task, seed: int) -> Outcome:
    x, y, x_held, y_held = task.held_out(seed)
    settings = list(product(LEARNING_RATES, ACTIVATIONS))[: 1 if task.is_large else None]
    found, trainings, networks = [], 0, 0
    for layers in (1, 2):
        scores = {}
        for setting in settings:
            torch.manual_seed(seed)
            scores[setting] = [
                task.score(y_held, predictor(model, task)(x_held))
                for model in stages(task, x, y, layers, *setting)
            ]
            trainings += 1
            networks += len(scores[setting])
        best = max(scores, key=lambda setting: (max(scores[setting]), mean(scores[setting])))
        torch.manual_seed(seed)
        final = stages(task, task.x, task.y, layers, *best)
        for expected, model in zip(scores[best], final, strict=False):
            hidden = [layer.out_features for layer in model.layers[:-1]]
            found.append(handed_in(model, task, expected, hidden))
            networks += 1
        trainings += 1
    return Outcome(found, trainings, networks, "the number of hidden layers is given: 1 and 2")


if __name__ == "__main__":
    main("GroMo")
