"""Is a teacher with one hidden layer of 20 neurons found, the student offered two of 200?

y = W₂ relu(W₁ x) with two random rotations of 20 dimensions, x uniform in [-1, 1]²⁰. Teacher, data
and student are drawn anew for every seed. The paper's recipe and the defaults of this library are
trained on the same data; the test rows are looked at once, at the end.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsparcs.cutting.eigenvalues import eigenvalue_curve, eigenvalue_gap, keep_eigenvalues
from torchsparcs.cutting.extraction import extract
from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Claim, Experiment, Work
from torchsparcs.experiments.writing import Content, Figures, spread
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.spectral.population import Population
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import TASKS, evaluate

TASK = "regression"
SILENT = 0.01  # a layer is off when all its |eigenvalues| are below this share of the largest
PAPER_NEURONS, PAPER_R2 = 30, 0.98
HISTOGRAMS, PRUNING = "Figure 9", "Figure 10"


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
    config: Callable[[Setting], TrainConfig]
    scale_targets: bool


RECIPES = {
    "paper": Recipe(
        "the paper's recipe",
        plots.ORANGE,
        lambda setting: TrainConfig.paper(
            penalty_weight=setting.paper_penalty_weight, **common_options(setting)
        ),
        scale_targets=False,
    ),
    "own": Recipe(
        "our defaults",
        plots.BLUE,
        lambda setting: TrainConfig(**common_options(setting)),
        scale_targets=True,
    ),
}


def common_options(setting: Setting) -> dict[str, Any]:
    return {
        "task": TASK,
        "epochs": setting.epochs,
        "batch_size": setting.batch_size,
        "snapshot_every": setting.epochs,
    }


def run(setting: Setting, work: Work) -> Content:
    results: Content = {"runs": {}, "configs": {}, "seconds": {}}
    for key, recipe in RECIPES.items():
        config = replace(recipe.config(setting), capture=work.on_gpu)
        part = work.part(recipe.name, partial(_trained, recipe, config, setting, work))
        results["configs"][key] = asdict(config)
        results["runs"][key] = part["seeds"]
        results["seconds"][key] = part["seconds"]
    return results


def _trained(recipe: Recipe, config: TrainConfig, setting: Setting, work: Work) -> Content:
    """Students of all seeds trained together, and what `extract` makes of them."""
    dimension, points = setting.dimension, setting.points
    data = [
        dataset(dimension, points, seed, scale_targets=recipe.scale_targets)
        for seed in setting.seeds
    ]
    widths = [dimension, *setting.hidden, dimension]
    found = trained_students(recipe.name, widths, setting.seeds, data, config, work)
    judged = []
    for (student, parts), seed in zip(found.students, setting.seeds, strict=True):
        work.report(f"{recipe.name}: pruning seed {seed}")
        training, validation, test = parts
        compact = extract(student, data=training, validation=validation, task=TASK, progress=False)
        judged.append(
            {
                "seed": seed,
                **pruned_by_eigenvalues(student, parts, setting.tolerance),
                "r2_compact": evaluate(compact, test, TASK).score,
                "architecture": compact.architecture,
                "compact_hidden": list(compact.widths[1:-1]),
            }
        )
    return {"seeds": judged, "seconds": found.seconds}


class Trained(NamedTuple):
    """Students with their training, validation and test rows, and the seconds they took."""

    students: list[tuple[SpectralNetwork, list[Pair]]]
    seconds: float


def trained_students(
    name: str,
    widths: Sequence[int],
    seeds: Sequence[int],
    data: list[list[Pair]],
    config: TrainConfig,
    work: Work,
    *,
    bias: bool = False,
) -> Trained:
    """One student for each seed, trained together, each on its own data."""
    placed = [[(x.to(work.device), y.to(work.device)) for x, y in parts] for parts in data]
    students = Population(widths, seeds=seeds, bias=bias, device=work.device)
    x, y = (torch.stack([parts[0][side] for parts in placed]) for side in (0, 1))
    history = work.train(name, students, (x, y), config)
    pairs = [(students.member(index), parts) for index, parts in enumerate(placed)]
    return Trained(pairs, sum(history.seconds))


def dataset(
    dimension: int, points: int, seed: int, *, scale_targets: bool = False, rotations: int = 2
) -> list[Pair]:
    """Training, validation (a tenth of the points) and as large a test set.

    With one rotation the teacher has the same matrix before and after its neurons.
    """
    generator = torch.Generator().manual_seed(seed)
    matrices = [rotation(dimension, generator) for _ in range(rotations)]
    rows = points // 10
    x = torch.rand(points + rows, dimension, generator=generator) * 2 - 1
    y = torch.relu(x @ matrices[0].T) @ matrices[-1].T
    sizes = [points - rows, rows, rows]
    y = y / y[: sizes[0]].std() if scale_targets else y
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def rotation(dimension: int, generator: torch.Generator) -> Tensor:
    """A uniformly random element of SO(dimension)."""
    q, r = torch.linalg.qr(torch.randn(dimension, dimension, generator=generator))
    q = q * r.diagonal().sign()
    q[0] *= torch.linalg.det(q).sign()
    return q


def pruned_by_eigenvalues(student: SpectralNetwork, parts: list[Pair], tolerance: float) -> Content:
    """The paper's pruning: its curve, what is left within the tolerance, and how good that is."""
    training, validation, test = parts
    curve, enough = eigenvalue_curve(
        student, lambda pruned: evaluate(pruned, validation, TASK).loss, tolerance=tolerance
    )
    whole = curve[max(curve)]
    pruned = keep_eigenvalues(student, enough)
    assert isinstance(pruned, SpectralNetwork)
    return {
        "eigenvalues": [values.detach().abs() for values in student.hidden_eigenvalues],
        "curve": {
            "kept": list(curve),
            "increase": [value / whole - 1 for value in curve.values()],
        },
        "kept": pruned.recruited,
        "neurons_at_work": sum(extract(pruned).widths[1:-1]),
        "r2_linear": linear_r2(training, test),
        "r2_full": evaluate(student, test, TASK).score,
        "r2_pruned": evaluate(pruned, test, TASK).score,
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
    off = layers_off(paper)
    one_off, first_off = sum(len(layers) == 1 for layers in off), off.count([0])
    apart = sum(map(is_in_two_families, paper))
    linear, pruned = ([run[key] for run in paper] for key in ("r2_linear", "r2_pruned"))
    kept = [sum(run["kept"]) for run in paper]
    exact = sum(run["compact_hidden"] == [neurons] for run in own)
    best = [run["r2_compact"] for run in own]
    return [
        Claim(
            "a linear model is not enough",
            f"R² {spread(linear)}",
            max(linear) < 0.9,
            (HISTOGRAMS,),
        ),
        Claim(
            "the paper's recipe: one of the two hidden layers switches off",
            f"{one_off} of {seeds} seeds",
            one_off == seeds,
            (HISTOGRAMS,),
        ),
        Claim(
            "the paper's recipe: it is the first that switches off",
            f"{first_off} of {seeds} seeds",
            first_off == seeds,
            (HISTOGRAMS,),
        ),
        Claim(
            "the paper's recipe: the eigenvalues of the layer at work are in two families",
            f"a gap between them in {apart} of {seeds} seeds",
            apart == seeds,
            (HISTOGRAMS,),
        ),
        Claim(
            f"the paper's recipe: {PAPER_NEURONS} eigenvalues keep the loss within 5 %",
            f"{spread(kept, '{:.0f}')} are needed",
            max(kept) <= PAPER_NEURONS,
            (PRUNING,),
        ),
        Claim(
            f"the paper's recipe: R² is at least about {PAPER_R2} once pruned",
            f"R² {spread(pruned)}",
            min(pruned) >= PAPER_R2 - 0.005,
            (PRUNING,),
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


def layers_off(runs: list[Content]) -> list[list[int]]:
    """The hidden layers of each run of which every eigenvalue is negligible."""
    tops = [[max(layer) for layer in run["eigenvalues"]] for run in runs]
    return [[i for i, top in enumerate(own) if top < SILENT * max(own)] for own in tops]


def is_in_two_families(run: Content) -> bool:
    """Whether a gap parts the eigenvalues of the layer that has the largest one."""
    return eigenvalue_gap(torch.tensor(max(run["eigenvalues"], key=max))) > 0


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> Figures:
    runs, tolerance = content["results"]["runs"], content["setting"]["tolerance"]
    columns = []
    for key, recipe in RECIPES.items():
        first, second = runs[key][0]["eigenvalues"]  # of the first seed, as in the paper
        layers = {
            "first hidden layer": first,
            "second hidden layer": second,
            "both": first + second,
        }
        columns.append([(f"{recipe.name}: {n}", v, recipe.colour) for n, v in layers.items()])
    eigenvalues = plots.histograms(list(zip(*columns, strict=True)))
    for left in eigenvalues.axes[:: len(RECIPES)]:
        left.set_ylabel("neurons")
    pruning = plots.new_figure(5.5, 3.4 * len(RECIPES))
    panels: Any = pruning.subplots(len(RECIPES), 1)
    for axes, (key, recipe) in zip(panels, RECIPES.items(), strict=True):
        for place, run in enumerate(runs[key]):  # the first seed strong
            plots.draw_pruning_curve(
                axes,
                **run["curve"],
                tolerance=None if place else tolerance,
                color=recipe.colour,
                alpha=0.3 if place else 1.0,
                linewidth=1.0 if place else 2.0,
            )
        axes.set(title=recipe.name, xlabel="hidden eigenvalues that are not set to zero")
    return {"eigenvalues": eigenvalues, "pruning": pruning}


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
    claims=claims,
    page_names={
        "recipes": RECIPES,
        "paper_neurons": PAPER_NEURONS,
        "paper_r2": PAPER_R2,
        "layers_off": layers_off,
    },
)
