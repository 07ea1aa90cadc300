"""An experiment of the paper done again: asked for, shown while it runs, and judged."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchsparcs import experiments
from torchsparcs.command.console import open_console, pairs
from torchsparcs.command.messages import reworded, say, tell
from torchsparcs.command.options import checked_device
from torchsparcs.experiments.experiment import Claim
from torchsparcs.experiments.verdicts import PARTS, Verdict, recorded_verdicts
from torchsparcs.parallel.executor import engine_of

FILES = {
    "report.html": "the page to look at",
    "README.md": "the same in Markdown",
    "*.png, *.svg": "its figures",
    "results.json": "every number",
}


def list_experiments(*, quiet: bool) -> None:
    """Print what each shows and costs, then every figure and table with its verdict."""
    console = open_console(quiet)
    for name, experiment in experiments.EXPERIMENTS.items():
        console.print(Text(name, "bold"))
        facts = {
            "shows": experiment.shows,
            "is": experiment.figures,
            "full": experiment.cost,
            "--quick": experiment.quick_cost,
        }
        console.print(pairs(facts))
    console.print()
    known = recorded_verdicts()
    console.print(_verdicts(known))
    for name, verdict in known.items():
        if verdict.sentence != verdict.word:
            console.print()
            console.print(Text(f"{name}: {verdict.sentence}"))


def _verdicts(known: Mapping[str, Verdict]) -> Table:
    """Figures and tables of the paper, the commands that repeat them, and what came of it."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("of the paper", "shows", "sparcs reproduce", "verdict"):
        table.add_column(name, overflow="fold")
    for part in PARTS:
        table.add_row(part.name, part.shows, ", ".join(part.experiments), known[part.name].word)
    return table


def reproduce(
    name: str,
    out: Path | None,
    *,
    quick: bool,
    device: str,
    data: str | None,
    changes: Sequence[str],
    engine: str,
    address: str | None,
    quiet: bool,
    force: bool,
) -> None:
    """Run the experiment ``name`` and print which of its claims were seen."""
    if name not in experiments.EXPERIMENTS:
        known = ", ".join(experiments.EXPERIMENTS)
        raise typer.BadParameter(f"Expected one of {known}. Got {name!r}.", param_hint="NAME")
    experiment, console = experiments.EXPERIMENTS[name], open_console(quiet)
    named = "-".join([name, *["quick"] * quick, *changes])
    folder = Path("runs") / named if out is None else out
    options = ["--quick"] * quick + [f"--device {device}"] * (device != "auto")
    options += [f"--set {change}" for change in changes]
    try:
        with reworded():
            content = experiments.reproduce(
                experiment,
                folder,
                setting=_setting(experiment.quick if quick else experiment.full, data, changes),
                device=checked_device(device),
                engine=engine_of(engine, address),
                command=" ".join(["sparcs reproduce", name, *options]),
                force=force,
                progress=console.is_terminal and not quiet,
                report=console.print,
            )
    except KeyboardInterrupt:
        say("What is done is kept: the same command goes on from here.")
        raise
    _print_claims(console, experiment.claims(content))
    console.print(f"In {folder}:")
    console.print(pairs(FILES))
    if quiet:
        tell(str(folder))


def _setting(setting: Any, data: str | None, changes: Sequence[str]) -> Any:
    changed = dict(_change(setting, change) for change in changes)
    setting = dataclasses.replace(setting, **changed)
    if data is None:
        return setting
    if not hasattr(setting, "data"):
        raise typer.BadParameter("This experiment makes its own data.", param_hint="--data")
    return dataclasses.replace(setting, data=data)


def _change(setting: Any, text: str) -> tuple[str, Any]:
    """The name and the new value of ``NAME=VALUE``, of the kind that the setting has there."""
    name, is_there, value = text.partition("=")
    known = [field.name for field in dataclasses.fields(setting) if field.name != "data"]
    if not is_there or name not in known:
        raise typer.BadParameter(
            f"Expected NAME=VALUE with a name among {', '.join(known)}. Got {text!r}.",
            param_hint="--set",
        )
    old = getattr(setting, name)
    kind = type(old[0] if isinstance(old, tuple) else old)
    try:
        if not isinstance(old, tuple):
            return name, kind(value)
        if kind is not tuple:
            return name, tuple(kind(part) for part in value.split(","))
    except ValueError:
        pass
    words = f"values like {','.join(map(str, old))}" if isinstance(old, tuple) else kind.__name__
    raise typer.BadParameter(f"Expected {name} as {words}. Got {value!r}.", param_hint="--set")


def _print_claims(console: Console, claims: Sequence[Claim]) -> None:
    """What was to be seen, what was seen, and whether that is the same."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("to be seen", "says", "seen", ""):
        table.add_column(name, overflow="fold")
    for claim in claims:
        held = "yes" if claim.held else Text("no", "bold red")
        table.add_row(claim.says, ", ".join(claim.of) or "we", claim.found, held)
    console.print()
    console.print(table)
    console.print()
