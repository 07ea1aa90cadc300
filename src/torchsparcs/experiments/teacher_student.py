"""Is a teacher with one hidden layer of 20 neurons found, the student offered two of 200?

y = W₂ relu(W₁ x) with two random rotations of 20 dimensions, x uniform in [-1, 1]²⁰. Teacher, data
and student are drawn anew for every seed. The paper's recipe and the defaults of this library are
trained on the same data; the test rows are looked at once, at the end.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs.config import TrainConfig
from torchsparcs.data import Pair
from torchsparcs.experiments.experiment import Claim, Content, Experiment, Work, markdown_table
from torchsparcs.extraction import extract
from torchsparcs.network import SpectralNetwork
from torchsparcs.population import Population
from torchsparcs.report import prints
from torchsparcs.tasks import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = "regression"
SILENT = 0.01  # a layer is off when all its |eigenvalues| are below this share of the largest
PAPER = {"neurons": 30, "r2": 0.98}


@dataclass(frozen=True)
class Setting:
    """The paper's protocol, with ten seeds for its one."""

    seeds: tuple[int, ...] = tuple(range(100, 110))
    dimension: int = 20
    hidden: tuple[int, ...] = (200, 200)
    points: int = 100_000
    epochs: int = 180
    batch_size: int = 1024
    paper_penalty_weight: float = 3e-3
    tolerance: float = 0.05


QUICK = Setting(seeds=(100, 101), points=20_000, epochs=60, batch_size=256)


class Recipe(NamedTuple):
    """How the student is trained, on targets of which scale."""

    name: str
    colour: str
    config: Callable[[Setting], TrainConfig]
    scale_targets: bool


def _paper_config(setting: Setting) -> TrainConfig:
    """Plain Adam and the penalty, a norm for each layer, as part of the loss."""
    return TrainConfig(
        task=TASK,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        lr=1e-3,
        schedule="constant",
        eigenvalue_lr_scale=1.0,
        transfer_weight_decay=0.0,
        penalty="l2",
        penalty_weight=setting.paper_penalty_weight,
        proximal=False,
    )


def _own_config(setting: Setting) -> TrainConfig:
    """The defaults."""
    return TrainConfig(task=TASK, epochs=setting.epochs, batch_size=setting.batch_size)


RECIPES = {
    "paper": Recipe("the paper's setting", prints.ORANGE, _paper_config, False),
    "own": Recipe("our defaults", prints.BLUE, _own_config, True),
}


def run(setting: Setting, work: Work) -> Content:
    results: Content = {"runs": {}, "configs": {}}
    for key, recipe in RECIPES.items():
        config = replace(recipe.config(setting), capture=work.on_gpu, snapshot_every=setting.epochs)
        results["configs"][key] = asdict(config)
        part = work.part(key, partial(_trained, key, recipe, config, setting, work))
        results["runs"][key] = part["seeds"]
        results[f"{key}_seconds"] = part["seconds"]
    return results


def _trained(
    key: str, recipe: Recipe, config: TrainConfig, setting: Setting, work: Work
) -> Content:
    """Students of all seeds trained together, each on its own data."""
    data = [dataset(setting, seed, recipe.scale_targets) for seed in setting.seeds]
    training, validation, test = (
        [(x.to(work.device), y.to(work.device)) for x, y in part]
        for part in zip(*data, strict=True)
    )
    widths = [setting.dimension, *setting.hidden, setting.dimension]
    students = Population(widths, seeds=setting.seeds, bias=False, device=work.device)
    together = (torch.stack([x for x, _ in training]), torch.stack([y for _, y in training]))
    history = work.train(key, students, together, config)
    seeds = []
    for index, seed in enumerate(setting.seeds):
        work.report(f"{key}, seed {seed}")
        parts = (training[index], validation[index], test[index])
        seeds.append({"seed": seed, **_judged(students.member(index), *parts, setting)})
    return {"seeds": seeds, "seconds": sum(history.seconds)}


def dataset(setting: Setting, seed: int, scale_targets: bool) -> list[Pair]:
    """Training, validation (a tenth of the points) and as large a test set."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (rotation(setting.dimension, generator) for _ in range(2))
    rows = setting.points // 10
    x = torch.rand(setting.points + rows, setting.dimension, generator=generator) * 2 - 1
    y = torch.relu(x @ first.T) @ second.T
    y = y / y.std() if scale_targets else y
    sizes = [setting.points - rows, rows, rows]
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def rotation(dimension: int, generator: torch.Generator) -> Tensor:
    """A uniformly random element of SO(dimension)."""
    q, r = torch.linalg.qr(torch.randn(dimension, dimension, generator=generator))
    q = q * r.diagonal().sign()
    q[0] *= torch.linalg.det(q).sign()
    return q


def _judged(
    student: SpectralNetwork, training: Pair, validation: Pair, test: Pair, setting: Setting
) -> Content:
    kept, losses = curve_of_eigenvalues(student, validation)
    increase = [loss / losses[-1] - 1 for loss in losses]
    enough = next(k for k, rise in zip(kept, increase, strict=True) if rise <= setting.tolerance)
    pruned = keeping_eigenvalues(student, enough)
    at_work = extract(pruned)
    compact = extract(student, data=training, validation=validation, task=TASK, progress=False)
    return {
        "eigenvalues": [values.detach().abs() for values in student.hidden_eigenvalues],
        "curve": {"kept": kept, "increase": increase},
        "kept": pruned.recruited,
        "neurons_at_work": sum(at_work.widths[1:-1]),
        "r2_linear": _linear_r2(training, test),
        "r2_full": evaluate(student, test, TASK).score,
        "r2_pruned": evaluate(pruned, test, TASK).score,
        "r2_compact": evaluate(compact, test, TASK).score,
        "architecture": compact.architecture,
        "compact_hidden": list(compact.widths[1:-1]),
        "parameters": compact.size.parameters,
    }


def curve_of_eigenvalues(
    network: SpectralNetwork, validation: Pair, points: int = 200
) -> tuple[list[int], list[float]]:
    """The paper's pruning: how many hidden eigenvalues are not set to zero, and the loss then."""
    recruited = sum(network.recruited)
    spaced = np.geomspace(1, max(recruited, 1), points).round().astype(int).tolist()
    kept = sorted({0, *spaced} if recruited else {0})
    networks = (keeping_eigenvalues(network, count) for count in kept)
    return kept, [evaluate(pruned, validation, TASK).loss for pruned in networks]


@torch.no_grad()
def keeping_eigenvalues(network: SpectralNetwork, count: int) -> SpectralNetwork:
    """A copy of which all but the ``count`` largest hidden eigenvalues are zero."""
    pruned = copy.deepcopy(network)
    sizes = torch.cat([values.abs() for values in network.hidden_eigenvalues])
    keep = torch.zeros_like(sizes, dtype=torch.bool)
    keep[sizes.argsort(descending=True, stable=True)[:count]] = True
    for values, mask in zip(
        pruned.hidden_eigenvalues, keep.split(list(network.widths[1:-1])), strict=True
    ):
        values.mul_(mask)
    return pruned


def _linear_r2(training: Pair, test: Pair) -> float:
    """R² of linear regression with an intercept."""
    (x, y), (x_test, y_test) = training, test
    mean = x.mean(dim=0), y.mean(dim=0)
    weights = torch.linalg.lstsq(x - mean[0], y - mean[1]).solution
    rest = y_test - mean[1] - (x_test - mean[0]) @ weights
    spread = y_test - y_test.mean(dim=0)
    return (1 - rest.square().mean(dim=0) / spread.square().mean(dim=0)).mean().item()


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    runs, setting = content["results"]["runs"], content["setting"]
    seeds = len(setting["seeds"])
    paper, own = runs["paper"], runs["own"]
    linear = [run["r2_linear"] for run in paper]
    off = [layers_off(run) for run in paper]
    one_off = sum(len(layers) == 1 for layers in off)
    second_only = sum(layers == [0] for layers in off)
    full = [run["r2_full"] for run in paper]
    exact = [run["compact_hidden"] == [setting["dimension"]] for run in own]
    best = [run["r2_compact"] for run in own]
    return [
        Claim("a linear model does not do", f"R² {_spread(linear)}", max(linear) < 0.9),
        Claim(
            "the paper's setting: one of the two hidden layers switches off",
            f"{one_off} of {seeds} seeds",
            one_off == seeds,
        ),
        Claim(
            "the paper's setting: it is the first that switches off",
            f"{second_only} of {seeds} seeds",
            second_only == seeds,
        ),
        Claim("the paper's setting: R² about 0.98", f"R² {_spread(full)}", min(full) >= 0.975),
        Claim(
            "the paper's setting: about 30 eigenvalues are left within 5 % of the loss",
            _spread([sum(run["kept"]) for run in paper], "{:.0f}"),
            max(sum(run["kept"]) for run in paper) <= 35,
        ),
        Claim(
            f"our defaults and `extract`: one layer of {setting['dimension']} neurons",
            f"{sum(exact)} of {seeds} seeds",
            all(exact),
        ),
        Claim(
            "our defaults: R² at least 0.998", f"R² {_spread(best, '{:.4f}')}", min(best) >= 0.998
        ),
    ]


def layers_off(run: Content) -> list[int]:
    """The hidden layers of which every eigenvalue is negligible."""
    tops = [max(layer) for layer in run["eigenvalues"]]
    return [index for index, top in enumerate(tops) if top < SILENT * max(tops)]


def _spread(values: Sequence[float], form: str = "{:.3f}") -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> "dict[str, Figure]":
    runs, tolerance = content["results"]["runs"], content["setting"]["tolerance"]
    return {"eigenvalues": _draw_eigenvalues(runs), "pruning": _draw_pruning(runs, tolerance)}


def _draw_eigenvalues(runs: dict[str, list[Content]]) -> "Figure":
    """Of the first seed, as in the paper: first hidden layer, second, both."""
    figure = prints.new_figure(10, 5)
    axes: Any = figure.subplots(len(RECIPES), 3)
    for line, (key, recipe) in enumerate(RECIPES.items()):
        first, second = runs[key][0]["eigenvalues"]
        panels = (("first hidden layer", first), ("second hidden layer", second))
        for axis, (name, values) in zip(
            axes[line], (*panels, ("both", first + second)), strict=True
        ):
            prints.draw_histogram(axis, values, colour=recipe.colour)
            axis.set_title(f"{recipe.name}: {name}", fontsize=9)
        axes[line][0].set_ylabel("neurons")
    return figure


def _draw_pruning(runs: dict[str, list[Content]], tolerance: float) -> "Figure":
    """All seeds, the first one strong."""
    figure = prints.new_figure(9, 3.8)
    axes: Any = figure.subplots(1, len(RECIPES))
    for axis, (key, recipe) in zip(axes, RECIPES.items(), strict=True):
        for place, run in enumerate(runs[key]):
            prints.draw_pruning_curve(
                axis,
                run["curve"]["kept"],
                run["curve"]["increase"],
                tolerance=None if place else tolerance,
                color=recipe.colour,
                alpha=0.3 if place else 1.0,
                linewidth=1.0 if place else 2.0,
            )
        axis.set(title=recipe.name, xlabel="hidden eigenvalues that are not set to zero")
    return figure


# --- the page -------------------------------------------------------------------------------------


def tell(content: Content) -> dict[str, Any]:
    results, setting = content["results"], content["setting"]
    rows = [
        [
            recipe.name,
            run["seed"],
            f"{run['r2_linear']:.3f}",
            f"{run['r2_full']:.4f}",
            ", ".join(map(str, run["kept"])),
            run["neurons_at_work"],
            f"{run['r2_pruned']:.4f}",
            run["architecture"],
            f"{run['r2_compact']:.4f}",
        ]
        for key, recipe in RECIPES.items()
        for run in results["runs"][key]
    ]
    numbers = markdown_table(
        [
            "",
            "seed",
            "R² linear",
            "R² full",
            "eigenvalues left within 5 %, by layer",
            "neurons at work then",
            "R² pruned",
            "`extract` with data",
            "R²",
        ],
        rows,
    )
    configs = results["configs"]
    names = {
        "lr": ("learning rate", "1e-3"),
        "batch_size": ("batch size", 1024),
        "epochs": ("epochs", 180),
        "schedule": ("schedule", "constant"),
        "eigenvalue_lr_scale": ("eigenvalues learn faster by", 1),
        "transfer_weight_decay": ("decay of the transfers", 0),
        "penalty": ("penalty", "L2"),
        "penalty_weight": ("its weight", "3e-3"),
        "proximal": ("proximal step", "no"),
    }
    hyperparameters = markdown_table(
        ["hyperparameter", "the paper", *(recipe.name for recipe in RECIPES.values())],
        [
            [name, paper, *(configs[key][field] for key in RECIPES)]
            for field, (name, paper) in names.items()
        ]
        + [
            ["targets", "as they are", "as they are", "scaled to variance 1"],
            ["hidden neurons, at most", "200, 200", *[", ".join(map(str, setting["hidden"]))] * 2],
            ["points", "100,000", *[f"{setting['points']:,}"] * 2],
        ],
    )
    runs, seeds = results["runs"], setting["seeds"]
    off = [layers_off(run) for run in runs["paper"]]
    return {
        "paper_neurons": PAPER["neurons"],
        "paper_r2": PAPER["r2"],
        "seeds": len(seeds),
        "first_seed": seeds[0],
        "first_off": sum(layers == [0] for layers in off),
        "second_off": sum(layers == [1] for layers in off),
        "kept": _spread([sum(run["kept"]) for run in runs["paper"]], "{:.0f}"),
        "at_work": _spread([run["neurons_at_work"] for run in runs["paper"]], "{:.0f}"),
        "pruned_r2": _spread([run["r2_pruned"] for run in runs["paper"]]),
        "own_neurons": _spread([sum(run["compact_hidden"]) for run in runs["own"]], "{:.0f}"),
        "own_r2": _spread([run["r2_compact"] for run in runs["own"]], "{:.4f}"),
        "paper_seconds": f"{results['paper_seconds']:.0f}",
        "own_seconds": f"{results['own_seconds']:.0f}",
        "numbers": numbers,
        "hyperparameters": hyperparameters,
    }


TEACHER_STUDENT = Experiment(
    name="teacher-student",
    shows="A teacher with one hidden layer of 20 neurons is found by a student offered two of 200.",
    figures="Figures 9 and 10 of the paper",
    cost="20 trainings: 1 min on a GPU, half an hour on two cores",
    quick_cost="4 trainings on fewer data: 2 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    tell=tell,
    claims=claims,
)
