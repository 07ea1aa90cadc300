"""Write docs/reproduction.md and its figures from the recorded results of ``sparcs reproduce``.

python benchmarks/reproduction.py
"""

import json
from dataclasses import asdict
from pathlib import Path

from recording import RESULTS

from torchsparcs import experiments
from torchsparcs.experiments import EXPERIMENTS, cifar10_narrow
from torchsparcs.experiments.verdicts import FILE, PARTS, verdict_of
from torchsparcs.experiments.writing import write_figures, written_page

DOCS = RESULTS.parent
HEAD = """# The paper, figure by figure

One command for each experiment; `sparcs reproduce --list` says what there is and what it costs, and
`--quick` runs a small version of it in minutes on two cores. Each writes its figures, a
`results.json` with every plotted number, and the page that stands here; called again after an
interruption it goes on where it stopped. What follows are full runs of the paper's own protocol,
and where a run is not, its section says so; the numbers are recorded in [docs/results](results).
"The paper" is G. Peri, L. Chicchi, D. Fanelli, L. Giambagli, *Spectral Architecture Search for
Neural Network Models*; figures and tables have the numbers of the printed paper. This page is
written by `benchmarks/reproduction.py`.
"""


OVERVIEW = """## What is reproduced

A figure, table or remark is *reproduced* if we saw everything that the paper claims of it, *in
part* if we saw some of it, and *not reproduced* if we saw none. Below, each experiment has a table
of these claims and of what was seen; "we" marks claims and limits that are our own, which do not
count here. [Differences](differences.md) lists where the paper says a thing in two ways.
"""


def recorded() -> dict[str, dict]:
    """The results by experiment, of those that have been run in full."""
    paths = {name: RESULTS / f"{name}.json" for name in EXPERIMENTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def reduced(name: str) -> dict[str, dict]:
    """The results of an experiment under other settings of it, by their file."""
    files = {path.stem: path.read_text() for path in sorted(RESULTS.glob(f"{name}-*.json"))}
    found = {stem: json.loads(text) for stem, text in files.items() if stem not in EXPERIMENTS}
    return {stem: content for stem, content in found.items() if content["experiment"] == name}


def begun() -> list[dict]:
    """The records under other settings of experiments that have not been run in full."""
    known = recorded()
    others = (reduced(name).values() for name in EXPERIMENTS if name not in known)
    return [content for own in others for content in own]


def variants(name: str) -> str:
    """What was seen of an experiment's claims under other settings of it."""
    parts = []
    for stem, content in reduced(name).items():
        rows = [
            f"| {claim.says} | {claim.found} | {'yes' if claim.held else '**no**'} |"
            for claim in EXPERIMENTS[name].claims(content)
        ]
        made = f"on {content['hardware']}, torch {content['versions']['torch']}, {content['date']}"
        head = [f"### {stem}", "", f"`{content['command']}` {made}; not in the verdicts.", ""]
        table = ["| to be seen | seen |  |", "| --- | --- | --- |", *rows, ""]
        parts.append("\n".join([*head, *table]))
    return "\n".join(parts)


def durations() -> str:
    """How long the full runs took, of those that were timed as a whole, machine by machine."""
    timed: dict[str, dict[str, float]] = {}
    for name, content in recorded().items():
        if seconds := content.get("wall_seconds"):
            timed.setdefault(content["hardware"], {})[name] = seconds
    sentences = []
    for hardware, runs in timed.items():
        each = ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in runs.items())
        sentences.append(f"On {hardware}: {each}, together {sum(runs.values()) / 60:.1f} minutes.")
    others = ", ".join(
        name for name in EXPERIMENTS if not any(name in runs for runs in timed.values())
    )
    told = f" No time of a whole run is recorded of {others}." * bool(others)
    return f"\nHow long full runs took. {' '.join(sentences)}{told}\n"


def narrow_extractors() -> str:
    """What CIFAR-10 on extractors of the paper's size would take, as long as it is not recorded."""
    known = recorded()
    if "cifar10" not in known or "cifar10-narrow" in known:
        return ""
    content, narrow = known["cifar10"], cifar10_narrow.Setting()
    runs = [one for own in content["results"]["runs"].values() for one in own.values()]
    seconds = sum(one["seconds"] for one in runs)
    epochs = content["setting"]["seeds"] * sum(len(one["accuracy"]) for one in runs)
    trials = (
        0.9 * len(narrow.extractors) * narrow.trial_seeds * narrow.trial_epochs
    )  # of the images
    each = narrow.chosen * narrow.seeds * narrow.epochs
    heads = {"linear": trials + each, "spectral": each * len(narrow.weights)}
    together = sum(heads.values()) * seconds / epochs
    alone = sum(
        count * content["results"]["resources"][name]["epoch_seconds"]
        for name, count in heads.items()
    )
    return (
        "\nCIFAR-10 is judged on an extractor of ours; `cifar10-narrow`, on extractors of the size "
        f"of the paper's, has not been run. `cifar10` trained for {seconds / 60:.0f} minutes on "
        f"{content['hardware']}, {seconds / epochs:.2f} s for an epoch of each model; at that rate "
        f"`cifar10-narrow` would take {together / 60:.0f} minutes there (estimated, not measured). "
        "Each head already trains all its seeds and weights in one captured step. A model alone "
        "takes less time for an epoch, but one after another they would still take "
        f"{alone / 60:.0f} minutes (estimated).\n"
    )


def verdicts() -> str:
    """What ``sparcs reproduce --list`` says of each figure and table."""
    known = {part.name: asdict(verdict_of(part, recorded(), begun())) for part in PARTS}
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"


def overview() -> str:
    """Figures and tables of the paper with their commands and verdicts."""
    lines = ["| of the paper | shows | command | verdict |", "| --- | --- | --- | --- |"]
    for part in PARTS:
        commands = ", ".join(f"`sparcs reproduce {name}`" for name in part.experiments)
        sentence = verdict_of(part, recorded(), begun()).sentence
        lines.append(f"| {part.name} | {part.shows} | {commands} | {sentence} |")
    return "\n".join([OVERVIEW, *lines, durations() + narrow_extractors()])


def shown_whole() -> dict[str, dict]:
    """What has a page with its figures: full runs and, where there is none, all others."""
    known = recorded()
    each = ({name: known[name]} if name in known else reduced(name) for name in EXPERIMENTS)
    return {stem: content for own in each for stem, content in own.items()}


def page() -> str:
    parts = [HEAD, overview()]
    for stem, content in shown_whole().items():
        experiment = EXPERIMENTS[content["experiment"]]
        text = written_page(experiment, content, figures=f"figures/{stem}/")
        parts.append(text.replace("# ", "## ", 1))
        parts += filter(None, [variants(stem)])
    return "\n".join(parts)


def main() -> None:
    for stem, content in shown_whole().items():
        folder, record = DOCS / "figures" / stem, f"results/{stem}.json"
        figures = EXPERIMENTS[content["experiment"]].draw(content)
        shown = {record: (DOCS / record).read_bytes()}
        write_figures(figures, folder, endings=("svg",), shown=shown)
    (DOCS / "reproduction.md").write_text(page())
    (Path(experiments.__file__).parent / FILE).write_text(verdicts())


if __name__ == "__main__":
    main()
