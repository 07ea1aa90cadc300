"""What the page needs to run a network: its numbers, and a control for each value that it takes."""

import math
from typing import Any

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.code import javascript_data
from torchsparcs.export.folding import Field, Program, table_program
from torchsparcs.files.visible import shortened
from torchsparcs.results.result import Candidate, SearchResult
from torchsparcs.tables.encoding import REST, Column

MOST_PARAMETERS = 3_000  # of a network that runs in the page
MOST_TOGETHER = 6_000  # of all of them
REACH = 2.0  # scales on either side of the mean, where no range was kept
SMALLEST = 1e-300  # range
DIGITS = 2  # of a slider, at least
NEAR = 1e-3  # of a step: what float32 leaves of a whole number


def programs_of(result: SearchResult, shown: list[Candidate]) -> list[Program | None]:
    """The program of each candidate, the smallest first; None of what is too large for a page."""
    programs: list[Program | None] = []
    total = 0
    for found in shown:
        total += found.parameters
        is_small = found.parameters <= MOST_PARAMETERS and total <= MOST_TOGETHER
        if result.preprocessing is None or not is_small:
            programs.append(None)
            continue
        assert isinstance(found.network, CompactNetwork)
        try:
            programs.append(table_program(found.network, result.preprocessing))
        except ValueError:  # weights that float32 cannot hold beside such columns
            programs.append(None)
    return programs


def controls_of(result: SearchResult, programs: list[Program | None]) -> list[dict[str, Any]]:
    """A control for each number that any of the programs takes, by its name."""
    controls: dict[str, dict[str, Any]] = {}
    for program in programs:
        for field in () if program is None else program.fields:
            if shortened(field.name) not in controls:
                controls[shortened(field.name)] = _control(result, field)
    return [{"field": name, **control} for name, control in controls.items()]


def running(program: Program, controls: list[dict[str, Any]]) -> dict[str, Any]:
    """The program as the page runs it, and which controls its numbers come from."""
    places = {control["field"]: place for place, control in enumerate(controls)}
    fields = [places[shortened(field.name)] for field in program.fields]
    return {"fields": fields, **javascript_data(program)}


def _control(result: SearchResult, field: Field) -> dict[str, Any]:
    """What may be chosen for a number, and what is there at first: what is usual."""
    column, at = _home(result, field)
    mean, scale = result.inputs.mean[at], result.inputs.scale[at]
    if field.is_code:
        levels = [*field.texts, *[REST] * (field.other >= 0), *["missing"] * (field.missing >= 0)]
        values = [None if level == field.missing else level for level in range(len(levels))]
        known = [*result.inputs.mean[at : at + field.supplied[1]]]
        shares = [1 - sum(known)] * (len(levels) - len(known)) + known  # the second tells of both
        start = values[shares.index(max(shares))]
        return {"texts": [*map(shortened, levels)], "values": values, "start": start}
    if field.texts:
        start = min(max(round(mean), 0), len(field.texts) - 1)
        values = [*range(len(field.texts))]
        return {"texts": [*map(shortened, field.texts)], "values": values, "start": start}
    known_range = result.settings.get("ranges", {}).get(column.name)
    low, high, least = known_range or (mean - REACH * scale, mean + REACH * scale, 0.0)
    if not low < high:
        low, high = mean - scale, mean + scale
    span = min(max(high - low, SMALLEST), 1 / SMALLEST)
    step = max(10.0 ** (math.floor(math.log10(span)) - DIGITS), least)
    low, high = math.floor(low / step + NEAR) * step, math.ceil(high / step - NEAR) * step
    ends = {"low": low, "high": high, "step": step}
    ends["start"] = min(max(round(mean / step) * step, low), high)
    short = {end: float(f"{value:.10g}") for end, value in ends.items()}
    return {**short, "may_be_missing": column.has_indicator}


def _home(result: SearchResult, field: Field) -> tuple[Column, int]:
    """The column of a field, and the first of the encoded columns that are the field's."""
    encoded = supplied = 0
    for column in result.inputs.columns:
        count = len(column.supplied_names)
        if supplied <= field.supplied[0] < supplied + count:
            return column, encoded + field.supplied[0] - supplied
        encoded += len(column.encoded_names)
        supplied += count
    raise AssertionError(field)
