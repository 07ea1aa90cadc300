"""What a person sees of a search: lines, tables, lists of files."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchsparcs.command.options import RULES
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.files.reading import quoted
from torchsparcs.files.visible import visible, visible_lines
from torchsparcs.judging.scoring import Scoring
from torchsparcs.report.about import made_with
from torchsparcs.report.columns import priced_columns
from torchsparcs.report.excerpt import excerpt, layers_in_short
from torchsparcs.report.verdict import beside_one_answer
from torchsparcs.report.wording import bytes_of_chip, counted, ended_by, judged_by
from torchsparcs.results.fidelity import fidelity_words
from torchsparcs.results.result import Candidate, SearchResult, is_same
from torchsparcs.tables.target import Target

PIPE_WIDTH = 1000  # outside a terminal nothing is wrapped, unless COLUMNS says how wide it is
NARROW = 110  # below it the table has fewer columns
FEW_COLUMNS = 10  # are named, more are counted
FILES = {
    "report.html": "the page to look at",
    "model.onnx": "the picked network with its preprocessing",
    "front.csv, .json": "the table above",
    "costs.csv": "score against the cost of columns",
    "networks/, *.json": "all the networks, for sparcs and load_result",
}


class SafeConsole(Console):
    """A console that no text can steer; its styles are its own."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible_lines(text), **options)


def open_console(quiet: bool = False) -> Console:
    """A console for plain text: a column called [red] is nothing but its name."""
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "quiet": quiet}
    console = SafeConsole(**options)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return SafeConsole(**options, width=PIPE_WIDTH)


def summary(name: str, rows: int, columns: int, target: Target) -> str:
    """One line about the data."""
    if target.classes is None:
        aim = f"regression of {quoted(target.names)}"
    else:
        aim = f"{len(target.classes)} classes in {quoted(target.names)}: {quoted(target.classes)}"
    return f"{visible(name)}: {rows:,} rows, {columns:,} columns; {aim}"


def print_front(
    console: Console, result: SearchResult, pick: str | int, folder: Path, *, every: bool = False
) -> None:
    """Print the front as a table, the picked network marked, and some lines about that.

    Of a long front those that tell it, unless ``every`` network is asked for.
    """
    scoring, picked, linear = result.scoring, result.pick(pick), result.linear
    columns = _columns(result, is_narrow=console.width < NARROW)
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("#", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rule", overflow="fold")
    table.add_column("layers", overflow="fold")

    def add(number: str, candidate: Candidate, rules: list[str], style: str) -> None:
        cells = [words(candidate) for words in columns.values()]
        layers = layers_in_short(candidate)
        table.add_row(number, *cells, ", ".join(rules), layers, style=style)

    shown = [*range(len(result.front))] if every else excerpt(result, pick)
    for index in shown:
        candidate = result.front[index]
        rules = [rule for rule in RULES if result.pick(rule) is candidate]
        rules += ["linear"] * (linear is not None and is_same(candidate, linear))
        is_picked = candidate is picked
        add(f"→ {index}" if is_picked else f"{index}", candidate, rules, "bold" * is_picked)
    table.add_section()
    if linear is not None and not any(is_same(candidate, linear) for candidate in result.front):
        add("", linear, ["linear"], "dim")
    if (constant := scoring.constant) is not None:
        words = scoring.words(constant, short=True)
        told = {"parameters": f"{result.target.outputs}", "MACs": "0", "in validation": words}
        told[_expected(scoring)] = words
        cells = [told.get(name, "") for name in columns]
        table.add_row("", *cells, "constant", "one answer for all rows", style="dim")
    console.print()
    console.print(table)
    if left := len(result.front) - len(shown):
        run = visible(shlex.quote(str(folder)))
        console.print(f"{counted(left, 'more network')}: sparcs show {run} --all")
    console.print()
    _print_verdict(console, result, pick)
    if result.settings.get("teacher_is_target"):
        name = visible(result.settings["teacher"])
        console.print(f"There was no target: scores are agreement with {name}.")
    if (kept := fidelity_words(result)) is not None:
        console.print(f"{kept[0].upper()}{kept[1:]}")
    if (ended := ended_by(result.settings)) is not None:
        console.print(f"The search was ended {ended}; with more time it may find better networks.")
    console.print()
    print_costs(console, result, picked)


def _columns(result: SearchResult, *, is_narrow: bool) -> dict[str, Callable[[Candidate], str]]:
    """What is told of each network, by the heads of columns; where it is ``narrow`` the least."""
    scoring, settings = result.scoring, result.settings
    size = settings.get("size", "parameters")
    columns: dict[str, Callable[[Candidate], str]] = {
        "parameters": lambda found: f"{found.parameters:,}"
    }
    if size == "macs" or not is_narrow:
        columns["MACs"] = lambda found: f"{found.macs:,}"
    if settings.get("chip"):
        columns[bytes_of_chip(settings)] = lambda found: f"{found.bytes:,}"
    columns[_expected(scoring)] = lambda found: scoring.words(
        found.told, found.standard_error, short=True
    )
    if settings.get("int8"):
        columns["in int8"] = lambda found: _words(scoring, found.told_in_int8)
    if not is_narrow:
        columns["in validation"] = lambda found: scoring.words(found.score, short=True)
    return columns


def _expected(scoring: Scoring) -> str:
    return f"expected {scoring.label}"


def print_costs(console: Console, result: SearchResult, picked: Candidate) -> None:
    """Print the front by what its columns cost, where they have prices, the pick marked."""
    if not result.by_cost:
        return
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("cost", "parameters", f"expected {result.scoring.label}"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("columns that cost", overflow="fold")
    for each in result.by_cost:
        score = result.scoring.words(each.told, each.standard_error, short=True)
        names = quoted(priced_columns(result, each), FEW_COLUMNS)
        is_picked = is_same(each, picked)
        cost = f"{'→ ' * is_picked}{each.cost:,g}"
        table.add_row(cost, f"{each.parameters:,}", score, names, style="bold" * is_picked)
    console.print("By what it costs to measure the columns (--pick cost:X takes at most X):\n")
    console.print(table)
    console.print()


def _print_verdict(console: Console, result: SearchResult, pick: str | int) -> None:
    """Print the picked network, how good it is, and which columns it reads."""
    scoring, picked, linear = result.scoring, result.pick(pick), result.linear
    compared = ""
    if linear is not None and is_same(picked, linear):
        compared = "; it is the linear model"
    elif linear is not None:
        score = scoring.words(linear.told, short=True)
        compared = f" (linear model: {linear.parameters:,} parameters, {scoring.label} {score})"
    judged = f"on {judged_by(result.settings)}"
    if picked.expected is not None:
        judged = f"expected on new rows; {scoring.words(picked.score, short=True)} {judged}"
    told = scoring.words(picked.told, picked.standard_error, short=True)
    facts = {
        "size": f"{counted(picked.parameters, 'parameter')}{_more(result, picked)}{compared}",
        "score": f"{scoring.label} {told} {judged}",
        "reads": _columns_read(result, picked),
        "note": beside_one_answer(result, picked),
    }
    console.print(Text(f"Picked ({pick}): {picked.architecture}", "bold"))
    console.print(pairs({name: fact for name, fact in facts.items() if fact}))


def _more(result: SearchResult, candidate: Candidate) -> str:
    """Bytes of the chip, where they were asked for."""
    if candidate.bytes is None:
        return ""
    return f", {candidate.bytes:,} {bytes_of_chip(result.settings).replace(',', ' on', 1)}"


def _words(scoring: Scoring, score: float | None) -> str:
    return "" if score is None else scoring.words(score, short=True)


def _columns_read(result: SearchResult, candidate: Candidate) -> str:
    if result.preprocessing is None or not isinstance(candidate.network, CompactNetwork):
        return ""
    inputs = result.inputs
    read = dict.fromkeys(column.name for column in inputs.columns_read(candidate.network.reads))
    others = [name for name in inputs.names if name not in read]
    if not others:
        return ""
    text = f"{len(read):,} of {len(inputs.names):,} columns"
    if len(read) <= min(FEW_COLUMNS, len(others)):
        return f"{text}: {quoted([*read])}"
    return f"{text}, not {quoted(others)}" if len(others) <= FEW_COLUMNS else text


def print_files(
    console: Console, folder: Path, lacking: str | None, settings: Mapping[str, Any]
) -> None:
    """Print what is in the folder, ``lacking``: why it has no model.onnx, and what is next.

    That is the C too, where bytes of a chip were asked for. On a terminal the page has its address,
    which most of them open by a click.
    """
    console.print(f"In {visible(str(folder))}:")
    absent = {"model.onnx": bool(lacking), "costs.csv": not (folder / "costs.csv").is_file()}
    console.print(pairs({k: v for k, v in FILES.items() if not absent.get(k)}))
    if lacking:
        console.print(lacking)
    if console.is_terminal:
        console.print((folder / "report.html").resolve().as_uri(), soft_wrap=True)
    run = visible(shlex.quote(str(folder)))
    console.print("\nNext:")
    console.print(f"  sparcs predict {run} DATA -o predictions.csv")
    if chip := settings.get("chip"):
        int8 = "--int8 --data DATA " if settings.get("int8") else ""
        console.print(f"  sparcs export {run} --format c {int8}--measure {chip}")


def print_facts(console: Console, settings: dict[str, Any]) -> None:
    """Print what a front was found with."""
    made = made_with(settings)
    facts = {
        "searched": f"up to {' → '.join(map(str, settings['widths']))}, seed {settings['seed']}",
        "judged": f"on {judged_by(settings)}",
        "took": f"{made['wall time']} on {made['device']}",
        "version": f"torchsparcs {made['torchsparcs']}",
    }
    console.print(pairs(facts))


def pairs(facts: dict[str, str]) -> Table:
    """Names and what they stand for, below each other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, fact in facts.items():
        grid.add_row(f"  {name}", fact)
    return grid
