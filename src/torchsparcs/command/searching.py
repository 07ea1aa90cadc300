"""The command that searches: its options, and the job that they ask for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from torchsparcs.command import loading
from torchsparcs.command.messages import open_page, processes, say, tell
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
    Open,
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
            help="The column to predict; repeat for several. By default the one called target, "
            "label, class or y.",
        ),
    ] = None,
    sheet: Sheet = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="A column to leave out, such as an identifier; repeat for several.",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=KIND",
            help=f"The kind of a column, where it is recognised wrongly: {', '.join(KINDS)}, or "
            "its categories in order, as in size=S,M,L; repeat for several.",
        ),
    ] = None,
    task: Annotated[
        str, typer.Option(metavar="|".join(TASKS), help="By default recognised by the target.")
    ] = "auto",
    max_parameters: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep no network with more parameters.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="N|2kB",
            help="Keep no network that takes more flash as generated C.",
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            metavar="|".join(SIZES),
            help="What counts as small: parameters, multiply-adds, or bytes of flash.",
        ),
    ] = "parameters",
    chip: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(CHIPS), help="The chip whose bytes count; by default cortex-m4."
        ),
    ] = None,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Count bytes of int8 networks, and print their int8 scores."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to write to; by default a new one in runs/."),
    ] = None,
    pick: Annotated[
        str,
        typer.Option(
            metavar="|".join((*RULES, "cost:X")),
            help="The network to export: that of the best score, the smallest within one standard "
            "error of it, or with --cost the best whose columns cost at most X.",
        ),
    ] = "smallest",
    validation: Annotated[
        str,
        typer.Option(
            metavar="SHARE|FOLDS|FOLDSxTIMES",
            help="How networks are validated: on a share of the rows (0.2), by cross-validation (4 "
            "folds), or that repeated (3x2: 3 folds, twice).",
        ),
    ] = "auto",
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Keep the rows of one group (a patient, a machine) together in validation. This "
            "column is no input.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Validate on later rows, by this column of dates or numbers."
        ),
    ] = None,
    scoring: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"The score to choose by: {', '.join(SCORINGS)}, or a name of scikit-learn's. By "
            "default R², accuracy, or log loss where a class is rare.",
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
        typer.Option("--no-calibration", help="Do not calibrate the probabilities."),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Search on N rows only, where there are twice as many; by default 15,000.",
        ),
    ] = None,
    teacher: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An ONNX model for the networks to imitate; without a target its answers are the "
            "target.",
        ),
    ] = None,
    extra_rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table of more rows for the teacher; its target is not read."
        ),
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table of what each column costs to measure: adds scores against cost.",
        ),
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="The most hidden neurons of each layer, as in 64,32."),
    ] = None,
    penalty_weights: Annotated[
        str | None, typer.Option(metavar="X,X", help="Penalty weights to train with.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Training steps; by default chosen by the rows."),
    ] = None,
    no_boosting: Annotated[
        bool,
        typer.Option("--no-boosting", help="Never train networks to what gradient boosting says."),
    ] = False,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Train and prune as the paper does, for comparison."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The random seed.")] = 0,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="30s|5m|1h", help="Stop by then, with the best networks so far."),
    ] = None,
    device: Device = "auto",
    engine: EngineName = "auto",
    address: Address = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Continue an interrupted search, with the options it had."
        ),
    ] = None,
    open: Open = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Find networks for a table, from the smallest to the best. Writes them to a folder."""
    if address is not None and engine != "ray":
        raise typer.BadParameter("Expected --engine ray with it.", param_hint="--address")
    one_of("--engine", engine, ENGINES)
    if engine == "ray" and processes() > 1:
        raise ValueError("Expected torchrun or --engine ray. Got both.")
    if resume is not None:
        check_alone(context, "--resume", "--engine", "--address", "--open", "--quiet")
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
        "int8": int8,
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
        "boosting": not no_boosting,
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
            files = {"teacher": teacher, "extra_rows": extra_rows}
            options |= {name: path and str(path) for name, path in files.items()}
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
        if ranks.is_first:
            if quiet:
                tell(str(folder))
            if open:
                open_page(folder / "report.html")
