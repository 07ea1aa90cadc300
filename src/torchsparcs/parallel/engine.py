"""Engines: who does the parts of long work. This process, or all those of ``torch.distributed``."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchsparcs.training.deadline import NEVER, Deadline
from torchsparcs.training.devices import Ranks

Function = Callable[[Any], Any]


class Engine:
    """Workers that each do a part; this one is a single worker, the process itself.

    ``device`` is what each of them has, None for the device of whoever asks. At the ``deadline``
    those who work elsewhere are told.
    """

    workers = 1
    ranks = Ranks()
    device: str | None = None
    deadline: Deadline = NEVER

    def map(self, function: Function, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """(place, function(items[place])) for each of ``items``, in the order they are done."""
        yield from enumerate(map(function, items))

    def close(self) -> None:
        """Let workers go that this one has started."""


class RanksEngine(Engine):
    """The processes of ``torch.distributed`` take turns, and tell each other the outcome."""

    def __init__(self, ranks: Ranks):
        self.ranks, self.workers = ranks, ranks.world

    def map(self, function: Function, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        mine = range(self.ranks.rank, len(items), self.ranks.world)
        try:
            mine_done, failure = [(place, function(items[place])) for place in mine], None
        except Exception as error:
            mine_done, failure = [], error
        for done, failed in self.ranks.gather((mine_done, failure)):
            if failed is not None:
                raise failed
            yield from done
