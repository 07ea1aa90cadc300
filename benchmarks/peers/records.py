"""Where runs are written down, and how they are read again.

`FOLDER/NAME.json` holds the runs of a contestant by task, each with its own provenance: runs of one
task may come from several commands and machines.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from contest import TASKS, Job

Contest = dict[str, dict[str, list[dict]]]  # runs by contestant and task


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '-')}.json"


def recorded(folder: Path, name: str) -> dict[str, list[dict]]:
    """The runs of a contestant by task, as far as there are any."""
    path = path_of(folder, name)
    return json.loads(path.read_text())["tasks"] if path.exists() else {}


def write_down(folder: Path, job: Job, run: dict) -> None:
    """Beside the other runs of the contestant, in place of an earlier one of the same seed."""
    tasks = recorded(folder, job.contestant)
    others = [one for one in tasks.get(job.task, []) if one["seed"] != job.seed]
    tasks[job.task] = sorted([*others, run], key=lambda one: one["seed"])
    path = path_of(folder, job.contestant)
    partial = path.with_suffix(".partial")
    folder.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps({"contestant": job.contestant, "tasks": tasks}, indent=1) + "\n")
    partial.replace(path)


def is_done(folder: Path, job: Job, code: str | None = None) -> bool:
    """Whether this run is recorded without an error, as quick or as thorough, and of this code."""
    return any(
        run["seed"] == job.seed
        and run["quick"] == job.quick
        and run["provenance"].get("code") == code
        and "error" not in run
        for run in recorded(folder, job.contestant).get(job.task, [])
    )


def read(folder: Path, names: Iterable[str]) -> Contest:
    """All that is recorded in a folder of those named, in their order."""
    names = list(names)
    unknown = set(folder.glob("*.json")) - {path_of(folder, name) for name in names}
    if unknown:
        raise ValueError(f"Expected records of {', '.join(names)}. Got {sorted(map(str, unknown))}")
    contest = {name: recorded(folder, name) for name in names}
    return {name: by_task for name, by_task in contest.items() if by_task}


def tasks_of(contest: Contest) -> list[str]:
    """Those that anybody ran."""
    return [task for task in TASKS if any(task in by_task for by_task in contest.values())]


def runs_of(contest: Contest, name: str, task: str) -> list[dict]:
    """None where the contestant did not run the task."""
    return contest[name].get(task, [])
