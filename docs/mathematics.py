"""Formulas of the pages as MathML, which browsers draw by themselves: no script, no request.

A page has TeX in ``$…$`` within a line and in blocks marked ``math``, which GitHub draws, too; a
``\\tag{N}`` numbers an equation. Markdown takes this file as an extension, see zensical.toml.
"""

import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

TAG = re.compile(r"\\tag\{(\w+)\}")
INLINE = r"(?<![\\$])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])"
BEFORE_ESCAPES = 185  # code is found first, at 190; what is left of a formula is no Markdown
SIDES = re.compile(r'columnalign="(\w+)"')  # browsers want it as a style
ARRAY = "display:grid;grid-template-columns:1fr auto;align-items:center;overflow-x:auto"


def mathml(tex: str, display: str) -> str:
    """One formula; what the converter does not know it leaves as TeX, which is an error here."""
    made = convert(tex, display=display)
    text = "".join(fromstring(made).itertext())
    if left := re.search(r"\\[a-zA-Z]+|&", text):
        raise ValueError(f"Expected TeX that latex2mathml knows. Got {left[0]} in {tex!r}")
    return made


def display(source: str, *_: Any, **__: Any) -> str:
    """A block of its own, its number at the right: what a fence marked ``math`` becomes."""
    number = TAG.search(source)
    formula = mathml(TAG.sub("", source).strip(), "block")
    formula = SIDES.sub(r'style="text-align:\1"', formula)
    if number is None:
        return f'<div style="{ARRAY}">{formula}</div>'
    return (
        f'<div id="equation-{number[1]}" style="{ARRAY}">{formula}<span>({number[1]})</span></div>'
    )


class _Inline(InlineProcessor):
    def handleMatch(self, match: re.Match[str], _: str) -> tuple[Element, int, int]:
        formula = fromstring(mathml(match[1], "inline"))
        for part in formula.iter():  # names without their namespace, as HTML has them
            part.tag = part.tag.rpartition("}")[2]
        return formula, match.start(0), match.end(0)


class _Mathematics(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Inline(INLINE, md), "mathematics", BEFORE_ESCAPES)


def makeExtension(**options: Any) -> Extension:
    """What Markdown asks for."""
    return _Mathematics(**options)
