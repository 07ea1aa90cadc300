"""One JSON file a table: who did which split, with what outcome, and how it was made.

``units[method][split]`` is what the method returned with its seconds of one core; its ``run`` is
the place in ``runs`` of the command, date, hardware and versions that made it; those of ours
also have the digest of the library's code.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock
from recording import RESULTS

RECORDS = RESULTS / "tables"
UNSEEN = "unseen"  # the folder beside it, of tables on which nothing was chosen


class Unit(NamedTuple):
    """A piece of work."""

    table: str
    method: str
    split: int


def read(out: Path, names: Iterable[str] | None = None) -> dict[str, dict]:
    """The records of a folder by table."""
    paths = sorted(out.glob("*.json")) if names is None else [out / f"{n}.json" for n in names]
    return {path.stem: json.loads(path.read_text()) for path in paths if path.exists()}


def text_of(record: dict) -> str:
    """A line for each unit."""
    units = [
        f"  {json.dumps(method)}: {{\n"
        + ",\n".join(f"   {json.dumps(s)}: {json.dumps(unit)}" for s, unit in sorted(by.items()))
        + "\n  }"
        for method, by in sorted(record["units"].items())
    ]
    about = {key: value for key, value in record.items() if key != "units"}
    head = json.dumps(about, indent=1).removesuffix("\n}")
    return head + ',\n "units": {\n' + ",\n".join(units) + "\n }\n}\n"


def write(out: Path, name: str, record: dict) -> None:
    partial = out / f"{name}.partial"
    partial.write_text(text_of(record))
    partial.replace(out / f"{name}.json")


def has(record: dict | None, unit: Unit) -> bool:
    return record is not None and str(unit.split) in record["units"].get(unit.method, {})


def run_of(record: dict, unit: Unit) -> dict:
    """How a unit that is recorded was made."""
    return record["runs"][record["units"][unit.method][str(unit.split)]["run"]]


def add(out: Path, about: dict, unit: Unit, found: dict, made: dict) -> None:
    """Record what a unit came to; other commands may write to the same folder meanwhile."""
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / ".lock"):
        record = read(out, [unit.table]).get(unit.table, {**about, "runs": [], "units": {}})
        put(record, unit.method, unit.split, found, made)
        write(out, unit.table, record)


def put(record: dict, method: str, split: int, unit: dict, run: dict) -> None:
    """Add a unit, in place of an earlier one; runs that made nothing any more go."""
    record["units"].setdefault(method, {})[str(split)] = {**unit, "run": run}
    units = [unit for by in record["units"].values() for unit in by.values()]
    runs: list[dict] = []
    for unit in units:
        made = unit["run"] if isinstance(unit["run"], dict) else record["runs"][unit["run"]]
        if made not in runs:
            runs.append(made)
        unit["run"] = runs.index(made)
    record["runs"] = runs
