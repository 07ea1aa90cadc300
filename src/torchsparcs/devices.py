"""Where the work runs: the device and the threads."""

import contextlib
from collections.abc import Iterator

import torch

FEW_ROWS = 10_000  # below it one thread is as fast as many


def resolve_device(device: str | torch.device) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


@contextlib.contextmanager
def threads_for(rows: int, device: torch.device) -> Iterator[None]:
    """One thread for few rows on a CPU: more gain little, and lose much on shared cores."""
    threads = torch.get_num_threads()
    if device.type == "cpu" and rows < FEW_ROWS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
