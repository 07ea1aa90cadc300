"""The command line, ``sparcs``: it parses, calls and prints."""

import contextlib
import dataclasses
import io
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import torchsparcs
from torchsparcs.checkpoints import write_atomically
from torchsparcs.datasets import BUILT_IN, load_dataset, read_table
from torchsparcs.deployment import DeployedNetwork
from torchsparcs.export import to_onnx
from torchsparcs.result import Candidate, SearchResult, load_result
from torchsparcs.runs import check_folder
from torchsparcs.saving import save
from torchsparcs.search import SearchConfig
from torchsparcs.search import search as run_search
from torchsparcs.tables import quoted
from torchsparcs.target import CHOICES, Target
from torchsparcs.training import NonFiniteLossError

RULES = ("best", "smallest")
EXPECTED = (ValueError, TypeError, OSError, ImportError, NonFiniteLossError)
USAGE_ERROR = typer.BadParameter.__mro__[1]  # typer has its own click, or the system's
STOPPED = 130  # the exit code after Ctrl-C
PIPE_WIDTH = 1000  # outside a terminal nothing is wrapped
NARROW = 120  # below it a row of the table takes two lines
FEW_COLUMNS = 10  # are named, more are counted
FILES = {
    "model.onnx": "the picked network with its preprocessing",
    "front.csv, .json": "the front",
    "networks/": "its networks, safetensors",
    "settings.json": "configuration, versions, preprocessing",
    "history.json, .safetensors": "the training",
}

app = typer.Typer(
    help="The smallest neural network a table needs, found in one training run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a search.")]
Pick = Annotated[
    str | None,
    typer.Option(
        metavar="best|smallest|N",
        help="The network: by a rule or by its number in the table; by default as in the search.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def main(arguments: list[str] | None = None) -> None:
    """Run the command, with the arguments of the process by default, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an arrow must not stop an old terminal
            stream.reconfigure(errors="replace")
    command = typer.main.get_command(app)
    try:
        with _one_line_warnings():
            code = command.main(arguments, prog_name="sparcs", standalone_mode=False) or 0
    except Exception as error:
        code = _explain(error)
    if code == STOPPED:
        _say("stopped")
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"torchsparcs {torchsparcs.__version__}")
        raise typer.Exit


@app.command()
def search(
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
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the folder only.")] = False,
    force: Force = False,
) -> None:
    """Find the front of score against size for a table, and write it to a folder."""
    if pick not in RULES:
        raise typer.BadParameter(
            f"Expected {' or '.join(RULES)}. Got {pick!r}.", param_hint="--pick"
        )
    options: dict[str, Any] = {
        "widths": _numbers("--widths", widths, int),
        "penalty_weights": _numbers("--penalty-weights", penalty_weights, float) or "auto",
        "validation": _validation(validation),
        "device": _device(device),
        "max_parameters": max_parameters,
        "config": None if steps is None else SearchConfig(steps=steps, longest=steps),
        "seed": seed,
        "task": task,
    }
    if out is not None:
        _check_out(out, force)
    dataset = load_dataset(data, target[0] if target and len(target) == 1 else target or None)
    if out is None:
        _check_out(_free_folder(dataset.name, force), force)
    console = _console(quiet)
    rows, columns = dataset.X.shape
    console.print(_summary(data, rows, columns, Target.fit(dataset.y, task)))
    result = run_search(dataset.X, dataset.y, progress=console.is_terminal and not quiet, **options)
    asked = {
        "data": data,
        "target": dataset.target,
        "pick": pick,
        "version": torchsparcs.__version__,
    }
    result = dataclasses.replace(result, settings={**result.settings, **asked})
    folder = _free_folder(dataset.name, force) if out is None else out
    result.save(folder, force=force)
    lacking = _onnx_or_reason(result, pick, folder / "model.onnx")
    _print_front(console, result, pick)
    _print_files(console, folder, lacking)
    if quiet:
        typer.echo(folder)


@app.command()
def show(run: Run) -> None:
    """Print the front of a search and what it was found with."""
    result, console = load_result(run), _console()
    settings, preprocessing = result.settings, result.preprocessing
    name = settings.get("data", run.name)
    columns = len(preprocessing.inputs.columns)
    console.print(_summary(name, settings["rows"], columns, preprocessing.target))
    _print_front(console, result, settings.get("pick", "smallest"))
    facts = {
        "searched": f"up to {' → '.join(map(str, settings['widths']))}, seed {settings['seed']}",
        "judged": f"on {settings['judged_rows']:,} held-out rows",
        "took": f"{settings['seconds']:.0f} s on {settings['device']}",
        "version": f"torchsparcs {settings.get('version', 'unknown')}",
    }
    console.print(_pairs(facts))


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
        _check_file(output, force)
    result = load_result(run)
    table = load_dataset(data).X if data in BUILT_IN else read_table(data)
    table.columns = [str(column) for column in table.columns]
    raw = result.outputs(table, _rule(result, pick))
    content = WRITERS[ending](_predictions(table, result, raw))
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
    result = load_result(run)
    rule = _rule(result, pick)
    candidate = result.pick(rule)
    path = run / f"model-{rule}{ending}" if output is None else output
    _check_file(path, force)
    write(result, candidate, path)
    typer.echo(f"{candidate.architecture}: {candidate.parameters:,} parameters in {path}")
    typer.echo(note.format(settings=run / "settings.json", path=str(path)))


# --- what the options say ---


def _numbers(name: str, text: str | None, kind: type) -> list[Any] | None:
    if text is None:
        return None
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"Expected numbers with commas between them. Got {text!r}.", param_hint=name
        ) from None


def _validation(text: str) -> str | int | float:
    if text == "auto":
        return text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise typer.BadParameter(
            f"Expected auto, a share such as 0.2 or a number of folds. Got {text!r}.",
            param_hint="--validation",
        ) from None


def _device(name: str) -> str:
    if name != "auto":
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError, NotImplementedError):
            raise typer.BadParameter(
                f"Expected auto, cpu or a device that is here. Got {name!r}.", param_hint="--device"
            ) from None
    return name


def _rule(result: SearchResult, pick: str | None) -> str | int:
    """What ``SearchResult.pick`` takes: that of the search by default."""
    if pick is None:
        return result.settings.get("pick", "smallest")
    return int(pick) if pick.isdecimal() else pick


# --- where to write ---


def _free_folder(name: str, force: bool) -> Path:
    """runs/NAME, or where that has files in it runs/NAME-2 and so on."""
    names = (f"{name}-{number}" if number > 1 else name for number in count(1))
    folders = (Path("runs") / (name or "data") for name in names)
    return next(folder for folder in folders if force or not _is_taken(folder))


def _is_taken(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _check_out(folder: Path, force: bool) -> None:
    """Before the work, what would only show after it."""
    try:
        check_folder(folder, force=force)
    except ValueError as error:
        raise ValueError(str(error).replace("force it", "use --force")) from error
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ValueError(f"Expected a folder to write to. {nearest} is a file, or read-only.")


def _check_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise ValueError(f"Expected a file to write to. {path} is a folder.")
    if path.exists() and not force:
        raise ValueError(
            f"Expected a file that is not there yet. {path} is: choose another, or use --force."
        )


# --- what is written ---


def _predictions(table: Any, result: SearchResult, raw: torch.Tensor) -> Any:
    """The DataFrame ``table`` with other columns: what ``raw`` (rows, outputs) says of its rows."""
    target = result.preprocessing.target
    predicted = target.predict(raw)
    if predicted.ndim == 2:
        columns = {f"prediction_{name}": predicted[:, i] for i, name in enumerate(target.names)}
    else:
        columns = {"prediction": predicted}
    if target.classes is not None:
        probabilities = target.probabilities(raw)
        for index, label in enumerate(target.classes):
            columns[f"probability_{label}"] = probabilities[:, index]
    return table[[]].assign(**columns)


def _csv(frame: Any) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()


def _parquet(frame: Any) -> bytes:
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    return content.getvalue()


WRITERS: dict[str, Callable[[Any], bytes]] = {".csv": _csv, ".parquet": _parquet}


def _example(result: SearchResult) -> torch.Tensor:
    """Two rows of encoded columns in their own units."""
    inputs = result.preprocessing.inputs
    mean, scale = torch.tensor(inputs.mean), torch.tensor(inputs.scale)
    return torch.stack([mean, mean + scale])


def _to_onnx(result: SearchResult, candidate: Candidate, path: Path) -> None:
    target = result.preprocessing.target
    metadata = {
        "columns": result.preprocessing.inputs.encoded_names,
        "target": target.names,
        "task": target.task,
        "classes": target.classes,
        "version": f"torchsparcs {torchsparcs.__version__}",
    }
    to_onnx(
        DeployedNetwork(candidate.network, result.preprocessing),
        path,
        example=_example(result),
        metadata={
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in metadata.items()
        },
    )


def _to_safetensors(result: SearchResult, candidate: Candidate, path: Path) -> None:
    save(candidate.network, path)


def _to_program(result: SearchResult, candidate: Candidate, path: Path) -> None:
    program = torch.export.export(
        DeployedNetwork(candidate.network, result.preprocessing).eval(),
        (_example(result),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )
    write_atomically(path, lambda file: torch.export.save(program, file))


# The ending of the file, what writes it, and what to say about it.
FORMATS: dict[str, tuple[str, Callable[[SearchResult, Candidate, Path], None], str]] = {
    "onnx": (
        ".onnx",
        _to_onnx,
        "It takes the columns in their own units; their names are in its metadata.",
    ),
    "safetensors": (
        ".safetensors",
        _to_safetensors,
        "It takes standardised columns: the preprocessing is in {settings}. "
        "torchsparcs.load reads it.",
    ),
    "torch": (
        ".pt2",
        _to_program,
        "It takes the columns in their own units and needs PyTorch alone: "
        "torch.export.load({path!r}).module()",
    ),
}


def _onnx_or_reason(result: SearchResult, pick: str, path: Path) -> str | None:
    """Write the picked network, or say why not; the search was worth it either way."""
    path.unlink(missing_ok=True)  # of an earlier search
    try:
        _to_onnx(result, result.pick(pick), path)
    except (ImportError, RuntimeError) as error:
        return f"{path.name} was not written: {error}"
    return None


# --- what a person sees ---


def _console(quiet: bool = False) -> Console:
    """For plain text: a column called [red] is nothing but its name."""
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "quiet": quiet}
    console = Console(**options)
    return console if console.is_terminal else Console(**options, width=PIPE_WIDTH)


def _say(text: str, kind: str = "") -> None:
    """One line on stderr, whatever the lines of ``text``."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    colours = {"error": typer.colors.RED, "warning": typer.colors.YELLOW}
    start = f"{typer.style(f'{kind}:', fg=colours[kind])} " if kind else ""
    typer.echo(start + line, err=True)


def _explain(error: Exception) -> int:
    """Say what went wrong in one line; the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return 2  # the help was printed
    if isinstance(error, USAGE_ERROR):
        context = getattr(error, "ctx", None)
        place = "sparcs" if context is None else context.command_path
        _say(f"{error.format_message()} ({place} --help explains.)", "error")  # type: ignore[attr-defined]
        return 2
    if os.environ.get("SPARCS_DEBUG"):
        raise error
    if isinstance(error, EXPECTED):
        _say(str(error) or type(error).__name__, "error")
    else:
        where = "set SPARCS_DEBUG=1 to see where"
        _say(f"unexpected {type(error).__name__}: {error}; {where}", "error")
    return 1


@contextlib.contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Warnings meant for users as one line each; no others."""

    def show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
        _say(str(message), "warning")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show_warning
        yield


def _summary(name: str, rows: int, columns: int, target: Target) -> str:
    """One line about the data."""
    if target.classes is None:
        aim = f"regression of {quoted(target.names)}"
    else:
        aim = f"{len(target.classes)} classes in {quoted(target.names)}: {quoted(target.classes)}"
    return f"{name}: {rows:,} rows, {columns:,} columns; {aim}"


def _print_front(console: Console, result: SearchResult, pick: str | int) -> None:
    is_accuracy = result.preprocessing.target.classes is not None
    picked = result.pick(pick)
    is_narrow = console.width < NARROW
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("#", "parameters", "MACs", "accuracy" if is_accuracy else "R²"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rule", max_width=len("smallest") if is_narrow else None)
    table.add_column("layers", overflow="fold")

    def add(number: str, candidate: Candidate, rules: list[str], style: str) -> None:
        architecture = candidate.architecture
        table.add_row(
            number,
            f"{candidate.parameters:,}",
            f"{candidate.macs:,}",
            _score(candidate, is_accuracy),
            ", ".join(rules),
            architecture.replace(", skip", ",\nskip") if is_narrow else architecture,
            style=style,
        )

    for index, candidate in enumerate(result.front):
        rules = [rule for rule in RULES if result.pick(rule) is candidate]
        rules += ["linear"] * _is_linear(result, candidate)
        is_picked = candidate is picked
        add(f"→ {index}" if is_picked else f"{index}", candidate, rules, "bold" * is_picked)
    if not any(_is_linear(result, candidate) for candidate in result.front):
        table.add_section()
        add("", result.linear, ["linear"], "dim")
    console.print()
    console.print(table)
    console.print()
    console.print(_verdict(result, pick, is_accuracy))
    console.print()


def _is_linear(result: SearchResult, candidate: Candidate) -> bool:
    linear = result.linear
    return (candidate.parameters, candidate.score) == (linear.parameters, linear.score)


def _score(candidate: Candidate, is_accuracy: bool, error: bool = True) -> str:
    score, deviation = candidate.score, candidate.standard_error
    if is_accuracy:
        return f"{100 * score:.1f} %" + f" ± {100 * deviation:.1f}" * error
    return f"{score:.4f}" + f" ± {deviation:.4f}" * error


def _verdict(result: SearchResult, pick: str | int, is_accuracy: bool) -> Text:
    """The picked network in a sentence, and which columns it reads."""
    picked, linear = result.pick(pick), result.linear
    measure = "accuracy" if is_accuracy else "R²"
    compared = (
        "; it is the linear model"
        if _is_linear(result, picked)
        else f" (linear model: {linear.parameters:,} parameters, "
        f"{_score(linear, is_accuracy, error=False)})"
    )
    return Text.assemble(
        (f"{pick}: {picked.architecture}", "bold"),
        f"; {picked.parameters:,} parameters, {measure} {_score(picked, is_accuracy)} "
        f"on held-out rows{compared}.{_columns_read(result, picked)}",
    )


def _columns_read(result: SearchResult, candidate: Candidate) -> str:
    columns = result.preprocessing.inputs.columns
    owners = [column.name for column in columns for _ in column.encoded_names]
    reads = candidate.network.reads
    names = set(owners if reads is None else (owners[index] for index in reads))
    read = [column.name for column in columns if column.name in names]
    others = [column.name for column in columns if column.name not in names]
    if not others:
        return ""
    text = f" It reads {len(read):,} of {len(columns):,} columns"
    if len(others) <= FEW_COLUMNS:
        return f"{text}, not {quoted(others)}."
    return f"{text}: {quoted(read)}." if len(read) <= FEW_COLUMNS else f"{text}."


def _print_files(console: Console, folder: Path, lacking: str | None) -> None:
    console.print(f"In {folder}:")
    console.print(_pairs({k: v for k, v in FILES.items() if not lacking or k != "model.onnx"}))
    if lacking:
        console.print(lacking)
    run = shlex.quote(str(folder))
    console.print("\nNext:")
    console.print(f"  sparcs show {run}\n  sparcs predict {run} DATA -o predictions.csv")


def _pairs(facts: dict[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, fact in facts.items():
        grid.add_row(f"  {name}", fact)
    return grid


if __name__ == "__main__":
    main()
