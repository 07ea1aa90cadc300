"""Whether two searches found the same."""

import json
from pathlib import Path

import torch

from torchsparcs import SearchResult

TIMED = ("report.html", "model.onnx")  # hold times in places that are hard to find


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of all files by their paths, without the times that they took."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in TIMED:
            content = path.read_bytes()
            if path.name in ("settings.json", "history.json"):
                values = json.loads(content)
                values.get("settings", values).pop("seconds")
                content = json.dumps(values).encode()
            found[path.relative_to(folder).as_posix()] = content
    return found


def assert_same(first: SearchResult, second: SearchResult) -> None:
    """Bit for bit; only the time it took may differ."""
    assert first.attempts == second.attempts
    assert first.history.train_loss == second.history.train_loss
    for mine, other in zip(first.front, second.front, strict=True):
        assert mine.architecture == other.architecture
        pairs = zip(mine.network.parameters(), other.network.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
