"""What is done with the folder of a search: shown, reported on, predicted with, exported."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from torchsparcs.command.console import open_console, print_facts, print_front, summary
from torchsparcs.command.jobs import clear_leftovers
from torchsparcs.command.messages import reworded, tell
from torchsparcs.export.formats import FORMATS
from torchsparcs.export.saving import save
from torchsparcs.export.writing import to_onnx
from torchsparcs.files.atomic import write_atomically
from torchsparcs.report.page import check_place
from torchsparcs.searching.result import Candidate, SearchResult, load_result
from torchsparcs.tables.columns import check_known, check_names
from torchsparcs.tables.datasets import BUILT_IN, load_dataset
from torchsparcs.tables.readers import read_table
from torchsparcs.tables.writers import WRITERS, without_formulas


def show(run: Path) -> None:
    """Print the front and what it was found with."""
    result, console = _loaded(run), open_console()
    settings, name = result.settings, result.settings.get("data", run.name)
    if result.preprocessing is not None:
        columns = len(result.inputs.columns)
        console.print(summary(name, settings["rows"], columns, result.target))
    print_front(console, result, settings.get("pick", "smallest"))
    print_facts(console, settings)


def write_report(run: Path, out: Path | None, *, force: bool) -> None:
    """Write the page into the folder, or to the file ``out``."""
    result = _loaded(run)
    path = run / "report.html" if out is None else out
    if out is not None:
        _check_file(path, force)
    result.report(path, folder=run, force=True)
    tell(f"{path.stat().st_size / 1e6:.1f} MB in {path}")


def predict(
    run: Path,
    data: str,
    output: Path | None,
    *,
    keep: Sequence[str] = (),
    sheet: str | None = None,
    pick: str | None,
    raw: bool,
    force: bool,
) -> None:
    """Print the predictions for ``data``, or write them to the file ``output``.

    Columns to ``keep`` stand before them, those of a CSV that no network reads as they are there.
    """
    ending = ".csv" if output is None else output.suffix.lower()
    if ending not in WRITERS:
        raise ValueError(f"Expected a file that ends in {', '.join(WRITERS)}. Got {str(output)!r}.")
    if output is not None:
        _check_file(output, force)
    result = _loaded(run)
    if result.preprocessing is None:
        raise ValueError(f"Expected a search of a table to predict one. {run} is one of a network.")
    inputs = result.inputs
    read = {column.name for column in inputs.columns if column.encoded_names}
    text = {*inputs.text_names, *({*keep} - read)}  # an identifier keeps its zeros
    with reworded():
        table = load_dataset(data).X if data in BUILT_IN else read_table(data, text, sheet)
    table.columns = [str(column) for column in table.columns]
    check_known("columns to keep", keep, table.columns)
    predictions = result.target.predictions(result.outputs(table, _rule(result, pick)))
    if keep:
        predictions = pd.concat([table[[*keep]], predictions], axis=1)
        check_names(predictions.columns)
    is_safe = raw or ending != ".csv"
    content = WRITERS[ending](predictions if is_safe else without_formulas(predictions))
    if output is None:
        tell(content, nl=False)
        return
    write_atomically(output, content)
    tell(f"{len(predictions):,} rows in {output}")


def export(
    run: Path,
    format: str,
    output: Path | None,
    *,
    pick: str | None,
    encoded: bool = False,
    force: bool,
) -> None:
    """Write the picked network as a file of that format; ONNX may take ``encoded`` columns."""
    ending, write, note = FORMATS[format]
    if output is not None and output.suffix.lower() != ending:
        raise ValueError(
            f"Expected a file that ends in {ending} for the format {format}. Got {str(output)!r}."
        )
    result = _loaded(run)
    rule = _rule(result, pick)
    candidate = result.pick(rule)
    path = run / f"model-{rule}{ending}" if output is None else output
    _check_file(path, force)
    if result.preprocessing is None:
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


def _export_network(candidate: Candidate, format: str, path: Path) -> None:
    """Write a network that was searched for no table, which has no preprocessing."""
    if format == "safetensors":
        save(candidate.network, path)
    elif format == "onnx":
        to_onnx(candidate.network, path, example=torch.zeros(2, *(candidate.row_shape or ())))
    else:
        raise ValueError(
            f"Expected onnx or safetensors for a network that was searched. Got {format}."
        )


def _loaded(run: Path) -> SearchResult:
    """What was found in ``run``; what a killed process left beside it goes."""
    result = load_result(run)
    clear_leftovers(run)
    return result


def _rule(result: SearchResult, pick: str | None) -> str | int:
    """What ``SearchResult.pick`` takes: that of the search by default."""
    if pick is None:
        return result.settings.get("pick", "smallest")
    return int(pick) if pick.isdecimal() else pick


def _check_file(path: Path, force: bool) -> None:
    with reworded():
        check_place(path, force=force)
