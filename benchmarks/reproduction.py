"""Write docs/reproduction.md and its figures from the recorded results of ``sparcs reproduce``.

python benchmarks/reproduction.py
"""

import json

from recording import RESULTS

from torchsparcs.experiments import EXPERIMENTS
from torchsparcs.experiments.writing import write_figures, written_page

DOCS = RESULTS.parent
HEAD = """# The paper, reproduced

One command for each experiment; `sparcs reproduce --list` says what there is and what it costs, and
`--quick` runs a small version of it in minutes on two cores. Each writes its figures, a
`results.json` with every plotted number, and the page that stands here; called again after an
interruption it goes on where it stopped. What follows is the paper's own protocol, with the numbers
as recorded in [docs/results](results). "The paper" is G. Peri, L. Chicchi, D. Fanelli, L.
Giambagli, *Spectral Architecture Search for Neural Network Models*; its figures are counted from
the first to the last. This page is written by `benchmarks/reproduction.py`.
"""


def recorded() -> dict[str, dict]:
    """The results by experiment, of those that have been run in full."""
    paths = {name: RESULTS / f"{name}.json" for name in EXPERIMENTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def page() -> str:
    parts = [HEAD]
    for name, content in recorded().items():
        text = written_page(EXPERIMENTS[name], content, figures=f"figures/{name}/")
        parts.append(text.replace("# ", "## ", 1))
    return "\n".join(parts)


def main() -> None:
    for name, content in recorded().items():
        folder = DOCS / "figures" / name
        write_figures(EXPERIMENTS[name].draw(content), folder, endings=("svg",))
    (DOCS / "reproduction.md").write_text(page())


if __name__ == "__main__":
    main()
