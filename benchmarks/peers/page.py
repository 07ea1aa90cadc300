"""Write docs/comparison.md, its figure and what other pages say of it, from the recorded contests.

python benchmarks/peers/page.py
"""

import argparse
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean

import sentences
from figure import OURS, draw
from judging import (
    best_of,
    finished,
    is_teacher,
    mean_and_error,
    picked,
    smallest_student,
    verdict,
)
from marking import filled, rewrite
from recording import RESULTS
from records import Contest, read, runs_of, tasks_of
from running import CONTESTANTS


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def spread(values: list[float], digits: int) -> str:
    """Mean ± standard error."""
    middle, error = mean_and_error(values)
    return f"{middle:.{digits}f}" + (f" ± {error:.{digits}f}" if len(values) > 1 else "")


def onnx_of(runs: list[dict]) -> str:
    """What came of the export, which is tried under one seed."""
    return "; ".join(sorted({run["onnx"] for run in runs if "onnx" in run})) or "not tried"


def row(name: str, runs: list[dict]) -> list[str]:
    done = finished(runs)
    if not runs:
        return [name, "not run", *[""] * 6]
    if not done:
        return [name, f"failed: {runs[0]['error']}", *[""] * 6]
    best = [best_of(run) for run in done]
    return [
        name + (f" ({len(done)} of {len(runs)} seeds)" if len(done) < len(runs) else ""),
        spread([one["test"] for one in best], 4),
        f"{mean(one['parameters'] for one in best):,.0f}",
        f"{mean(run['trainings'] for run in done):.0f}",
        f"{mean(run['networks_trained'] for run in done):.0f}",
        spread([run["seconds"] for run in done], 0),
        f"{mean(run['peak_memory_mb'] for run in done):.0f}",
        onnx_of(done),
    ]


def task_table(contest: Contest, task: str) -> str:
    measured = ["trainings", "networks trained", "seconds", "peak MB", "ONNX"]
    rows = []
    for name in contest:
        runs = runs_of(contest, name, task)
        rows += [row(name, runs), *pick_row(name, runs)]
    return table(["", "test", "parameters", *measured], rows)


def pick_row(name: str, runs: list[dict]) -> list[list[str]]:
    """What a contestant hands out by default, where that is recorded of every seed."""
    picks = [picked(run) for run in finished(runs)]
    if not picks or None in picks:
        return []
    test = spread([one["test"] for one in picks], 4)
    size = f"{mean(one['parameters'] for one in picks):,.0f}"
    return [[f"{name}, default pick", test, size, *[""] * 5]]


def said_of(ours: list[dict], theirs: list[dict]) -> str:
    """The verdict on a peer's runs of a task, or why there is none."""
    if not theirs:
        return "not run"
    return str(verdict(finished(ours), finished(theirs))) if finished(theirs) else "failed"


def verdict_table(contest: Contest) -> str:
    tasks = tasks_of(contest)
    rows = [
        [name, *(said_of(runs_of(contest, OURS, task), by_task.get(task, [])) for task in tasks)]
        for name, by_task in contest.items()
        if name != OURS
    ]
    return table(["", *tasks], rows)


def losses(contest: Contest) -> str:
    """Where a peer is above our front at equal size by more than a standard error."""
    lines = []
    for task in tasks_of(contest):
        ours = finished(runs_of(contest, OURS, task))
        for name in contest:
            found = verdict(ours, finished(runs_of(contest, name, task)))
            if found.below:
                sizes = [gap.budget for gap in found.below]
                most = max(-gap.mean for gap in found.below)
                lines.append(
                    f"- {task}: {name} is above us at {len(sizes)} of {len(found.gaps)} sizes, "
                    f"between {min(sizes):,} and {max(sizes):,} parameters, by at most {most:.4f}."
                )
    return "\n".join(lines) or "Nowhere: no peer is above our front at any size."


def student(network: dict | None) -> str:
    """Its hidden layers, "20" or "20-8 with skips"."""
    if network is None:
        return "none"
    layers = "-".join(map(str, network["hidden"])) or "linear"
    return layers + " with skips" * network["skips"]


def teacher_table(contest: Contest) -> str:
    rows = []
    for name in contest:
        runs = runs_of(contest, name, "teacher_student")
        students = [smallest_student(run) for run in finished(runs)]
        if students:
            hits = f"{sum(map(is_teacher, students))} of {len(students)}"
            rows.append([name, "; ".join(map(student, students)), hits])
        else:
            rows.append([name, "failed" if runs else "not run", ""])
    return table(["", "hidden layers of the smallest with R² ≥ 0.999", "the teacher"], rows)


def machines(contest: Contest, task: str) -> dict[str, list[str]]:
    """Who ran a task on which hardware."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in contest:
        for hardware in {run["provenance"]["hardware"] for run in runs_of(contest, name, task)}:
            found[hardware].append(name)
    return dict(found)


def ran_on(contest: Contest, task: str) -> str:
    """The machine, or each with those who ran on it."""
    places = machines(contest, task)
    if len(places) == 1:
        return next(iter(places))
    return "; ".join(f"{place}: {', '.join(names)}" for place, names in places.items())


def provenance_table(contest: Contest) -> str:
    rows = []
    for task in tasks_of(contest):
        seeds = {run["seed"] for name in contest for run in runs_of(contest, name, task)}
        rows.append([task, str(len(seeds)), ran_on(contest, task)])
    return table(["", "seeds", "ran on"], rows)


def provenances(contest: Contest) -> list[dict]:
    by_tasks = contest.values()
    return [run["provenance"] for by in by_tasks for runs in by.values() for run in runs]


def versions(contest: Contest) -> str:
    """Of Python and of all packages that took part."""
    made = provenances(contest)
    pairs = {pair for one in made for pair in {**one["packages"], **one["versions"]}.items()}
    return ", ".join(f"{package} {version}" for package, version in sorted(pairs))


def commands(contest: Contest) -> str:
    lines = {
        f"- `{made['command']}`{', code ' * ('code' in made)}{made.get('code', '')}"
        for made in provenances(contest)
    }
    return "\n".join(sorted(lines))


def is_quick(contest: Contest) -> bool:
    """Whether any run was only a test of its script."""
    return any(run["quick"] for by in contest.values() for runs in by.values() for run in runs)


def page(contest: Contest) -> str:
    template = (Path(__file__).parent / "comparison.md").read_text()
    sections = [f"### {task}\n\n{task_table(contest, task)}" for task in tasks_of(contest)]
    parts = {
        "quick": "**Made with --quick: a test of the scripts, no measurement.**\n\n",
        "losses": losses(contest),
        "earlier": sentences.earlier(contest),
        "verdicts": verdict_table(contest),
        "teacher": teacher_table(contest),
        "tasks": "\n\n".join(sections),
        "provenance": provenance_table(contest),
        "versions": versions(contest),
        "commands": commands(contest),
    }
    if not is_quick(contest):
        parts["quick"] = ""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def readme(contest: Contest) -> str:
    """A row for each contestant, means over the tasks; times only beside ours on one machine."""
    tasks = tasks_of(contest)
    rows = [readme_row(contest, name, tasks) for name in contest]
    sizes, counts = f"{OURS} above / level / below, % of sizes", "trainings / networks trained"
    head = ["", sizes, counts, "time", "ONNX"]
    caption = (
        f"Means over {', '.join(tasks)}. Sizes are those of the neighbour's networks; level is "
        "within a standard error of the paired difference. A training begins with new weights; one "
        "of ours trains many networks as one. Times are multiples of ours, on the tasks that both "
        "ran on one core of the same machine, on the same day."
    )
    return f"\n\n{table(head, rows)}\n\n{caption}\n\n"


def readme_row(contest: Contest, name: str, tasks: list[str]) -> list[str]:
    done = {task: finished(runs_of(contest, name, task)) for task in tasks}
    done = {task: runs for task, runs in done.items() if runs}
    lost = f" ({len(done)} of {len(tasks)} tasks)" if len(done) < len(tasks) else ""
    if not done:
        return [f"{name}{lost}", *[""] * 4]
    exported = [onnx_of(runs) == "yes" for runs in done.values()]
    return [
        f"{name}{lost}",
        "" if name == OURS else standing(contest, name, done),
        " / ".join(
            f"{mean(mean(run[key] for run in runs) for runs in done.values()):.0f}"
            for key in ("trainings", "networks_trained")
        ),
        relative_time(contest, done),
        "yes" if all(exported) else f"{sum(exported)} of {len(exported)} tasks",
    ]


def relative_time(contest: Contest, done: dict[str, list[dict]]) -> str:
    """Seconds as a multiple of ours, mean over the tasks that ran on the same hardware."""
    ratios = []
    for task, runs in done.items():
        ours = finished(runs_of(contest, OURS, task))
        if ours and len({side_by_side(run) for run in (*ours, *runs)}) == 1:
            ratios.append(mean(r["seconds"] for r in runs) / mean(r["seconds"] for r in ours))
    some = f" ({len(ratios)} of {len(done)} tasks)" if len(ratios) < len(done) else ""
    return f"{mean(ratios):.1f}{some}" if ratios else ""


def side_by_side(run: dict) -> tuple[str, str]:
    """The machine and the day: of others the load may have been another."""
    return run["provenance"]["hardware"], run["provenance"]["date"]


def standing(contest: Contest, name: str, done: dict[str, list[dict]]) -> str:
    """Shares of the sizes at which we are above, level and below, mean over the tasks."""
    found = [verdict(finished(runs_of(contest, OURS, task)), done[task]) for task in done]
    shares = [one.shares for one in found if one.gaps]
    if not shares:
        return "no size in common"
    missing = f" ({len(shares)} of {len(found)} tasks)" if len(shares) < len(found) else ""
    return " / ".join(f"{100 * mean(one):.0f}" for one in zip(*shares, strict=True)) + missing


def times(contest: Contest) -> str:
    """Whom our search outlasts."""
    others = {
        name: float((readme_row(contest, name, tasks_of(contest))[3] or "nan").split(" ")[0])
        for name in contest
    }
    shorter = [name for name in others if others[name] < 1]
    known = [name for name in others if name != OURS and others[name] == others[name]]
    if not known:
        return f"**its time was not measured beside theirs**, {lost_somewhere(contest)}"
    who = "any of them" if len(shorter) == len(known) else f"{len(shorter)} of {len(known)} of them"
    return f"**it took longer than {who}**, {lost_somewhere(contest)}"


def lost_somewhere(contest: Contest) -> str:
    return "and lost at some sizes" if losses(contest).startswith("-") else "and lost nowhere"


SENTENCES = {
    "table": readme,
    "times": times,
    "teacher": sentences.teacher,
    "earlier": sentences.earlier,
    "over_linear": sentences.over_linear,
}
PAGES = ("../README.md", "concepts/limits.md")  # from the folder of the docs


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="the comparison, from what was recorded")
    parser.add_argument("--results", type=Path, default=RESULTS / "peers")
    parser.add_argument("--docs", type=Path, default=RESULTS.parent)
    options = parser.parse_args(arguments)
    contest = read(options.results, CONTESTANTS)
    if OURS not in contest:
        parser.error(f"expected runs of {OURS} in {options.results}. Got none")
    (options.docs / "figures").mkdir(parents=True, exist_ok=True)
    shown = {f"results/peers/{p.name}": p.read_bytes() for p in options.results.glob("*.json")}
    draw(contest, options.docs / "figures" / "comparison.svg", dict(sorted(shown.items())))
    (options.docs / "comparison.md").write_text(page(contest))
    for beside in (options.docs / name for name in PAGES):
        if beside.exists():
            rewrite(beside, filled(beside.read_text(), "peers", SENTENCES, contest))


if __name__ == "__main__":
    main()
