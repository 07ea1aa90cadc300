"""Write docs/comparison.md and its figures from the recorded contests.

python benchmarks/peers/page.py
"""

import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import matplotlib
from contest import RESULTS, TASKS, answer, front, mean_and_error

matplotlib.use("svg")
import matplotlib.pyplot as plt

OURS = "torchsparcs"
DOCS = RESULTS.parent
STYLES = {  # colours safe for colour-blind readers (Okabe and Ito), and a marker each
    OURS: ("#0072B2", "o"),
    "scikit-learn": ("#000000", "s"),
    "Optuna": ("#E69F00", "D"),
    "Torch-Pruning": ("#009E73", "v"),
    "GroMo": ("#D55E00", "^"),
    "neat-python": ("#999999", "x"),
    "OTO": ("#56B4E9", "P"),
    "direct space": ("#CC79A7", "<"),
    "DARTS": ("#8C6D1F", ">"),
}
ENOUGH = 0.999  # R² at which a student of the teacher counts as having found it
TRUTH = "20 → 20 → 20"


class Verdict(NamedTuple):
    """Our front beside a peer's at the sizes of the peer's networks."""

    sizes: int  # at which both hand out a network under every seed
    below: list[tuple[int, float, float]]  # budget, difference, its error: below by more than that
    smaller: bool  # the peer has networks below our smallest

    def __str__(self) -> str:
        if not self.sizes:
            return "no size in common"
        if not self.below:
            return f"at or above ({self.sizes})"
        worst = min(self.below, key=lambda one: one[1])
        return (
            f"**below** at {len(self.below)} of {self.sizes}, at most by {-worst[1]:.4f} ± "
            f"{worst[2]:.4f} ({worst[0]:,})"
        )


def recorded() -> dict[str, dict[str, list[dict]]]:
    """Runs by contestant and task, in the order of ``STYLES``."""
    paths = {path.stem: path for path in (RESULTS / "peers").glob("*.json")}
    unknown = set(paths) - set(STYLES)
    assert not unknown, f"no style for {unknown}"
    parts = {name: json.loads(paths[name].read_text()) for name in STYLES if name in paths}
    return {
        name: {task: runs for part in content.values() for task, runs in part["tasks"].items()}
        for name, content in parts.items()
    }


def finished(runs: list[dict]) -> list[dict]:
    return [run for run in runs if "error" not in run]


def budgets(runs: list[dict]) -> list[int]:
    """Sizes at which a contestant's answer changes under some seed, from where all seeds answer."""
    sizes = sorted({one["parameters"] for run in runs for one in front(run["found"])})
    least = max(front(run["found"])[0]["parameters"] for run in runs)
    return [size for size in sizes if size >= least]


def curve(runs: list[dict]) -> list[tuple[float, float, float]]:
    """Mean size, mean test score and its standard error, budget by budget."""
    points = []
    for budget in budgets(runs):
        found = [answer(run["found"], budget) for run in runs]
        score, error = mean_and_error([one["test"] for one in found])
        points.append((mean(one["parameters"] for one in found), score, error))
    return points


def verdict(ours: list[dict], theirs: list[dict]) -> Verdict:
    """At each of their budgets the mean over the seeds of our test score less theirs."""
    by_seed = {run["seed"]: run for run in ours}
    pairs = [(by_seed[run["seed"]], run) for run in theirs if run["seed"] in by_seed]
    below, sizes, smaller = [], 0, False
    for budget in budgets(theirs):
        answers = [(answer(a["found"], budget), answer(b["found"], budget)) for a, b in pairs]
        if any(mine is None for mine, _ in answers):
            smaller = True
            continue
        sizes += 1
        gap, error = mean_and_error([mine["test"] - other["test"] for mine, other in answers])
        if gap < -error:
            below.append((budget, gap, error))
    return Verdict(sizes, below, smaller)


def best_of(run: dict) -> dict:
    """The network that expects most, the smaller of two that expect the same."""
    return front(run["found"])[-1]


def spread(values: list[float], digits: int) -> str:
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def row(name: str, runs: list[dict]) -> str:
    done = finished(runs)
    if not done:
        return f"| {name} | failed: {runs[0]['error']} | | | | | | |"
    best = [best_of(run) for run in done]
    onnx = {run["onnx"] for run in done}
    cells = [
        name + (f" ({len(done)} of {len(runs)} seeds)" if len(done) < len(runs) else ""),
        spread([one["test"] for one in best], 4),
        f"{mean(one['parameters'] for one in best):,.0f}",
        f"{mean(run['trainings'] for run in done):.0f}",
        f"{mean(run['networks_trained'] for run in done):.0f}",
        spread([run["seconds"] for run in done], 0),
        f"{mean(run['peak_memory_mb'] for run in done):.0f}",
        "yes" if onnx == {"yes"} else "; ".join(sorted(onnx - {"yes"})),
    ]
    return f"| {' | '.join(cells)} |"


def task_table(contestants: dict[str, dict], task: str) -> str:
    head = (
        "| | best, test | parameters | trainings | networks trained | seconds | peak MB | ONNX |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    return "\n".join([head, *(row(n, of[task]) for n, of in contestants.items() if task in of)])


def verdict_table(contestants: dict[str, dict], tasks: list[str]) -> str:
    ours = contestants[OURS]
    lines = ["| | " + " | ".join(tasks) + " |", "| --- |" + " --- |" * len(tasks)]
    for name, by_task in contestants.items():
        if name == OURS:
            continue
        cells = [
            str(verdict(finished(ours[task]), finished(by_task[task])))
            if finished(by_task.get(task, []))
            else "failed"
            for task in tasks
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def losses(contestants: dict[str, dict], tasks: list[str]) -> str:
    """Where a peer is above our front at equal size by more than a standard error."""
    ours, lines = contestants[OURS], []
    for task in tasks:
        for name, by_task in contestants.items():
            if name == OURS or not finished(by_task.get(task, [])):
                continue
            found = verdict(finished(ours[task]), finished(by_task[task]))
            if found.below:
                sizes = [size for size, _, _ in found.below]
                gap = max(-gap for _, gap, _ in found.below)
                lines.append(
                    f"- {task}: {name} is above us at {len(sizes)} of {found.sizes} sizes, between "
                    f"{min(sizes):,} and {max(sizes):,} parameters, by at most {gap:.4f}."
                )
    return "\n".join(lines) or "Nothing: no peer is above our front at any size."


def teacher_table(contestants: dict[str, dict]) -> str:
    lines = ["| | smallest with R² ≥ 0.999, seed by seed | the teacher |", "| --- | --- | --- |"]
    for name, by_task in contestants.items():
        runs = finished(by_task.get("teacher_student", []))
        if not runs:
            continue
        good = [[one for one in front(run["found"]) if one["expected"] >= ENOUGH] for run in runs]
        shapes = [found[0]["architecture"] if found else "none" for found in good]
        hits = sum(shape == TRUTH for shape in shapes)
        told = "; ".join(
            re.sub(r"20 → (.*) → 20", r"\1", s) if ", " not in s else s for s in shapes
        )
        lines.append(f"| {name} | {told} | {hits} of {len(runs)} |")
    return "\n".join(lines)


def draw(contestants: dict[str, dict], tasks: list[str]) -> None:
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.4 * rows), squeeze=False)
    for axis, task in zip(axes.flat, tasks, strict=False):
        for name, by_task in contestants.items():
            runs = finished(by_task.get(task, []))
            if not runs:
                continue
            sizes, scores, errors = zip(*curve(runs), strict=True)
            colour, marker = STYLES[name]
            axis.errorbar(
                sizes,
                scores,
                yerr=[error if error < 1 else 0 for error in errors],
                color=colour,
                marker=marker,
                markersize=3.5,
                linewidth=2 if name == OURS else 1,
                elinewidth=0.6,
                label=name,
                zorder=3 if name == OURS else 2,
            )
        axis.set(title=task, xscale="log", xlabel="parameters", ylim=limits(contestants, task))
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tasks) :]:
        axis.axis("off")
    figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=5, loc="upper center", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.28 / rows))
    figure.savefig(DOCS / "figures" / "comparison.svg", metadata={"Date": None})


def limits(contestants: dict[str, dict], task: str) -> tuple[float, float]:
    """From a little below our linear models to a little above everybody's best."""
    top = max(
        score
        for by_task in contestants.values()
        if finished(by_task.get(task, []))
        for _, score, _ in curve(finished(by_task[task]))
    )
    scores = sorted(score for _, score, _ in curve(finished(contestants[OURS][task])))
    low = scores[len(scores) // 4]
    room = max(top - low, 0.02)
    return low - 0.15 * room, top + 0.15 * room


def page() -> str:
    contestants = recorded()
    tasks = [task for task in TASKS if task in contestants[OURS]]
    template = (Path(__file__).parent / "comparison.md").read_text()
    parts = {
        "losses": losses(contestants, tasks),
        "verdicts": verdict_table(contestants, tasks),
        "teacher": teacher_table(contestants),
        "tasks": "\n\n".join(f"### {task}\n\n{task_table(contestants, task)}" for task in tasks),
        "seeds": str(max(len(runs) for runs in contestants[OURS].values())),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def main() -> None:
    contestants = recorded()
    draw(contestants, [task for task in TASKS if task in contestants[OURS]])
    (DOCS / "comparison.md").write_text(page())


if __name__ == "__main__":
    main()
