"""What every benchmark writes beside its numbers: how, with what and on what they were made."""

import json
import sys
from pathlib import Path

from torchsparcs.files.provenance import provenance

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"


def _without_out(arguments: list[str]) -> list[str]:
    """The command line, but for the folder the results went to."""
    if "--out" not in arguments:
        return arguments
    place = arguments.index("--out")
    return arguments[:place] + arguments[place + 2 :]


def record(name: str, device: str, results: dict, out: Path = RESULTS) -> Path:
    """Write ``out/name.json``; the part of another device in the same file is kept."""
    path = out / f"{name}.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    command = " ".join(["python", *_without_out(sys.argv)])
    made = provenance(command, device)  # a record that is gone on from has one of its own
    content[device] = made | results | made
    out.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)
    return path
