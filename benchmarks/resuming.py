"""Records that are gone on with: what they have is not measured again.

They have to be of the same code, machine, versions and settings: what is compared bit for bit, or
timed, would otherwise mean nothing.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import torchsparcs
from torchsparcs.files.provenance import hardware, versions

SOURCES = (".py", ".jinja", ".json")


@cache
def code() -> str:
    """A digest of the library's files."""
    root = Path(torchsparcs.__file__).parent
    found = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in SOURCES):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(content)} ".encode() + content)
    return found.hexdigest()[:16]


def gone_on_from(name: str, settings: dict[str, Any], out: Path, *, resume: bool) -> dict[str, Any]:
    """The record ``out/name.json``; {} where there is none, and unless it is to ``resume``."""
    path = out / f"{name}.json"
    if not resume or not path.exists():
        return {}
    known = json.loads(path.read_text()).get("cpu", {})
    now = {"hardware": hardware("cpu"), "versions": versions(), "code": code(), **settings}
    others = [key for key, value in now.items() if known.get(key) != json.loads(json.dumps(value))]
    if others:
        words = "; ".join(f"{key} {known.get(key)!r}, now {now[key]!r}" for key in others)
        raise SystemExit(f"Expected the same code, machine and settings as in {path}. Got {words}.")
    return known
