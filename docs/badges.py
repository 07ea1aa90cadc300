"""Draws the badges of the README from pyproject.toml: no service is asked, so none can be wrong.

python docs/badges.py
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
LETTER = 7.2  # points, of the widest fonts


def badges() -> dict[str, str]:
    """The badges as SVG, by the name of their file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    paper = project["urls"]["Paper"].removeprefix("https://arxiv.org/abs/")
    told = {
        "licence": ("licence", project["license"]),
        "python": ("python", project["requires-python"].replace(">=", "≥ ")),
        "paper": ("paper", f"arXiv {paper}"),
    }
    return {f"badge_{name}.svg": badge(*words) for name, words in told.items()}


def badge(label: str, value: str) -> str:
    left, right = (round(LETTER * len(text) + 14) for text in (label, value))
    text = 'y="14" fill="#fff" text-anchor="middle"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        'font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"<title>{label}: {value}</title>"
        f'<rect width="{left + right}" height="20" rx="3" fill="#0067a3"/>'
        f'<path d="M3 0H{left}V20H3A3 3 0 0 1 0 17V3A3 3 0 0 1 3 0" fill="#444c56"/>'
        f'<text x="{left / 2:g}" {text}>{label}</text>'
        f'<text x="{left + right / 2:g}" {text}>{value}</text></svg>\n'
    )


if __name__ == "__main__":
    for name, svg in badges().items():
        (FIGURES / name).write_text(svg)
