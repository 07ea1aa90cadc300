"""Figures as files, and the page of an experiment in Markdown."""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from torchsparcs.experiments import plots
from torchsparcs.files.atomic import write_atomically
from torchsparcs.report.document import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from torchsparcs.experiments.experiment import Experiment

Content = dict[str, Any]  # what JSON holds
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
            write_atomically(folder / f"{name}.{ending}", image.getvalue())


def written_page(experiment: "Experiment", content: Content, figures: str = "") -> str:
    """The page; ``figures`` is the folder that the links to them start with."""
    template = files(__package__).joinpath("pages", f"{experiment.name}.md")
    blanks = {**content["setting"], **content["results"], **experiment.tell(content)}
    body = template.read_text(encoding="utf-8").format_map(blanks)
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


def write_json(path: Path, content: Content) -> None:
    text = json.dumps(plain(content), separators=(",", ":"), ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def plain(value: Any) -> Any:
    """Tensors and tuples as lists, numbers with six digits: what JSON keeps as it is."""
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def table(columns: Sequence[tuple[str, Callable[[Any], Any]]], rows: Iterable[Any]) -> str:
    """A table in Markdown: the title of each column, and what stands there of a row.

    >>> print(table([("name", str.title), ("letters", len)], ["one", "three"]))
    | name | letters |
    | --- | ---: |
    | One | 3 |
    | Three | 5 |
    """
    cells = [[tell(row) for _, tell in columns] for row in rows]
    return markdown_table([title for title, _ in columns], cells)


def histograms(
    size: tuple[float, float], lines: Sequence[Sequence[tuple[str, Any, str]]]
) -> "Figure":
    """Eigenvalues in lines of panels, each of a title, the values and a colour."""
    figure = plots.new_figure(*size)
    grid: Any = figure.subplots(len(lines), len(lines[0]), squeeze=False)
    for axes, (title, values, colour) in zip(grid.flat, chain(*lines), strict=True):
        plots.draw_histogram(axes, values, colour=colour)
        axes.set_title(title, fontsize=9)
    return figure


def percent(values: Any, digits: int = 2) -> str:
    """Mean and standard deviation of shares.

    >>> percent([0.5, 0.6])
    '55.00 ± 5.00'
    """
    shares = 100 * np.array(values)
    return f"{shares.mean():.{digits}f} ± {shares.std():.{digits}f}"


def megabytes(count: float | None) -> str:
    return "not measured" if count is None else f"{count / 1e6:.1f}"


def spread(values: Sequence[float], form: str = "{:.3f}") -> str:
    """The range from the smallest to the largest, in words.

    >>> spread([0.25, 0.5]), spread([20, 20], "{:.0f}")
    ('0.250 to 0.500', '20')
    """
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"
