"""The command line, ``sparcs``: it parses, calls and prints."""

import io
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from torchsparcs.command import STOPPED, finished, loading
from torchsparcs.command.messages import is_first_here, one_line_warnings, processes, say, tell
from torchsparcs.command.options import (
    CHIPS,
    DATASETS,
    ENGINES,
    KINDS,
    RULES,
    SCORINGS,
    SIZES,
    TASKS,
    Address,
    Device,
    EngineName,
    Force,
    Quiet,
    Sheet,
    check_alone,
    checked_device,
    class_weight_of,
    max_bytes_of,
    numbers,
    one_of,
    pick_of,
    seconds_of,
    validation_of,
)
from torchsparcs.version import __version__

EXPECTED = (ValueError, TypeError, OSError, ImportError)
USAGE_ERROR = typer.BadParameter.__mro__[1]  # typer has its own click, or the system's
PATIENCE = 10  # seconds that others have to say what is wrong, before this process does

app = typer.Typer(
    help="The smallest neural network a table needs, found with one command.",
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


@app.command()
def search(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file: CSV, Parquet (or a folder of them), Excel, JSON lines, Feather or NPZ; "
            f"a database, sqlite:///FILE; or one of {', '.join(DATASETS)}.",
        ),
    ] = "digits",
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="The column to predict; several times for several. By default the one called "
            "target, label, class or y.",
        ),
    ] = None,
    sheet: Sheet = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="A column to leave out, such as an identifier; several times for several.",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=KIND",
            help=f"What a column is, where the data do not show it: {', '.join(KINDS)}, or its "
            "categories in their order, as in size=S,M,L.",
        ),
    ] = None,
    task: Annotated[str, typer.Option(metavar="|".join(TASKS))] = "auto",
    max_parameters: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Nothing larger is kept.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="N|2kB",
            help="Nothing is kept that takes more flash of the chip as generated C.",
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            metavar="|".join(SIZES),
            help="What the front is drawn against; bytes are those of flash.",
        ),
    ] = "parameters",
    chip: Annotated[
        str | None,
        typer.Option(metavar="|".join(CHIPS), help="Whose bytes; by default cortex-m4."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to write to; by default a new one in runs."),
    ] = None,
    pick: Annotated[
        str,
        typer.Option(
            metavar="|".join((*RULES, "cost:X")),
            help="The network to export: the best score, the smallest network within one standard "
            "error of it, or with --cost the best whose columns cost at most X.",
        ),
    ] = "smallest",
    validation: Annotated[
        str,
        typer.Option(
            metavar="SHARE|FOLDS|FOLDSxTIMES",
            help="The rows that judge: 0.2 of them, 4 folds, or 3x2, three folds dealt out twice.",
        ),
    ] = "auto",
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Rows of one group judge together: a patient, a machine. No input.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Later rows judge, by this column of dates or numbers."),
    ] = None,
    scoring: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"The score that chooses: {', '.join(SCORINGS)}, or a name that scikit-learn has. "
            "By default R², accuracy, or log loss where a class is rare.",
        ),
    ] = "auto",
    class_weight: Annotated[
        str | None,
        typer.Option(
            metavar="balanced|LABEL=X,LABEL=X", help="How much the rows of each class count."
        ),
    ] = None,
    no_calibration: Annotated[
        bool,
        typer.Option("--no-calibration", help="Leave probabilities as they were fitted."),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Rows to search on where there are twice as many; by default 15,000.",
        ),
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table of columns and what it costs to measure each: a second front, by that.",
        ),
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Hidden neurons, layer by layer, that may be used."),
    ] = None,
    penalty_weights: Annotated[
        str | None, typer.Option(metavar="X,X", help="Penalty weights to train with.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Steps of the training; by default by the rows."),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Train and prune as the paper writes, to compare with."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N")] = 0,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="30s|5m|1h", help="End by then with the best front so far."),
    ] = None,
    device: Device = "auto",
    engine: EngineName = "auto",
    address: Address = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Go on with a search that was interrupted; its options are known."
        ),
    ] = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Find the front of score against size for a table. It is written to a folder."""
    if address is not None and engine != "ray":
        raise typer.BadParameter("Expected --engine ray with it.", param_hint="--address")
    one_of("--engine", engine, ENGINES)
    if engine == "ray" and processes() > 1:
        raise ValueError("Expected torchrun or --engine ray. Got both.")
    if resume is not None:
        check_alone(context, "--resume", "--engine", "--address", "--quiet")
    options: dict[str, Any] = {
        "target": target[0] if target and len(target) == 1 else tuple(target or ()) or None,
        "sheet": sheet,
        "drop": tuple(drop or ()),
        "kinds": tuple(kind or ()),
        "task": task,
        "max_parameters": max_parameters,
        "max_bytes": max_bytes_of(max_bytes),
        "size": one_of("--size", size, SIZES),
        "chip": None if chip is None else one_of("--chip", chip, CHIPS),
        "pick": pick_of(pick, with_costs=cost is not None),
        "validation": validation_of(validation),
        "group": group,
        "time": time,
        "scoring": scoring,
        "class_weight": class_weight_of(class_weight),
        "calibrate": not no_calibration,
        "sample": sample,
        "widths": numbers("--widths", widths, int),
        "penalty_weights": numbers("--penalty-weights", penalty_weights, float),
        "steps": steps,
        "paper": paper,
        "seed": seed,
        "time_budget": seconds_of(time_budget),
    }
    with loading():
        from torchsparcs.command.console import open_console
        from torchsparcs.command.jobs import (
            Job,
            clear_leftovers,
            costs_in,
            folder_for,
            is_finished,
        )
        from torchsparcs.training.devices import started
    with started() as ranks:
        if resume is not None:
            if is_finished(resume):
                ranks.first(lambda: clear_leftovers(resume))
                say(f"{resume} is finished: sparcs show {resume} prints what was found.")
                return
            job, folder = Job.begun_in(resume), resume
        else:
            costs = None if cost is None else costs_in(cost)
            job = Job(data, **options, costs=costs, device=checked_device(device))
            folder = ranks.first(lambda: folder_for(job.data, out, force))
        console = open_console(quiet or not ranks.is_first)
        job.run(
            folder,
            console,
            resume=resume is not None,
            engine=engine,
            address=address,
            progress=not quiet,
        )
        if quiet and ranks.is_first:
            tell(str(folder))


app.command()(finished.show)
app.command(name="report")(finished.write_report)
app.command()(finished.predict)
app.command()(finished.export)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The experiment; --list shows them.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version that shows the same in minutes.")
    ] = False,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder to write to; by default runs/NAME or runs/NAME-quick."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where the images are, for experiments that need some."),
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another value of its setting, as in penalty=l1 or betas=5,20; several times for "
            "several.",
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="Say what there is, and what of the paper is reproduced."),
    ] = False,
    quiet: Quiet = False,
    force: Annotated[
        bool, typer.Option("--force", help="Measure again what the folder has from before.")
    ] = False,
) -> None:
    """Reproduce an experiment of the paper. It is resumable, and writes figures and a page."""
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
