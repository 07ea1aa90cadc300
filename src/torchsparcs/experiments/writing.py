"""Figures as files, and the page of an experiment in Markdown."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchsparcs.experiments.work import Content, plain, write_bytes
from torchsparcs.report.document import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from torchsparcs.experiments.experiment import Experiment

METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}


def write_figures(
    figures: "Mapping[str, Figure]", folder: Path, endings: Sequence[str] = tuple(METADATA)
) -> None:
    """Every figure as PNG and as SVG, the same bytes for the same numbers."""
    from matplotlib import rc_context

    for name, figure in figures.items():
        for ending in endings:
            image = io.BytesIO()
            with rc_context({"svg.hashsalt": name}):
                figure.savefig(image, format=ending, dpi=120, metadata=METADATA[ending])
            write_bytes(folder / f"{name}.{ending}", image.getvalue())


def written_page(experiment: "Experiment", content: Content, figures: str = "") -> str:
    """The page; ``figures`` is the folder that the links to them start with."""
    template = files(__package__).joinpath("pages", f"{experiment.name}.md")
    body = template.read_text(encoding="utf-8").format(**experiment.tell(content))
    claims = [
        [claim.says, claim.found, "yes" if claim.held else "**no**"]
        for claim in experiment.claims(content)
    ]
    versions = content["versions"]
    parts = [
        f"# {experiment.name}",
        f"{experiment.shows} {experiment.figures}.",
        f"`{content['command']}` on {content['hardware']}, torch {versions['torch']}, "
        f"{content['date']}.{_reductions(experiment, content)}",
        markdown_table(["to be seen", "seen", ""], claims),
        body.replace("](", f"]({figures}").rstrip(),
    ]
    return "\n\n".join(parts) + "\n"


def _reductions(experiment: "Experiment", content: Content) -> str:
    """What is smaller than in the full protocol."""
    full, used = plain(asdict(experiment.full)), content["setting"]
    smaller = [
        f"{name.replace('_', ' ')} {_short(used[name])} for {_short(full[name])}"
        for name in full
        if used[name] != full[name] and not isinstance(full[name], str)
    ]
    return f" **A reduced version**: {'; '.join(smaller)}." if smaller else ""


def _short(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list) and len(value) > 5 else f"{value}"


def spread(values: Sequence[float], form: str = "{:.3f}") -> str:
    """From the smallest to the largest, in words.

    >>> spread([0.25, 0.5]), spread([20, 20], "{:.0f}")
    ('0.250 to 0.500', '20')
    """
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"
