"""Pages and benchmarks run here; how well they search is tested elsewhere."""

import pytest

from torchsparcs import SearchConfig


@pytest.fixture
def brief_searches(monkeypatch):
    """Every search in this process takes few steps and large ones from size to size."""
    check, most = SearchConfig.__post_init__, {"steps": 30, "epochs": 1, "path": 2, "shrink": 0.3}

    def shorten(config):
        check(config)
        for name, value in most.items():
            object.__setattr__(config, name, min(getattr(config, name), value))

    monkeypatch.setattr(SearchConfig, "__post_init__", shorten)
