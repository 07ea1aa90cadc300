"""How good are plain MLPs of each size on ten tables and image sets, when tuned with care?

Every ReLU MLP of one or two hidden layers of a width grid, with and without a skip from inputs to
outputs, and the linear model. For each of them the learning rate, weight decay and length of an
AdamW run with a cosine schedule (on MNIST also input dropout) are those of the best mean score over
seeds on a fifth of the training rows; it then trains with them on all training rows, and only this
network meets the test rows. Data, splits, initial weights and row order change with the seed. All
networks of a task train side by side. MNIST comes as an NPZ file with train_x, train_y, test_x,
test_y.

    python benchmarks/plain_mlps.py --data mnist.npz --device cuda
"""

import argparse
import itertools
import json
import math
import statistics
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from recording import RESULTS, record
from tables import TASKS, Data, draw, hold_out, stack
from torch import Tensor
from torch.nn import functional as F

BUCKETS = (8, 32, 128, 256)  # members are padded to the next of these widths


class Setting(NamedTuple):
    lr: float
    weight_decay: float
    steps: int
    dropout: float  # of inputs


class Architecture(NamedTuple):
    hidden: tuple[int, ...]  # none: the linear model
    skip: bool

    def parameters(self, features: int, outputs: int) -> int:
        """Weights and biases as nn.Linear has them; a skip adds weights only."""
        sizes = itertools.pairwise([features, *self.hidden, outputs])
        return sum((a + 1) * b for a, b in sizes) + self.skip * features * outputs


@dataclass(frozen=True)
class Protocol:
    widths: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    single: tuple[int, ...] = ()  # further widths, for one hidden layer alone
    lrs: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2)
    decays: tuple[float, ...] = (0.0, 1e-2, 1e-1, 1.0)
    steps: tuple[int, ...] = (2_000, 6_000)
    dropouts: tuple[float, ...] = (0.0,)
    batch: int = 64
    tuning_seeds: int = 5
    seeds: int = 5
    tf32: bool = False

    def architectures(self) -> list[Architecture]:
        hidden = [(w,) for w in (*self.widths, *self.single)] + [(w, w) for w in self.widths]
        mlps = [Architecture(h, skip) for h in hidden for skip in (False, True)]
        return [Architecture((), False), *mlps]

    def settings(self) -> list[Setting]:
        grid = itertools.product(self.lrs, self.decays, self.steps, self.dropouts)
        return [Setting(*choice) for choice in grid]


TABLE = Protocol()
MNIST = Protocol(
    widths=(4, 8, 12, 16, 24, 32, 48, 64, 96, 128),
    single=(256,),
    lrs=(1e-3, 3e-3, 1e-2),
    decays=(0.0, 1e-1, 1.0),
    steps=(7_000, 21_000),  # 30 and 90 epochs of 60,000 images
    dropouts=(0.0, 0.1),
    batch=256,
    tuning_seeds=3,
    tf32=True,
)
QUICK = {
    "widths": (2, 16),
    "single": (),
    "lrs": (1e-2,),
    "decays": (0.0, 0.1),
    "steps": (20, 60),
    "tuning_seeds": 2,
    "seeds": 2,
}
Member = tuple[Architecture, Setting]


# Loss and score per network, of outputs (networks, outputs, rows) and targets (networks, rows)
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "regression": lambda out, y: (out[:, 0] - y).square().mean(1),
    "binary": lambda out, y: (F.softplus(out[:, 0]) - out[:, 0] * y).mean(1),
    "multiclass": lambda out, y: F.cross_entropy(out, y, reduction="none").mean(1),
}
SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "regression": lambda out, y: 1 - LOSSES["regression"](out, y) / y.var(1, correction=0),
    "binary": lambda out, y: ((out[:, 0] > 0) == y).float().mean(1),
    "multiclass": lambda out, y: (out.argmax(1) == y).float().mean(1),
}


def initial_weights(members: list[Member], data: Data) -> list[Tensor]:
    """As nn.Linear draws them: weight and bias of each layer, then the skip, zero where absent.

    A weight is (seeds, members, to, from), a bias (seeds, members, to, 1). Narrow layers are filled
    with neurons that have no weights in or out: their gradients are zero, so they stay so.
    """
    device, wide = data.x_train.device, max(data.features)
    distinct = list(dict.fromkeys(architecture for architecture, _ in members))
    padded = [wide, *map(max, zip(*(a.hidden for a in distinct), strict=True)), data.outputs]

    def draw_one(architecture: Architecture, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)

        def uniform(to: int, of: int, fan_in: int, rows: int, columns: int) -> Tensor:
            drawn = (torch.rand(to, of, generator=generator) * 2 - 1) / math.sqrt(fan_in)
            return F.pad(drawn, (0, columns - of, 0, rows - to)).to(device)

        features, tensors = data.features[seed], []
        sizes = itertools.pairwise([features, *architecture.hidden, data.outputs])
        for (of, to), (columns, rows) in zip(sizes, itertools.pairwise(padded), strict=True):
            tensors += [uniform(to, of, of, rows, columns), uniform(to, 1, of, rows, 1)]
        skip = uniform(data.outputs, features, features, data.outputs, wide)
        return [*tensors, skip * architecture.skip]

    seeds, which = range(len(data.features)), [distinct.index(a) for a, _ in members]
    drawn = zip(*(draw_one(a, seed) for seed in seeds for a in distinct), strict=True)
    return [torch.stack(same).unflatten(0, (len(seeds), -1))[:, which] for same in drawn]


def forward(weights: list[Tensor], skips: Tensor, x: Tensor) -> Tensor:
    """Outputs (seeds · members, outputs, rows) of all networks on x (seeds, features, rows).

    The networks of a seed see the same rows, so that their first layers are one matrix product.
    """
    *layers, skip = weights
    (seeds, members), rows = skip.shape[:2], x.shape[-1]
    z = torch.baddbmm(layers[1].flatten(1, 2), layers[0].flatten(1, 2), x)
    z = z.view(seeds * members, -1, rows)
    for weight, bias in zip(layers[2::2], layers[3::2], strict=True):
        z = torch.baddbmm(bias.flatten(0, 1), weight.flatten(0, 1), z.relu())
    return z + ((skip * skips).flatten(1, 2) @ x).view(z.shape)


def adamw_(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: Tensor, decay: Tensor, t: Tensor
) -> None:
    """One step of torch.optim.AdamW on (networks, n), with lr and decay (networks, 1); t from 1."""
    m.lerp_(g, 0.1)
    v.lerp_(g * g, 0.001)
    update = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    p.sub_(lr * (update + decay * p))


def row_order(rows: int, steps: int, batch: int, seeds: int, device: str) -> Tensor:
    """(steps, seeds, batch) of indices into (seeds · rows): each seed's epochs, end to end."""
    epochs = math.ceil(steps * batch / rows)
    orders = []
    for seed in range(seeds):
        draws = torch.rand(epochs, rows, generator=torch.Generator().manual_seed(seed)).to(device)
        order = draws.argsort(1).flatten()[: steps * batch].view(steps, batch)
        orders.append(order + seed * rows)
    return torch.stack(orders, 1)


def train_together(members: list[Member], data: Data, batch: int, update: Callable) -> Tensor:
    """Score and loss on the test rows, (2, seeds, members), of networks equally deep."""
    device, (seeds, rows) = data.x_train.device.type, data.y_train.shape
    settings = [setting for _, setting in members]
    initial = initial_weights(members, data)
    flat = [w.reshape(seeds * len(members), -1).requires_grad_() for w in initial]
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in flat]
    skips = torch.tensor([float(a.skip) for a, _ in members], device=device).view(-1, 1, 1)
    table = torch.tensor(settings, device=device).repeat(seeds, 1)  # (seeds · members, 4)
    lr, decay, length = (table[:, place, None].clone() for place in range(3))
    loss, longest, dropout = LOSSES[data.kind], max(s.steps for s in settings), settings[0].dropout
    order = row_order(rows, longest, min(batch, rows), seeds, device)
    x_rows, y_rows = data.x_train.flatten(0, 1), data.y_train.flatten(0, 1)
    done = torch.zeros(1, dtype=torch.long, device=device)

    def spread(y: Tensor) -> Tensor:
        return y[:, None].expand(-1, len(members), -1).flatten(0, 1)

    def output(x: Tensor) -> Tensor:
        return forward([w.view(i.shape) for w, i in zip(flat, initial, strict=True)], skips, x.mT)

    def step() -> None:
        """Reads and counts on the device alone, so that a CUDA graph can repeat it."""
        now = order.index_select(0, done)[0]
        x = x_rows[now]
        if dropout:
            x = x * (torch.rand_like(x) >= dropout) / (1 - dropout)
        gradients = torch.autograd.grad(loss(output(x), spread(y_rows[now])).sum(), flat)
        pace = (1 + torch.cos(math.pi * (done / length).clamp(max=1))) / 2
        done.add_(1)
        for w, g, (m, v) in zip(flat, gradients, moments, strict=True):
            update(w.detach(), g.detach(), m, v, lr * pace, decay, done.to(lr.dtype))

    repeat(step, longest, device)
    with torch.no_grad():
        outputs = torch.cat([output(x) for x in data.x_test.split(2_000, 1)], -1)
        y = spread(data.y_test)
        judged = torch.stack([SCORES[data.kind](outputs, y), loss(outputs, y)])
    return judged.view(2, seeds, -1).double().cpu()


def repeat(step: Callable[[], None], times: int, device: str) -> None:
    if device != "cuda":
        for _ in range(times):
            step()
        return
    for _ in range(3):  # allocates and compiles
        step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(times - 3):
        graph.replay()


def train_all(members: list[Member], data: Data, batch: int, apart: bool) -> Tensor:
    """``train_together`` in as few groups as can be or, for many members, ``apart`` by width."""
    device = data.x_train.device.type
    update = torch.compile(adamw_, dynamic=True) if device == "cuda" else adamw_
    groups = defaultdict(list)
    for index, (architecture, setting) in enumerate(members):
        bucket = bisect_left(BUCKETS, max(architecture.hidden, default=0))
        key = (bucket, setting.steps) if apart else ()
        groups[(len(architecture.hidden), setting.dropout, *key)].append(index)
    judged = torch.empty(2, len(data.features), len(members), dtype=torch.double)
    for indices in groups.values():
        judged[..., indices] = train_together([members[i] for i in indices], data, batch, update)
    return judged


def tune(architectures: list[Architecture], data: Data, protocol: Protocol) -> list[tuple]:
    """For each architecture the setting of the best mean score, then mean loss; and that score."""
    settings = protocol.settings()
    members = list(itertools.product(architectures, settings))
    scores, losses = train_all(members, data, protocol.batch, apart=True).mean(1)
    scores, losses = scores.nan_to_num(-math.inf), losses.nan_to_num(math.inf)
    rank = [(round(float(s), 9), -float(loss)) for s, loss in zip(scores, losses, strict=True)]
    starts = range(0, len(members), len(settings))
    best = [max(range(i, i + len(settings)), key=rank.__getitem__) for i in starts]
    return [(members[i][1], float(scores[i])) for i in best]


def front(task: str, protocol: Protocol, path: Path | None, device: str) -> dict:
    """Every architecture of a task: tuned on held-out rows, trained on all, tested."""
    start = time.perf_counter()
    torch.set_float32_matmul_precision("high" if protocol.tf32 else "highest")
    splits = [draw(task, seed, path) for seed in range(protocol.seeds)]
    held = [hold_out(split, seed) for seed, split in enumerate(splits[: protocol.tuning_seeds])]
    architectures = protocol.architectures()
    chosen = tune(architectures, stack(held, device), protocol)
    members = [(a, setting) for a, (setting, _) in zip(architectures, chosen, strict=True)]
    data = stack(splits, device)
    tests = train_all(members, data, protocol.batch, apart=False)[0].T.tolist()
    features = statistics.mean(data.features)
    rows = [
        {
            "hidden": list(architecture.hidden),
            "skip": architecture.skip,
            "parameters": round(architecture.parameters(features, data.outputs)),
            **setting._asdict(),
            "validation_score": validation,
            "test_scores": scores,
            "mean": statistics.mean(scores),
            "standard_error": statistics.stdev(scores) / math.sqrt(len(scores)),
        }
        for architecture, (setting, validation), scores in zip(
            architectures, chosen, tests, strict=True
        )
    ]
    return {
        "kind": data.kind,
        "rows": data.y_train.shape[1],
        "features": features,
        "outputs": data.outputs,
        "seconds": time.perf_counter() - start,
        "protocol": asdict(protocol),
        "linear": rows[0],
        "mlps": rows[1:],
    }


def pareto(rows: list[dict], score: str = "mean") -> list[dict]:
    """The networks that no smaller one equals, smallest first."""
    found: list[dict] = []
    for row in sorted(rows, key=lambda row: (row["parameters"], -row[score])):
        if not found or row[score] > found[-1][score]:
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="MNIST; left out without it")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--quick", action="store_true", help="two widths, two seeds, 60 steps")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.quick and arguments.out == RESULTS:
        parser.error("--quick needs --out: its numbers do not belong beside measured ones")
    path = arguments.out / "plain_mlps.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    results = earlier.get(arguments.device, {}).get("tasks", {})  # of other tasks are kept
    for task in arguments.tasks:
        if task == "mnist" and arguments.data is None:
            continue
        protocol = MNIST if task == "mnist" else TABLE
        if arguments.quick:
            protocol = replace(protocol, **QUICK)
        results[task] = front(task, protocol, arguments.data, arguments.device)
        print(f"{task}: {results[task]['seconds']:.0f} s", flush=True)
        for row in pareto([results[task]["linear"], *results[task]["mlps"]]):
            score = f"{row['mean']:.4f} ± {row['standard_error']:.4f}"
            print(f"{row['parameters']:8}  {score}  {row['hidden']}{' skip' * row['skip']}")
        record("plain_mlps", arguments.device, {"tasks": results}, arguments.out)


if __name__ == "__main__":
    main()
