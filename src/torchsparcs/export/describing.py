"""The comment of generated code: what it takes, what it gives, how it was made."""

import textwrap

from torchsparcs.export.names import commented
from torchsparcs.export.program import Field, Program

WIDTH = 96  # characters of a line


def description(program: Program, *, is_int8: bool = False, checks_codes: bool = True) -> list[str]:
    """What the generated code takes and gives, in lines that any comment may hold.

    ``checks_codes``: whether it looks for the codes that are also numbers.
    """
    lines = [*program.about]
    if is_int8:
        lines.append("Inside it computes with whole numbers: weights and activities are int8.")
        if program.about[1:]:
            lines.append("A score that does not say int8 is that of the network in float.")
    count = len(program.fields)
    lines += ["", f"It takes {count} number{'s' * (count > 1)} x:"]
    lines += [
        f'  x[{place}] "{field.name}"{_notes(field, checks_codes)}'
        for place, field in enumerate(program.fields)
    ]
    lines += ["", *_missing(program, is_int8), *_answers(program, () if is_int8 else program.ends)]
    return [part for line in lines for part in _wrapped(commented(line))]


def _wrapped(line: str) -> list[str]:
    parts = textwrap.wrap(
        line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return parts or [""]


def _notes(field: Field, checks_codes: bool) -> str:
    codes = ", ".join(f'{code} "{text}"' for code, text in enumerate(field.texts))
    notes = [codes, field.note, "NaN is missing, a level of its own" if field.missing >= 0 else ""]
    if field.is_ranked:
        none = "neither" if len(field.texts) == 2 else "none of them"
        as_it_is = f"NaN is {none}, another number is taken as it is"
        notes.append(f"any other number is {none}" if checks_codes else as_it_is)
    words = "; ".join(note for note in notes if note)
    return f": {words}" if words else ""


def _missing(program: Program, is_int8: bool) -> list[str]:
    """What becomes of numbers that are none, or out of range."""
    lines = []
    if program.fills and (program.numbers or program.indicators):
        lines.append(
            "A number that is NaN or infinite counts as missing: its mean in the rows that the "
            "network was found in stands for it."
        )
    if told := [f'"{program.fields[place].name}"' for (place,) in program.indicators]:
        lines.append(f"The network is told where {', '.join(told)} is missing.")
    if not program.fills:
        lines.append(
            "A number that is NaN or infinite counts as 0."
            if is_int8
            else "Numbers are taken as they are: NaN and infinities are answered in kind."
        )
    if is_int8:
        lines.append("A number beyond the range that int8 was fitted to counts as its end.")
    return lines


def _answers(program: Program, ends: tuple[tuple[float, float], ...]) -> list[str]:
    if program.target is None:
        return [f"It gives {program.outputs} number{'s' * (program.outputs > 1)}."]
    names = ", ".join(f'"{name}"' for name in program.target.names)
    if not program.classes:
        ranges = "; ".join(f"{low:.6g} to {high:.6g}" for low, high in ends)
        bound = f", from {ranges}: no answer lies beyond" if ranges else ""
        return [f"It gives {names}{bound}."]
    classes = ", ".join(f'{place} "{label}"' for place, label in enumerate(program.classes))
    return [f"It gives the class of {names}: {classes}."]
