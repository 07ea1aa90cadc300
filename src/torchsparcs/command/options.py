"""The options of the command line that several commands share, and what they may say."""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from torchsparcs.command.console import say
from torchsparcs.report.html import check_place
from torchsparcs.searching.folder import check_folder
from torchsparcs.searching.result import SearchResult

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a search.")]
Pick = Annotated[
    str | None,
    typer.Option(
        metavar="best|smallest|linear|N",
        help="The network: by a rule or by its number in the table; by default as in the search.",
    ),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda")]
EngineName = Annotated[
    str,
    typer.Option("--engine", metavar="local|ray", help="Who does the work: this machine, or Ray."),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Of a running Ray cluster, with --engine ray."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the folder only.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def one_of(name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise typer.BadParameter(f"Expected {' or '.join(known)}. Got {value!r}.", param_hint=name)
    return value


def check_alone(context: typer.Context, option: str, *others: str) -> None:
    """A usage error where more was given than ``option`` and those that may go with it."""
    allowed = {name.removeprefix("--") for name in (option, *others)}
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"Expected nothing but {', '.join(others)} beside it: the other options are those "
                f"of the search that was begun. Got {name.replace('_', '-')}.",
                param_hint=option,
            )


def numbers(name: str, text: str | None, kind: type) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"Expected numbers with commas between them. Got {text!r}.", param_hint=name
        ) from None


def setting_with(setting: Any, data: str | None) -> Any:
    if data is None:
        return setting
    if not hasattr(setting, "data"):
        raise typer.BadParameter("This experiment makes its own data.", param_hint="--data")
    return dataclasses.replace(setting, data=data)


def validation_of(text: str) -> str | int | float:
    if text == "auto":
        return text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise typer.BadParameter(
            f"Expected auto, a share such as 0.2 or a number of folds. Got {text!r}.",
            param_hint="--validation",
        ) from None


def checked_device(name: str) -> str:
    if name != "auto":
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError, NotImplementedError):
            raise typer.BadParameter(
                f"Expected auto, cpu or a device that is here. Got {name!r}.", param_hint="--device"
            ) from None
    return name


def rule_of(result: SearchResult, pick: str | None) -> str | int:
    """What ``SearchResult.pick`` takes: that of the search by default."""
    if pick is None:
        return result.settings.get("pick", "smallest")
    return int(pick) if pick.isdecimal() else pick


def check_out(folder: Path, force: bool) -> None:
    """Before the work, what would only show after it."""
    with forcible():
        check_folder(folder, force=force)


def check_file(path: Path, force: bool) -> None:
    with forcible():
        check_place(path, force=force)


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C in work that goes on where it stopped."""
    try:
        yield
    except KeyboardInterrupt:
        say("What is done is kept: the same command goes on from here.")
        raise


@contextlib.contextmanager
def forcible() -> Iterator[None]:
    """Errors that say what to do in the words of the command line."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("force it", "use --force")) from error
