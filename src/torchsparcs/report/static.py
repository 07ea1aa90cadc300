"""What of the page is there without its script: tables and the front, as markup."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchsparcs.files.visible import visible

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 300, 60, 36, 24  # of the front
Cells = Iterable[tuple[str, str]]  # words and the class of their column


def still(facts: Mapping[str, Any]) -> str:
    """The picked network as a formula and what to do with it, for readers without a script."""
    formula = facts["candidates"][facts["picked"]]["formula"]
    parts = [("As a formula", formula), ("Use it", [*map("".join, facts["commands"])])]
    return "".join(
        f'<h2>{title}</h2><pre tabindex="0" role="region" aria-label="{title}">'
        f"{_text_lines(lines)}</pre>"
        for title, lines in parts
        if lines
    )


def comparison(facts: Mapping[str, Any]) -> str:
    """The answer beside other networks."""
    of_chip = bool(facts["chip"])
    head = [("network", ""), ("parameters", "number")]
    head += [(facts["bytes_name"], "number")] * of_chip + [(facts["measure"], "number")]
    rows = []
    for row in facts["comparison"]:
        cells = [(row["name"], ""), (_whole(row["parameters"]), "number")]
        cells += [(_whole(row["bytes"]), "number")] * of_chip
        rows.append([*cells, (row["score"], "number")])
    marks = ["first", *[""] * (len(rows) - 1)]
    return _table(head, rows, [f'class="{mark}"' if mark else "" for mark in marks])


def candidates(facts: Mapping[str, Any]) -> str:
    """All that can be had, by size."""
    of_chip, is_int8 = bool(facts["chip"]), facts["is_int8"]
    head = [("number", ""), ("parameters", "number"), ("MACs", "number")]
    head += [(facts["bytes_name"], "number")] * of_chip + [(facts["measure"], "number")]
    head += [("in int8", "number")] * is_int8 + [(facts["where_judged"], "number")]
    head += [("what it is", ""), ("layers", "layers")]
    rows = []
    for found in facts["candidates"]:
        cells = [(str(found["pick"]), ""), (_whole(found["parameters"]), "number")]
        cells += [(_whole(found["macs"]), "number")]
        cells += [(_whole(found["bytes"]), "number")] * of_chip
        cells += [(found["score_with_error"], "number")]
        cells += [(found["int8_words"], "number")] * is_int8 + [(found["judged_words"], "number")]
        names = [*found["names"], *["no gain expected"] * found["gains_nothing"]]
        rows.append([*cells, (", ".join(names), ""), (found["architecture"], "layers")])
    return _table(head, rows, [f'data-index="{place}"' for place in range(len(rows))])


def costs(facts: Mapping[str, Any]) -> str:
    """The front by what it costs to measure the columns; nothing where they have no prices."""
    if not facts["costs"]:
        return ""
    head = [("cost", "number"), ("parameters", "number"), (facts["measure"], "number")]
    rows = [
        [
            (f"{row['cost']:.4g}", "number"),
            (_whole(row["parameters"]), "number"),
            (row["score"], "number"),
            (row["columns"] or "none", ""),
        ]
        for row in facts["costs"]
    ]
    table = _table([*head, ("columns that cost", "")], rows)
    return _folded("By what it costs to measure the columns", table, "costs")


# Measures of columns that were kept: their places, their names, and digits behind the point.
MEASURES = ((5, "worth to the pick", 3), (6, "relevance by input eigenvalues", 2))


def columns(facts: Mapping[str, Any]) -> str:
    """The columns of a table and the smallest network that reads each; nothing of a network."""
    if not facts["columns"]:
        return ""
    known, more = facts["columns"]["rows"], facts["columns"]["more"]
    measures = [each for each in MEASURES if any(row[each[0]] is not None for row in known)]
    head = [("column", ""), ("content", ""), ("smallest network that reads it", "")]
    head += [(words, "") for _, words, _ in measures] + [("read", "")]
    rows, marks = [], []
    for row in known:
        name, content, start, end, smallest = row[:5]
        reader = "none" if smallest is None else f"{smallest:,} parameter" + "s" * (smallest != 1)
        told = [_digits(row[place], digits) for place, _, digits in measures]
        cells = [name, content, reader, *told, _is_read(facts, start, end)]
        rows.append([(cell, "") for cell in cells])
        marks.append(f'data-from="{start}" data-to="{end}"')
    title = f"Columns, and which of them the network reads ({len(known) + more:,})"
    table = _table(head, rows, marks)
    rest = f'<p class="note">and {more:,} more</p>' if more else ""
    return _folded(title, table + rest, "columns")


def _digits(number: float | None, digits: int) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def _is_read(facts: Mapping[str, Any], start: int, end: int) -> str:
    """Whether the picked network reads a column; nothing where its inputs are shown in groups."""
    layer = facts["candidates"][facts["picked"]]["picture"]["layers"][0]
    if layer["per"] > 1:
        return ""
    return "yes" if any(start <= place < end for place in layer["index"]) else "no"


def about(facts: Mapping[str, Any]) -> str:
    """Titled lists of names and facts."""
    parts = []
    for section in facts["about"]:
        pairs = "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in section["facts"])
        parts.append(f"<div><h3>{_text(section['title'])}</h3><dl>{pairs}</dl></div>")
    return "".join(parts)


def front(facts: Mapping[str, Any]) -> str:
    """Score against size as a drawing that no script has to make, as the script's is."""
    found = [each for each in facts["candidates"] if _is_finite(each["score"])]
    if not found:
        return ""
    sizes, scores = ([math.log10(max(each["size"], 1)) for each in found],
                     [each["score"] for each in found])  # fmt: skip
    x = _scale(sizes, LEFT + 20, WIDTH - 40)
    y = _scale(scores, HEIGHT - BOTTOM - 16, TOP + 16)
    steps, marks = "", ""
    for each, size, score in zip(found, sizes, scores, strict=True):
        across, up = f"{x(size):.1f}", f"{y(score):.1f}"
        on_front = isinstance(each["pick"], int)
        steps += (f"H{across}V{up}" if steps else f"M{across} {up}") * on_front
        names = _text(" · ".join(each["names"]))
        kind = "point" if on_front else "point linear"
        marks += f'<g class="{kind}"><circle class="dot" cx="{across}" cy="{up}" r="5"/></g>'
        if names:
            marks += (
                f'<text x="{across}" y="{y(score) - 12:.1f}" text-anchor="middle">{names}</text>'
            )
    ends = [(found[0], sizes[0]), (found[-1], sizes[-1])][: 1 + (sizes[0] < sizes[-1])]
    for each, size in ends:
        marks += _label(f"{each['size']:,}", x(size), HEIGHT - BOTTOM + 18)
    low, high = (pick(found, key=lambda each: each["score"]) for pick in (min, max))
    for each in (low, high) if low is not high else (low,):
        marks += _label(_text(each["judged_words"]), LEFT - 6, y(each["score"]) + 4, "end")
    line = f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - 16}"/>'
    label = _text(f"{facts['measure']} against {facts['size']}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{line}'
        f'<path class="line blue" d="{steps}"/>{marks}'
        f"{_label(_text(facts['measure']), LEFT - 6, 13, 'start')}"
        f"{_label(_text(facts['size']), WIDTH - 16, HEIGHT - 2, 'end')}</svg>"
    )


def _label(words: str, x: float, y: float, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _scale(values: Sequence[float], first: float, last: float) -> Any:
    low, high = min(values), max(values)
    return lambda value: first + (value - low) / ((high - low) or 1) * (last - first)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _whole(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _text(words: object) -> str:
    return html.escape(visible(str(words)))


def _text_lines(lines: Iterable[str]) -> str:
    return "\n".join(map(_text, lines))


def _table(
    head: Cells, rows: Sequence[Sequence[tuple[str, str]]], marks: Sequence[str] = ()
) -> str:
    marks = marks or [""] * len(rows)
    title = "".join(f'<th scope="col"{_class(kind)}>{_text(words)}</th>' for words, kind in head)
    body = ""
    for (first, *cells), mark in zip(rows, marks, strict=True):
        rest = "".join(f"<td{_class(kind)}>{_text(words)}</td>" for words, kind in cells)
        body += f'<tr {mark}><th scope="row"{_class(first[1])}>{_text(first[0])}</th>{rest}</tr>'
    return f"<thead><tr>{title}</tr></thead><tbody>{body}</tbody>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _folded(title: str, table: str, name: str) -> str:
    """A table behind a line that opens it."""
    body, _, rest = table.partition("</tbody>")
    region = f'class="scroll" tabindex="0" role="region" aria-label="{_text(title)}"'
    return (
        f'<details id="{name}-table"><summary>{_text(title)}</summary>'
        f'<div {region}><table id="{name}">{body}</tbody></table></div>{rest}</details>'
    )
