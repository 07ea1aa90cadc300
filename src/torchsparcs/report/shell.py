"""What the HTML files of a report have in common: assets, a strict policy, whole files."""

import base64
import hashlib
import re
from importlib.resources import files
from pathlib import Path

from torchsparcs.files.atomic import write_atomically

PLACE = re.compile(r"\{\{(\w+)\}\}")


def asset(name: str) -> str:
    return (files("torchsparcs.report") / "assets" / name).read_text(encoding="utf-8")


def filled(template: str, parts: dict[str, str]) -> str:
    """Every ``{{name}}`` replaced, once: what is put in is not looked at again."""
    return PLACE.sub(lambda place: parts[place[1]], template)


def policy(style: str, script: str | None = None) -> str:
    """Nothing runs but ``script``, nothing is fetched."""
    allowed = "" if script is None else f"script-src {_hash(script)}; "
    return (
        f"default-src 'none'; {allowed}style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


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


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
