"""Is a teacher with one hidden layer of 20 neurons found, the student offered two of 200?

y = W₂ relu(W₁ x) with two random rotations of 20 dimensions, x uniform in [-1, 1]²⁰. Teacher, data
and student are drawn anew for every seed. The paper's recipe and the defaults of this library are
trained on the same data; the test rows are looked at once, at the end.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from torchsparcs.cutting.extraction import extract
from torchsparcs.experiments import plots
from torchsparcs.experiments.eigenvalue_pruning import curve_of_eigenvalues, keeping_eigenvalues
from torchsparcs.experiments.experiment import Claim, Experiment
from torchsparcs.experiments.recipes import hyperparameter_table, paper_config
from torchsparcs.experiments.work import Content, Work
from torchsparcs.experiments.writing import spread
from torchsparcs.report.document import markdown_table
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import TASKS, evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = "regression"
SILENT = 0.01  # a layer is off when all its |eigenvalues| are below this share of the largest
PAPER_NEURONS, PAPER_R2 = 30, 0.98


@dataclass(frozen=True)
class Setting:
    """The paper's protocol, with ten seeds for its one."""

    seeds: tuple[int, ...] = tuple(range(100, 110))
    dimension: int = 20
    hidden: tuple[int, int] = (200, 200)
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
    config: Callable[..., TrainConfig]  # of the setting's epochs and batch size
    scale_targets: bool


RECIPES = {
    "paper": Recipe("the paper's recipe", plots.ORANGE, paper_config, False),
    "own": Recipe("our defaults", plots.BLUE, TrainConfig, True),
}


def config_of(recipe: Recipe, setting: Setting, *, on_gpu: bool) -> TrainConfig:
    config = recipe.config(
        task=TASK,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        snapshot_every=setting.epochs,
        capture=on_gpu,
    )
    if recipe.config is paper_config:
        config = replace(config, penalty_weight=setting.paper_penalty_weight)
    return config


def run(setting: Setting, work: Work) -> Content:
    results: Content = {"runs": {}, "configs": {}, "seconds": {}}
    for key, recipe in RECIPES.items():
        config = config_of(recipe, setting, on_gpu=work.on_gpu)
        part = work.part(recipe.name, partial(_trained, recipe, config, setting, work))
        results["configs"][key] = asdict(config)
        results["runs"][key] = part["seeds"]
        results["seconds"][key] = part["seconds"]
    return results


def _trained(recipe: Recipe, config: TrainConfig, setting: Setting, work: Work) -> Content:
    """Students of all seeds trained together, each on its own data."""
    data = [dataset(setting, seed, recipe.scale_targets) for seed in setting.seeds]
    training, validation, test = (
        [(x.to(work.device), y.to(work.device)) for x, y in part]
        for part in zip(*data, strict=True)
    )
    widths = [setting.dimension, *setting.hidden, setting.dimension]
    students = Population(widths, seeds=setting.seeds, bias=False, device=work.device)
    together = (torch.stack([x for x, _ in training]), torch.stack([y for _, y in training]))
    history = work.train(recipe.name, students, together, config)
    seeds = []
    for index, seed in enumerate(setting.seeds):
        work.report(f"{recipe.name}: pruning seed {seed}")
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
    sizes = [setting.points - rows, rows, rows]
    y = y / y[: sizes[0]].std() if scale_targets else y
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
    def score(network: torch.nn.Module) -> float:
        return evaluate(network, test, TASK).score

    curve, enough = curve_of_eigenvalues(
        student, lambda pruned: evaluate(pruned, validation, TASK).loss, tolerance=setting.tolerance
    )
    pruned = keeping_eigenvalues(student, enough)
    compact = extract(student, data=training, validation=validation, task=TASK, progress=False)
    return {
        "eigenvalues": [values.detach().abs() for values in student.hidden_eigenvalues],
        "curve": {"kept": curve.kept, "increase": curve.increase},
        "kept": pruned.recruited,
        "neurons_at_work": sum(extract(pruned).widths[1:-1]),
        "r2_linear": linear_r2(training, test),
        "r2_full": score(student),
        "r2_pruned": score(pruned),
        "r2_compact": score(compact),
        "architecture": compact.architecture,
        "compact_hidden": list(compact.widths[1:-1]),
    }


def linear_r2(training: Pair, test: Pair) -> float:
    """R² of linear regression with an intercept."""
    (x, y), (x_test, y_test) = training, test
    center = x.mean(dim=0), y.mean(dim=0)
    centred = x - center[0]
    weights = torch.linalg.solve(centred.T @ centred, centred.T @ (y - center[1]))
    return TASKS[TASK].score((x_test - center[0]) @ weights + center[1], y_test).item()


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    runs, setting = content["results"]["runs"], content["setting"]
    seeds, neurons = len(setting["seeds"]), setting["dimension"]
    paper, own = runs["paper"], runs["own"]
    off = [layers_off(run) for run in paper]
    one_off, first_off = (sum(test(o) for o in off) for test in (lambda o: len(o) == 1, [0].__eq__))
    linear, pruned = ([run[key] for run in paper] for key in ("r2_linear", "r2_pruned"))
    kept = [sum(run["kept"]) for run in paper]
    exact = sum(run["compact_hidden"] == [neurons] for run in own)
    best = [run["r2_compact"] for run in own]
    return [
        Claim("a linear model does not do", f"R² {spread(linear)}", max(linear) < 0.9),
        Claim(
            "the paper's recipe: one of the two hidden layers switches off",
            f"{one_off} of {seeds} seeds",
            one_off == seeds,
        ),
        Claim(
            "the paper's recipe: it is the first that switches off",
            f"{first_off} of {seeds} seeds",
            first_off == seeds,
        ),
        Claim(
            f"the paper's recipe: {PAPER_NEURONS} eigenvalues are enough for 5 % of the loss",
            f"{spread(kept, '{:.0f}')} are needed",
            max(kept) <= PAPER_NEURONS,
        ),
        Claim(
            f"the paper's recipe: pruned, R² of at least about {PAPER_R2}",
            f"R² {spread(pruned)}",
            min(pruned) >= PAPER_R2 - 0.005,
        ),
        Claim(
            f"our defaults and `extract`: one layer of {neurons} neurons",
            f"{exact} of {seeds} seeds",
            exact == seeds,
        ),
        Claim(
            "our defaults and `extract`: R² of at least 0.998",
            f"R² {spread(best, '{:.4f}')}",
            min(best) >= 0.998,
        ),
    ]


def layers_off(run: Content) -> list[int]:
    """The hidden layers of which every eigenvalue is negligible."""
    tops = [max(layer) for layer in run["eigenvalues"]]
    return [index for index, top in enumerate(tops) if top < SILENT * max(tops)]


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> "dict[str, Figure]":
    runs, tolerance = content["results"]["runs"], content["setting"]["tolerance"]
    return {"eigenvalues": _draw_eigenvalues(runs), "pruning": _draw_pruning(runs, tolerance)}


def _draw_eigenvalues(runs: dict[str, list[Content]]) -> "Figure":
    """Of the first seed, as in the paper: first hidden layer, second, both."""
    figure = plots.new_figure(10, 5)
    axes: Any = figure.subplots(len(RECIPES), 3)
    for line, (key, recipe) in enumerate(RECIPES.items()):
        first, second = runs[key][0]["eigenvalues"]
        panels = (("first hidden layer", first), ("second hidden layer", second))
        for axis, (name, values) in zip(
            axes[line], (*panels, ("both", first + second)), strict=True
        ):
            plots.draw_histogram(axis, values, colour=recipe.colour)
            axis.set_title(f"{recipe.name}: {name}", fontsize=9)
        axes[line][0].set_ylabel("neurons")
    return figure


def _draw_pruning(runs: dict[str, list[Content]], tolerance: float) -> "Figure":
    """All seeds, the first one strong."""
    figure = plots.new_figure(9, 3.8)
    axes: Any = figure.subplots(1, len(RECIPES))
    for axis, (key, recipe) in zip(axes, RECIPES.items(), strict=True):
        for place, run in enumerate(runs[key]):
            plots.draw_pruning_curve(
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
    hyperparameters = hyperparameter_table(
        {
            "lr": "1e-3",
            "batch_size": 1024,
            "epochs": 180,
            "penalty": "L2",
            "penalty_weight": "3e-3",
        },
        {recipe.name: results["configs"][key] for key, recipe in RECIPES.items()},
        [
            ["targets", "not said", "as they are", "scaled to variance 1"],
            ["bias", "not said", "no", "no"],
            ["hidden neurons, at most", "200, 200", *[", ".join(map(str, setting["hidden"]))] * 2],
            ["points, of which validation", "100,000", *[f"{setting['points']:,}, a tenth"] * 2],
            ["seed", "42 (NumPy)", *[f"{setting['seeds'][0]} to {setting['seeds'][-1]}"] * 2],
        ],
    )
    runs, seeds = results["runs"], setting["seeds"]
    off = [layers_off(run) for run in runs["paper"]]
    teacher = [setting["dimension"]]
    return {
        "paper_neurons": PAPER_NEURONS,
        "paper_r2": PAPER_R2,
        "seeds": len(seeds),
        "first_seed": seeds[0],
        "first_off": off.count([0]),
        "second_off": off.count([1]),
        "kept": spread([sum(run["kept"]) for run in runs["paper"]], "{:.0f}"),
        "at_work": spread([run["neurons_at_work"] for run in runs["paper"]], "{:.0f}"),
        "pruned_r2": spread([run["r2_pruned"] for run in runs["paper"]]),
        "own_found": sum(run["compact_hidden"] == teacher for run in runs["own"]),
        "own_r2": spread([run["r2_compact"] for run in runs["own"]], "{:.4f}"),
        "paper_found": sum(run["compact_hidden"] == teacher for run in runs["paper"]),
        "teacher": teacher[0],
        "paper_seconds": f"{results['seconds']['paper']:.0f}",
        "own_seconds": f"{results['seconds']['own']:.0f}",
        "numbers": numbers,
        "hyperparameters": hyperparameters,
    }


TEACHER_STUDENT = Experiment(
    name="teacher-student",
    shows="A teacher with one hidden layer of 20 neurons is found by a student offered two of 200.",
    figures="Figures 9 and 10 of the paper",
    cost="20 trainings: 2 min on a GPU, an hour on two cores",
    quick_cost="4 trainings on fewer data: 2 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    tell=tell,
    claims=claims,
)
