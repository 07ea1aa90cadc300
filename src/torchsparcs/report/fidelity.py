"""What a network kept of its teacher, as a part of the page."""

import html
from typing import Any

from torchsparcs.files.visible import shortened, visible
from torchsparcs.results.fidelity import SEEN, is_flattered
from torchsparcs.results.result import SearchResult

BYTES = 4  # of a parameter
MICRO = 1e6


def fidelity_section(result: SearchResult) -> str:
    """HTML of a section, empty where the result remembers no fidelity."""
    kept = result.settings.get("fidelity")
    if kept is None:
        return ""
    measures = ["measure", "network", _name(kept)]
    table = _table(measures, _beside(kept), "The network beside its teacher")
    has_labels = bool(kept["labels"])
    head = ["row", "network", _name(kept), *(["label"] if has_labels else [])]
    rows = [
        [f"{place + 1:,}", said, told, *([label] if has_labels else [])]
        for place, said, told, label in zip(
            kept["disagreed"],
            kept["said"],
            kept["teacher_said"],
            kept["labels"] or [""] * len(kept["said"]),
            strict=True,
        )
    ]
    disagreed = f"""
  <details>
    <summary>Rows on which they disagree most</summary>
    {_table(head, rows, "Rows on which they disagree most")}
  </details>"""
    return f"""<section aria-labelledby="fidelity-title" id="fidelity">
  <h2 id="fidelity-title">What it kept of its teacher</h2>
  <p class="note">{_text(_words(result, kept))}</p>
  {table}{disagreed if rows else ""}
</section>"""


def _name(kept: dict[str, Any]) -> str:
    return shortened(kept["teacher"])


def _words(result: SearchResult, kept: dict[str, Any]) -> str:
    """Agreement, correlation and divergence, in a few sentences."""
    seen = f" {SEEN}" if is_flattered(result.settings) else ""
    correlation = "" if kept["correlation"] is None else f"{kept['correlation']:.4f}"
    name, rows = _name(kept), f"{kept['rows']:,} rows"
    if kept.get("is_of_folds"):
        rows += ", each answered by networks made like it that had not seen it,"
    if result.target.classes is None:
        same = f"On {rows} the network of {kept['parameters']:,} parameters correlates with {name}"
        squares = f"the mean square between them is {_short(kept['divergence'])} of the variance"
        return f"{same} by {correlation or 'nothing'}; {squares} of the target.{seen}"
    same = f"Of {rows} the network of {kept['parameters']:,} parameters gives {_share(kept)}"
    chances = f" Their probabilities correlate by {correlation}," if correlation else " And"
    return (
        f"{same} the class that {name} gives.{chances} KL({name}, network) is "
        f"{_short(kept['divergence'])} nats on average.{seen}"
    )


def _share(kept: dict[str, Any]) -> str:
    return f"{100 * kept['agreement']:.1f} %"


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _beside(kept: dict[str, Any]) -> list[list[str]]:
    """Rows of names, what the network has and what its teacher has."""
    size, count = kept.get("teacher_bytes"), max(1, kept["rows"])
    rows = [
        [
            "bytes, of numbers and of a file",
            f"{BYTES * kept['parameters']:,}",
            "–" if size is None else f"{size:,}",
        ]
    ]
    if "seconds" in kept:  # the teacher was asked for the purpose
        one = [_micro(kept[name]) for name in ("one_row", "teacher_one_row")]
        each = [_micro(kept[name] / count) for name in ("seconds", "teacher_seconds")]
        rows += [["µs for one row", *one], ["µs a row for all of them", *each]]
    if kept["score"] is not None and kept["teacher_score"] is not None:
        scores = [f"{kept[name]:.4f}" for name in ("score", "teacher_score")]
        rows.insert(0, ["score against the labels", *scores])
    return rows


def _micro(seconds: float) -> str:
    return f"{MICRO * seconds:,.3g}" if seconds < 1e-3 else f"{MICRO * seconds:,.0f}"


def _table(head: list[str], rows: list[list[str]], label: str) -> str:
    cells = "".join(f'<th scope="col">{_text(each)}</th>' for each in head)
    lines = [f"<tr>{cells}</tr>"]
    for first, *others in rows:
        told = "".join(f"<td>{_text(each)}</td>" for each in others)
        lines.append(f'<tr><th scope="row">{_text(first)}</th>{told}</tr>')
    body = "".join(lines)
    region = f'class="scroll" tabindex="0" role="region" aria-label="{_text(label)}"'
    return f"<div {region}><table>{body}</table></div>"


def _text(words: str) -> str:
    return html.escape(visible(words))
