"""Figures as SVG that follow the light or dark scheme of their reader, and say what they show.

Matplotlib draws with the colours of ``SCHEMES``; ``follow_scheme`` puts variables in their place.
The figure brings its own background, so that it is readable where a page has another scheme.
"""

import hashlib
import re
from collections.abc import Mapping

# The colour that is drawn: the name of the variable, and what it is on light and on dark ground.
# The first ones are safe for colour-blind readers (Okabe and Ito), and have 3 to 1 with the ground.
SCHEMES = {
    "#0072b2": ("ours", "#0067a3", "#58b4f0"),
    "#000000": ("ink", "#1f2328", "#e6edf3"),
    "#e69f00": ("orange", "#b36b00", "#f0b23e"),
    "#009e73": ("green", "#007f5c", "#35c79a"),
    "#d55e00": ("red", "#c24e00", "#ff8f4d"),
    "#cc79a7": ("purple", "#b0508a", "#e79cc6"),
    "#56b4e9": ("sky", "#2b87bd", "#8ad0fa"),
    "#666666": ("grey", "#656d76", "#9aa4ae"),
    "#888888": ("middle", "#7b838b", "#8d96a0"),
    "#bbbbbb": ("asleep", "#b5bbc2", "#5c656f"),
    "#cccccc": ("pale", "#c4c9cf", "#4a525b"),
    "#b0b0b0": ("grid", "#c4c9cf", "#4a525b"),
    "#ffffff": ("paper", "#ffffff", "#0d1117"),
}
STAMP = re.compile(r"<!-- shows (\S+) sha256:([0-9a-f]{16}) -->")


def style() -> str:
    """The variables, light and dark."""
    light, dark = (
        ";".join(f"--{name}:{shades[place]}" for name, *shades in SCHEMES.values())
        for place in (0, 1)
    )
    return (
        f"<style>:root{{color-scheme:light dark;{light}}}\n"
        f"@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        "svg{fill:var(--ink)}text{font-family:system-ui,sans-serif!important}</style>"
    )


def follow_scheme(svg: str, shown: Mapping[str, bytes] | None = None) -> str:
    """The figure with variables for colours, stamped with the digest of each thing it shows."""

    def variable(match: re.Match[str]) -> str:
        known = SCHEMES.get(match[2].lower())
        return match[0] if known is None else f"{match[1]}var(--{known[0]})"

    text = re.sub(r"((?:fill|stroke): )(#[0-9a-fA-F]{6})\b", variable, svg)
    head, rest = text.split("<svg", 1)
    opening, rest = rest.split(">", 1)
    stamps = "".join(f"\n{stamp(name, content)}" for name, content in (shown or {}).items())
    return f"{head}<svg{opening}>{stamps}\n{style()}{rest}"


def stamp(name: str, content: bytes) -> str:
    return f"<!-- shows {name} sha256:{hashlib.sha256(content).hexdigest()[:16]} -->"
