"""One thread for all tests: their networks are small, and cores are often shared. One seed each."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for subprocesses

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    """A test that passes once passes always, alone or among others."""
    torch.manual_seed(0)
