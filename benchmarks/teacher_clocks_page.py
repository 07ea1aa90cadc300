"""What the record of `teacher_clocks.py` says, as the page of results has it.

python benchmarks/teacher_clocks_page.py
"""

import json

from marking import between, filled, rewrite
from recording import RESULTS

NAME = "teacher_clocks"
WANTED = 20  # times
TEACHERS = {
    "scikit-learn": "scikit-learn's, as Python",
    "lightgbm": "LightGBM's, as Python",
    "scikit-learn, ONNX": "scikit-learn's, as ONNX",
    "lightgbm, ONNX": "LightGBM's, as ONNX",
}
NETWORKS = {"network, ONNX": "as ONNX", "network, C": "as C", "network": "as Python"}


def faster(table: dict, teacher: str, network: str) -> list[float]:
    """How many times faster the network is than the teacher, at each batch."""
    times = table["microseconds"]
    return [theirs / ours for theirs, ours in zip(times[teacher], times[network], strict=True)]


def rows_of(recorded: dict) -> str:
    """A row of the page for each table: parameters, microseconds of one row and of 1,024."""
    tables = recorded["tables"]
    names = [*next(iter(tables.values()))["microseconds"]]
    lines = [
        f"| {' | '.join(['table', 'parameters', *names])} |",
        "|" + " --- |" * (2 + len(names)),
    ]
    for name, table in tables.items():
        times = table["microseconds"].values()
        clocks = [", ".join(f"{t:,.{0 if t >= 10 else 2}f}" for t in each) for each in times]
        cells = [name, f"{table['parameters']:,}", *clocks]
        lines.append(f"| {' | '.join(cells)} |")
    packages = ", ".join(f"{name} {version}" for name, version in recorded["packages"].items())
    made = f"{recorded['hardware']}, {recorded['date']}; {packages}."
    return "\n\n" + "\n".join(lines) + f"\n\n{made}\n\n"


def times_faster(recorded: dict) -> str:
    """From how many times to how many, and on how many tables it is enough, form by form."""
    tables = recorded["tables"].values()
    lines = ["| network | boosting | at one row | at 1,024 |", "| --- | --- | --- | --- |"]
    for ours, own in NETWORKS.items():
        for theirs, whose in TEACHERS.items():
            cells = [own, whose]
            for times in zip(*(faster(table, theirs, ours) for table in tables), strict=True):
                enough = sum(time >= WANTED for time in times)
                cells.append(f"{between(times, ',.1f')} ({enough} of {len(times)})")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n\n" + "\n".join(lines) + "\n\n"


SENTENCES = {"table": rows_of, "faster": times_faster}


def main() -> None:
    recorded = json.loads((RESULTS / f"{NAME}.json").read_text())["cpu"]
    page = RESULTS.parent / "results.md"
    rewrite(page, filled(page.read_text(), NAME, SENTENCES, recorded))


if __name__ == "__main__":
    main()
