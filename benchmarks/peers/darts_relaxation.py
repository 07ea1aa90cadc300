"""Continuous relaxation (DARTS, first order) over width, depth and skips, in plain torch.

A supernet of two hidden layers of 64 neurons (128 and 64 for MNIST) feeds every layer from all
before it. Each edge mixes {none, linear}, and each hidden layer mixes the widths of a list by masks
over its first neurons, both with softmax weights α. Weights learn from four fifths of the training
rows (AdamW, cosine), α from the other fifth (Adam with DARTS' betas), in turns; α are also pressed
by λ·log(expected parameters), one search for each λ, for networks of several sizes. Then edges
heavier than none stay, and of every layer the heaviest edge into it; layers get their mean width
(the heaviest width is often 1); and what no longer lies between input and output falls away: so
layers can go.

As in DARTS the result is trained from scratch: once for each of three settings of learning rate and
weight decay without the fifth, whose score chooses and is expected, and once with all rows. To save
time there are five pressures, and on MNIST three pressures and two settings.
"""

from itertools import combinations

import torch
from contest import Array, Outcome, Task
from plain import batches, fit, handed_in, loss_of, predictor, tensors
from running import main
from torch import Tensor, nn
from tuning import steps_for

PRESSURES = (0.0, 0.01, 0.03, 0.1, 0.2)
PRESSURES_MNIST = (0.0, 0.03, 0.1)
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
SETTINGS = ((1e-2, 1e-2), (3e-2, 1e-2), (1e-2, 1.0))  # learning rate, weight decay
SETTINGS_MNIST = ((3e-3, 1e-2), (1e-2, 1e-2))


class Supernet(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.edges = list(combinations(range(len(sizes)), 2))
        self.linear = nn.ModuleList(nn.Linear(sizes[i], sizes[j]) for i, j in self.edges)
        self.choices = [[w for w in WIDTHS if w <= size] for size in sizes[1:-1]]
        for layer, (choices, size) in enumerate(zip(self.choices, sizes[1:-1], strict=True)):
            mask = torch.arange(size) < torch.tensor(choices)[:, None]  # (widths, neurons)
            self.register_buffer(f"mask_{layer}", mask.float())
        self.edge_alphas = nn.Parameter(1e-3 * torch.randn(len(self.edges), 2))
        self.width_alphas = nn.ParameterList(1e-3 * torch.randn(len(c)) for c in self.choices)

    def alphas(self) -> list[Tensor]:
        return [self.edge_alphas, *self.width_alphas]

    def weights(self) -> list[Tensor]:
        return list(self.linear.parameters())

    def gates(self) -> list[Tensor]:
        """Of each hidden layer the weight of each neuron, (neurons,)."""
        pairs = enumerate(self.width_alphas)
        return [alpha.softmax(0) @ getattr(self, f"mask_{layer}") for layer, alpha in pairs]

    def forward(self, x: Tensor) -> Tensor:
        kept, gates = self.edge_alphas.softmax(1)[:, 1], self.gates()
        values = [x]
        for node in range(1, len(self.sizes)):
            into = [e for e, (_, j) in enumerate(self.edges) if j == node]
            value = sum(kept[e] * self.linear[e](values[self.edges[e][0]]) for e in into)
            values.append(value if node > len(gates) else value.relu() * gates[node - 1])
        return values[-1]

    def expected_parameters(self) -> Tensor:
        kept = self.edge_alphas.softmax(1)[:, 1]
        widths = [self.sizes[0], *(gate.sum() for gate in self.gates()), self.sizes[-1]]
        return sum(
            k * (widths[i] + 1) * widths[j] for k, (i, j) in zip(kept, self.edges, strict=True)
        )

    @torch.no_grad()
    def discretised(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Widths, and the edges that lie on a way from the input to the output."""
        widths = [max(1, round(float(gate.sum()))) for gate in self.gates()]
        kept = dict(zip(self.edges, self.edge_alphas.softmax(1)[:, 1].tolist(), strict=True))
        into = {j: max((e for e in kept if e[1] == j), key=kept.__getitem__) for _, j in kept}
        edges = [edge for edge in kept if kept[edge] > 0.5 or edge in into.values()]
        last = len(self.sizes) - 1
        for _ in self.sizes:
            starts, ends = {i for i, _ in edges}, {j for _, j in edges}
            edges = [(i, j) for i, j in edges if i in ends | {0} and j in starts | {last}]
        return [self.sizes[0], *widths, self.sizes[-1]], edges


class Discrete(nn.Module):
    """A layer for each node that is left, fed by the nodes its edges name, side by side."""

    def __init__(self, sizes: list[int], edges: list[tuple[int, int]]) -> None:
        super().__init__()
        self.nodes = sorted({j for _, j in edges})
        self.sources = [[i for i, j in edges if j == node] for node in self.nodes]
        self.layers = nn.ModuleList(
            nn.Linear(sum(sizes[i] for i in sources), sizes[node])
            for node, sources in zip(self.nodes, self.sources, strict=True)
        )
        self.hidden = tuple(sizes[node] for node in self.nodes[:-1])
        before = zip([0, *self.nodes], self.sources, strict=False)  # each layer's own predecessor
        self.has_skips = any(sources != [node] for node, sources in before)
        names = [" + ".join(str(sizes[i]) for i in sources) for sources in self.sources]
        pairs = zip(names, self.nodes, strict=True)
        self.architecture = "; ".join(f"{name} → {sizes[node]}" for name, node in pairs)

    def forward(self, x: Tensor) -> Tensor:
        values = {0: x}
        for node, sources, layer in zip(self.nodes, self.sources, self.layers, strict=True):
            value = layer(torch.cat([values[i] for i in sources], dim=1))
            values[node] = value if node == self.nodes[-1] else value.relu()
        return values[self.nodes[-1]]


def descend_(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """A step of the optimizer's own parameters; gradients of the others are not computed."""
    parameters = optimizer.param_groups[0]["params"]
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()


def searched(task: Task, rows: tuple[Array, ...], pressure: float, steps: int) -> Supernet:
    net = Supernet([task.features, 128 if task.is_large else 64, 64, task.outputs])
    net.to(task.device)
    x, y, x_held, y_held = *tensors(task, *rows[:2]), *tensors(task, *rows[2:])
    weights = torch.optim.AdamW(net.weights(), lr=3e-3, weight_decay=1e-2, fused=True)
    alphas = torch.optim.Adam(
        net.alphas(), lr=9e-3, betas=(0.5, 0.999), weight_decay=1e-3, fused=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(weights, T_max=steps)
    for batch, held in zip(batches(len(x), steps), batches(len(x_held), steps), strict=True):
        loss = loss_of(task.kind, net(x_held[held]), y_held[held])
        loss = loss + pressure * net.expected_parameters().log()
        descend_(alphas, loss)
        descend_(weights, loss_of(task.kind, net(x[batch]), y[batch]))
        schedule.step()
    return net


def darts(task: Task, seed: int) -> Outcome:
    rows = x, y, x_held, y_held = task.held_out(seed)
    steps = 50 if task.quick else steps_for(task)
    settings = SETTINGS_MNIST if task.is_large else SETTINGS
    pressures = PRESSURES_MNIST if task.is_large else PRESSURES
    found, trainings, known = [], 0, set()
    for pressure in pressures[-2:] if task.quick else pressures:
        torch.manual_seed(seed)
        sizes, edges = searched(task, rows, pressure, steps).discretised()
        trainings += 1
        if not edges or str((sizes, edges)) in known:
            continue
        known.add(str((sizes, edges)))

        def trained(
            x: Array, y: Array, setting: tuple[float, float], sizes=sizes, edges=edges
        ) -> nn.Module:
            torch.manual_seed(seed)
            net = Discrete(sizes, edges)
            return fit(net, task, x, y, steps=steps, lr=setting[0], weight_decay=setting[1])

        scores = {
            s: task.score(y_held, predictor(trained(x, y, s), task)(x_held)) for s in settings
        }
        best = max(scores, key=scores.__getitem__)
        net = trained(task.x, task.y, best)
        handed = handed_in(net, task, scores[best], net.hidden, net.has_skips)
        found.append(handed._replace(architecture=net.architecture))
        trainings += len(settings) + 1
    return Outcome(found, trainings, trainings)


if __name__ == "__main__":
    main("DARTS")
