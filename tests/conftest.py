"""One thread for all tests: their networks are small, and cores are often shared. One seed each."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for subprocesses

os.environ.pop("COLUMNS", None)  # processes of pytest-xdist have it: nothing is to be wrapped

import pytest
import torch

from torchsparcs import SearchConfig

signal.signal(signal.SIGINT, signal.default_int_handler)  # the background of a shell ignores it

collect_ignore = ["typed.py"]  # it is read by the type checker alone

BRIEF = {"steps": 30, "epochs": 1, "path": 1, "ways": 1, "shrink": 0.3}  # of ways the first


@pytest.fixture(autouse=True)
def seeded():
    """A test that passes once passes always, alone or among others."""
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def brief_searches():
    """Searches of a module that tests what is around them: few steps, large ones between sizes."""
    check = SearchConfig.__post_init__

    def shorten(config):
        check(config)
        for name, most in BRIEF.items():
            value = getattr(config, name)
            brief = value[:most] if isinstance(value, (tuple, list)) else min(value, most)
            object.__setattr__(config, name, brief)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchConfig, "__post_init__", shorten)
        yield
