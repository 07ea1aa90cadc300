"""How, with what and on what a result was made."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from torchsparcs.version import __version__


def provenance(command: str, device: torch.device | str) -> dict[str, Any]:
    """What every recorded result carries beside its numbers."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchsparcs": __version__,
    }


def hardware(device: torch.device | str) -> str:
    """The GPU by its name, or the processor and how many cores of it there are."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return model
