"""Figures as files, and the page of an experiment in Markdown."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined

from torchsparcs.experiments.schemes import follow_scheme
from torchsparcs.files.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from torchsparcs.experiments.experiment import Experiment

Content = dict[str, Any]  # what JSON holds
Figures = dict[str, "Figure"]  # by the name of their file
METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}


def write_figures(
    figures: Figures,
    folder: Path,
    endings: Sequence[str] = tuple(METADATA),
    shown: Mapping[str, bytes] | None = None,
) -> None:
    """Every figure as PNG and as SVG, the same bytes for the same numbers.

    SVG follows the colour scheme of its reader, and is stamped with what it shows.
    """
    for name, figure in figures.items():
        for ending in endings:
            image = written_figure(figure, ending, name)
            if ending == "svg":
                image = follow_scheme(image.decode(), shown).encode()
            write_atomically(folder / f"{name}.{ending}", image)


def written_figure(figure: "Figure", ending: str, salt: str) -> bytes:
    from matplotlib import rc_context

    image = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):  # text stays text
        figure.savefig(image, format=ending, dpi=120, metadata=METADATA[ending])
    return image.getvalue()


def written_page(experiment: "Experiment", content: Content, figures: str = "") -> str:
    """``pages/page.md`` filled in; ``figures`` is the folder that the links to them start with.

    The page of the experiment inside it knows the setting and the results by their names.
    """
    pages = Environment(
        loader=PackageLoader("torchsparcs.experiments", "pages"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"percent": percent, "spread": spread, "median": median, "best": best}
    pages.filters["columns"] = lambda table: list(zip(*table, strict=True))
    known = {
        **content,
        **content["setting"],
        **content["results"],
        **experiment.page_names,
        "experiment": experiment,
        "changes": changes(experiment, content),
        "claims": experiment.claims(content),
    }
    text = pages.get_template("page.md").render(known)
    return text.replace("](", f"]({figures}").rstrip() + "\n"


def changes(experiment: "Experiment", content: Content) -> list[str]:
    """What differs from the full protocol."""
    full, used = plain(asdict(experiment.full)), content["setting"]
    return [
        f"{name.replace('_', ' ')} {_change(used[name], full[name])}"
        for name in full
        if name in used and used[name] != full[name] and name != "data"
    ]


def _change(used: Any, full: Any) -> str:
    """Of words those that were left out; of all else what it is, and what it would be."""
    if isinstance(full, list) and {*map(type, full)} == {str}:
        left = [word for word in full if word not in used]
        return f"{', '.join(used)}, not {', '.join(left)}"
    return f"{_short(used)} for {_short(full)}"


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


def percent(values: Iterable[float], digits: int = 2) -> str:
    """Mean and standard deviation of shares.

    >>> percent([0.5, 0.6])
    '55.00 ± 5.00'
    """
    shares = 100 * np.array(list(values))
    return f"{shares.mean():.{digits}f} ± {shares.std():.{digits}f}"


def best(accuracy: Sequence[Sequence[float]]) -> list[float]:
    """The best epoch of each seed, of (epochs, seeds).

    >>> best([[0.5, 0.6], [0.7, 0.4]])
    [0.7, 0.6]
    """
    return [max(column) for column in zip(*accuracy, strict=True)]


def spread(values: Iterable[float], form: str = "{:.3f}") -> str:
    """The range from the smallest to the largest, in words.

    >>> spread([0.25, 0.5]), spread([20, 20], "{:.0f}")
    ('0.250 to 0.500', '20')
    """
    ordered = sorted(values)
    low, high = form.format(ordered[0]), form.format(ordered[-1])
    return low if low == high else f"{low} to {high}"
