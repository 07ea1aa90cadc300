"""A Ray cluster as an engine."""

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from torchsparcs.parallel.engine import Engine, Function
from torchsparcs.training.deadline import OutOfTime

RETRIES = 3  # of a part whose worker was lost
PATIENCE = 10  # seconds, until a cluster must have answered
LOOK = 1.0  # seconds after which whoever waits looks at the clock


class RayEngine(Engine):
    """Every part is a task of a Ray cluster, one for each GPU or, without any, for each CPU.

    ``address`` is that of a running cluster ("auto" finds one); without one, and if nobody has
    connected before, Ray starts one that only this machine can reach. A part whose worker is lost
    is done again, some times.
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
                _connect(ray, address)
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
        lost = self._ray.exceptions
        try:
            while running:
                found, _ = self._ray.wait(list(running), num_returns=1, timeout=LOOK)
                for done in found:
                    yield running.pop(done), self._ray.get(done)
                if self.deadline.end + PATIENCE < time.time():  # they have not heard of Ctrl-C
                    raise OutOfTime
        except (lost.WorkerCrashedError, lost.OutOfMemoryError, lost.NodeDiedError) as error:
            raise RuntimeError(
                f"A part was given up: its Ray worker was lost {RETRIES + 1} times, killed or out "
                "of memory. What was kept in a checkpoint can be gone on with."
            ) from error
        finally:
            for task in running:
                self._ray.cancel(task, force=True)


def _connect(ray: Any, address: str | None) -> None:
    """To the cluster at ``address``, else to one that ``ray start`` began, else to a new one.

    A new one listens on the loopback address alone and ends with this process.
    """
    from ray._private import ray_constants, services  # there is no public word for loopback

    options = {"log_to_driver": False, "logging_level": logging.ERROR}
    _check_reachable(address)
    if address is not None or services.canonicalize_bootstrap_address(None):  # type: ignore[arg-type]
        ray.init(address, **options)
        return
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        ray.init("local", include_dashboard=False, **options)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _check_reachable(address: str | None) -> None:
    """An OSError at once, where Ray would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").partition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _call(function: Function, item: Any) -> Any:
    return function(item)
