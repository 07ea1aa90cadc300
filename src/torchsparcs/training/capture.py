"""A training step recorded once as a CUDA graph and replayed on new batches."""

from collections.abc import Callable

import torch
from torch import Tensor


class CapturedStep:
    """``step(x, y, ...) -> loss`` as one graph for batches of the shape of the first one.

    The step must have run a few times before, so that everything it allocates once is there, and
    what changes between steps (learning rates) must live in tensors.
    """

    def __init__(self, step: Callable[..., Tensor], *batch: Tensor):
        self.batch = [part.clone() for part in batch]
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.loss = step(*self.batch)

    def fits(self, *batch: Tensor) -> bool:
        return [part.shape for part in batch] == [part.shape for part in self.batch]

    def __call__(self, *batch: Tensor) -> Tensor:
        for mine, given in zip(self.batch, batch, strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.loss.clone()
