"""What a notebook shows of a result: a sentence, the front, the networks that tell it, the pick."""

import math
from collections.abc import Callable
from html import escape

from torchsparcs.compact.drawing import NEGATIVE, POSITIVE, drawing, text
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.report.excerpt import excerpt, layers_in_short
from torchsparcs.report.facts import output_names, rules_of, shown_of
from torchsparcs.report.wording import data_words, headline
from torchsparcs.results.result import Candidate, SearchResult, is_same

WIDTH, HEIGHT, LEFT, BOTTOM, EDGE = 640, 220, 64, 34, 12  # pixels
TICKS = 12  # at most, on the axis of sizes


def html_of(result: SearchResult) -> str:
    """HTML without scripts, of some kilobytes; names from the data are text in it."""
    pick = result.settings.get("pick", "smallest")
    picked = result.pick(pick)
    parts = [
        f"<p><b>{escape(headline(result, picked))}</b> {escape(data_words(result))}.</p>",
        front_svg(result, picked),
        _table(result, picked),
    ]
    if isinstance(picked.network, CompactNetwork):
        names = result.inputs.encoded_names if result.preprocessing is not None else ()
        parts.append(drawing(picked.network, names, output_names(result.target)))
    return f'<div style="max-width:{WIDTH}px">{"".join(parts)}</div>'


def front_svg(result: SearchResult, picked: Candidate) -> str:
    """Score to be expected against size, with its standard error; the pick is filled."""
    drawn = [found for found in shown_of(result) if math.isfinite(found.told)]
    if not drawn:
        return ""
    sizes = [max(result.size.of(found), 1) for found in drawn]
    scores = [found.told for found in drawn]
    first, last = math.log10(min(sizes)) - 0.05, math.log10(max(sizes)) + 0.05
    room = 0.06 * (max(scores) - min(scores)) or 0.01
    low, high = min(scores) - room, max(scores) + room

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - EDGE) * (math.log10(size) - first) / (last - first)

    def y(score: float) -> float:
        inside = min(max(score, low), high)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - EDGE) * (inside - low) / (high - low)

    words, base = result.scoring.words, HEIGHT - BOTTOM
    parts = [f'<path d="M{LEFT} {EDGE}V{base}H{WIDTH - EDGE}" fill="none" stroke="currentColor"/>']
    ticks = _ticks(min(sizes), max(sizes))
    parts += [text(x(size), base + 14, f"{size:,}", "middle") for size in ticks]
    ends = (min(scores), max(scores))
    parts += [text(LEFT - 6, y(score) + 4, words(score, short=True), "end") for score in ends]
    unit, measure = result.size.unit, f"expected {result.scoring.label}"
    parts.append(text((LEFT + WIDTH) / 2, HEIGHT - 4, unit, "middle"))
    parts.append(f'<g transform="rotate(-90)">{text(-base / 2, 12, measure, "middle")}</g>')
    front = [found for found in drawn if any(found is each for each in result.front)]
    steps = "".join(
        f"{'H' if place else 'M'}{x(max(result.size.of(found), 1)):.4g}"
        f"{'V' if place else ' '}{y(found.told):.4g}"
        for place, found in enumerate(front)
    )
    parts.append(f'<path d="{steps}" fill="none" stroke="{POSITIVE}" stroke-width="1.5"/>')
    for found, size in zip(drawn, sizes, strict=True):
        parts.append(_mark(result, found, x(size), y, is_picked=is_same(found, picked)))
    title = f"{measure} against {unit}, {len(result.front)} networks"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'style="max-width:100%;height:auto" role="img" fill="currentColor" font-size="11" '
        f'font-family="sans-serif"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _ticks(least: int, most: int) -> list[int]:
    """One, two and five times the powers of ten between two sizes; of a wide range the powers."""
    powers = range(int(math.log10(least)), int(math.log10(most)) + 1)
    ticks = [part * 10**power for power in powers for part in (1, 2, 5)]
    inside = [tick for tick in ticks if least <= tick <= most]
    if len(inside) > TICKS:
        inside = [tick for tick in inside if str(tick)[0] == "1"]
    return inside or [least]


def _mark(
    result: SearchResult,
    found: Candidate,
    x: float,
    y: Callable[[float], float],
    *,
    is_picked: bool,
) -> str:
    """A dot with its standard error and, of a pick, the name of its rule."""
    error = found.standard_error if math.isfinite(found.standard_error) else 0.0
    fill = NEGATIVE if is_picked else POSITIVE
    low, high, here = y(found.told - error), y(found.told + error), y(found.told)
    words = result.scoring.words(found.told, found.standard_error)
    about = f"{result.size.of(found):,} {result.size.unit}: {words}, {found.architecture}"
    rules = ", ".join(rules_of(result, found))
    anchor = "end" if x > WIDTH - 4 * EDGE else "middle"
    beside = -10 if here > HEIGHT - BOTTOM - 24 else 18  # above it, where the axis is near
    name = text(min(x, WIDTH - EDGE), here + beside, rules, anchor) if rules else ""
    return (
        f'<g><title>{escape(about)}</title><path d="M{x:.4g} {low:.4g}V{high:.4g}" '
        f'stroke="{fill}"/><circle cx="{x:.4g}" cy="{here:.4g}" r="{5 if is_picked else 3}" '
        f'fill="{fill}"/>{name}</g>'
    )


def _table(result: SearchResult, picked: Candidate) -> str:
    """The networks that tell the front, a row for each."""
    heads = ("", result.size.unit, f"expected {result.scoring.label}", "picked by", "layers")
    rows = []
    for place in excerpt(result, picked):
        found = result.front[place]
        score = result.scoring.words(found.told, found.standard_error, short=True)
        rules = ", ".join(rules_of(result, found))
        cells = (f"{place}", f"{result.size.of(found):,}", score, rules, layers_in_short(found))
        weight = "bold" if is_same(found, picked) else "normal"
        filled = "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in cells)
        rows.append(f'<tr style="font-weight:{weight}">{filled}</tr>')
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in heads)
    left = len(result.front) - len(rows)
    more = f"<p>{left} more in <code>result.front</code>.</p>" if left else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"
