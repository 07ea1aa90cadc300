"""Whether two searches found the same."""

import hashlib
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


def differing(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """The names of files that are not in both, or not the same in both."""
    return sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))


def digest(result: SearchResult) -> str:
    """A hash of all that a search found; the time it took is left out."""
    found = hashlib.sha256(repr(result.attempts).encode())
    found.update(repr(result.history.train_loss).encode())
    for candidate in (*result.front, result.linear):
        numbers = candidate.architecture, candidate.score, candidate.loss, candidate.standard_error
        found.update(repr(numbers).encode())
        for name, value in candidate.network.state_dict().items():
            found.update(name.encode() + value.contiguous().numpy().tobytes())
    return found.hexdigest()


def assert_same(first: SearchResult, second: SearchResult) -> None:
    """Bit for bit; only the time it took may differ."""
    assert first.attempts == second.attempts
    assert first.history.train_loss == second.history.train_loss
    for mine, other in zip(first.front, second.front, strict=True):
        assert mine.architecture == other.architecture
        pairs = zip(mine.network.parameters(), other.network.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
