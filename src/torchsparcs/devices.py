"""Where the work runs: the device and the threads."""

import contextlib
import threading

import torch

from torchsparcs.folds import MANY_ROWS


def resolve_device(device: str | torch.device) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"Expected a device like 'auto', 'cpu' or 'cuda'. Got {device!r}."
        ) from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"Expected a device that is here. Got {device!r}: there is no GPU.")
    return found


class _OneThread:
    """Torch on one thread as long as anybody wants that; the number is the whole process's."""

    def __init__(self) -> None:
        self.lock, self.wanted, self.before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        with self.lock:
            if self.wanted == 0:
                self.before = torch.get_num_threads()
            self.wanted += 1
            torch.set_num_threads(1)

    def __exit__(self, *exception: object) -> None:
        with self.lock:
            self.wanted -= 1
            if self.wanted == 0:
                torch.set_num_threads(self.before)


ONE_THREAD = _OneThread()


def threads_for(rows: int, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """One thread for few rows on a CPU: more gain little, and lose much on shared cores."""
    few = device.type == "cpu" and rows < MANY_ROWS
    return ONE_THREAD if few else contextlib.nullcontext()
