"""What the paper says in passing: the range of the penalty, shallow first, direct space from zero.

It works "for a reasonable wide range" of ρ, "approximately from 1e-3 to 1e-5" (appendix G); a
start at zero "prioritizes solutions with smaller depths without requiring explicit regularization"
(section 4); and in direct space zeros halt the gradient, and equal weights stay equal (section 5).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Claim, Experiment, Work
from torchsparcs.experiments.peers import DirectNetwork
from torchsparcs.experiments.transition import measures, target
from torchsparcs.experiments.writing import Content, Figures, spread
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.paths import path_norm
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import evaluate
from torchsparcs.training.train import train

TASK, STEEP = "regression", 1000.0
LINEAR, BENT = 0.0, 1.0  # α of the first experiment
FITS = 1e-3  # mean squared error
STARTS = {"spectral": "spectral", "zero": "direct, zeros", "equal": "direct, equal weights"}


@dataclass(frozen=True)
class Setting:
    """The first experiment's targets, and teachers of one and of two hidden layers."""

    weights: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 0.0)
    penalties: tuple[str, ...] = ("l2", "l1")
    models: int = 5
    points: int = 10_000
    hidden: int = 300
    epochs: int = 300
    batch_size: int = 100
    dimension: int = 10
    student: tuple[int, ...] = (60, 60, 60)


QUICK = Setting(models=1, epochs=30, points=4000, hidden=100, student=(30, 30))


def run(setting: Setting, work: Work) -> Content:
    config = TrainConfig.paper(
        task=TASK,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        snapshot_every=setting.epochs,
        capture=work.on_gpu,
    )
    parts = {
        "range": partial(_range, setting, config, work),
        "depth": partial(_depth, setting, config, work),
        "starts": partial(_starts, setting, config, work),
    }
    return {"config": asdict(config)} | {name: work.part(name, do) for name, do in parts.items()}


def _square(rows: int, dimension: int, seed: int = 42) -> Tensor:
    return torch.rand(rows, dimension, generator=torch.Generator().manual_seed(seed)) * 2 - 1


# --- ρ from 1e-3 to 1e-5 ---


def _range(setting: Setting, config: TrainConfig, work: Work) -> Content:
    """Fit and ‖Γ‖ for each penalty and weight, on the linear target and on the bent one."""
    x = _square(setting.points, 2).to(work.device)
    cases = list(product((LINEAR, BENT), setting.weights, range(setting.models)))
    targets = torch.stack([target(x, alpha, STEEP) for alpha, _, _ in cases])
    rows = []
    for penalty in setting.penalties:
        options = {"penalty": penalty, "penalty_weight": tuple(weight for _, weight, _ in cases)}
        population = Population(
            [2, setting.hidden, 1],
            seeds=range(len(cases)),
            train_input_eigenvalues=True,
            device=work.device,
        )
        work.train(f"range, {penalty}", population, (x, targets), _with(config, **options))
        found = measures(population, (x, targets))
        for place, (alpha, weight, _) in enumerate(cases[:: setting.models]):
            own = slice(place * setting.models, (place + 1) * setting.models)
            values = {name: found[name][own].tolist() for name in ("gamma", "mse")}
            rows.append({"penalty": penalty, "alpha": alpha, "weight": weight, **values})
    return {"rows": rows}


# --- shallow first ---


def _depth(setting: Setting, config: TrainConfig, work: Work) -> Content:
    """The norm of the paths by the hidden layers that they pass, for teachers of two depths."""
    found = {}
    for layers, weight in product((1, 2), (0.0, 1e-3)):
        data = [
            _taught(layers, setting.dimension, setting.points, seed)
            for seed in range(setting.models)
        ]
        x, y = (torch.stack([pair[side] for pair in data]).to(work.device) for side in (0, 1))
        widths = [setting.dimension, *setting.student, setting.dimension]
        students = Population(widths, seeds=range(setting.models), device=work.device)
        name = f"depth, a teacher of {layers}, weight {weight:g}"
        work.train(name, students, (x, y), _with(config, penalty_weight=weight))
        scores = evaluate(students, (x, y), TASK).score
        shares = depth_shares(students)
        found[f"{layers} {weight:g}"] = {
            "teacher": layers,
            "weight": weight,
            "r2": scores,
            "shares": shares,
        }
    return found


def _taught(layers: int, dimension: int, rows: int, seed: int) -> Pair:
    """Rows of a random teacher with that many hidden layers, each as wide as the input."""
    draw = torch.Generator().manual_seed(seed)
    x = _square(rows, dimension, seed)
    y = x
    for _ in range(layers):
        y = torch.relu(y @ torch.randn(dimension, dimension, generator=draw)) / dimension**0.5
    y = y @ torch.randn(dimension, dimension, generator=draw)
    return x, (y - y.mean(dim=0)) / y.std(dim=0)


def depth_shares(students: Population) -> list[list[float]]:
    """Of each member, the shares of Σ‖Γ‖ that run through 0, 1, 2, .. hidden layers."""
    hidden = range(1, len(students.widths) - 1)
    sums = [
        sum(path_norm(students, through) for through in combinations(hidden, count))
        for count in range(len(hidden) + 1)
    ]
    stacked = torch.stack([torch.as_tensor(each) for each in sums], dim=-1)
    return (stacked / stacked.sum(dim=-1, keepdim=True)).tolist()


# --- direct space from zero ---


def _starts(setting: Setting, config: TrainConfig, work: Work) -> Content:
    """What three starts become on the bent target, and the first gradients of a spectral one."""
    x, y = bent_data(setting.points)
    data = (x.to(work.device), y.to(work.device))
    widths = [3, setting.hidden, 1]
    found: Content = {}
    for name in STARTS:
        torch.manual_seed(0)
        network = network_of(name, widths).to(work.device)
        train(network, data, _with(config, penalty_weight=0.0), progress=work.progress)
        found[name] = {"mse": evaluate(network, data, TASK).loss}
        if isinstance(network, DirectNetwork):
            first = network.blocks["0 to 1"]
            assert isinstance(first, nn.Linear)
            into = first.weight
            found[name]["largest"] = into.detach().abs().max().item()
            found[name]["apart"] = apart(into)
    found["gradients"] = first_gradients([10, 20, 20, 20, 1])
    return found


def bent_data(points: int) -> Pair:
    """The bent target of the first experiment, its inputs with the bias neuron."""
    x = _square(points, 2)
    return torch.cat([x, torch.ones(len(x), 1)], dim=1), target(x, BENT, STEEP).unsqueeze(-1)


def apart(into: Tensor) -> float:
    """How far the weights into hidden neurons, (neurons, inputs), are from those of the first."""
    return (into - into[0]).detach().abs().max().item()


def network_of(start: str, widths: Sequence[int]) -> nn.Module:
    """A network with a random skip connection, its hidden layer asleep or of equal weights."""
    if start == "spectral":
        return SpectralNetwork(widths, bias=False)
    network = DirectNetwork(widths)
    for name, linear in network.blocks.items():
        if name != f"0 to {len(widths) - 1}":
            nn.init.constant_(linear.weight, 0.0 if start == "zero" else 0.1)  # type: ignore[arg-type]
    return network


def first_gradients(widths: Sequence[int]) -> list[float]:
    """‖∂loss/∂Lₖ‖ of each hidden layer at the start, for a random target."""
    torch.manual_seed(0)
    network = SpectralNetwork(widths)
    x, y = torch.randn(200, widths[0]), torch.randn(200, widths[-1])
    (network(x) - y).square().mean().backward()
    gradients = (values.grad for values in network.hidden_eigenvalues)
    return [0.0 if gradient is None else gradient.norm().item() for gradient in gradients]


def _with(config: TrainConfig, **options: Any) -> TrainConfig:
    return TrainConfig(**{**asdict(config), **options})


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    results = content["results"]
    inside = [row for row in results["range"]["rows"] if 1e-5 <= row["weight"] <= 1e-3]
    lost = [row for row in inside if max(row["mse"]) >= FITS]
    errors = [max(row["mse"]) for row in inside if row not in lost]
    failed = [
        f"{row['penalty'].upper()} of {row['weight']:g}, {'bent' if row['alpha'] else 'linear'} "
        f"target: {sum(error >= FITS for error in row['mse'])} of {len(row['mse'])} do not, errors "
        f"{spread(row['mse'], '{:.1e}')}"
        for row in lost
    ]
    idle, used = (
        [value for row in inside if row["alpha"] == alpha for value in row["gamma"]]
        for alpha in (LINEAR, BENT)
    )
    shallow = results["depth"]["1 0"]["shares"]
    deep = [sum(shares[2:]) for shares in shallow]
    starts = results["starts"]
    gradients = starts["gradients"]
    return [
        Claim(
            f"ρ from 1e-3 to 1e-5, L1 and L2: every model has a mean squared error below {FITS:g}",
            "; ".join([*failed, *(f"all others at most {max(errors):.1e}" for _ in errors[:1])]),
            not lost,
            ("Appendix G",),
        ),
        Claim(
            "ρ from 1e-3 to 1e-5: ‖Γ‖ on the bent target ten times that on the linear one, or more",
            f"at most {max(idle):.2g} on the linear one, at least {min(used):.2g} on the bent one",
            min(used) >= 10 * max(idle),
            ("Appendix G",),
        ),
        Claim(
            "a shallow target, no penalty: most of Σ‖Γ‖ through at most one hidden layer",
            f"{spread((100 * share for share in deep), '{:.0f}')} % of it through two or more",
            max(deep) < 0.5,
            ("Section 4",),
        ),
        Claim(
            "direct space from zero: the hidden layer never starts, a spectral one does",
            f"its largest weight is {starts['zero']['largest']:.1g}; mean squared error "
            f"{starts['zero']['mse']:.1e}, of the spectral one {starts['spectral']['mse']:.1e}",
            starts["zero"]["largest"] == 0
            and starts["zero"]["mse"] > 10 * starts["spectral"]["mse"],
            ("Section 5",),
        ),
        Claim(
            "direct space with equal weights: hidden neurons stay equal, in single precision",
            f"weights at most {starts['equal']['apart']:.1g} apart, mean squared error "
            f"{starts['equal']['mse']:.1e}",
            starts["equal"]["apart"] < 1e-3,
            ("Section 5",),
        ),
        Claim(
            "every hidden layer has a gradient at the start",
            ", ".join(f"{value:.2g}" for value in gradients) + " for three hidden layers",
            min(gradients) > 0,
            ("Section 4",),
        ),
    ]


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> Figures:
    results = content["results"]
    figure = plots.new_figure(5.5, 6.4)
    panels: Any = figure.subplots(2, 1)
    colours = {"l2": plots.ORANGE, "l1": plots.BLUE}
    for penalty, alpha in product(content["setting"]["penalties"], (LINEAR, BENT)):
        own = [
            row
            for row in results["range"]["rows"]
            if (row["penalty"], row["alpha"]) == (penalty, alpha) and row["weight"] > 0
        ]
        style = {"color": colours.get(penalty, plots.GREY), "linestyle": "-" if alpha else ":"}
        label = f"{penalty}, {'bent' if alpha else 'linear'} target"
        for axes, key in zip(panels, ("gamma", "mse"), strict=True):
            means = [sum(row[key]) / len(row[key]) for row in own]
            axes.plot([row["weight"] for row in own], means, marker="o", label=label, **style)
    for axes, name in zip(panels, ("‖Γ‖", "mean squared error"), strict=True):
        axes.set(xlabel="ρ", ylabel=name, xscale="log", yscale="log")
    panels[0].legend(frameon=False, fontsize=8)
    return {"range": figure}


EXPERIMENT = Experiment(
    name="remarks",
    shows="What the paper says in passing, tested.",
    figures="Remarks of sections 4 and 5 and of appendix G of the paper",
    cost="123 trainings: 3 min on a GPU (estimated), 29 min on a core as recorded",
    quick_cost="27 trainings: 3 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    claims=claims,
    page_names={"starts_named": STARTS},
)
