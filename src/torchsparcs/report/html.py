"""HTML files that run nothing but their own script and fetch nothing, from templates in assets."""

import base64
import hashlib
import html
import re
from importlib.resources import files
from pathlib import Path

from torchsparcs.files.checkpoints import write_atomically

PLACE = re.compile(r"\{\{(\w+)\}\}")


def asset(name: str) -> str:
    return (files("torchsparcs.report") / "assets" / name).read_text(encoding="utf-8")


def filled(template: str, texts: dict[str, str], script: str | None = None, **markup: str) -> str:
    """The asset ``template``, every ``{{name}}`` replaced, once, with style, policy and script.

    What is put in is not looked at again. ``texts`` are escaped, ``markup`` is put in as it is.
    """
    style = asset("style.css")
    parts = {name: html.escape(text) for name, text in texts.items()} | markup
    parts |= {"style": style, "script": script or "", "policy": _policy(style, script)}
    return PLACE.sub(lambda place: parts[place[1]], asset(template))


def _policy(style: str, script: str | None) -> str:
    """Nothing runs but ``script``, nothing is fetched."""
    allowed = "" if script is None else f"script-src {_hash(script)}; "
    return (
        f"default-src 'none'; {allowed}style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def check_place(file: Path, *, force: bool) -> None:
    """A ValueError unless a page may be written there."""
    if file.is_dir():
        raise ValueError(f"Expected a file to write to. {file} is a folder.")
    if file.exists() and not force:
        raise ValueError(
            f"Expected a file that is not there yet. {file} is: choose another, or force it."
        )


def write(file: Path, content: str) -> Path:
    write_atomically(file, lambda stream: stream.write(content.encode()))
    return file
