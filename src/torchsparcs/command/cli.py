"""The command line, ``sparcs``: it parses, calls and prints."""

import io
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from torchsparcs.command.console import (
    RULES,
    one_line_warnings,
    open_console,
    print_claims,
    print_experiment_files,
    print_experiments,
    print_facts,
    print_front,
    say,
    summary,
)
from torchsparcs.command.jobs import Job, folder_for, is_finished
from torchsparcs.command.options import (
    Address,
    Device,
    EngineName,
    Force,
    Pick,
    Quiet,
    Run,
    check_alone,
    check_file,
    checked_device,
    forcible,
    numbers,
    one_of,
    resumable,
    rule_of,
    setting_with,
    validation_of,
)
from torchsparcs.export.formats import FORMATS
from torchsparcs.files.checkpoints import write_atomically
from torchsparcs.parallel.engines import ENGINES, engine_of
from torchsparcs.searching.result import load_result
from torchsparcs.tables.datasets import BUILT_IN, load_dataset
from torchsparcs.tables.readers import WRITERS, read_table
from torchsparcs.tables.target import CHOICES
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.ranks import is_first_here, started
from torchsparcs.version import __version__

EXPECTED = (ValueError, TypeError, OSError, ImportError, NonFiniteLossError)
USAGE_ERROR = typer.BadParameter.__mro__[1]  # typer has its own click, or the system's
STOPPED = 130  # the exit code after Ctrl-C
PATIENCE = 10  # seconds that others have to say what is wrong, before this process does

app = typer.Typer(
    help="The smallest neural network a table needs, found in one training run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command, with the arguments of the process by default, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an arrow must not stop an old terminal
            stream.reconfigure(errors="replace")
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


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"torchsparcs {__version__}")
        raise typer.Exit


@app.command()
def search(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help=f"A CSV, Parquet or NPZ file, or one of {', '.join(BUILT_IN)}.",
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
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="A column to leave out, such as an identifier; several times for several.",
        ),
    ] = None,
    task: Annotated[str, typer.Option(metavar="|".join(CHOICES[:3]))] = "auto",
    max_parameters: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Nothing larger is kept.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to write to; by default a new one in runs."),
    ] = None,
    pick: Annotated[
        str,
        typer.Option(
            metavar="|".join(RULES),
            help="The network to export: the best score, or the smallest network within one "
            "standard error of it.",
        ),
    ] = "smallest",
    validation: Annotated[
        str,
        typer.Option(metavar="SHARE|FOLDS", help="The rows that judge: 0.2 of them, or 4 folds."),
    ] = "auto",
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
    seed: Annotated[int, typer.Option(min=0, metavar="N")] = 0,
    device: Device = "auto",
    engine: EngineName = "local",
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
    """Find the front of score against size for a table, and write it to a folder."""
    if address is not None and engine != "ray":
        raise typer.BadParameter("Expected --engine ray with it.", param_hint="--address")
    if engine == "ray" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("Expected torchrun or --engine ray. Got both.")
    with started() as ranks:
        if resume is not None:
            check_alone(context, "--resume", "--engine", "--address", "--quiet")
            if is_finished(resume):
                say(f"{resume} is finished: sparcs show {resume} prints what was found.")
                return
            job, folder = Job.begun_in(resume), resume
        else:
            job = Job(
                data,
                target=target[0] if target and len(target) == 1 else tuple(target or ()) or None,
                drop=tuple(drop or ()),
                task=task,
                max_parameters=max_parameters,
                pick=one_of("--pick", pick, RULES),
                validation=validation_of(validation),
                widths=numbers("--widths", widths, int),
                penalty_weights=numbers("--penalty-weights", penalty_weights, float),
                steps=steps,
                seed=seed,
                device=checked_device(device),
            )
            folder = ranks.first(lambda: folder_for(job.data, out, force))
        console = open_console(quiet or not ranks.is_first)
        job.run(
            folder,
            console,
            resume=resume is not None,
            engine=one_of("--engine", engine, ENGINES),
            address=address,
            progress=console.is_terminal and not quiet,
        )
        if quiet and ranks.is_first:
            typer.echo(folder)


@app.command()
def show(run: Run) -> None:
    """Print the front of a search and what it was found with."""
    result, console = load_result(run), open_console()
    settings, preprocessing = result.settings, result.preprocessing
    name = settings.get("data", run.name)
    columns = len(preprocessing.inputs.columns)
    console.print(summary(name, settings["rows"], columns, preprocessing.target))
    print_front(console, result, settings.get("pick", "smallest"))
    print_facts(console, settings)


@app.command(name="report")
def write_report(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="By default report.html in the run folder."),
    ] = None,
    force: Force = False,
) -> None:
    """Write the page about a search: one file, for any browser."""
    result = load_result(run)
    path = run / "report.html" if out is None else out
    if out is not None:
        check_file(path, force)
    result.report(path, folder=run, force=True)
    typer.echo(f"{path.stat().st_size / 1e6:.1f} MB in {path}")


@app.command()
def predict(
    run: Run,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A file with the columns, or a built-in name.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .csv or .parquet file, instead of printing."
        ),
    ] = None,
    pick: Pick = None,
    force: Force = False,
) -> None:
    """Predict every row of a table, as CSV: the prediction and the probability of each class."""
    ending = ".csv" if output is None else output.suffix.lower()
    if ending not in WRITERS:
        raise ValueError(f"Expected a file that ends in {', '.join(WRITERS)}. Got {str(output)!r}.")
    if output is not None:
        check_file(output, force)
    result = load_result(run)
    table = load_dataset(data).X if data in BUILT_IN else read_table(data)
    table.columns = [str(column) for column in table.columns]
    raw = result.outputs(table, rule_of(result, pick))
    content = WRITERS[ending](result.preprocessing.target.predictions(raw))
    if output is None:
        typer.echo(content, nl=False)
        return
    write_atomically(output, lambda file: file.write(content))
    typer.echo(f"{len(raw):,} rows in {output}")


@app.command()
def export(
    run: Run,
    pick: Pick = None,
    format: Annotated[str, typer.Option(metavar="onnx|safetensors|torch")] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="By default model-PICK in the run folder."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write one network as a file that runs elsewhere."""
    if format not in FORMATS:
        raise typer.BadParameter(
            f"Expected one of {', '.join(FORMATS)}. Got {format!r}.", param_hint="--format"
        )
    ending, write, note = FORMATS[format]
    if output is not None and output.suffix.lower() != ending:
        raise ValueError(
            f"Expected a file that ends in {ending} for the format {format}. Got {str(output)!r}."
        )
    result = load_result(run)
    rule = rule_of(result, pick)
    candidate = result.pick(rule)
    path = run / f"model-{rule}{ending}" if output is None else output
    check_file(path, force)
    write(result.deployed(candidate), path)
    typer.echo(f"{candidate.architecture}: {candidate.parameters:,} parameters in {path}")
    typer.echo(note.format(settings=run / "settings.json", path=str(path)))


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
    list_: Annotated[bool, typer.Option("--list", help="Say what there is.")] = False,
    quiet: Quiet = False,
    force: Annotated[
        bool, typer.Option("--force", help="Measure again what the folder has from before.")
    ] = False,
) -> None:
    """Reproduce an experiment of the paper: figures, results.json and a page. Resumable."""
    from torchsparcs import experiments

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("Expected one process. Got several: use --engine ray for more.")
    console = open_console(quiet)
    if list_ or name is None:
        print_experiments(console, experiments.EXPERIMENTS)
        return
    if name not in experiments.EXPERIMENTS:
        known = ", ".join(experiments.EXPERIMENTS)
        raise typer.BadParameter(f"Expected one of {known}. Got {name!r}.", param_hint="NAME")
    experiment = experiments.EXPERIMENTS[name]
    folder = Path("runs") / (f"{name}-quick" if quick else name) if out is None else out
    options = ["--quick"] * quick + [f"--device {device}"] * (device != "auto")
    with forcible(), resumable():
        content = experiments.reproduce(
            experiment,
            folder,
            setting=setting_with(experiment.quick if quick else experiment.full, data),
            device=checked_device(device),
            engine=engine_of(one_of("--engine", engine, ENGINES), address),
            command=" ".join(["sparcs reproduce", name, *options]),
            force=force,
            progress=console.is_terminal and not quiet,
            report=console.print,
        )
    print_claims(console, experiment.claims(content))
    print_experiment_files(console, folder)
    if quiet:
        typer.echo(folder)


# --- what went wrong ---


def _explain(error: Exception) -> int:
    """Say what went wrong in one line; the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return 2  # the help was printed
    if isinstance(error, USAGE_ERROR):
        context = getattr(error, "ctx", None)
        place = "sparcs" if context is None else context.command_path
        say(f"{error.format_message()} ({place} --help explains.)", "error")  # type: ignore[attr-defined]
        return 2
    if os.environ.get("SPARCS_DEBUG"):
        raise error
    if isinstance(error, EXPECTED):
        say(str(error) or type(error).__name__, "error")
    else:
        where = "set SPARCS_DEBUG=1 to see where"
        say(f"unexpected {type(error).__name__}: {error}; {where}", "error")
    return 1


if __name__ == "__main__":
    main()
