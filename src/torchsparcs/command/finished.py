"""Commands about a run folder: show, report, predict, export."""

from pathlib import Path
from typing import Annotated

import typer

from torchsparcs.command import loading
from torchsparcs.command.options import CHIPS, FORMATS, Force, Open, Pick, Run, Sheet, one_of


def show(
    run: Run,
    every: Annotated[
        bool, typer.Option("--all", help="Every network, not only the telling ones.")
    ] = False,
) -> None:
    """Print the networks that a search found, and its settings."""
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
            help="By default report.html in the run folder, which is overwritten.",
        ),
    ] = None,
    teacher: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="An ONNX model: the page says how well it is imitated on --data."
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
    """Write the page about a search: one HTML file, for any browser."""
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
            help="A column of DATA to copy beside the predictions, such as an identifier; repeat "
            "for several.",
        ),
    ] = None,
    sheet: Sheet = None,
    pick: Pick = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="For numbers, add the interval that should hold this share of them, such as 0.9.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Do not escape text that a spreadsheet would take for a formula."
        ),
    ] = False,
    force: Force = False,
) -> None:
    """Predict every row of a table, as CSV. Classes come with their probabilities."""
    with loading():
        from torchsparcs.command import predicting
    predicting.predict(
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
    format: Annotated[str, typer.Option(metavar="|".join(FORMATS), help="The format.")] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="By default model-PICK in the run folder, with --int8 model-PICK-int8; for C++ "
            "give it the ending .hpp.",
        ),
    ] = None,
    encoded: Annotated[
        bool,
        typer.Option(
            "--encoded", help="ONNX that takes one matrix of encoded columns, not the table's own."
        ),
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights and activations of one byte, for C and ONNX.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Rows to calibrate --int8 with, and to test it on."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(CHIPS),
            help="How much flash and stack the C takes on this chip, and its time in a simulator.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write one network as a file that runs elsewhere: ONNX, C and others."""
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
