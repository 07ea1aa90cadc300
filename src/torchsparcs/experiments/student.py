"""When does a student become its teacher? Students of several widths, pruned neuron by neuron.

After "How a student becomes a teacher: learning and forgetting through spectral methods"
(Giambagli, Buffoni, Chicchi, Fanelli; arXiv 2310.12612). A teacher with one hidden layer is learnt
by wider students. Spectral ones are pruned by their eigenvalues, plain ones by the norm of the
weights into each neuron; where the loss begins to rise is the transition.
"""

import copy
from bisect import bisect
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from torchsparcs.cutting.eigenvalues import eigenvalue_curve, loss_curve
from torchsparcs.experiments import plots
from torchsparcs.experiments.experiment import Claim, Experiment, Work
from torchsparcs.experiments.teacher_student import trained_students
from torchsparcs.experiments.writing import Content, Figures, spread
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair
from torchsparcs.training.tasks import evaluate
from torchsparcs.training.train import train

TASK = "regression"
KINDS = {"spectral": plots.BLUE, "plain": plots.GREY}


@dataclass(frozen=True)
class Setting:
    """A teacher, students, and how they are trained."""

    seeds: tuple[int, ...] = tuple(range(5))
    dimension: int = 10
    teacher: int = 20
    students: tuple[int, ...] = (50, 100, 200, 400)
    points: int = 20_000
    epochs: int = 150
    batch_size: int = 200
    lr: float = 5e-3
    penalty_weight: float = 1e-4
    tolerance: float = 0.05


QUICK = Setting(seeds=(0,), teacher=10, students=(40, 80), points=5000, epochs=60)


def run(setting: Setting, work: Work) -> Content:
    config = TrainConfig.paper(
        task=TASK,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        lr=setting.lr,
        schedule="cosine",
        penalty="l1",
        penalty_weight=setting.penalty_weight,
        snapshot_every=setting.epochs,
        capture=work.on_gpu,
    )
    results: Content = {"runs": {kind: {} for kind in KINDS}, "config": asdict(config)}
    for width in setting.students:
        for kind, trained in (("spectral", _spectral), ("plain", _plain)):
            name = f"{kind} students of {width}"
            part = work.part(name, partial(trained, name, width, setting, config, work))
            results["runs"][kind][str(width)] = part["seeds"]
    return results


def dataset(setting: Setting, seed: int) -> list[Pair]:
    """Training rows, validation rows and test rows of a teacher drawn from ``seed``."""
    draw = torch.Generator().manual_seed(seed)
    first = torch.randn(setting.teacher, setting.dimension, generator=draw)
    second = torch.randn(setting.teacher, generator=draw).sign()
    rows = setting.points // 10
    x = torch.rand(setting.points + 2 * rows, setting.dimension, generator=draw) * 2 - 1
    y = torch.relu(x @ first.T) @ second
    y = ((y - y.mean()) / y.std()).unsqueeze(-1)
    sizes = [setting.points, rows, rows]
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def _spectral(name: str, width: int, setting: Setting, config: TrainConfig, work: Work) -> Content:
    data = [dataset(setting, seed) for seed in setting.seeds]
    widths = [setting.dimension, width, 1]
    found = trained_students(name, widths, setting.seeds, data, config, work, bias=True)
    seeds = []
    for student, (_, validation, test) in found.students:
        curve, enough = eigenvalue_curve(
            student,
            lambda pruned, rows=validation: evaluate(pruned, rows, TASK).loss,  # type: ignore[misc]
            tolerance=setting.tolerance,
        )
        seeds.append(_judged(curve, enough, evaluate(student, test, TASK).score))
    return {"seeds": seeds}


def _plain(name: str, width: int, setting: Setting, config: TrainConfig, work: Work) -> Content:
    seeds = []
    for seed in setting.seeds:
        training, validation, test = (
            (x.to(work.device), y.to(work.device)) for x, y in dataset(setting, seed)
        )
        torch.manual_seed(seed)
        student = nn.Sequential(nn.Linear(setting.dimension, width), nn.ReLU(), nn.Linear(width, 1))
        train(student.to(work.device), training, config, progress=work.progress)
        curve, enough = loss_curve(
            lambda count, of=student, rows=validation: (
                evaluate(  # type: ignore[misc]
                    keep_neurons(of, count), rows, TASK
                ).loss
            ),
            width,
            tolerance=setting.tolerance,
        )
        seeds.append(_judged(curve, enough, evaluate(student, test, TASK).score))
    return {"seeds": seeds}


@torch.no_grad()
def keep_neurons(student: nn.Sequential, count: int) -> nn.Sequential:
    """A copy of which only the ``count`` neurons with the largest weights into them speak."""
    pruned = copy.deepcopy(student)
    first, last = pruned[0], pruned[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    order = first.weight.norm(dim=1).argsort(descending=True, stable=True)
    last.weight[:, order[count:]] = 0
    return pruned


def _judged(curve: dict[int, float], enough: int, score: float) -> Content:
    return {"kept": list(curve), "loss": list(curve.values()), "enough": enough, "r2": score}


def losses_with(runs: list[Content], count: int) -> list[float]:
    """The loss of each student with ``count`` neurons, or the next fewer that its curve has."""
    return [run["loss"][bisect(run["kept"], count) - 1] for run in runs]


# --- what was to be seen --------------------------------------------------------------------------


def claims(content: Content) -> list[Claim]:
    runs, teacher = content["results"]["runs"], content["setting"]["teacher"]
    left = {
        kind: {width: [one["enough"] for one in seeds] for width, seeds in own.items()}
        for kind, own in runs.items()
    }

    def words(kind: str) -> str:
        own = left[kind].items()
        return ", ".join(f"{spread(counts, '{:.0f}')} of {width}" for width, counts in own)

    spectral = [sum(counts) / len(counts) for counts in left["spectral"].values()]
    return [
        Claim(
            f"spectral students are left with about the teacher's {teacher} neurons (within half)",
            words("spectral"),
            all(teacher / 1.5 <= count <= 1.5 * teacher for count in spectral),
        ),
        Claim(
            "whatever their width: the largest mean is at most 1.25 times the smallest",
            f"{max(spectral) / max(min(spectral), 1):.2f} times",
            max(spectral) <= 1.25 * min(spectral),
        ),
        Claim(
            "plain students of any width keep more than twice the teacher's neurons",
            words("plain"),
            all(min(counts) > 2 * teacher for counts in left["plain"].values()),
        ),
    ]


# --- figures --------------------------------------------------------------------------------------


def draw(content: Content) -> Figures:
    figure = plots.new_figure(5.5, 7)
    panels: Any = figure.subplots(len(KINDS), 1, sharey=True)
    for axes, (kind, colour) in zip(panels, KINDS.items(), strict=True):
        own = content["results"]["runs"][kind]
        for place, (width, seeds) in enumerate(own.items()):
            shade = 0.25 + 0.75 * (place + 1) / len(own)
            for index, one in enumerate(seeds):
                label = f"{width} neurons" if index == 0 else None
                axes.plot(one["kept"], one["loss"], color=colour, alpha=shade, label=label)
        axes.axvline(content["setting"]["teacher"], color=plots.RED, linestyle=":")
        axes.set(title=f"{kind} students", xlabel="neurons kept", xscale="symlog", yscale="log")
        axes.set_xlim(left=0)
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("validation loss, variance of the target 1")
    return {"transition": figure}


EXPERIMENT = Experiment(
    name="student",
    shows="Students of any width, pruned by eigenvalues, change where they reach the teacher.",
    figures="The transition of arXiv 2310.12612, not of the paper",
    cost="40 trainings: 2 min on a GPU (estimated), 12 min on a busy core as recorded",
    quick_cost="4 trainings: 1 min on two cores",
    full=Setting(),
    quick=QUICK,
    run=run,
    draw=draw,
    claims=claims,
    page_names={"losses_with": losses_with},
)
