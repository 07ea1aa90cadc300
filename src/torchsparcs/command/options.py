"""The options that several commands share, what they may say, and values of their texts.

Nothing here loads torch: the names of choices are written out for the help, and a test holds them
equal to the tables in the rooms that know them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from torchsparcs.files.byte_counts import bytes_of

DATASETS = ("digits", "iris", "wine", "breast_cancer", "diabetes")
TASKS = ("auto", "classification", "regression")
KINDS = ("number", "text", "date", "day-month-year", "month-day-year")
RULES = ("best", "smallest")
ENGINES = ("auto", "local", "processes", "ray")
FORMATS = ("onnx", "safetensors", "torch", "c", "python", "javascript")
UNITS = {"s": 1, "m": 60, "h": 3600}
CHIPS = ("cortex-m4", "cortex-m0", "avr", "x86")
SIZES = ("parameters", "macs", "bytes")
SCORINGS = (
    *("accuracy", "log_loss", "balanced_accuracy", "roc_auc", "f1", "average_precision"),
    *("r2", "mae", "mape", "pinball_0.9"),
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a search.")]
Pick = Annotated[
    str | None,
    typer.Option(
        metavar="best|smallest|linear|N|cost:X",
        help="The network: by rule, by its number in the table, or the best whose columns cost at "
        "most X. By default the one that the search picked.",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The sheet of a workbook, or the table of a database, with several."
    ),
]
Device = Annotated[
    str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute: by default a GPU, if any.")
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="|".join(ENGINES),
        help="Where the work runs: in this process, in several, or on a Ray cluster.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="The address of a running Ray cluster, with --engine ray."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the folder only.")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """``value`` where it is among ``known``, else a usage error."""
    if value not in known:
        choices = f"{', '.join(known[:-1])} or {known[-1]}"
        raise typer.BadParameter(f"Expected {choices}. Got {value!r}.", param_hint=name)
    return value


def pick_of(text: str, *, with_costs: bool) -> str:
    """``text`` where it is a rule that a search can keep to, else a usage error."""
    if not text.startswith("cost:"):
        return one_of("--pick", text, (*RULES, "cost:X") if with_costs else RULES)
    if not with_costs:
        raise typer.BadParameter(f"Expected --cost FILE with {text}.", param_hint="--pick")
    try:
        is_price = float(text.removeprefix("cost:")) >= 0
    except ValueError:
        is_price = False
    if not is_price:
        raise typer.BadParameter(
            f"Expected a cost from 0 on, as in cost:12.5. Got {text!r}.", param_hint="--pick"
        )
    return text


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
    """The numbers of "8,4", as ``kind``."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"Expected numbers with commas between them. Got {text!r}.", param_hint=name
        ) from None


def seconds_of(text: str | None) -> float | None:
    """
    >>> seconds_of("30s"), seconds_of("5m"), seconds_of("1.5h"), seconds_of("90")
    (30.0, 300.0, 5400.0, 90.0)
    """
    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(
            f"Expected a time such as 30s, 5m or 1h. Got {text!r}.", param_hint="--time-budget"
        )
    return seconds


def class_weight_of(text: str | None) -> str | dict[str, float] | None:
    """ "balanced", or {"yes": 5.0, "no": 1.0} of "yes=5,no=1"."""
    if text is None or text == "balanced":
        return text
    try:
        pairs = [part.rsplit("=", 1) for part in text.split(",")]
        return {label: float(weight) for label, weight in pairs}
    except ValueError:
        raise typer.BadParameter(
            f"Expected balanced, or weights such as yes=5,no=1. Got {text!r}.",
            param_hint="--class-weight",
        ) from None


def max_bytes_of(text: str | None) -> int | None:
    """The bytes of "2kB"."""
    if text is None:
        return None
    try:
        return bytes_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--max-bytes") from None


def validation_of(text: str) -> str | int | float:
    """ "auto", a share such as 0.2, a number of folds, or folds dealt out several times, 3x2."""
    if text == "auto" or re.fullmatch("[0-9]+x[0-9]+", text):
        return text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise typer.BadParameter(
            f"Expected auto, a share such as 0.2, a number of folds or 3x2. Got {text!r}.",
            param_hint="--validation",
        ) from None


def checked_device(name: str) -> str:
    """``name`` where a tensor can be put there, else a usage error."""
    import torch

    if name != "auto":
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError, NotImplementedError):
            raise typer.BadParameter(
                f"Expected auto, cpu or a device that is here. Got {name!r}.", param_hint="--device"
            ) from None
    return name
