"""Where the work runs: the device and the threads."""

import contextlib
from collections.abc import Iterator

import torch

FEW_ROWS = 10_000


def resolve_device(device: str | torch.device) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"Expected a device like 'auto', 'cpu' or 'cuda'. Got {device!r}."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"Expected a device that is here. Got {device!r}: there is no GPU.")
    return resolved


@contextlib.contextmanager
def threads_for(rows: int, device: torch.device) -> Iterator[None]:
    """One thread for few rows on a CPU: more gain little, and lose much on shared cores."""
    if device.type != "cpu" or rows >= FEW_ROWS:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
