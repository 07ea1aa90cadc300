"""What is done with the folder of a search: shown, reported on, exported."""

from pathlib import Path
from typing import Any

import torch

from torchsparcs.command.console import open_console, print_facts, print_front, summary
from torchsparcs.command.messages import open_page, tell
from torchsparcs.command.opening import check_file, loaded, rule_of
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.code import CPP
from torchsparcs.export.formats import CODE, FORMATS
from torchsparcs.export.measuring import known_chip, lacking, measure
from torchsparcs.export.predicting import error_of, predict_cost
from torchsparcs.export.quantization import QuantizedNetwork, quantize
from torchsparcs.export.saving import save
from torchsparcs.export.timing import SIMULATORS, lacking_simulator, row_time
from torchsparcs.export.writing import to_onnx
from torchsparcs.files.reading import quoted
from torchsparcs.files.visible import visible
from torchsparcs.results.fidelity import fidelity_words
from torchsparcs.results.result import Candidate, SearchResult
from torchsparcs.tables.datasets import BUILT_IN, load_dataset
from torchsparcs.tables.readers import read_table
from torchsparcs.tables.target_values import with_targets
from torchsparcs.training.tasks import resolve_task

MOST_TOLD = 10  # columns and what they are worth


def show(run: Path, *, every: bool = False) -> None:
    """Print the front, or the networks that tell it, and what it was found with."""
    result, console = loaded(run), open_console()
    settings, name = result.settings, result.settings.get("data", run.name)
    if result.preprocessing is not None:
        columns = len(result.inputs.columns)
        console.print(summary(name, settings["rows"], columns, result.target))
    print_front(console, result, settings.get("pick", "smallest"), run, every=every)
    print_facts(console, settings)


def write_report(
    run: Path,
    out: Path | None,
    *,
    teacher: Path | None = None,
    data: str | None = None,
    opened: bool = False,
    force: bool,
) -> None:
    """Write the page into the folder, or to the file ``out``, and have it ``opened``.

    On the rows ``data`` it says what the columns are worth to the picked network, and with a
    ``teacher`` what that kept of it.
    """
    result = loaded(run)
    path = run / "report.html" if out is None else out
    if out is not None:
        check_file(path, force)
    if data is not None:
        X, y = _judging_rows(result, data)
        if y is not None:
            tell(_worth(result, X, y))
        elif teacher is None:
            raise ValueError(f"Expected rows with {quoted(result.target.names)}. {data} has none.")
        if teacher is not None:
            tell(_kept(result, teacher, X, y))
    result.report(path, folder=run, force=True)
    tell(f"{path.stat().st_size / 1e6:.1f} MB in {path}")
    if opened:
        open_page(path)


def _judging_rows(result: SearchResult, data: str) -> tuple[Any, Any]:
    """The rows of a table that have a target, None of these where it has none at all."""
    if result.preprocessing is None:
        raise ValueError("Expected a search of a table for --data. This is one of a network.")
    X, y = _rows_of(result, data)
    return (X, y) if y is None else with_targets(X, y)[:2]


def _worth(result: SearchResult, X: Any, y: Any) -> str:
    """What the columns are worth to the picked network, in a line; the result remembers it."""
    worth = result.importance(X, y, rule_of(result, None), keep=True)["worth"]
    dear = [f"{visible(name)} {value:.3f}" for name, value in worth.items() if value > 0]
    score = "R²" if result.target.classes is None else "accuracy"
    words = ", ".join(dear[:MOST_TOLD]) or "nothing"
    return f"worth of the columns, in {score} on {len(X):,} rows: {words}"


def _kept(result: SearchResult, teacher: Path, X: Any, y: Any) -> str:
    """What the picked network kept of a teacher, in a line; the result remembers it."""
    result.fidelity(teacher, X, y, rule_of(result, None), keep=True)
    return str(fidelity_words(result))


def export(
    run: Path,
    format: str,
    output: Path | None,
    *,
    pick: str | None,
    encoded: bool = False,
    calibration: str | None = None,
    chip: str | None = None,
    force: bool,
) -> None:
    """Write the picked network as a file of that format.

    ONNX may take ``encoded`` columns; C and ONNX may be in int8, fitted to ``calibration``. Of C
    what it takes of a ``chip`` is told: measured, or where its compiler is not here, predicted.
    """
    ending, write, note = FORMATS[format]
    endings = (ending, CPP) if format == "c" else (ending,)
    if output is not None and output.suffix.lower() not in endings:
        raise ValueError(
            f"Expected a file that ends in {' or '.join(endings)} for the format {format}. "
            f"Got {str(output)!r}."
        )
    if chip is not None:
        known_chip(chip)
    result = loaded(run)
    rule = rule_of(result, pick)
    candidate = result.pick(rule)
    kind = "" if calibration is None else "-int8"
    path = run / f"model-{rule}{kind}{ending}" if output is None else output
    check_file(path, force)
    cost = ""
    written: Any = None
    if calibration is not None:
        written, cost = _quantized(result, candidate, calibration)
        FORMATS[format][1](written, path)
        note = (
            note if format == "c" else "It takes the numbers that its metadata name, in QDQ form."
        )
    elif result.preprocessing is None:
        _export_network(candidate, format, path)
        note = "It takes rows of shape {shape}, as the network that was searched."
        note = note.format(shape=candidate.row_shape)
    elif encoded:
        to_onnx(result.deployed(candidate), path, encoded=True)
        note = "It takes the encoded columns in their own units; their names are in its metadata."
    else:
        write(result.deployed(candidate), path)
    tell(f"{candidate.architecture}: {candidate.parameters:,} parameters in {path}")
    tell(note.format(settings=run / "settings.json", path=str(path)))
    if cost:
        tell(cost)
    elif format == "c" and result.settings.get("int8"):
        tell("It is in float; the bytes of this search are those of int8: --int8 --data ROWS.")
    if chip is not None:
        if written is None:
            bare = result.preprocessing is None
            written = candidate.network if bare else result.deployed(candidate)
        for line in _chip_lines(path, written, chip):
            tell(line)


def _chip_lines(path: Path, network: Any, chip: str) -> list[str]:
    """What the C in ``path`` takes of a chip, by its compiler or by the formula."""
    words = lacking(chip)
    flash, stack, data = predict_cost(network, chip) if words else measure(path, chip)
    parts = f"{data:,} of them data and {flash - data:,} code"
    lines = [f"{chip}: {flash:,} bytes of flash with libraries, {parts}, {stack:,} bytes of stack"]
    if words:
        off = 100 * error_of(chip, is_int8=isinstance(network, QuantizedNetwork))
        lines.append(f"predicted, {off:.1f} % off on average: {words}")
    elif chip in SIMULATORS:
        lines.append(f"{chip}: {_time_words(path, chip)}")
    return lines


def _time_words(header: Path, chip: str) -> str:
    """How long one row takes, where the simulator is here and has memory for it."""
    if words := lacking_simulator(chip):
        return f"how long a row takes a simulator says: {words}"
    try:
        simulator, count = SIMULATORS[chip], row_time(header, chip)
    except ValueError as error:
        return f"no row could be run, as where it has too little memory. {error}"
    said = f"{count:,} {simulator.unit} for a row by {simulator.command[0]}"
    if not simulator.megahertz:
        return f"{said}, which are not cycles"
    return f"{said}, {count / simulator.megahertz / 1000:.3g} ms at {simulator.megahertz} MHz"


def _quantized(
    result: SearchResult, candidate: Candidate, calibration: str
) -> tuple[QuantizedNetwork, str]:
    """The network in int8, and what that costs on the rows ``calibration``, in words."""
    if result.preprocessing is None:
        raise ValueError("Expected a search of a table for int8. This is one of a network.")
    table, y = _rows_of(result, calibration)
    quantized = quantize(result.deployed(candidate), table)
    where = f"{len(table):,} rows of {Path(calibration).name}"
    folds = ""
    if candidate.int8_score is not None:
        words = (result.scoring.words(each) for each in (candidate.int8_score, candidate.score))
        folds = f"; on those that judged the search {' in int8, '.join(words)} in float"
    if y is None:
        return quantized, f"int8 fitted to {where}, which have no target to judge by{folds}"
    score = "R²" if result.target.classes is None else "accuracy"
    table, y, _ = with_targets(table, y)
    outputs = result.target.bounded(result.outputs(table, candidate))
    before = resolve_task(result.target.task).score(outputs, result.target.transform(y)).item()
    after = quantized.score(table, y)
    said = f"{score} {after:.4f} there, {before:.4f} in float"
    return quantized, f"int8 fitted to {where}: {said}{folds}"


def _rows_of(result: SearchResult, data: str) -> tuple[Any, Any]:
    """The rows of a table and their targets, None where it has none."""
    if data in BUILT_IN:
        dataset = load_dataset(data)
        return dataset.X, dataset.y
    target = result.target
    writings = zip(target.names, target.writings or [None] * len(target.names), strict=True)
    written = [name for name, writing in writings if writing is not None]
    table = read_table(data, text=(*result.inputs.text_names, *written))
    table.columns = [str(column) for column in table.columns]
    names = [*target.names]
    if not {*names} <= {*table.columns}:
        return table, None
    return table, table[names[0]] if len(names) == 1 else table[names]


def _export_network(candidate: Candidate, format: str, path: Path) -> None:
    """Write a network that was searched for no table, which has no preprocessing."""
    if format == "safetensors":
        save(candidate.network, path)
    elif format == "onnx":
        to_onnx(candidate.network, path, example=torch.zeros(2, *(candidate.row_shape or ())))
    elif format in CODE and isinstance(candidate.network, CompactNetwork):
        CODE[format](candidate.network, path)
    else:
        raise ValueError(
            f"Expected onnx or safetensors for a network that was searched. Got {format}."
        )
