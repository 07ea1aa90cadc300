"""Commands about a run folder: show, report, predict, export."""

from pathlib import Path
from typing import Annotated

import typer

from torchsparcs.command import loading
from torchsparcs.command.options import CHIPS, FORMATS, Force, Open, Pick, Run, Sheet, one_of


def show(
    run: Run,
    every: Annotated[
        bool, typer.Option("--all", help="Every network of the front, not those that tell it.")
    ] = False,
) -> None:
    """Print the front of a search and what it was found with."""
    with loading():
        from torchsparcs.command import runs
    runs.show(run, every=every)


def write_report(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="By default report.html in the run folder, which is written anew.",
        ),
    ] = None,
    teacher: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A model as ONNX: the page says what was kept of it, on --data."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Rows with a target, that neither the search nor the teacher has seen: the page "
            "says what each column is worth to the picked network.",
        ),
    ] = None,
    open: Open = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the FILE of --out.")] = False,
) -> None:
    """Write the page about a search: one file, for any browser."""
    if teacher is not None and data is None:
        raise typer.BadParameter("Expected --data with it.", param_hint="--teacher")
    with loading():
        from torchsparcs.command import runs
    runs.write_report(run, out, teacher=teacher, data=data, opened=open, force=force)


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
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="A column of DATA to have beside the predictions, such as an identifier; several "
            "times for several.",
        ),
    ] = None,
    sheet: Sheet = None,
    pick: Pick = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Of numbers, also from and to between which that share lies, 0.9 say.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Leave texts of a CSV as they are that begin like a formula."),
    ] = False,
    force: Force = False,
) -> None:
    """Predict every row of a table, as CSV. Of classes it gives each one's probability."""
    with loading():
        from torchsparcs.command import runs
    runs.predict(
        run,
        data,
        output,
        keep=keep or (),
        sheet=sheet,
        pick=pick,
        interval=interval,
        raw=raw,
        force=force,
    )


def export(
    run: Run,
    pick: Pick = None,
    format: Annotated[str, typer.Option(metavar="|".join(FORMATS))] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="By default model-PICK in the run folder, of int8 model-PICK-int8. C++: .hpp.",
        ),
    ] = None,
    encoded: Annotated[
        bool,
        typer.Option("--encoded", help="ONNX that takes one matrix of encoded columns instead."),
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="C or ONNX with weights and activities of one byte.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Rows that --int8 is fitted to and judged by."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(CHIPS),
            help="What the C takes of a chip, compiled or predicted, and its time in a simulator.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write one network as a file that runs elsewhere."""
    one_of("--format", format, FORMATS)
    if int8 and format not in ("c", "onnx"):
        raise typer.BadParameter(f"Expected --format c or onnx. Got {format}.", param_hint="--int8")
    if measure is not None and format != "c":
        raise typer.BadParameter(f"Expected --format c. Got {format}.", param_hint="--measure")
    if int8 != (data is not None):
        rows = "--data with it: rows such as those of the search, to find its ranges"
        given, lacking = ("--int8", rows) if int8 else ("--data", "--int8 with it")
        raise typer.BadParameter(f"Expected {lacking}.", param_hint=given)
    if measure is not None:
        one_of("--measure", measure, CHIPS)
    if encoded and format != "onnx":
        raise typer.BadParameter("Expected --format onnx with it.", param_hint="--encoded")
    with loading():
        from torchsparcs.command import runs
    runs.export(
        run,
        format,
        output,
        pick=pick,
        encoded=encoded,
        calibration=data,
        chip=measure,
        force=force,
    )
