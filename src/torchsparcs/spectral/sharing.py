"""Parameters that are shared out over processes, as ``fully_shard`` does."""

from typing import Any

from torch import Tensor


def whole(tensor: Any) -> Tensor:
    """All of ``tensor``, in every process, where it is shared out; else itself."""
    return tensor.full_tensor() if is_shared_out(tensor) else tensor


def is_shared_out(tensor: Tensor) -> bool:
    """Whether each process has a part of it."""
    return hasattr(tensor, "full_tensor")
