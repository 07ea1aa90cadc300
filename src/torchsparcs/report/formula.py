"""A small network as a formula in the names and units of its columns."""

import math
from collections.abc import Sequence

import numpy as np

from torchsparcs.export.folding import Layer, Program
from torchsparcs.files.visible import shortened
from torchsparcs.tables.encoding import REST

MOST_PARAMETERS = 24  # that somebody reads as a formula
DIGITS = 4


def formula_of(program: Program, scale: Sequence[float]) -> list[str]:
    """The lines of the formula, hidden neurons first; ``scale`` is that of each encoded column.

    Weights have four digits, and more where a column lies far from zero: rounding moves no term by
    more than a thousandth of what its column does.
    """
    terms = _sources(program)
    centres = [float(number.centre) for number in program.numbers]
    centres += [0.0] * (program.features - len(centres))
    far = [_far(c, scale[at]) for c, at in zip(centres, program.reads, strict=True)]
    names, lines = _answers(program), []
    count = 0
    for layer in program.layers[:-1]:
        heard = _sums(layer, terms, centres, far)
        for line in heard:
            count += 1
            terms = [*terms, f"h{count}"]
            lines.append(f"h{count} = {_active(program.activation, line)}")
    sums = _sums(program.layers[-1], terms, centres, far)
    return [*lines, *(f"{name} = {line}" for name, line in zip(names, sums, strict=False))]


def _answers(program: Program) -> list[str]:
    if program.task == "regression":
        names = program.target.names if program.target is not None else ("y",)
        return [*map(shortened, names)]
    shown = program.classes[1:] if program.task == "binary" else program.classes
    return [f"evidence for {shortened(label)}" for label in shown]


def _sources(program: Program) -> list[str]:
    """What a feature is called: a column, or 1 where it has some text."""
    fields = program.fields
    names = [shortened(field.name) for field in fields]
    terms = []
    for number in program.numbers:
        texts = fields[number.field].texts
        is_either = len(texts) == 2
        name = names[number.field]
        terms.append(f"[{name} = {shortened(texts[1])}]" if is_either else name)
    terms += [f"[{names[told.field]} is missing]" for told in program.indicators]
    for place, level in program.levels:
        texts = fields[place].texts
        is_missing = level == fields[place].missing
        text = REST if level >= len(texts) else shortened(texts[level])
        terms.append(f"[{names[place]} {'is missing' if is_missing else '= ' + text}]")
    return terms


def _far(centre: float, scale: float) -> int:
    """How many digits a weight needs beside the usual ones."""
    return max(0, math.ceil(math.log10(abs(centre) / scale))) if centre and scale else 0


def _sums(
    layer: Layer, terms: list[str], centres: Sequence[float], far: Sequence[int]
) -> list[str]:
    weights = np.zeros((len(layer.bias), len(terms)))
    for first, block in layer.blocks:
        weights[:, first : first + block.shape[1]] += block
    lines = []
    for row, given in zip(weights, layer.bias.astype(np.float64), strict=True):
        places = np.flatnonzero(row).tolist()
        digits = {at: DIGITS + (far[at] if at < len(far) else 0) for at in places}
        bias, parts = given, []
        for at in places:
            weight = float(f"{row[at]:.{digits[at]}g}")
            bias -= weight * centres[at] if at < len(centres) else 0.0
            parts.append((weight, f"{_number(abs(weight), digits[at])}·{terms[at]}"))
        largest = max(np.abs(row), default=0.0)
        if abs(bias) > 1e-6 * largest or not parts:
            most = max(digits.values(), default=DIGITS)
            parts.insert(0, (bias, _number(abs(bias), most)))
        words = "".join(f" {'−' if part < 0 else '+'} {text}" for part, text in parts)
        lines.append(words[3:] if words.startswith(" +") else f"−{words[3:]}")
    return lines


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text else text


def _active(name: str, line: str) -> str:
    return (
        f"max(0, {line})" if name == "relu" else line if name == "identity" else f"{name}({line})"
    )
