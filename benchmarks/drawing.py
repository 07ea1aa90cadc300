"""How a figure of a benchmark becomes a file: it follows the colour scheme, and knows its records.

``shown`` are the records it was drawn from, by their path in ``docs``; a test compares them with
those that are there, so that no figure is older than what it shows.
"""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from torchsparcs.experiments.schemes import follow_scheme
from torchsparcs.experiments.writing import written_figure
from torchsparcs.files.atomic import write_atomically

DOCS = Path(__file__).resolve().parent.parent / "docs"
OURS, INK, ORANGE, RED, PURPLE = "#0072B2", "#000000", "#E69F00", "#D55E00", "#CC79A7"
GREEN, GREY, MIDDLE, ASLEEP, PALE = "#009E73", "#666666", "#888888", "#BBBBBB", "#CCCCCC"
FIGURES = DOCS / "figures"
WIDE = 5.6  # inches: on a phone its letters are still read


def records(*names: str) -> dict[str, bytes]:
    """Those records of ``docs/results`` as they are."""
    paths = (f"results/{name}.json" for name in names)
    return {path: (DOCS / path).read_bytes() for path in paths}


def save(figure: Figure, path: Path, shown: Mapping[str, bytes], top: float = 1.0) -> None:
    """Write an SVG; ``top`` of the height is for the panels, the rest for a legend."""
    figure.tight_layout(rect=(0, 0, 1, top))
    image = written_figure(figure, "svg", path.stem).decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, follow_scheme(image, shown).encode())
    print(path)
