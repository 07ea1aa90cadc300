"""Where the work runs: the device, the threads, and several processes at one training.

``torch.distributed`` says how many processes there are (``torchrun`` and Lightning Fabric start
them). What asks or tells the others is called by all of them at the same point; a process that is
alone talks to nobody.
"""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

ROWS_FOR_GPU = 10_000  # fewer rows of a table are searched faster by a core of a CPU
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"  # the interface of this machine alone


def resolve_device(device: str | torch.device, rows: float = math.inf) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one and so many rows are enough."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and rows >= ROWS_FOR_GPU else "cpu"
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
def one_thread(device: torch.device) -> Iterator[None]:
    """One thread on a CPU, as every worker has: sums are the same, whoever adds them up."""
    if device.type != "cpu":
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Ranks:
    """This process, ``rank``, among ``world``."""

    rank: int = 0
    world: int = 1

    @classmethod
    def current(cls) -> "Ranks":
        """This process in the process group, where one has been started."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def is_first(self) -> bool:
        """The one that writes files and shows progress."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """This process's part of the ``rows`` of a batch; too few to share out are everybody's."""
        return rows if len(rows) < self.world else rows.tensor_split(self.world)[self.rank]

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Each of ``tensors`` becomes its sum over the processes, the same bits everywhere."""
        if self.world == 1:
            return
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            kinds.setdefault(tensor.dtype, []).append(tensor)
        for mine in kinds.values():
            flat = torch.cat([tensor.flatten() for tensor in mine])
            dist.all_reduce(flat)
            for tensor, total in zip(mine, flat.split([t.numel() for t in mine]), strict=True):
                tensor.copy_(total.view_as(tensor))

    def broadcast_(self, tensors: Iterable[Tensor]) -> None:
        """Each of ``tensors`` becomes what it is in the first process."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def first(self, ask: Callable[[], Any]) -> Any:
        """What the first process answers, or the error that it meets, in all of them."""
        if self.world == 1:
            return ask()
        answer: list[Any] = [None, None]
        if self.is_first:
            try:
                answer[0] = ask()
            except Exception as error:
                answer[1] = error
        dist.broadcast_object_list(answer, src=0)
        if answer[1] is not None:
            raise answer[1]
        return answer[0]

    def gather(self, value: Any) -> list[Any]:
        """The ``value`` of every process, in order."""
        if self.world == 1:
            return [value]
        values = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    @contextlib.contextmanager
    def same_call(self) -> Iterator[dict[str, Any]]:
        """A block in which every process says, by names, what it was given: the same, or no work.

        A difference, or an error that one of them meets in the block, is an error of all of them.
        """
        given: dict[str, Any] = {}
        failure = None
        try:
            yield given
        except Exception as error:
            failure = error
        calls = self.gather((given, failure))
        for _, failed in calls:
            if failed is not None:
                raise failed
        for rank, (its, _) in enumerate(calls):
            first = calls[0][0]
            if different := [n for n in {**first, **its} if its.get(n) != first.get(n)]:
                raise ValueError(
                    f"Expected the same call in all {self.world} processes. Process {rank} got "
                    f"other {', '.join(different)} than process 0."
                )

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        if self.world == 1:
            return flag
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        said = torch.tensor(int(flag), device=device)
        dist.all_reduce(said)
        return bool(said)

    def together(self, batches: Iterable[Any]) -> Iterator[Any]:
        """This process's ``batches``, as long as every process has one more."""
        for batch in batches:
            if self.any(False):
                return
            yield batch
        if self.world > 1:
            self.any(True)  # it has run out


@contextlib.contextmanager
def started() -> Iterator[Ranks]:
    """The processes that ``torchrun`` started, connected; without it this process alone.

    Where all are on this machine nobody else can reach them.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield Ranks.current()
        return
    if on_gpu := torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if os.environ.get("MASTER_ADDR") in ("localhost", "127.0.0.1", "::1"):
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, LOOPBACK)
    # Import this before the group exists: imported later, as torch.compile does, its functions
    # keep that group as a default, and its threads, which can abort an interpreter that ends.
    import_module("torch.distributed.nn.functional")
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    try:
        yield Ranks.current()
    finally:
        dist.destroy_process_group()
