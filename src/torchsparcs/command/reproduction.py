"""An experiment of the paper done again: asked for, shown while it runs, and judged."""

import dataclasses
from collections.abc import Sequence
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
from torchsparcs.parallel.executor import engine_of

FILES = {
    "report.html": "the page to look at",
    "README.md": "the same in Markdown",
    "*.png, *.svg": "its figures",
    "results.json": "every number",
}


def list_experiments(*, quiet: bool) -> None:
    """Print what each shows, which figures it is and what it costs."""
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


def reproduce(
    name: str,
    out: Path | None,
    *,
    quick: bool,
    device: str,
    data: str | None,
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
    folder = Path("runs") / (f"{name}-quick" if quick else name) if out is None else out
    options = ["--quick"] * quick + [f"--device {device}"] * (device != "auto")
    try:
        with reworded():
            content = experiments.reproduce(
                experiment,
                folder,
                setting=_setting(experiment.quick if quick else experiment.full, data),
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


def _setting(setting: Any, data: str | None) -> Any:
    if data is None:
        return setting
    if not hasattr(setting, "data"):
        raise typer.BadParameter("This experiment makes its own data.", param_hint="--data")
    return dataclasses.replace(setting, data=data)


def _print_claims(console: Console, claims: Sequence[Claim]) -> None:
    """What was to be seen, what was seen, and whether that is the same."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("to be seen", "seen", ""):
        table.add_column(name, overflow="fold")
    for claim in claims:
        table.add_row(claim.says, claim.found, "yes" if claim.held else Text("no", "bold red"))
    console.print()
    console.print(table)
    console.print()
