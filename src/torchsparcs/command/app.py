"""The command line, ``sparcs``: it parses, calls and prints."""

import io
import os
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from torchsparcs.command import STOPPED, finished, loading, searching
from torchsparcs.command.messages import is_first_here, one_line_warnings, processes, say
from torchsparcs.command.options import (
    ENGINES,
    Address,
    Device,
    EngineName,
    Quiet,
    one_of,
)
from torchsparcs.version import __version__

EXPECTED = (ValueError, TypeError, OSError, ImportError)
USAGE_ERROR = typer.BadParameter.__mro__[1]  # typer has its own click, or the system's
PATIENCE = 10  # seconds that others have to say what is wrong, before this process does

app = typer.Typer(
    help="Finds small neural networks for tables.",
    epilog="sparcs --version prints the version.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes as long to load as all the rest of the help
    context_settings={"help_option_names": ["-h", "--help"]},
)


def invoke(arguments: list[str] | None = None) -> NoReturn:
    """Parse the arguments, call the command and exit; errors are one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an arrow must not stop an old terminal
            stream.reconfigure(errors="replace")
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--version"]:  # for an option typer would load pydantic
        typer.echo(f"torchsparcs {__version__}")
        sys.exit(0)
    command = typer.main.get_command(app)
    try:
        with one_line_warnings():
            code = command.main(arguments, prog_name="sparcs", standalone_mode=False) or 0
    except Exception as error:
        if not is_first_here():  # where the first one has failed alike, torchrun ends this one
            time.sleep(PATIENCE)
        code = _explain(error)
    if code == STOPPED and is_first_here():
        say("stopped")
    sys.exit(code)


app.command()(searching.search)
app.command()(finished.show)
app.command(name="report")(finished.write_report)
app.command()(finished.predict)
app.command()(finished.export)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The experiment; --list shows them.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder to write to; by default runs/NAME or runs/NAME-quick."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The images, for experiments that need some."),
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting, as in penalty=l1 or betas=5,20; repeat for several.",
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="List the experiments, and what of the paper is reproduced."),
    ] = False,
    quiet: Quiet = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Start anew, instead of going on with what the folder has."),
    ] = False,
) -> None:
    """Repeat an experiment of the paper. Writes figures and a page; can be resumed."""
    if processes() > 1:
        raise ValueError("Expected one process. Got several: use --engine ray for more.")
    one_of("--engine", engine, ENGINES)
    with loading():
        from torchsparcs.command import reproduction
    if list_ or name is None:
        reproduction.list_experiments(quiet=quiet)
        return
    reproduction.reproduce(
        name,
        out,
        quick=quick,
        device=device,
        data=data,
        changes=set_ or (),
        engine=engine,
        address=address,
        quiet=quiet,
        force=force,
    )


# --- what went wrong ---


def _explain(error: Exception) -> int:
    """Say what went wrong in one line; the exit code."""
    if isinstance(error, USAGE_ERROR):
        message = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message)
            return 2
        context = getattr(error, "ctx", None)
        place = "sparcs" if context is None else context.command_path
        say(f"{message} ({place} --help explains.)", "error")
        return 2
    if os.environ.get("SPARCS_DEBUG"):
        raise error
    if _is_expected(error):
        say(str(error) or type(error).__name__, "error")
    else:
        where = "set SPARCS_DEBUG=1 to see where"
        say(f"unexpected {type(error).__name__}: {error}; {where}", "error")
    return 1


def _is_expected(error: Exception) -> bool:
    if isinstance(error, EXPECTED):
        return True
    from torchsparcs.training.loop import NonFiniteLossError

    return isinstance(error, NonFiniteLossError)
