"""Work shared out over an engine, and kept step by step as it is done."""

import logging
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from torchsparcs.parallel.steps import Steps
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Data, Pair
from torchsparcs.training.devices import Ranks
from torchsparcs.training.history import History
from torchsparcs.training.loop import NonFiniteLossError
from torchsparcs.training.progress import stage
from torchsparcs.training.train import Training, train

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
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                yield running.pop(done), self._ray.get(done)
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


FEWEST = 2  # members of a part: a single one is multiplied by other kernels, which round otherwise


@dataclass
class Executor:
    """Who does the work, on which device if it matters, and where what is done is written down."""

    engine: Engine = field(default_factory=Engine)
    steps: Steps = field(default_factory=Steps)
    device: torch.device | None = None

    @property
    def place(self) -> torch.device | str | None:
        """Where the work is done, None for wherever the work comes from."""
        return self.device or self.engine.device

    def first(self, ask: Callable[[], Any]) -> Any:
        """What the first of several processes answers, for all of them."""
        return self.engine.ranks.first(ask)

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``function`` of each of ``items``."""
        outcomes = dict(self.engine.map(function, items))
        return [outcomes[place] for place in range(len(items))]

    def train(
        self,
        name: str,
        population: Any,
        data: Pair,
        config: TrainConfig,
        weights: Tensor | None = None,
        *,
        progress: bool = False,
    ) -> History:
        """Train the members in place, every worker some of them: the outcome is that of one.

        Parts that were kept under ``name`` are not trained again.
        """
        slices = _slices(population.members, self.engine.workers)
        names = [f"{name} {part.start}-{part.stop}" for part in slices]
        outcomes = [self.steps.recall(each) for each in names]
        todo = [place for place, outcome in enumerate(outcomes) if outcome is None]
        if todo and len(slices) == self.engine.ranks.world == 1:
            checkpoint = self.steps.path(name, ".checkpoint")
            history = train(
                population,
                data,
                config,
                weights=weights,
                checkpoint=checkpoint,
                resume="auto",
                progress=progress,
                _is_part=True,
            )
            outcomes = [_outcome(population, history)]
            self.steps.keep(names[0], outcomes[0])
            if checkpoint is not None:
                checkpoint.unlink(missing_ok=True)
        elif todo:
            device = self.place or next(population.parameters()).device
            whole = Training(population, (data[0].cpu(), data[1].cpu()), config, None, weights)
            parts = [_sent(whole, slices[place]) for place in todo]
            text = f"training {len(todo)} parts on {self.engine.workers} workers"
            with stage(text, progress and self.engine.ranks.is_first):
                work = partial(_train_part, whole.data, device)
                for done, outcome in self.engine.map(work, parts):
                    outcomes[todo[done]] = outcome
                    self.steps.keep(names[todo[done]], outcome)
        for part, outcome in zip(slices, outcomes, strict=True):
            _replace_part_(population, part, outcome["parameters"])
        histories = [History(**outcome["history"]) for outcome in outcomes]
        seconds = [max(each) for each in zip(*(h.seconds for h in histories), strict=True)]
        history = replace(reduce(History.joined, histories), seconds=seconds)
        _check_losses(history, config)
        return history


def _slices(members: int, workers: int) -> list[slice]:
    """Parts of nearly equal size, one for each worker as far as there are members."""
    count = max(1, min(workers, members // FEWEST))
    ends = [members * place // count for place in range(count + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def _check_losses(history: History, config: TrainConfig) -> None:
    """A search goes on while the loss of any member is finite."""
    for epoch, losses in enumerate(history.train_loss, start=1):
        if not any(map(math.isfinite, losses)):
            raise NonFiniteLossError(
                f"The loss of all {len(losses)} members became {losses[0]} in epoch {epoch}. A "
                f"smaller learning rate (now {config.lr}) or scaled data may help."
            )


def _sent(whole: Training, members: slice) -> Training:
    """A part as it is sent to a worker; data that all members share are sent apart, once."""
    part = whole.part(members)
    pairs = zip(part.data, whole.data, strict=True)
    is_shared = all(mine is its for mine, its in pairs)
    return part._replace(
        module=part.module.cpu(),
        data=() if is_shared else part.data,
        weights=None if part.weights is None else part.weights.cpu(),
    )


def _train_part(shared: Data, device: str | torch.device, part: Training) -> dict[str, Any]:
    """Train ``part`` on ``device``."""
    on_gpu = torch.device(device).type == "cuda"
    config = replace(part.config, capture=on_gpu and part.config.amp != "float16")
    population = part.module.to(device)
    data = part.data or shared
    history = train(population, data, config, weights=part.weights, progress=False, _is_part=True)
    return _outcome(population, history)


def _outcome(population: Any, history: History) -> dict[str, Any]:
    parameters = [parameter.detach().cpu() for parameter in population.parameters()]
    return {"parameters": parameters, "history": history.state_dict()}


@torch.no_grad()
def _replace_part_(population: Any, part: slice, parameters: list[Tensor]) -> None:
    for mine, its in zip(population.parameters(), parameters, strict=True):
        mine[part] = its.to(mine.device)
