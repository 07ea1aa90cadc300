"""Whether two searches found the same."""

import torch

from torchsparcs import SearchResult


def assert_same(first: SearchResult, second: SearchResult) -> None:
    """Bit for bit; only the time it took may differ."""
    assert first.attempts == second.attempts
    assert first.history.train_loss == second.history.train_loss
    for mine, other in zip(first.front, second.front, strict=True):
        assert mine.architecture == other.architecture
        pairs = zip(mine.network.parameters(), other.network.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
