"""What every benchmark writes beside its numbers: how, with what and on what they were made."""

import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"


def hardware(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores"


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
    content[device] = {
        "command": " ".join(["python", *_without_out(sys.argv)]),
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": hardware(device),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        **results,
    }
    out.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)
    return path
