"""Sparse training without the spectrum: every skip connection, penalised weight by weight.

A network of two hidden layers in which each layer hears all layers before it, its weights free
parameters, trained by AdamW with a proximal step after each step. Two penalties, with a path of
four weights each:

- group lasso: a group is all weights into and out of a hidden neuron, its norm counted √size times.
  The weights between the hidden layers belong to two groups; the layers take their turns.
- l1: every weight by itself, the biases left alone.

After the training neurons that hear nothing (their constant goes into the biases) or that nobody
hears are taken out, and what is left is trained on for half as long without the penalty, under l1
with its zeros held. Learning rate and weight decay are chosen for each penalty on the held-out
rows, with a middling weight. Each weight of the path is trained twice: on four fifths of the
training rows, which gives the score to expect, and on all of them, which gives the network. Under
l1 only nonzero weights are counted, and the biases: where they are would have to be stored as well,
so its sizes are too favourable. Its ONNX file holds the zeros. On MNIST, to save time, group lasso
alone, and two settings of learning rate and decay instead of four.

This is no clean ablation of the spectral parametrisation. The threshold of the proximal step is
lr·ρ, the same for every weight, while torchsparcs takes it in Adam's metric, lr·ρ / (√v̂ + ε) for
each eigenvalue. The pilot that finds the penalty weights, the ladder of sizes and the columns that
are dropped are missing as well. A difference may come from any of these.
"""

from collections.abc import Callable
from functools import partial

import torch
from contest import Array, Found, Outcome, Task
from plain import fit, handed_in, predictor
from running import main
from torch import Tensor, nn
from tuning import Recipe, chosen, recipes_for, steps_for

HIDDEN = (128, 32)


class Skips(nn.Module):
    """hₖ = relu(Wₖ [h₀, ..., hₖ₋₁] + bₖ), without the relu for the outputs; h₀ are the inputs."""

    def __init__(self, *widths: int):
        super().__init__()
        self.widths = widths
        heard = (sum(widths[:place]) for place in range(1, len(widths)))
        self.layers = nn.ModuleList(map(nn.Linear, heard, widths[1:]))

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.cat([x, torch.relu(layer(x))], dim=-1)
        return last(x)

    def columns(self, layer: int) -> slice:
        """Of the weights of later layers, those that hear layer 0 (the inputs), 1, ..."""
        start = sum(self.widths[:layer])
        return slice(start, start + self.widths[layer])

    def sources(self, hidden: int) -> slice:
        """The columns in which later layers hear hidden layer 0, 1, ..."""
        return self.columns(hidden + 1)

    def skips(self) -> list[str]:
        """Connections over a layer or more of which a weight is left, "64 → 10"."""
        return [
            f"{self.widths[source]} → {self.widths[target]}"
            for target, layer in enumerate(self.layers, start=1)
            for source in range(target - 1)
            if layer.weight[:, self.columns(source)].any()
        ]

    def groups(self, layer: int) -> list[Tensor]:
        """The weights into and out of a hidden layer's neurons, neuron by neuron."""
        into, *later = (one.weight for one in self.layers[layer:])
        return [into, *(weight[:, self.sources(layer)].T for weight in later)]


@torch.no_grad()
def shrink_groups_(module: Skips, weight: float, lr: float) -> None:
    for layer in range(len(module.layers) - 1):
        groups = module.groups(layer)
        norm = sum(group.square().sum(1) for group in groups).sqrt()
        size = sum(group.shape[1] for group in groups)
        kept = (1 - lr * weight * size**0.5 / norm.clamp_min(1e-12)).clamp_min(0)
        for group in groups:
            group.mul_(kept[:, None])


@torch.no_grad()
def shrink_weights_(module: Skips, weight: float, lr: float) -> None:
    for layer in module.layers:
        layer.weight.sub_(layer.weight.clamp(-lr * weight, lr * weight))


PENALTIES: dict[str, tuple[Callable, tuple[float, ...]]] = {  # the step, and the path of weights
    "group lasso": (shrink_groups_, (0.3, 0.2, 0.1, 0.05)),
    "l1": (shrink_weights_, (0.7, 0.4, 0.2, 0.05)),
}


@torch.no_grad()
def cut(module: Skips) -> Skips:
    """The same function without the neurons that hear nothing or that nobody hears."""
    *hidden, last = module.layers
    kept: list[Tensor] = [torch.ones(module.widths[0], dtype=torch.bool)]
    for place, layer in enumerate(hidden):
        constant = ~layer.weight.any(1)
        for later in module.layers[place + 1 :]:
            out = later.weight[:, module.sources(place)]
            later.bias += out[:, constant] @ torch.relu(layer.bias[constant])
            out[:, constant] = 0
    for place in reversed(range(len(hidden))):  # a neuron that nobody hears needs no sources
        deaf = ~torch.cat(module.groups(place)[1:], dim=1).any(1)
        hidden[place].weight[deaf] = 0
        kept.insert(1, ~deaf.cpu())
    rows = [*kept[1:], torch.ones(module.widths[-1], dtype=torch.bool)]
    alive = [place for place, one in enumerate(rows) if one.any()]
    small = Skips(module.widths[0], *(int(rows[place].sum()) for place in alive))
    for layer, place in zip(small.layers, alive, strict=True):
        old, columns = module.layers[place], torch.cat(kept[: place + 1])
        layer.weight.copy_(old.weight[rows[place]][:, columns])
        layer.bias.copy_(old.bias[rows[place]])
    return small.to(last.weight.device)


def hold_zeros_(layers: list[nn.Linear], masks: list[Tensor], lr: float) -> None:
    with torch.no_grad():
        for layer, mask in zip(layers, masks, strict=True):
            layer.weight.mul_(mask)


def trained(task: Task, x: Array, y: Array, penalty: str, weight: float, recipe: Recipe) -> Skips:
    module, shrink_ = Skips(task.features, *HIDDEN, task.outputs), PENALTIES[penalty][0]
    after = partial(shrink_, module, weight)
    fit(module, task, x, y, steps=steps_for(task), after_step=after, **recipe._asdict())
    return module


def tuned(task: Task, x: Array, y: Array, penalty: str, weight: float, recipe: Recipe) -> Skips:
    """Trained, cut and trained on."""
    module = cut(trained(task, x, y, penalty, weight, recipe))
    masks = [layer.weight != 0 for layer in module.layers]
    hold = partial(hold_zeros_, list(module.layers), masks) if penalty == "l1" else None
    fit(module, task, x, y, steps=steps_for(task) // 2, after_step=hold, **recipe._asdict())
    return module


def found(task: Task, module: Skips, penalty: str, expected: float) -> Found:
    skips = module.skips()
    handed = handed_in(module, task, expected, module.widths[1:-1], bool(skips))
    words = handed.architecture + (f", skips {', '.join(skips)}" if skips else "")
    if penalty == "group lasso":
        return handed._replace(architecture=words)
    nonzero = sum(int(one.weight.count_nonzero()) + one.out_features for one in module.layers)
    return handed._replace(architecture=f"{words}, masked", parameters=nonzero)


def direct_space(task: Task, seed: int) -> Outcome:
    x, y, x_held, y_held = task.held_out(seed)
    networks, trainings = [], 0
    penalties = ["group lasso"] if task.is_large else list(PENALTIES)
    for penalty in penalties:
        path = PENALTIES[penalty][1]
        middling = partial(trained, task, x, y, penalty, path[len(path) // 2])
        recipe = chosen(task, seed, middling)
        path = path[::3] if task.quick else path
        for weight in path:
            judged = tuned(task, x, y, penalty, weight, recipe)
            expected = task.score(y_held, predictor(judged, task)(x_held))
            final = tuned(task, task.x, task.y, penalty, weight, recipe)
            networks.append(found(task, final, penalty, expected))
        trainings += len(recipes_for(task)) + 2 * len(path)
    return Outcome(networks, trainings, trainings + 2 * len(networks))


if __name__ == "__main__":
    main("direct space")
