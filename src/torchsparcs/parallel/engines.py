"""Where the parts of large work are done: in this process, in several, or on a cluster."""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchsparcs.training.ranks import Ranks

Function = Callable[[Any], Any]
RETRIES = 3  # of a part whose worker was lost
PATIENCE = 10  # seconds, until a cluster must have answered


class Engine:
    """Workers that each do a part; this one is a single worker, the process itself.

    ``device`` is what each of them has, None for the device of whoever asks.
    """

    workers = 1
    ranks = Ranks()
    device: str | None = None

    def map(self, function: Function, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """(place, function(items[place])) for each of ``items``, in the order they are done."""
        yield from enumerate(map(function, items))


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


class RayEngine(Engine):
    """Every part is a task of a Ray cluster, one for each GPU or, without any, for each CPU.

    ``address`` is that of a running cluster ("auto" finds one); without one, and if nobody has
    connected before, Ray starts one on this machine. A part whose worker is lost is done again.
    """

    def __init__(self, address: str | None = None):
        try:
            import ray
        except ImportError as error:
            raise ImportError(
                "Expected Ray for engine='ray'. Install it: pip install 'torchsparcs[ray]'"
            ) from error
        if not ray.is_initialized():
            try:
                _check_reachable(address)
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except (OSError, ValueError) as error:
                raise ValueError(f"Expected a Ray cluster at {address!r}. {error}") from error
        devices = ray.cluster_resources()
        gpus = int(devices.get("GPU", 0))
        self.workers = max(1, gpus or int(devices.get("CPU", 1)))
        self.device = "cuda" if gpus else "cpu"
        self._ray = ray
        self._task = ray.remote(_call).options(
            num_cpus=0 if gpus else 1, num_gpus=min(1, gpus), max_retries=RETRIES
        )

    def map(self, function: Function, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        shared = self._ray.put(function)
        running = {self._task.remote(shared, item): place for place, item in enumerate(items)}
        try:
            while running:
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                yield running.pop(done), self._ray.get(done)
        finally:
            for task in running:
                self._ray.cancel(task, force=True)


def _check_reachable(address: str | None) -> None:
    """An OSError at once, where Ray would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").partition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _call(function: Function, item: Any) -> Any:
    return function(item)


def _here() -> Engine:
    ranks = Ranks.current()
    return RanksEngine(ranks) if ranks.world > 1 else Engine()


# By name; ``address`` is for those that are elsewhere.
ENGINES: dict[str, Callable[[str | None], Engine]] = {
    "local": lambda address: _here(),
    "ray": RayEngine,
}


def engine_of(engine: str | Engine, address: str | None = None) -> Engine:
    """The engine of that name, or the one given."""
    if isinstance(engine, Engine):
        return engine
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ValueError(f"Expected an engine among {', '.join(ENGINES)}. Got {engine!r}.")
    return ENGINES[engine](address)
